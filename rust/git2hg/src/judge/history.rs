//! The commits of a survey: what each has by itself, and who its parents are.

use std::io::Read;

use gitpack::Oid;
use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::judge::commit::{self, MOST_PARENTS, judge};
use crate::read::answers::Answers;
use crate::reason::Reason;

/// Bytes that are kept of what makes a commit refused.
pub(crate) const MOST_DETAIL: usize = 512;

/// Commits, parents before children.
#[derive(Debug, Default)]
pub(crate) struct CommitHistory {
    commits: Vec<SurveyedCommit>,
    numbers: HashMap<Oid, u32>,
    /// What the first commit with each reason has.
    details: HashMap<Reason, Vec<u8>>,
}

/// One commit.
#[derive(Debug)]
pub(crate) struct SurveyedCommit {
    pub oid: Oid,
    pub tree: Option<Oid>,
    /// Numbers of its parents, as far as they are surveyed.
    parents: [Option<u32>; MOST_PARENTS],
    /// What is wrong with the commit object.
    pub own: Option<Reason>,
}

impl CommitHistory {
    /// Reads the commits that git writes; `watch` is told how many there are.
    ///
    /// # Errors
    ///
    /// Those of [`Answers::read`], [`Error::Missing`], and those of `watch`.
    pub fn read(input: impl Read, mut watch: impl FnMut(usize) -> Result<()>) -> Result<Self> {
        let mut history = Self::default();
        let mut answers = Answers::new(input);
        while let Some(answer) = answers.read_start(commit::MOST_BYTES + 1)? {
            match answer.kind {
                b"commit" => history.add(answer.oid, answer.content)?,
                b"" => return Err(Error::Missing(answer.oid)),
                kind => return Err(Error::Answer(kind.escape_ascii().to_string())),
            }
            watch(history.commits.len())?;
        }
        Ok(history)
    }

    fn add(&mut self, oid: Oid, content: &[u8]) -> Result<()> {
        let judged = judge(content);
        let mut parents = [None; MOST_PARENTS];
        for (number, parent) in parents.iter_mut().zip(&judged.parents) {
            *number = self.numbers.get(parent).copied();
        }
        let number = u32::try_from(self.commits.len()).map_err(|_| Error::TooMany)?;
        self.numbers.insert(oid, number);
        if let Some((reason, detail)) = judged.refused {
            let kept = &detail[..detail.len().min(MOST_DETAIL)];
            self.details.entry(reason).or_insert_with(|| kept.to_vec());
        }
        let own = judged.refused.map(|(reason, _)| reason);
        self.commits.push(SurveyedCommit { oid, tree: judged.tree, parents, own });
        Ok(())
    }

    /// All commits, parents before children.
    pub fn commits(&self) -> &[SurveyedCommit] {
        &self.commits
    }

    /// What the first commit with this reason has.
    pub fn detail(&self, reason: Reason) -> &[u8] {
        self.details.get(&reason).map_or(&[], |detail| detail)
    }

    /// The reason of each commit, when `of_tree` says what the trees give.
    pub fn reasons(&self, of_tree: impl Fn(&Oid) -> Option<Reason>) -> Vec<Option<Reason>> {
        let mut reasons: Vec<Option<Reason>> = Vec::with_capacity(self.commits.len());
        for commit in &self.commits {
            let of_tree = || commit.tree.as_ref().and_then(&of_tree);
            let of_parents = || {
                let refused =
                    |number: &u32| reasons.get(*number as usize).copied().flatten().is_some();
                commit.parents.iter().flatten().any(refused).then_some(Reason::Ancestor)
            };
            let reason = commit.own.or_else(of_tree).or_else(of_parents);
            reasons.push(reason);
        }
        reasons
    }
}
