//! The writer of directories' trees, all of one form, many at once.
//!
//! A directory comes after the directories in it. So the trees of one level of all given
//! directories are hashed side by side, from the deepest level up.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use gitpack::{ObjectKind, Oid, object_header};
use sha1lanes::{Message, best};

use super::Depths;
use super::New;
use super::Pieces;
use super::Purpose;
use super::Storage;
use super::TreeForm;
use super::content::Contents;
use super::emptynames::doubled;
use super::stored;
use crate::objects::collisions::{Attack, CollisionCheck};
use crate::objects::directory::{DirectoryEntries, NewDirectory, TrackedDirectory, Tree};
use crate::objects::object::Object;
use crate::read::files::{FileId, FileTable, Unconverted};
use crate::read::names::Names;

/// Number of trees hashed side by side.
pub(crate) const LANES: usize = 16;
/// Approximate content hashed together, in bytes: the second limit counts if the lanes are not
/// full. A single tree may be longer.
const TOGETHER_BYTES: usize = 512 << 10;
const MOST_TOGETHER_BYTES: usize = 4 << 20;
/// Longest tree kept for the trees after it, in bytes.
const MOST_KEPT_BYTES: usize = 1 << 20;
/// Number of waiting trees that are searched for the tree before.
const NEAR: usize = 4 * LANES;

/// Writer of trees as objects, each in its shortest storage.
#[derive(Debug)]
pub(crate) struct TreeWriter<'a> {
    pub(super) names: &'a Names,
    form: &'static TreeForm,
    files: &'a FileTable,
    /// The check of written trees; `None` if the trees are in the store already.
    collisions: Option<&'a CollisionCheck>,
    objects: Vec<Object>,
    /// Contents of trees without an oid, and the directories of these trees.
    contents: Contents,
    waiting: Vec<Waiting>,
    /// Deltas of some waiting trees from the trees before, by ascending position.
    pieces: VecDeque<(usize, Pieces)>,
    /// Depths of its trees, and of those that others write to the same pack.
    pub depths: Depths,
    /// The large tree written last, whose content comes first. Later trees may be similar.
    last: Option<Last>,
}

/// A large tree, and its length in bytes.
#[derive(Debug)]
struct Last {
    directory: Arc<TrackedDirectory>,
    len: usize,
}

/// A tree without an oid.
#[derive(Debug)]
struct Waiting {
    /// Index of its directory, among the given ones.
    at: usize,
    /// End of its content.
    end: usize,
    /// The entries for git, if they differ from the directory's.
    shown: Option<DirectoryEntries>,
}

/// The index of a directory without a tree, and the reason.
pub(crate) type Failed = (usize, Refused);

/// A reason that a tree is refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// This file has no blob.
    Unconverted(FileId),
    /// Another tree may have its id.
    Attack(Attack),
}

impl From<Unconverted> for Refused {
    fn from(Unconverted(file): Unconverted) -> Self {
        Self::Unconverted(file)
    }
}

impl From<Attack> for Refused {
    fn from(attack: Attack) -> Self {
        Self::Attack(attack)
    }
}

impl<'a> TreeWriter<'a> {
    /// A writer of trees of this form.
    pub fn new(
        form: &'static TreeForm,
        names: &'a Names,
        files: &'a FileTable,
        collisions: &'a CollisionCheck,
    ) -> Self {
        Self { collisions: Some(collisions), ..Self::of_known(form, names, files) }
    }

    /// A writer of trees that an earlier run wrote.
    pub fn of_known(form: &'static TreeForm, names: &'a Names, files: &'a FileTable) -> Self {
        Self {
            names,
            form,
            files,
            collisions: None,
            objects: Vec::new(),
            contents: Contents::default(),
            waiting: Vec::new(),
            pieces: VecDeque::new(),
            depths: Depths::default(),
            last: None,
        }
    }

