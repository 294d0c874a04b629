//! One segment of the oid map: an immutable, sorted file of hg node and git oid pairs.
//!
//! Format (docs/formats/map.rst), integers big-endian:
//!
//! ```text
//! header   8 bytes "AMALGMAP", u32 version 1, u32 zero,
//!          3 x u64 number of changesets, manifests, file revisions, 24 bytes zero
//! tables   one for each of the three, in that order:
//!          256 x u32 number of nodes whose first byte is at most this one
//!          nodes, 20 bytes each, ascending; their oids, 20 bytes each, in the same order
//! by oid   u32 positions of the changesets, ascending by their oids, then by position
//! trailer  SHA-1 of all bytes before
//! ```
//!
//! A changeset's oid is its commit, or zeros if its dialect makes no commit of it. A manifest's oid
//! is its root tree, a file revision's its blob. Segments are written whole and renamed into place,
//! never changed, and replaced by merging.

mod writing;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use gitpack::Oid;
use parallel::Directory;
use revlog::{Node, Prefix};
use sha1::{Digest, Sha1};

use crate::error::{Error, Result};
pub use crate::map::content::Access;
use crate::map::content::{Content, Unread};

pub(crate) use writing::{create, pairs, sorted};

const MAGIC: &[u8; 8] = b"AMALGMAP";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;
const FANOUT_LEN: usize = 256 * 4;
/// Bytes of a node, and of an oid.
pub(crate) const ID_LEN: usize = 20;
const TRAILER_LEN: usize = 20;

/// Prefix of the names of unfinished files.
pub(crate) const UNFINISHED: &str = "tmp-";

/// The kind of a node: the table that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Changesets and their commits.
    Changesets = 0,
    /// Manifests and their root trees.
    Manifests = 1,
    /// File revisions and their blobs.
    Files = 2,
}

/// All tables, in the order of the format.
pub const TABLES: [Table; 3] = [Table::Changesets, Table::Manifests, Table::Files];

/// A node and its git object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The id in Mercurial.
    pub node: Node,
    /// The id in git.
    pub oid: Oid,
}

/// Oid of a converted changeset without a commit.
pub const NO_COMMIT: Oid = Oid::from_bytes([0; 20]);

/// An open segment. Its file is immutable.
#[derive(Debug)]
pub struct Segment {
    map: Content,
    name: String,
    path: PathBuf,
    counts: [usize; 3],
}

