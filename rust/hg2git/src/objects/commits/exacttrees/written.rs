//! The trees that a run has made, kept for those after them.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use gitpack::delta::apply;
use gitpack::{Differ, ObjectKind, Oid};
use parallel::{Budget, Buffer};

use super::{MOST_TREE_BYTES, Made};
use crate::error::Result;
use crate::objects::object::Object;
use crate::objects::trees::{Depths, MAX_DEPTH};

/// Trees are kept in pieces of this size: each alone would be too short for a budget.
const CHUNK_BYTES: usize = 4 << 20;

/// Contents of the latest trees that are kept, in bytes.
const MOST_LATEST_BYTES: usize = 8 << 20;

/// A delta, and the id of its base.
type TreeDelta = (Oid, Vec<u8>);

/// Contents of the trees of a run: the latest as they are, all as they are stored, in memory or in
/// files.
pub(super) struct WrittenTrees {
    budget: Arc<Budget>,
    chunks: Vec<Buffer>,
    places: HashMap<Oid, WrittenTree>,
    /// Contents of the latest trees, oldest first in `order`.
    latest: HashMap<Oid, Vec<u8>>,
    order: VecDeque<Oid>,
    latest_bytes: usize,
}

/// Place of a tree.
struct WrittenTree {
    chunk: usize,
    start: usize,
    len: usize,
    /// The base, if a delta is at the place.
    base: Option<Oid>,
    /// Number of deltas needed to read it, here or from the pack.
    depth: u8,
}

impl WrittenTrees {
    /// No trees. `budget` is for those that are kept.
    pub fn new(budget: Arc<Budget>) -> Self {
        Self {
            budget,
            chunks: Vec::new(),
            places: HashMap::new(),
            latest: HashMap::new(),
            order: VecDeque::new(),
            latest_bytes: 0,
        }
    }

    /// Keeps a tree. Adds it to the objects, too, unless `depths` knows it from there.
    pub fn write(
        &mut self,
        Made { oid, base, content }: Made,
        differ: &mut Differ,
        (objects, depths): (&mut Vec<Object>, &mut Depths),
    ) -> Result<()> {
        let delta = base.and_then(|base| self.delta(base, &content, differ));
        let known = depths.get(&oid);
        if known.is_none() {
            let whole = Object::whole(ObjectKind::Tree, oid, Vec::new());
            objects.push(match &delta {
                Some((base, payload)) => {
                    Object { base: Some(*base), payload: payload.clone(), ..whole }
                }
                None => Object { payload: content.clone(), ..whole },
            });
        }
        let base = delta.as_ref().and_then(|(base, _)| self.depth(base));
        let depth = base.map_or(0, |depth| depth + 1).max(known.unwrap_or(0));
        depths.insert(&oid, depth);
        self.keep((oid, depth), content, delta.as_ref())
    }

    /// The delta of a tree from `base`, if this run has written that.
    fn delta(&self, base: Oid, content: &[u8], differ: &mut Differ) -> Option<TreeDelta> {
        self.depth(&base).filter(|depth| *depth < MAX_DEPTH)?;
        if content.len() > MOST_TREE_BYTES {
            return None; // it could not be read from a delta
        }
        let mut delta = Vec::new();
        let before = self.get(&base)?;
        let is_found = differ.diff(&before, content, content.len() / 2, &mut delta);
        is_found.then_some((base, delta))
    }

    fn depth(&self, oid: &Oid) -> Option<u8> {
        self.places.get(oid).map(|tree| tree.depth)
    }

