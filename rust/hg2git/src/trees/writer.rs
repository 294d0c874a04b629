//! Makes the trees of directories, all of one kind, many at once.
//!
//! What is in a directory comes before it: so the trees of one level of all directories that are
//! given are hashed side by side, from the deepest level up.

use std::cmp::Reverse;

use gitpack::{Kind, Oid, object_header};
use sha1lanes::{Message, best};

use super::content::Contents;
use super::doubled::doubled;
use super::{Storage, View, stored};
use crate::directory::{Directory, Entries, Made, Tree};
use crate::files::{FileTable, Unconverted};
use crate::names::Names;
use crate::object::Object;

/// Content that is hashed together, in bytes, about; one tree may have more.
const TOGETHER_BYTES: usize = 512 << 10;

/// Makes objects of trees, each stored the shortest way.
#[derive(Debug)]
pub(crate) struct TreeWriter<'a> {
    pub(super) names: &'a Names,
    view: View,
    files: &'a FileTable,
    /// Whether the trees are in the store already.
    are_known: bool,
    objects: Vec<Object>,
    /// Trees without an oid, one after the other, and what they are of.
    contents: Contents,
    waiting: Vec<Waiting>,
}

/// A tree without an oid.
#[derive(Debug)]
struct Waiting {
    /// Of which directory it is, among those given.
    at: usize,
    /// Where its content ends.
    end: usize,
    /// The entries, if they are others than those of the directory.
    shown: Option<Entries>,
}

/// Which of the directories that were given cannot have its tree, and why.
pub(crate) type Failed = (usize, Unconverted);

impl<'a> TreeWriter<'a> {
    /// A writer of trees of that kind.
    pub fn new(view: View, names: &'a Names, files: &'a FileTable) -> Self {
        Self {
            names,
            view,
            files,
            are_known: false,
            objects: Vec::new(),
            contents: Contents::default(),
            waiting: Vec::new(),
        }
    }

    /// The same for trees that an earlier run wrote.
    pub fn of_known(view: View, names: &'a Names, files: &'a FileTable) -> Self {
        let mut writer = Self::new(view, names, files);
        writer.are_known = true;
        writer
    }

    /// Makes the trees of `made`, and answers those that are not what the directories had before,
    /// bases before what builds on them.
    ///
    /// # Errors
    ///
    /// A file that has no blob.
    pub fn write(&mut self, made: &[Made]) -> Result<Vec<Object>, Failed> {
        let mut order: Vec<usize> = (0..made.len()).collect();
        order.sort_by_key(|&at| Reverse(made[at].level));
        let mut level = 0;
        for at in order {
            let next = made[at].level;
            if next != level || self.contents.as_slice().len() >= TOGETHER_BYTES {
                self.finish(made);
            }
            level = next;
            self.begin(at, &made[at].directory).map_err(|problem| (at, problem))?;
        }
        self.finish(made);
        Ok(std::mem::take(&mut self.objects))
    }

    /// Writes the content of a directory's tree.
    fn begin(&mut self, at: usize, directory: &Directory) -> Result<(), Unconverted> {
        let shown = if self.view == View::Manifest || directory.is_plain {
            None
        } else {
            self.shown(&directory.entries)?
        };
        let entries = shown.as_ref().unwrap_or(&directory.entries);
        self.contents.push(self.view, self.names, self.files, entries)?;
        let end = self.contents.as_slice().len();
        self.waiting.push(Waiting { at, end, shown });
        Ok(())
    }

    /// Hashes what was begun, and makes objects of it.
    fn finish(&mut self, made: &[Made]) {
        let contents = Spans { bytes: self.contents.as_slice(), waiting: &self.waiting };
        let heads: Vec<_> = contents.iter().map(header).collect();
        let messages: Vec<_> =
            contents.iter().zip(&heads).map(|(body, head)| Message { head, body }).collect();
        let mut digests = vec![[0; 20]; messages.len()];
        best().digest(&messages, &mut digests);
        for ((waiting, content), digest) in self.waiting.iter().zip(contents.iter()).zip(digests) {
            let Made { directory, before, .. } = &made[waiting.at];
            let entries = waiting.shown.as_ref().unwrap_or(&directory.entries);
            let oid = Oid::from_bytes(digest);
            let storage = match before {
                _ if self.are_known => Storage::ELSEWHERE,
                Some(before) if before.tree(self.view).oid == oid => {
                    before.tree(self.view).storage.clone()
                }
                _ => {
                    // a delta counts in the entries before, which have to be those that were written
                    let before = before.as_deref().filter(|before| {
                        let is_git = self.view == View::Git;
                        !is_git || before.is_plain || doubled(self.names, &before.entries).is_none()
                    });
                    let before = before.map(|before| (&before.entries, before.tree(self.view)));
                    let (storage, base, payload) =
                        stored(self.names, self.view, before, entries, content, oid);
                    let view = self.view;
                    self.objects.push(Object { kind: Kind::Tree, oid, base, payload, view });
                    storage
                }
            };
            directory.set_tree(self.view, Tree { oid, storage });
        }
        self.waiting.clear();
        self.contents.clear();
    }

    /// Makes a tree that git has of entries which are of no directory.
    pub(super) fn write_alone(&mut self, entries: &Entries) -> Result<Tree, Unconverted> {
        let mut content = Contents::default();
        content.push(View::Git, self.names, self.files, entries)?;
        let content = content.as_slice();
        let oid = Oid::from_bytes(sha1lanes::digest_one(Message {
            head: &header(content),
            body: content,
        }));
        if self.are_known {
            return Ok(Tree { oid, storage: Storage::ELSEWHERE });
        }
        let view = View::Git;
        let (storage, base, payload) = stored(self.names, view, None, entries, content, oid);
        self.objects.push(Object { kind: Kind::Tree, oid, base, payload, view });
        Ok(Tree { oid, storage })
    }
}

/// The contents of trees that wait.
struct Spans<'c> {
    bytes: &'c [u8],
    waiting: &'c [Waiting],
}

impl<'c> Spans<'c> {
    fn iter(&self) -> impl Iterator<Item = &'c [u8]> {
        let (bytes, waiting) = (self.bytes, self.waiting);
        let starts = std::iter::once(0).chain(waiting.iter().map(|waiting| waiting.end));
        starts.zip(waiting).map(move |(start, waiting)| &bytes[start..waiting.end])
    }
}

/// What is hashed before the content of a tree.
fn header(content: &[u8]) -> gitpack::ObjectHeader {
    object_header(Kind::Tree, content.len() as u64)
}