impl Segment {
    /// Opens the segment `name`. Compares its length with its header before the rest is read.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read, [`Error::Map`] if it has another format or is cut.
    pub fn open(directory: &Directory, name: &str, access: Access) -> Result<Self> {
        let path = directory.join(name);
        let failed = |source| io_or_map(&path, source);
        let malformed = |what: &str| Error::Map { path: path.clone(), what: what.to_owned() };
        let mut file = directory.read(name).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut header = [0; HEADER_LEN];
        match file.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(malformed("it is cut"));
            }
            read => read.map_err(failed)?,
        }
        let counts = counts(&header, len).map_err(malformed)?;
        let map = Content::of(file, &header, len, access).map_err(|problem| match problem {
            Unread::Io(source) => failed(source),
            Unread::Other(what) => malformed(what),
        })?;
        let segment = Self { map, name: name.to_owned(), path: path.clone(), counts };
        for table in TABLES {
            let fanout = segment.fanout(table);
            let mut steps = (0..256).map(|byte| word(fanout, byte * 4) as usize);
            if !steps.clone().is_sorted() || steps.next_back() != Some(segment.len(table)) {
                return Err(malformed("its fanout does not ascend to its count"));
            }
        }
        Ok(segment)
    }

    /// Number of pairs in a table.
    #[must_use]
    pub const fn len(&self, table: Table) -> usize {
        self.counts[table as usize]
    }

    /// Checks the checksum and both orders, which [`Self::open`] does not. With `unique_commits`,
    /// checks also that no two changesets have the same commit. Reads the whole file.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] with the first defect.
    pub fn check(&self, unique_commits: bool) -> Result<()> {
        let malformed = |what: &str| Error::Map { path: self.path.clone(), what: what.to_owned() };
        let (body, trailer) = self.map.split_at(self.map.len() - TRAILER_LEN);
        if Sha1::digest(body).as_slice() != trailer {
            return Err(malformed("its checksum does not match its content"));
        }
        for table in TABLES {
            let nodes = self.nodes(table);
            let is_in_fanout = |(at, node): (usize, &[u8; ID_LEN])| {
                let (start, end) = self.range(table, node[0]);
                (start..end).contains(&at)
            };
            if !nodes.is_sorted_by(|a, b| a < b) || !nodes.iter().enumerate().all(is_in_fanout) {
                return Err(malformed("its nodes are not in order"));
            }
        }
        // positions in strict order by their oids, then by their values, are all different
        let oids = self.oids(Table::Changesets);
        let by_oid = self.by_oid().iter().map(|at| {
            let at = u32::from_be_bytes(*at);
            oids.get(at as usize).map(|oid| (oid, if unique_commits { 0 } else { at }))
        });
        if !by_oid.clone().all(|oid| oid.is_some()) || !by_oid.is_sorted_by(|a, b| a < b) {
            return Err(malformed("its commits are not in order, or not all different"));
        }
        Ok(())
    }

    /// Its file name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the segment's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The oid of a node.
    #[must_use]
    pub fn oid(&self, table: Table, node: &Node) -> Option<Oid> {
        let nodes = self.nodes(table);
        let (start, end) = self.range(table, node.as_bytes()[0]);
        let position = start + nodes[start..end].binary_search(node.as_bytes()).ok()?;
        Some(Oid::from_bytes(self.oids(table)[position]))
    }

    /// The changeset whose commit has this oid.
    #[must_use]
    pub fn changeset(&self, oid: &Oid) -> Option<Node> {
        if *oid == NO_COMMIT {
            return None;
        }
        let oids = self.oids(Table::Changesets);
        let by_oid = self.by_oid();
        let at = by_oid
            .binary_search_by(|position| {
                oids.get(u32::from_be_bytes(*position) as usize).cmp(&Some(oid.as_bytes()))
            })
            .ok()?;
        let position = u32::from_be_bytes(by_oid[at]) as usize;
        self.nodes(Table::Changesets).get(position).map(|bytes| Node::from_bytes(*bytes))
    }

    /// The changesets whose node begins with `prefix`, ascending by node.
    pub fn nodes_with(&self, prefix: Prefix) -> impl Iterator<Item = Pair> {
        let nodes = self.nodes(Table::Changesets);
        let start = nodes.partition_point(|node| node < prefix.least());
        let found = nodes[start..].iter().take_while(move |node| prefix.begins(node)).enumerate();
        found.filter_map(move |(at, _)| self.pair(Table::Changesets, start + at))
    }

    /// The changesets whose commit begins with `prefix`, ascending by oid.
    pub fn oids_with(&self, prefix: Prefix) -> impl Iterator<Item = Pair> {
        let pair = |at: &[u8; 4]| self.pair(Table::Changesets, u32::from_be_bytes(*at) as usize);
        let by_oid = self.by_oid();
        let start = by_oid.partition_point(|at| {
            pair(at).is_some_and(|pair| pair.oid.as_bytes() < prefix.least())
        });
        let found = by_oid[start..].iter().map_while(pair);
        let found = found.take_while(move |pair| prefix.begins(pair.oid.as_bytes()));
        found.filter(|pair| pair.oid != NO_COMMIT)
    }

    /// The pair at a position of a table, `None` beyond its end.
    #[must_use]
    pub fn pair(&self, table: Table, at: usize) -> Option<Pair> {
        let (node, oid) = (self.nodes(table).get(at)?, self.oids(table).get(at)?);
        Some(Pair { node: Node::from_bytes(*node), oid: Oid::from_bytes(*oid) })
    }

    /// The position of the first pair of a table whose node is not below `start`.
    pub(crate) fn position(&self, table: Table, start: &[u8; ID_LEN]) -> usize {
        let (first, end) = self.range(table, start[0]);
        first + self.nodes(table)[first..end].partition_point(|node| node < start)
    }

    /// All pairs of a table, ascending by node.
    pub fn pairs(&self, table: Table) -> impl Iterator<Item = Pair> {
        let pairs = self.nodes(table).iter().zip(self.oids(table));
        pairs.map(|(node, oid)| Pair { node: Node::from_bytes(*node), oid: Oid::from_bytes(*oid) })
    }

    fn start(&self, table: Table) -> usize {
        let before = &self.counts[..table as usize];
        HEADER_LEN + before.iter().map(|count| FANOUT_LEN + count * 2 * ID_LEN).sum::<usize>()
    }

    fn fanout(&self, table: Table) -> &[u8] {
        let start = self.start(table);
        &self.map[start..start + FANOUT_LEN]
    }

    /// The range of positions of the nodes with this first byte.
    fn range(&self, table: Table, first: u8) -> (usize, usize) {
        let (fanout, first) = (self.fanout(table), usize::from(first));
        let start = if first == 0 { 0 } else { word(fanout, first * 4 - 4) as usize };
        (start, word(fanout, first * 4) as usize)
    }

    fn nodes(&self, table: Table) -> &[[u8; ID_LEN]] {
        let start = self.start(table) + FANOUT_LEN;
        self.map[start..start + self.len(table) * ID_LEN].as_chunks().0
    }

    fn oids(&self, table: Table) -> &[[u8; ID_LEN]] {
        let start = self.start(table) + FANOUT_LEN + self.len(table) * ID_LEN;
        self.map[start..start + self.len(table) * ID_LEN].as_chunks().0
    }

    fn by_oid(&self) -> &[[u8; 4]] {
        let start = self.start(Table::Files) + FANOUT_LEN + self.len(Table::Files) * 2 * ID_LEN;
        self.map[start..start + self.len(Table::Changesets) * 4].as_chunks().0
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The numbers of pairs in a header, if they fit a file of this length.
fn counts(header: &[u8; HEADER_LEN], file_len: u64) -> Result<[usize; 3], &'static str> {
    if !header.starts_with(MAGIC) || word(header, 8) != VERSION {
        return Err("it is not a map segment of a known version");
    }
    let mut counts = [0; 3];
    let mut len = (HEADER_LEN + TRAILER_LEN) as u64;
    for (table, count) in counts.iter_mut().enumerate() {
        let start = 16 + table * 8;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[start..start + 8]);
        let stored = u64::from_be_bytes(bytes);
        *count = u32::try_from(stored).map_err(|_| "its counts are too large")? as usize;
        let each = 2 * ID_LEN + if table == 0 { 4 } else { 0 };
        len += FANOUT_LEN as u64 + stored * each as u64;
    }
    if file_len == len { Ok(counts) } else { Err("its length does not match its header") }
}

/// The error for a file that cannot be read: [`Error::Map`] if it is not a regular file.
pub(crate) fn io_or_map(path: &Path, source: io::Error) -> Error {
    if source.kind() == io::ErrorKind::InvalidData {
        return Error::Map { path: path.to_owned(), what: "it is not a regular file".to_owned() };
    }
    Error::Io { path: path.to_owned(), source }
}
