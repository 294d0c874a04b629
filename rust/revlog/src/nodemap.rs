//! Node map: revisions by node, without reading the index.
//!
//! Answers Mercurial's questions about nodes: exact lookups, abbreviations with their ambiguities,
//! and shortest abbreviations. Revisions are in three places. The **base** is on disk: our own
//! ([`mod@file`], docs/formats/nodemap.rst) or Mercurial's ([`upstream`]). The **recent**
//! revisions, which the base does not cover, are in memory. The null revision is in no file.
//!
//! Each hit is compared with the index before it is returned. So a damaged base, or one of another
//! history, cannot give a wrong revision. Completeness depends on the base. Our own has a checksum
//! on each page, and is only used for the bytes that it was made from; the caller knows these
//! bytes. Mercurial's has neither, so only its hits are used. For everything else the caller asks
//! the index.

mod bytes;
pub mod file;
pub mod upstream;

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::index::ENTRY_LEN;
use crate::mapping::Touches;
use crate::node::Node;
use crate::prefix::Prefix;

pub use file::Place;

/// Digits of a node.
const DIGITS: usize = 40;
/// Offset of the node in an entry.
const NODE_AT: usize = 32;
/// Entries of a page of 4096 bytes.
const LATE: usize = 4096 / ENTRY_LEN;
/// Number of the null revision.
pub const NULL_REV: i32 = -1;

/// Error of a node map: it is truncated, damaged, or of another index.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened or read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// Contradiction found.
    #[error("{0}")]
    Damaged(&'static str),
    /// The map may lack the node.
    #[error("it cannot tell that there is nothing")]
    Unknown,
}

/// Meaning of an abbreviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixMatch {
    /// No node has this prefix.
    None,
    /// Exactly this node.
    One(Node),
    /// Several nodes.
    Many,
}

/// Entries of an index without inline data, as in its file.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntries<'a>(&'a [[u8; ENTRY_LEN]]);

impl<'a> IndexEntries<'a> {
    /// Whole entries at the beginning of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    /// Number of entries, at most the numbers of a revlog.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX).min(i32::MAX.cast_unsigned())
    }

    /// Whether the index has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Node of a revision.
    #[must_use]
    pub fn node(&self, rev: u32) -> Option<&'a [u8; 20]> {
        self.0.get(rev as usize)?[NODE_AT..].first_chunk()
    }

    /// Revision with `node`, if it is the null revision or in the last page; others are not known.
    ///
    /// That page is in memory since the index was mapped, and the node of a working directory or
    /// of a new changeset is often there.
    #[must_use]
    pub fn late_rev(&self, node: &[u8; 20]) -> Option<i32> {
        if node == Node::NULL.as_bytes() {
            return Some(NULL_REV);
        }
        let revs = (0..self.len()).rev().take(LATE);
        revs.map(u32::cast_signed).find(|rev| self.node(rev.cast_unsigned()) == Some(node))
    }
}

/// Node map on disk.
#[derive(Debug)]
enum Base {
    Own(file::NodeRuns),
    Upstream(upstream::Trie),
}