    /// Makes the trees of `made`. Returns those that differ from the directories' previous trees,
    /// bases before their deltas.
    ///
    /// # Errors
    ///
    /// [`Refused`] with a file that has no blob, or with a tree that carries a collision attack.
    pub fn write(&mut self, made: &[NewDirectory]) -> Result<Vec<Object>, Failed> {
        let mut order: Vec<usize> = (0..made.len()).collect();
        order.sort_by_key(|&at| Reverse(made[at].level));
        let mut level = 0;
        for at in order {
            let next = made[at].level;
            if next != level || self.is_enough() {
                self.finish(made)?;
            }
            level = next;
            self.begin(at, made).map_err(|problem| (at, problem))?;
        }
        self.finish(made)?;
        Ok(std::mem::take(&mut self.objects))
    }

    /// Whether the begun trees should be hashed now.
    fn is_enough(&self) -> bool {
        let bytes = self.contents.as_slice().len();
        let are_lanes_full = self.waiting.len().is_multiple_of(LANES);
        bytes >= MOST_TOGETHER_BYTES || bytes >= TOGETHER_BYTES && are_lanes_full
    }

    /// Writes the content of a directory's tree.
    fn begin(&mut self, at: usize, made: &[NewDirectory]) -> Result<(), Refused> {
        let NewDirectory { directory, before, .. } = &made[at];
        let shown = if self.form.has_empty_names() || directory.is_plain {
            None
        } else {
            self.shown(&directory.entries)?
        };
        let entries = shown.as_ref().unwrap_or(&directory.entries);
        let near = before.as_ref().filter(|_| entries.leaves().len() > 1 && shown.is_none());
        let near = near.and_then(|before| Some((self.start_of(before, made)?, &before.entries)));
        let Self { form, names, files, .. } = *self;
        if let Some(near) = near {
            let pieces = self.contents.push_like(form, names, files, near, entries)?;
            self.pieces.push_back((self.waiting.len(), pieces));
        } else {
            self.contents.push(form, names, files, entries)?;
        }
        let end = self.contents.as_slice().len();
        self.waiting.push(Waiting { at, end, shown });
        Ok(())
    }

    /// The start of a directory's content, if it was begun recently with its own entries.
    fn start_of(&self, directory: &Arc<TrackedDirectory>, made: &[NewDirectory]) -> Option<usize> {
        if self.last.as_ref().is_some_and(|last| Arc::ptr_eq(&last.directory, directory)) {
            return Some(0);
        }
        let near = self.waiting.len().saturating_sub(NEAR);
        let is_same = |waiting: &Waiting| Arc::ptr_eq(&made[waiting.at].directory, directory);
        let found = near + self.waiting[near..].iter().rposition(is_same)?;
        let is_as_it_is = self.waiting[found].shown.is_none();
        is_as_it_is.then(|| self.start(found))
    }

    /// The start of a waiting tree's content.
    fn start(&self, waiting: usize) -> usize {
        match waiting.checked_sub(1) {
            Some(before) => self.waiting[before].end,
            None => self.last.as_ref().map_or(0, |last| last.len),
        }
    }

    /// Removes all contents, except a last large tree, which later trees may be similar to.
    fn clear(&mut self, made: &[NewDirectory]) {
        let is_large = |waiting: &&Waiting| {
            waiting.shown.is_none() && made[waiting.at].directory.entries.leaves().len() > 1
        };
        let mut kept = 0..self.start(0);
        if let Some(last) = self.waiting.last().filter(is_large) {
            let content = self.start(self.waiting.len() - 1)..last.end;
            if content.len() <= MOST_KEPT_BYTES {
                let directory = Arc::clone(&made[last.at].directory);
                self.last = Some(Last { directory, len: content.len() });
                kept = content;
            }
        }
        self.waiting.clear();
        self.contents.keep(kept);
    }

