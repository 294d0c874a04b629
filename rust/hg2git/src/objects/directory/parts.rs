//! A large new tree, made directory by directory.
//!
//! The first tree of a history may have a million files. Made at once, its objects would all wait in
//! memory; made in parts, they are handed on meanwhile. The objects are the same.

use std::sync::Arc;

use super::{At, EntryTarget, Replay, TrackedDirectory, TreeChange, component};

/// Changes from which on a tree is made in parts, and most that one part has.
pub(crate) const LARGE: usize = 4096;

/// A tree that is being made of nothing.
pub(crate) struct Parts<'a> {
    changes: Vec<TreeChange<'a>>,
    /// How many of them are dealt with.
    done: usize,
    /// What is left to do then: files beside many others, and directories.
    rest: Vec<TreeChange<'a>>,
    /// The directories that the next change is in, if they are too large for a part.
    large: Vec<Large>,
}

struct Large {
    /// Bytes of its path, its last slash included.
    depth: usize,
    /// Where its changes end.
    end: usize,
}

impl<'a> Parts<'a> {
    /// That of `changes`, which ascend by path.
    pub fn new(changes: Vec<TreeChange<'a>>) -> Self {
        Self { changes, done: 0, rest: Vec::new(), large: Vec::new() }
    }

    /// Makes another directory, if one is left that is not too large; `false` if none is.
    pub fn advance(&mut self, replay: &mut Replay<'_>) -> bool {
        while let Some(first) = self.changes.get(self.done) {
            self.large.retain(|large| large.end > self.done);
            let depth = self.large.last().map_or(0, |large| large.depth);
            let (name, slash) = component(first.path, depth);
            if !slash {
                self.rest.push(first.clone());
                self.done += 1;
                continue;
            }
            let end = depth + name.len();
            let prefix = &first.path[..=end];
            let left = &self.changes[self.done..];
            let count = left.partition_point(|change| change.path.starts_with(prefix));
            if count > LARGE {
                self.large.push(Large { depth: end + 1, end: self.done + count });
                continue;
            }
            let level = memchr::memchr_iter(b'/', prefix).count();
            let made = replay.apply_at(None, &left[..count], At { depth: end + 1, level });
            self.rest.push(TreeChange {
                path: &first.path[..end],
                target: made.map(EntryTarget::TrackedDirectory),
            });
            self.done += count;
            return true;
        }
        false
    }

    /// The whole tree, once all directories are made.
    pub fn finish(self, replay: &mut Replay<'_>) -> Option<Arc<TrackedDirectory>> {
        drop(self.changes);
        replay.apply(None, &self.rest)
    }
}