impl Base {
    /// Last revision below `limit` with `node`, if any.
    fn rev(
        &self,
        entries: IndexEntries<'_>,
        limit: u32,
        node: &[u8; 20],
    ) -> Result<Option<u32>, Error> {
        let runs = match self {
            Self::Own(runs) => runs,
            Self::Upstream(trie) => return trie.rev(entries, limit, node).map(Some),
        };
        let whole = Prefix::new(*node, DIGITS).ok_or(Error::Damaged("a node has 40 digits"))?;
        let mut found = None;
        runs.visit(entries, limit, whole, &mut |rev, _node| {
            found = found.max(Some(rev));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Calls `visit` with each node below `limit` that has `prefix`, in any order, until it breaks.
    fn visit(
        &self,
        entries: IndexEntries<'_>,
        limit: u32,
        prefix: Prefix,
        visit: &mut dyn FnMut(u32, &[u8; 20]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        match self {
            Self::Own(runs) => runs.visit(entries, limit, prefix, visit),
            Self::Upstream(_trie) => Err(Error::Unknown),
        }
    }
}

/// Node map of an open index. Several threads may use it.
///
/// Each call gets the [`IndexEntries`] that the map was opened with, since their bytes are lent.
#[derive(Debug)]
pub struct NodeMap {
    base: Base,
    /// Entries looked at, which are anywhere in the index.
    touches: Touches,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Number of revisions used from the base.
    limit: u32,
    /// Later revisions, in the file or not yet.
    recent: BTreeMap<[u8; 20], u32>,
    /// Revision after the last one found: lookups are often in order.
    next: u32,
}

impl NodeMap {
    /// Opens our own map: the runs at `places` of `file`, whose first `limit` revisions are used.
    /// `uid` is the one of the file.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be mapped or is too short.
    pub fn open(
        file: &File,
        uid: &[u8],
        places: &[Place],
        limit: u32,
        entries: IndexEntries<'_>,
    ) -> Result<Self, Error> {
        let runs = file::NodeRuns::open(file, uid, places)?;
        let limit = limit.min(runs.revs());
        Self::with(Base::Own(runs), limit, entries)
    }

    /// Opens Mercurial's map: the first `len` bytes of `file`, which cover the first `revs`
    /// revisions. Without `mapped` the file is read.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read or is too short.
    pub fn open_upstream(
        file: &File,
        len: u64,
        revs: u32,
        mapped: bool,
        entries: IndexEntries<'_>,
    ) -> Result<Self, Error> {
        let trie = upstream::Trie::open(file, len, mapped)?;
        Self::with(Base::Upstream(trie), revs, entries)
    }

    fn with(base: Base, limit: u32, entries: IndexEntries<'_>) -> Result<Self, Error> {
        if limit > entries.len() {
            return Err(Error::Damaged("it covers more revisions than there are"));
        }
        let tail = (limit..entries.len()).filter_map(|rev| Some((*entries.node(rev)?, rev)));
        let state = State { limit, recent: tail.collect(), next: u32::MAX };
        let touches = Touches::none(entries.0.as_flattened().len());
        Ok(Self { base, touches, state: Mutex::new(state) })
    }

    /// Revision of `node`, if any.
    ///
    /// # Errors
    ///
    /// [`Error`] if the map is damaged or incomplete: it must not be used any more.
    pub fn rev(&self, entries: IndexEntries<'_>, node: &[u8; 20]) -> Result<Option<i32>, Error> {
        if node == Node::NULL.as_bytes() {
            return Ok(Some(NULL_REV));
        }
        let mut state = self.state();
        let is_next = state.next < state.limit && entries.node(state.next) == Some(node);
        let found = if is_next { Some(state.next) } else { self.search(&state, entries, node)? };
        if let Some(rev) = found {
            state.next = rev + 1;
            if !is_next {
                self.touches.count(entries.0.as_flattened());
            }
        }
        Ok(found.map(u32::cast_signed))
    }

    /// Revision of `node` in the map.
    fn search(
        &self,
        state: &State,
        entries: IndexEntries<'_>,
        node: &[u8; 20],
    ) -> Result<Option<u32>, Error> {
        match state.recent.get(node) {
            Some(rev) => Ok(Some(*rev)),
            None => self.base.rev(entries, state.limit, node),
        }
    }

    /// Meaning of `prefix`. The null revision counts as one of the revisions.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::rev`].
    pub fn matching(
        &self,
        entries: IndexEntries<'_>,
        prefix: Prefix,
    ) -> Result<PrefixMatch, Error> {
        let state = self.state();
        let mut found = PrefixMatch::None;
        let mut add = |node: &[u8; 20]| {
            let node = Node::from_bytes(*node);
            match found {
                PrefixMatch::None => found = PrefixMatch::One(node),
                PrefixMatch::One(first) if first == node => {}
                _ => found = PrefixMatch::Many,
            }
            if found == PrefixMatch::Many {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        if prefix.begins(Node::NULL.as_bytes()) {
            let _first = add(Node::NULL.as_bytes());
        }
        let recent = state.recent.range(*prefix.least()..).map(|(node, _rev)| node);
        let mut recent = recent.take_while(|node| prefix.begins(node));
        if recent.try_for_each(&mut add).is_continue() {
            self.base.visit(entries, state.limit, prefix, &mut |_rev, node| add(node))?;
        }
        Ok(found)
    }

    /// Length of the shortest unique prefix of `node`, at least one digit; `None` if the node is
    /// missing.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::rev`].
    pub fn shortest(
        &self,
        entries: IndexEntries<'_>,
        node: &[u8; 20],
    ) -> Result<Option<usize>, Error> {
        if self.rev(entries, node)?.is_none() {
            return Ok(None);
        }
        // a unique prefix stays unique with more digits
        let (mut least, mut most) = (1, DIGITS);
        while least < most {
            let digits = usize::midpoint(least, most);
            let prefix = Prefix::new(*node, digits).ok_or(Error::Damaged("1 to 40 digits"))?;
            match self.matching(entries, prefix)? {
                PrefixMatch::Many => least = digits + 1,
                _ => most = digits,
            }
        }
        Ok(Some(least))
    }

    /// Looks up every entry in the map.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if an entry is not found with its number.
    pub fn check(&self, entries: IndexEntries<'_>) -> Result<(), Error> {
        let state = self.state();
        for rev in 0..entries.len() {
            let found = entries.node(rev).map(|node| self.search(&state, entries, node));
            if found.transpose()?.flatten() != Some(rev) {
                return Err(Error::Damaged("a node is not found as what it is"));
            }
        }
        Ok(())
    }

    /// Adds a revision that is not in the file yet, or not in its entries.
    pub fn append(&self, node: [u8; 20], rev: u32) {
        self.state().recent.insert(node, rev);
    }

    /// Drops the revisions from `revs` on.
    pub fn truncate(&self, revs: u32) {
        let mut state = self.state();
        state.limit = state.limit.min(revs);
        state.recent.retain(|_node, rev| *rev < revs);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // a panic leaves nothing half done
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
