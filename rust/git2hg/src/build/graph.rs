//! Graph of changesets: those of the store, and the new ones after them.
//!
//! The number of a changeset is its revision in the store. So parents have smaller numbers than
//! their children.

use std::collections::BinaryHeap;

use hashbrown::HashMap;
use revlog::{Changeset, Node, Parents, Rev, Revlog, Scratch, Texts};

use crate::build::manifests::{Number, PushedManifests};
use crate::error::{Error, Result};

/// Bytes of buffers for texts.
const SPARE_BYTES: usize = 1 << 16;

/// New changeset.
#[derive(Clone, Copy, Debug)]
struct NewChangeset {
    parents: [Option<u32>; 2],
    manifest: Number,
}

/// All changesets.
#[derive(Debug)]
pub(crate) struct ChangesetGraph {
    changelog: Revlog,
    scratch: Scratch,
    new: Vec<NewChangeset>,
}

impl ChangesetGraph {
    /// Starts with the changesets of the store.
    pub fn new(changelog: Revlog) -> Self {
        let scratch = Scratch::new(SPARE_BYTES);
        Self { changelog, scratch, new: Vec::new() }
    }

    /// Numbers of changesets of the store.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if one is missing.
    pub fn stored(&self, nodes: &[Node]) -> Result<Vec<u32>> {
        Ok(self.changelog.find(nodes)?.into_iter().map(Rev::number).collect())
    }

    /// Number of a new changeset, by its number among these.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`].
    pub fn number_of(&self, new: u32) -> Result<u32> {
        self.changelog.index().len().checked_add(new).ok_or(Error::TooMany)
    }

    /// Adds the next new changeset.
    pub fn add(&mut self, parents: [Option<u32>; 2], manifest: Number) {
        self.new.push(NewChangeset { parents, manifest });
    }

    fn rev(&self, number: u32) -> Result<Rev, NewChangeset> {
        let index = self.changelog.index();
        index.rev(number).ok_or_else(|| self.new[(number - index.len()) as usize])
    }

    /// Parents of a changeset.
    pub fn parents(&self, number: u32) -> [Option<u32>; 2] {
        match self.rev(number) {
            Ok(rev) => {
                let Parents(p1, p2) = self.changelog.index().parents(rev);
                [p1, p2].map(|parent| parent.map(Rev::number))
            }
            Err(new) => new.parents,
        }
    }

    /// Manifest of a changeset.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if its text cannot be read.
    pub fn manifest(&mut self, number: u32, manifests: &mut PushedManifests<'_>) -> Result<Number> {
        let rev = match self.rev(number) {
            Ok(rev) => rev,
            Err(new) => return Ok(new.manifest),
        };
        let revision = Texts::new(&self.changelog, &mut self.scratch, SPARE_BYTES).get(rev)?;
        let changeset = Changeset::parse(&revision.text);
        let changeset =
            changeset.map_err(|problem| self.changelog.corrupt(rev, problem.to_string()))?;
        manifests.stored(changeset.manifest)
    }

    /// Common ancestors of two changesets without descendants among them.
    pub fn common_heads(&self, one: u32, two: u32) -> Vec<u32> {
        const BOTH: u8 = 3;
        const BELOW_HEAD: u8 = 4;
        let mut sides: HashMap<u32, u8> = HashMap::new();
        let mut pending = BinaryHeap::new();
        // pending ones that may be heads, or lead to one
        let mut open = 0_usize;
        let mark = |number: u32, side: u8, sides: &mut HashMap<u32, u8>, open: &mut usize| {
            let before = sides.get(&number).copied();
            let all = side | before.unwrap_or_default();
            sides.insert(number, all);
            let was_open = before.is_some_and(|before| before & BELOW_HEAD == 0);
            *open = *open + usize::from(all & BELOW_HEAD == 0) - usize::from(was_open);
            before.is_none()
        };
        let mut heads = Vec::new();
        for (number, side) in [(one, 1), (two, 2)] {
            if mark(number, side, &mut sides, &mut open) {
                pending.push(number);
            }
        }
        while open > 0
            && let Some(number) = pending.pop()
        {
            let mut side = sides[&number];
            if side & BELOW_HEAD == 0 {
                open -= 1;
                if side == BOTH {
                    heads.push(number);
                    side |= BELOW_HEAD;
                }
            }
            for parent in self.parents(number).into_iter().flatten() {
                if mark(parent, side, &mut sides, &mut open) {
                    pending.push(parent);
                }
            }
        }
        heads
    }
}
