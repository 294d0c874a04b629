//! Adopted commits: commits that another program made of changesets, and that keep their ids.
//!
//! Format (docs/formats/adopted.rst), integers big-endian:
//!
//! ```text
//! header   8 bytes "AMALGADO", u32 version 1, u32 number of changesets
//! commits  the content of each commit, as a zlib stream, in the order of the nodes
//! nodes    20 bytes each, ascending
//! oids     20 bytes each, in the order of the nodes, as the following tables
//! trees    20 bytes each, the tree of the commit
//! ends     u64 each, end of the zlib stream in the file
//! lengths  u32 each, bytes of the content
//! by oid   u32 positions, ascending by their oids
//! trailer  SHA-1 of all bytes before
//! ```
//!
//! Python writes the file as a whole, and nobody changes it afterwards. Every read of a commit
//! compares its content with its oid.

use std::io::{self, Read};
use std::path::PathBuf;

use gitpack::deflate::inflate;
use gitpack::{ObjectKind, Oid, object_header};
use parallel::Directory;
use revlog::Node;
use sha1lanes::{Message, digest_one};

use crate::error::{Error, Result};
use crate::map::content::{Access, Content, Unread};
use crate::map::segment::ID_LEN;

const MAGIC: &[u8; 8] = b"AMALGADO";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 16;
const TRAILER_LEN: usize = 20;
/// Bytes of one commit in the tables: three ids, an end, a length, a position.
const EACH_LEN: usize = 3 * ID_LEN + 8 + 4 + 4;
/// Longest commit, in bytes. Python, which writes the file, has the same limit.
const LONGEST_COMMIT: u32 = 64 << 20;

/// The open file.
#[derive(Debug)]
pub(crate) struct AdoptedCommits {
    content: Content,
    path: PathBuf,
    count: usize,
    /// Offset of the tables.
    tables: usize,
}

impl AdoptedCommits {
    /// Opens the file `name`, and checks its length.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, [`Error::Adopted`] if it has another format or is
    /// cut.
    pub fn open(directory: &Directory, name: &str, access: Access) -> Result<Self> {
        let path = directory.join(name);
        let damaged = |what: &str| Error::Adopted { path: path.clone(), what: what.to_owned() };
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::InvalidData => damaged("it is not a regular file"),
            io::ErrorKind::UnexpectedEof => damaged("it is cut"),
            _ => Error::Io { path: path.clone(), source },
        };
        let mut file = directory.read(name).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut header = [0; HEADER_LEN];
        file.read_exact(&mut header).map_err(failed)?;
        let [magic @ .., _, _, _, _, _, _, _, _] = &header;
        let (version, count) = (word(&header, 2), word(&header, 3));
        if magic != MAGIC || version != Some(VERSION) {
            return Err(damaged("it has no adopted commits of a known version"));
        }
        let count = count.unwrap_or_default() as usize;
        let content = Content::of(file, &header, len, access).map_err(|problem| match problem {
            Unread::Io(source) => failed(source),
            Unread::Other(what) => damaged(what),
        })?;
        let tables_len = count.checked_mul(EACH_LEN).and_then(|len| len.checked_add(TRAILER_LEN));
        let tables = tables_len.and_then(|tables_len| content.len().checked_sub(tables_len));
        match tables.filter(|tables| *tables >= HEADER_LEN) {
            Some(tables) => Ok(Self { content, path, count, tables }),
            None => Err(damaged("it is cut")),
        }
    }

    /// Compares the whole file with its checksum.
    ///
    /// # Errors
    ///
    /// [`Error::Adopted`] if the checksum differs.
    pub fn check(&self) -> Result<()> {
        let (body, trailer) = self.content.split_at(self.content.len() - TRAILER_LEN);
        if digest_one(Message { head: &[], body }) == *trailer {
            Ok(())
        } else {
            Err(self.damaged("its checksum does not match its content"))
        }
    }

    /// The position of a changeset in the tables.
    pub(crate) fn position(&self, node: &Node) -> Option<usize> {
        self.ids(0).binary_search(node.as_bytes()).ok()
    }

    /// The commit at a position that [`Self::position`] returned.
    pub(crate) fn oid(&self, at: usize) -> Oid {
        Oid::from_bytes(self.ids(1)[at])
    }

    /// The tree of the commit at a position that [`Self::position`] returned.
    pub(crate) fn tree(&self, at: usize) -> Oid {
        Oid::from_bytes(self.ids(2)[at])
    }

    /// The changeset that has this commit.
    pub(crate) fn changeset(&self, oid: &Oid) -> Option<Node> {
        let oid_at = |at: &[u8; 4]| self.ids(1).get(u32::from_be_bytes(*at) as usize);
        let by_oid = self.words(3 * ID_LEN + 8 + 4);
        let found = by_oid.binary_search_by_key(&Some(oid.as_bytes()), oid_at).ok()?;
        let at = u32::from_be_bytes(by_oid[found]) as usize;
        self.ids(0).get(at).map(|node| Node::from_bytes(*node))
    }

    /// The content of the commit at a position that [`Self::position`] returned. It hashes to the
    /// oid.
    ///
    /// # Errors
    ///
    /// [`Error::Adopted`] if the file is damaged there.
    pub(crate) fn commit(&self, at: usize) -> Result<Vec<u8>> {
        let damaged = || {
            let node = Node::from_bytes(self.ids(0)[at]);
            self.damaged(&format!("the commit of changeset {node} does not match its oid"))
        };
        let start = at.checked_sub(1).map_or(Some(HEADER_LEN), |before| self.end(before));
        let stream =
            (start.zip(self.end(at))).and_then(|(start, end)| self.content.get(start..end));
        let len = u32::from_be_bytes(self.words(3 * ID_LEN + 8)[at]);
        if len > LONGEST_COMMIT {
            return Err(damaged());
        }
        let content = stream.and_then(|stream| inflate(stream, len as usize).ok());
        let content = content.ok_or_else(damaged)?;
        if oid_of_commit(&content) == self.oid(at) { Ok(content) } else { Err(damaged()) }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Adopted { path: self.path.clone(), what: what.to_owned() }
    }

    fn end(&self, at: usize) -> Option<usize> {
        let start = self.tables + 3 * ID_LEN * self.count;
        let (ends, _) = self.content[start..start + 8 * self.count].as_chunks();
        let end = usize::try_from(u64::from_be_bytes(*ends.get(at)?)).ok()?;
        (end <= self.tables).then_some(end)
    }

    /// The first, second or third table of ids.
    fn ids(&self, table: usize) -> &[[u8; ID_LEN]] {
        let len = self.count * ID_LEN;
        let start = self.tables + table * len;
        self.content[start..start + len].as_chunks().0
    }

    /// The table of words behind tables that take `before` bytes per commit.
    fn words(&self, before: usize) -> &[[u8; 4]] {
        let start = self.tables + before * self.count;
        self.content[start..start + 4 * self.count].as_chunks().0
    }
}

/// The oid of a commit with this content.
pub(crate) fn oid_of_commit(content: &[u8]) -> Oid {
    let head = object_header(ObjectKind::Commit, content.len() as u64);
    Oid::from_bytes(digest_one(Message { head: &head, body: content }))
}

fn word(bytes: &[u8], number: usize) -> Option<u32> {
    let (words, _) = bytes.as_chunks();
    words.get(number).map(|word| u32::from_be_bytes(*word))
}

#[cfg(test)]
pub(crate) mod tests;
