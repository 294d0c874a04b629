//! The trees of a survey: each is asked of git once, and gives its reasons to all that have it.

use std::hash::BuildHasher as _;
use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::{Error, Result};
use crate::judge::history::MOST_DETAIL;
use crate::judge::tree::{culprit, judge, not_a_tree};
use crate::read::answers::{Answers, ask};
use crate::reason::{Reason, TreeReasons};

/// Trees asked for at a time.
const ASKED_AT_ONCE: usize = 2000;

/// `git cat-file --batch-command --buffer`.
pub(crate) struct Asked<W, R> {
    requests: W,
    answers: Answers<R>,
}

impl<W: Write, R: Read> Asked<W, R> {
    pub fn new(requests: W, answers: R) -> Self {
        Self { requests, answers: Answers::new(answers) }
    }

    fn ask(&mut self, oids: &[Oid]) -> Result<()> {
        ask(&mut self.requests, oids)
    }

    /// The next tree; `None` if the object is no tree.
    fn tree(&mut self) -> Result<Option<&[u8]>> {
        let answer = self.answers.read()?.ok_or(Error::Ended)?;
        match answer.kind {
            b"" => Err(Error::Missing(answer.oid)),
            b"tree" => Ok(Some(answer.content)),
            _ => Ok(None),
        }
    }
}

/// Trees, those of commits first, each before the directories that it is the first to have.
#[derive(Default)]
pub(crate) struct Trees {
    oids: Vec<Oid>,
    reasons: Vec<TreeReasons>,
    /// Where the directories of each end in `directories`.
    ends: Vec<usize>,
    directories: Vec<u32>,
    numbers: HashTable<u32>,
    hashing: DefaultHashBuilder,
}

impl Trees {
    /// Notes a tree, and answers its number.
    pub fn add(&mut self, oid: Oid) -> Result<u32> {
        let Self { oids, numbers, hashing, .. } = self;
        let is_it = |number: &u32| oids[*number as usize] == oid;
        if let Some(number) = numbers.find(hashing.hash_one(oid), is_it) {
            return Ok(*number);
        }
        let number = u32::try_from(oids.len()).map_err(|_| Error::TooMany)?;
        oids.push(oid);
        let hash = |number: &u32| hashing.hash_one(oids[*number as usize]);
        numbers.insert_unique(hashing.hash_one(oid), number, hash);
        Ok(number)
    }

    /// Asks for all that are noted, and for what is in them. `watch` is told how many are done, of
    /// how many that are known.
    ///
    /// # Errors
    ///
    /// Those of [`Answers::read`], [`Error::Missing`], and those of `watch`.
    pub fn read(
        &mut self,
        git: &mut Asked<impl Write, impl Read>,
        mut watch: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        while self.ends.len() < self.oids.len() {
            let next = &self.oids[self.ends.len()..];
            let count = next.len().min(ASKED_AT_ONCE);
            git.ask(&next[..count])?;
            for _ in 0..count {
                let reasons = match git.tree()? {
                    Some(content) => {
                        let judged = judge(content);
                        for (_, oid) in &judged.directories {
                            let number = self.add(*oid)?;
                            self.directories.push(number);
                        }
                        judged.reasons
                    }
                    None => not_a_tree(),
                };
                self.reasons.push(reasons);
                self.ends.push(self.directories.len());
                watch(self.ends.len(), self.oids.len())?;
            }
        }
        self.inherit();
        Ok(())
    }

    fn directories(&self, number: usize) -> &[u32] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.directories[start..self.ends[number]]
    }

    /// Gives each tree what its directories have.
    fn inherit(&mut self) {
        let given = self.reasons.iter().enumerate().filter(|(_, it)| it.is_inherited());
        let mut pending: Vec<usize> = given.map(|(number, _)| number).collect();
        if pending.is_empty() {
            return;
        }
        let above = self.above();
        while let Some(number) = pending.pop() {
            let reasons = self.reasons[number];
            let (start, end) = (above.starts[number], above.starts[number + 1]);
            for holder in &above.holders[start..end] {
                // at most once for each reason
                if self.reasons[*holder as usize].inherit(reasons) {
                    pending.push(*holder as usize);
                }
            }
        }
    }

    /// The trees that have each tree as a directory.
    fn above(&self) -> Above {
        let mut starts = vec![0; self.oids.len() + 1];
        for directory in &self.directories {
            starts[*directory as usize + 1] += 1;
        }
        for number in 0..self.oids.len() {
            starts[number + 1] += starts[number];
        }
        let mut next = starts.clone();
        let mut holders = vec![0; self.directories.len()];
        for number in 0..self.oids.len() {
            for directory in self.directories(number) {
                let at = &mut next[*directory as usize];
                // `add` has seen that it fits
                holders[*at] = u32::try_from(number).unwrap_or(u32::MAX);
                *at += 1;
            }
        }
        Above { starts, holders }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.oids.len()
    }

    /// What a tree that was noted gives.
    pub fn reasons(&self, oid: &Oid) -> TreeReasons {
        let is_it = |number: &u32| self.oids[*number as usize] == *oid;
        let number = self.numbers.find(self.hashing.hash_one(oid), is_it);
        number.and_then(|number| self.reasons.get(*number as usize)).copied().unwrap_or_default()
    }

    /// The path of the first entry with `reason` below the root `oid`, cut if it is long.
    ///
    /// # Errors
    ///
    /// Those of [`Answers::read`].
    pub fn path(
        &self,
        git: &mut Asked<impl Write, impl Read>,
        mut oid: Oid,
        reason: Reason,
    ) -> Result<Vec<u8>> {
        let mut path = Vec::new();
        while path.len() < MOST_DETAIL {
            git.ask(&[oid])?;
            let Some(content) = git.tree()? else { break };
            if let Some(name) = culprit(content, reason, path.is_empty()) {
                path.extend_from_slice(name);
                break;
            }
            let mut directories = judge(content).directories.into_iter();
            let Some((name, below)) = directories.find(|(_, oid)| self.reasons(oid).has(reason))
            else {
                break;
            };
            path.extend_from_slice(name);
            path.push(b'/');
            oid = below;
        }
        path.truncate(MOST_DETAIL);
        Ok(path)
    }
}

struct Above {
    starts: Vec<usize>,
    holders: Vec<u32>,
}