    /// The content of a tree.
    pub fn get(&self, oid: &Oid) -> Option<Cow<'_, [u8]>> {
        let (mut deltas, mut at) = (Vec::new(), *oid);
        let whole: &[u8] = loop {
            if let Some(content) = self.latest.get(&at) {
                break content;
            }
            let &WrittenTree { chunk, start, len, base, .. } = self.places.get(&at)?;
            let stored = self.chunks.get(chunk)?.get(start..start + len)?;
            let Some(base) = base else { break stored };
            deltas.push(stored);
            at = base;
        };
        let all = deltas.into_iter().rev();
        let mut all = all.map(|delta| move |base: &[u8]| apply(base, delta, MOST_TREE_BYTES).ok());
        let Some(first) = all.next() else { return Some(Cow::Borrowed(whole)) };
        let content = all.try_fold(first(whole)?, |content, next| next(&content));
        content.map(Cow::Owned)
    }

    /// Keeps a tree that is in the objects, with its depth.
    pub fn keep(
        &mut self,
        (oid, depth): (Oid, u8),
        content: Vec<u8>,
        delta: Option<&TreeDelta>,
    ) -> Result<()> {
        if self.places.contains_key(&oid) {
            return Ok(());
        }
        let base = delta.map(|(base, _)| *base);
        let stored = delta.map_or(&content, |(_, delta)| delta);
        let has_room = |chunk: &Buffer| chunk.len() + stored.len() <= chunk.capacity();
        if !self.chunks.last().is_some_and(has_room) {
            let mut chunk = Buffer::new(Some(Arc::clone(&self.budget)));
            chunk.reserve_exact(stored.len().max(CHUNK_BYTES))?;
            self.chunks.push(chunk);
        }
        let number = self.chunks.len() - 1;
        if let Some(chunk) = self.chunks.last_mut() {
            let (start, len) = (chunk.len(), stored.len());
            self.places.insert(oid, WrittenTree { chunk: number, start, len, base, depth });
            chunk.extend_from_slice(stored)?;
        }
        self.latest_bytes += content.len();
        self.latest.insert(oid, content);
        self.order.push_back(oid);
        while self.latest_bytes > MOST_LATEST_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            let content = self.latest.remove(&oldest);
            self.latest_bytes -= content.map_or(0, |content| content.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parallel::Directory;

    use super::*;

    fn budget(scratch: &tempfile::TempDir) -> Arc<Budget> {
        Budget::new(0, &Directory::open(scratch.path()).expect("is there"))
    }

    #[test]
    fn trees_come_back_from_chunks_of_any_size() {
        let scratch = tempfile::tempdir().expect("is made");
        let mut trees = WrittenTrees::new(budget(&scratch));
        let sizes = [0, 1, CHUNK_BYTES - 1, 1, CHUNK_BYTES + 1, 7];
        let oids = (0..).map(|number| Oid::from_bytes([number; 20]));
        let contents = sizes.iter().zip(1..).map(|(len, byte)| vec![byte; *len]);
        let all: Vec<(Oid, Vec<u8>)> = oids.zip(contents).collect();
        for (oid, content) in &all {
            trees.keep((*oid, 0), content.clone(), None).expect("has room");
        }
        assert!(trees.latest.len() < all.len());
        for (oid, content) in &all {
            assert_eq!(trees.get(oid).as_deref(), Some(&**content));
        }
        // small ones share a chunk, which a budget counts
        assert_eq!(trees.chunks.len(), 4);
        assert!(trees.chunks.iter().all(|it| it.capacity() >= CHUNK_BYTES));
    }

    #[test]
    fn trees_that_are_not_the_latest_come_back_from_their_deltas() {
        let scratch = tempfile::tempdir().expect("is made");
        let (mut trees, mut differ) = (WrittenTrees::new(budget(&scratch)), Differ::default());
        let content_of = |number: u8| {
            let mut content: Vec<u8> = (0..=u8::MAX).cycle().take(MOST_LATEST_BYTES / 3).collect();
            content[usize::from(number) * 100_000..][..20].fill(number);
            content
        };
        for number in 0..9 {
            let content = content_of(number);
            let base = number.checked_sub(1).filter(|_| number != 5);
            let delta = base.map(|base| {
                let mut delta = Vec::new();
                assert!(differ.diff(&content_of(base), &content, 1000, &mut delta));
                (Oid::from_bytes([base; 20]), delta)
            });
            let tree = (Oid::from_bytes([number; 20]), number % 5);
            trees.keep(tree, content, delta.as_ref()).expect("has room");
        }
        assert_eq!(trees.latest.len(), 3);
        for number in 0..9 {
            let found = trees.get(&Oid::from_bytes([number; 20]));
            assert!(found.as_deref() == Some(&content_of(number)), "{number}");
        }
    }
}
