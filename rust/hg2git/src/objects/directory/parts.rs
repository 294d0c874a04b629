//! A large new tree, made directory by directory.
//!
//! The first tree of a history may have a million files. If it were made at once, all its objects
//! would wait in memory. In parts, each is passed on as soon as possible. The objects are the same.

use std::sync::Arc;

use super::{At, EntryTarget, Replay, TrackedDirectory, TreeChange, component};

/// Fewest changes of a tree that is made in parts, and most changes of one part.
pub(crate) const LARGE: usize = 4096;

/// A new tree in the making.
pub(crate) struct Parts<'a> {
    changes: Vec<TreeChange<'a>>,
    /// Number of changes done.
    done: usize,
    /// Changes left for the end: files in large directories, and finished directories.
    rest: Vec<TreeChange<'a>>,
    /// The large directories above the next change.
    large: Vec<Large>,
}

struct Large {
    /// Bytes of its path, with the slash at the end.
    depth: usize,
    /// End of its changes.
    end: usize,
}

impl<'a> Parts<'a> {
    /// A tree with these `changes`, which ascend by path.
    pub fn new(changes: Vec<TreeChange<'a>>) -> Self {
        Self { changes, done: 0, rest: Vec::new(), large: Vec::new() }
    }

    /// Makes another directory. Returns `false` if none is left, except large ones.
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

    /// The whole tree, after all directories are made.
    pub fn finish(self, replay: &mut Replay<'_>) -> Option<Arc<TrackedDirectory>> {
        drop(self.changes);
        replay.apply(None, &self.rest)
    }
}
