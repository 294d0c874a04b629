//! The base trees of later changes, each kept until its last use.
//!
//! All uses are known from the start. If too many trees are in use, the tree whose next use is
//! farthest is dropped, and made again for that use. Then its objects are not stored twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use revlog::Rev;

use super::changes_at;
use crate::objects::directory::{Replay, TrackedDirectory, TreeChange};
use crate::objects::treeedits::TreeEdits;
use crate::read::changes::ChangeLog;
use crate::read::manifests::Base;

/// A root directory; `None` has no files.
pub(super) type RootDirectory = Option<Arc<TrackedDirectory>>;
/// The trees of start manifests.
pub(super) type StartTrees = HashMap<Rev, RootDirectory>;

/// No position.
const NONE: u32 = u32::MAX;

/// Trees by position.
#[derive(Debug)]
pub(super) struct States<'a> {
    changes: &'a ChangeLog,
    edits: &'a TreeEdits,
    starts: StartTrees,
    most: usize,
    kept: HashMap<u32, RootDirectory>,
    /// Kept trees by next use: that position, and the tree's own position.
    next_uses: BTreeSet<(u32, u32)>,
    /// For each position, the first position that uses it as a base, and the next position with the
    /// same base.
    first_uses: Vec<u32>,
    later_uses: Vec<u32>,
}

impl<'a> States<'a> {
    /// The states of `count` positions, of which at most `most` are kept, and the `starts` of lines.
    pub fn new(
        (changes, edits): (&'a ChangeLog, &'a TreeEdits),
        count: usize,
        starts: StartTrees,
        most: usize,
    ) -> Self {
        let (mut first_uses, mut later_uses) = (vec![NONE; count], vec![NONE; count]);
        for position in (0..count).rev() {
            if let Base::Position(base) = changes.base(position) {
                later_uses[position] = std::mem::replace(&mut first_uses[base], number(position));
            }
        }
        let (kept, next_uses) = (HashMap::new(), BTreeSet::new());
        Self { changes, edits, starts, most, kept, next_uses, first_uses, later_uses }
    }

    /// The base tree of the manifest at `position`. Every position is asked for once, in order. A
    /// dropped tree is made again with `replay`.
    pub fn before(&mut self, position: usize, replay: &mut Replay<'_>) -> RootDirectory {
        let base = match self.changes.base(position) {
            Base::Empty => return None,
            Base::Known(rev) => return self.starts.get(&rev).cloned().flatten(),
            Base::Position(base) => base,
        };
        self.next_uses.remove(&(number(position), number(base)));
        let kept = self.kept.remove(&number(base));
        let root = kept.unwrap_or_else(|| self.made_again(base, replay));
        self.keep_until(self.later_uses[position], base, &root);
        root
    }

    /// Keeps the tree of the manifest at `position` until its last use.
    pub fn keep(&mut self, position: usize, root: &RootDirectory) {
        self.keep_until(self.first_uses[position], position, root);
    }

    fn keep_until(&mut self, next_use: u32, position: usize, root: &RootDirectory) {
        if next_use == NONE {
            return;
        }
        self.next_uses.insert((next_use, number(position)));
        self.kept.insert(number(position), root.clone());
        if self.kept.len() > self.most
            && let Some((_, last)) = self.next_uses.pop_last()
        {
            self.kept.remove(&last);
        }
    }

    /// Makes a dropped tree again, from the nearest kept one.
    fn made_again(&self, position: usize, replay: &mut Replay<'_>) -> RootDirectory {
        let mut path = vec![position];
        let mut at = position;
        let before = loop {
            at = match self.changes.base(at) {
                Base::Empty => break None,
                Base::Known(rev) => break self.starts.get(&rev).and_then(Option::as_ref),
                Base::Position(base) => base,
            };
            if let Some(kept) = self.kept.get(&number(at)) {
                break kept.as_ref();
            }
            path.push(at);
        };
        let all = path
            .into_iter()
            .rev()
            .flat_map(|position| changes_at(self.changes, self.edits, position));
        let last: BTreeMap<_, _> = all.map(|change| (change.path, change.target)).collect();
        let last = last.into_iter().map(|(path, target)| TreeChange { path, target });
        replay.apply_again(before, &last.collect::<Vec<_>>())
    }
}

fn number(position: usize) -> u32 {
    u32::try_from(position).expect("revisions have 32 bits")
}

#[cfg(test)]
mod tests;