    /// Hashes the begun trees, and makes their objects.
    fn finish(&mut self, made: &[NewDirectory]) -> Result<(), Failed> {
        let purpose = self.form.purpose;
        let (bytes, start) = (self.contents.as_slice(), self.start(0));
        let contents = Spans { bytes, start, waiting: &self.waiting };
        let heads: Vec<_> = contents.iter().map(header).collect();
        let messages: Vec<_> =
            contents.iter().zip(&heads).map(|(body, head)| Message { head, body }).collect();
        let mut digests = vec![[0; 20]; messages.len()];
        best().digest(&messages, &mut digests);
        let trees = self.waiting.iter().zip(messages).zip(digests);
        for (at, ((waiting, message), digest)) in trees.enumerate() {
            let is_known = self.pieces.front().is_some_and(|(known, _)| *known == at);
            let pieces = if is_known { self.pieces.pop_front() } else { None };
            let NewDirectory { directory, before, is_again, .. } = &made[waiting.at];
            let entries = waiting.shown.as_ref().unwrap_or(&directory.entries);
            let (oid, content) = (Oid::from_bytes(digest), message.body);
            if let Some(collisions) = self.collisions {
                let passed = collisions.object(ObjectKind::Tree, oid, message);
                passed.map_err(|attack| (waiting.at, attack.into()))?;
            }
            let storage = match before {
                _ if self.collisions.is_none() || *is_again => Storage::ELSEWHERE,
                Some(before) if before.tree(purpose).oid == oid => {
                    before.tree(purpose).storage.clone()
                }
                _ if let Some(depth) = self.depths.get(&oid) => {
                    let before = before.as_ref().map(|before| &before.tree(purpose).storage);
                    let landmark = before.and_then(|before| before.landmark.clone());
                    Storage { depth: Some(depth), landmark }
                }
                _ => {
                    // a delta needs the entries that were written, which must be the directory's
                    // own
                    let before = before.as_deref().filter(|before| {
                        self.form.has_empty_names()
                            || before.is_plain
                            || doubled(self.names, &before.entries).is_none()
                    });
                    let before = before.map(|before| (&before.entries, before.tree(purpose)));
                    let pieces = pieces.map(|(_, pieces)| pieces);
                    let new = New { entries, content, oid, pieces };
                    let (storage, base, payload) = stored(self.names, self.form, before, new);
                    let kind = ObjectKind::Tree;
                    self.objects.push(Object { kind, oid, base, payload, purpose });
                    if let Some(depth) = storage.depth {
                        self.depths.insert(&oid, depth);
                    }
                    storage
                }
            };
            directory.set_tree(purpose, Tree { oid, storage });
        }
        self.clear(made);
        Ok(())
    }

    /// Makes a tree for git of entries that no directory has.
    pub(super) fn write_alone(&mut self, entries: &DirectoryEntries) -> Result<Tree, Refused> {
        let mut content = Contents::default();
        content.push(&TreeForm::GIT, self.names, self.files, entries)?;
        let content = content.as_slice();
        let message = Message { head: &header(content), body: content };
        let oid = Oid::from_bytes(sha1lanes::digest_one(message));
        let Some(collisions) = self.collisions else {
            return Ok(Tree { oid, storage: Storage::ELSEWHERE });
        };
        collisions.object(ObjectKind::Tree, oid, message)?;
        let new = New { entries, content, oid, pieces: None };
        let (storage, base, payload) = stored(self.names, &TreeForm::GIT, None, new);
        let purpose = Purpose::Git;
        self.objects.push(Object { kind: ObjectKind::Tree, oid, base, payload, purpose });
        Ok(Tree { oid, storage })
    }
}

/// The contents of waiting trees.
struct Spans<'c> {
    bytes: &'c [u8],
    /// Start of the first content.
    start: usize,
    waiting: &'c [Waiting],
}

impl<'c> Spans<'c> {
    fn iter(&self) -> impl Iterator<Item = &'c [u8]> {
        let (bytes, waiting) = (self.bytes, self.waiting);
        let starts = std::iter::once(self.start).chain(waiting.iter().map(|waiting| waiting.end));
        starts.zip(waiting).map(move |(start, waiting)| &bytes[start..waiting.end])
    }
}

/// The object header, hashed before the content of a tree.
fn header(content: &[u8]) -> gitpack::ObjectHeader {
    object_header(ObjectKind::Tree, content.len() as u64)
}
