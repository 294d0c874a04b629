//! One segment of the oid map: an immutable, sorted file of hg node and git oid pairs.
//!
//! Format (docs/formats/map.rst), integers big-endian:
//!
//! ```text
//! header   8 bytes "AMALGMAP", u32 version 1, u32 zero,
//!          3 x u64 number of changesets, manifests, file revisions, 24 bytes zero
//! tables   one for each of the three, in that order:
//!          256 x u32 how many nodes have a first byte up to this one
//!          nodes, 20 bytes each, ascending; their oids, 20 bytes each, in the same order
//! by oid   u32 positions of the changesets, ascending by their oids
//! trailer  SHA-1 of all before
//! ```
//!
//! A changeset's oid is its commit, a manifest's its root tree, a file revision's its blob. Segments
//! are written whole and renamed into place, never changed, and replaced by merging.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gitpack::Oid;
use memmap2::Mmap;
use revlog::Node;
use sha1::{Digest, Sha1};

use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"AMALGMAP";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 64;
const FANOUT_LEN: usize = 256 * 4;
const ID_LEN: usize = 20;
const TRAILER_LEN: usize = 20;

/// What a node is the node of.
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

/// A node and the object that stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// In Mercurial.
    pub node: Node,
    /// In git.
    pub oid: Oid,
}

/// An open segment, mapped: the file is immutable, see the module.
#[derive(Debug)]
pub struct Segment {
    map: Mmap,
    path: PathBuf,
    counts: [usize; 3],
}

impl Segment {
    /// Opens a segment and checks that its length is what its header says.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read, [`Error::Map`] if it is something else or cut.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |source| Error::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: segments are never written after the rename that named them, only unlinked, so
        // the mapped bytes do not change; whoever edits them by hand breaks that contract.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        let malformed = |what: &str| Error::Map { path: path.to_owned(), what: what.to_owned() };
        let header = map.first_chunk::<HEADER_LEN>().ok_or_else(|| malformed("it is cut"))?;
        if !header.starts_with(MAGIC) || word(header, 8) != VERSION {
            return Err(malformed("it is no map segment of a known version"));
        }
        let mut counts = [0; 3];
        let mut len = (HEADER_LEN + TRAILER_LEN) as u64;
        for (table, count) in counts.iter_mut().enumerate() {
            let start = 16 + table * 8;
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&header[start..start + 8]);
            let stored = u64::from_be_bytes(bytes);
            *count =
                u32::try_from(stored).map_err(|_| malformed("its counts are too large"))? as usize;
            let each = 2 * ID_LEN + if table == 0 { 4 } else { 0 };
            len += FANOUT_LEN as u64 + stored * each as u64;
        }
        if map.len() as u64 != len {
            return Err(malformed("its length is not what its header says"));
        }
        let segment = Self { map, path: path.to_owned(), counts };
        for table in TABLES {
            let fanout = segment.fanout(table);
            let steps = (0..256).map(|byte| word(fanout, byte * 4) as usize);
            if !steps.clone().is_sorted() || steps.last() != Some(segment.len(table)) {
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

    /// Whether the trailer is the SHA-1 of the rest; reads the whole file.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        let (body, trailer) = self.map.split_at(self.map.len() - TRAILER_LEN);
        Sha1::digest(body).as_slice() == trailer
    }

    /// Where the segment lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The oid of a node.
    #[must_use]
    pub fn oid(&self, table: Table, node: &Node) -> Option<Oid> {
        let nodes = self.nodes(table);
        let first = usize::from(node.as_bytes()[0]);
        let fanout = self.fanout(table);
        let start = if first == 0 { 0 } else { word(fanout, first * 4 - 4) as usize };
        let end = word(fanout, first * 4) as usize;
        let position = start + nodes[start..end].binary_search(node.as_bytes()).ok()?;
        Some(Oid::from_bytes(self.oids(table)[position]))
    }

    /// The changeset whose commit has this oid.
    #[must_use]
    pub fn changeset(&self, oid: &Oid) -> Option<Node> {
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

/// Writes a segment to `out` and answers its checksum. The tables must be sorted by node, without
/// duplicates.
fn write(out: &mut impl Write, tables: &[Vec<Pair>; 3]) -> io::Result<[u8; 20]> {
    let mut out = Summed { out, sum: Sha1::new() };
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_be_bytes())?;
    out.write_all(&[0; 4])?;
    for table in tables {
        out.write_all(&(table.len() as u64).to_be_bytes())?;
    }
    out.write_all(&[0; 24])?;
    for table in tables {
        let mut counts = [0u32; 256];
        for pair in table {
            counts[usize::from(pair.node.as_bytes()[0])] += 1;
        }
        let mut so_far = 0;
        for count in counts {
            so_far += count;
            out.write_all(&so_far.to_be_bytes())?;
        }
        for pair in table {
            out.write_all(pair.node.as_bytes())?;
        }
        for pair in table {
            out.write_all(pair.oid.as_bytes())?;
        }
    }
    let changesets = &tables[Table::Changesets as usize];
    let count = u32::try_from(changesets.len()).map_err(io::Error::other)?;
    let mut by_oid: Vec<u32> = (0..count).collect();
    by_oid.sort_unstable_by_key(|&position| changesets[position as usize].oid);
    for position in by_oid {
        out.write_all(&position.to_be_bytes())?;
    }
    let sum: [u8; 20] = out.sum.finalize().into();
    out.out.write_all(&sum)?;
    Ok(sum)
}

/// Passes bytes on and sums them.
struct Summed<'a, W> {
    out: &'a mut W,
    sum: Sha1,
}

impl<W: Write> Write for Summed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        self.sum.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the tables, in any order and with duplicates, as a new segment into `directory`.
///
/// Answers its file name, `PREFIX-<16 digits of the checksum>.map`. It is complete and on disk when
/// the name appears.
///
/// # Errors
///
/// [`Error::Io`] if it cannot be written; then nothing is left behind.
pub(crate) fn create(directory: &Path, prefix: &str, mut tables: [Vec<Pair>; 3]) -> Result<String> {
    for table in &mut tables {
        table.sort_unstable();
        table.dedup_by_key(|pair| pair.node);
    }
    let failed = |source| Error::Io { path: directory.to_owned(), source };
    let mut file = tempfile::Builder::new()
        .prefix("tmp-map-")
        .permissions(Permissions::from_mode(0o444))
        .tempfile_in(directory)
        .map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 18, file.as_file_mut());
    let sum = write(&mut out, &tables).and_then(|sum| out.flush().map(|()| sum)).map_err(failed)?;
    drop(out);
    file.as_file().sync_all().map_err(failed)?;
    let digits = Oid::from_bytes(sum).to_string();
    let name = format!("{prefix}-{}.map", &digits[..16]);
    file.persist(directory.join(&name)).map_err(|problem| failed(problem.error))?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    Ok(name)
}
