//! The writer of a segment.

use std::io::{self, Write};

use gitpack::staged::Whole;
use gitpack::{Oid, Readers};
use parallel::Directory;
use revlog::Node;
use sha1::{Digest, Sha1};

use super::{MAGIC, Pair, Table, UNFINISHED, VERSION};
use crate::error::Result;

/// Writes a segment to `out` and returns its checksum. The tables must be [`sorted`].
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
    by_oid.sort_unstable_by_key(|&position| (changesets[position as usize].oid, position));
    for position in by_oid {
        out.write_all(&position.to_be_bytes())?;
    }
    let sum: [u8; 20] = out.sum.finalize().into();
    out.out.write_all(&sum)?;
    Ok(sum)
}

/// A writer that hashes all bytes on their way to `out`.
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

/// Pairs of nodes and oids in the same order.
pub(crate) fn pairs(nodes: impl Iterator<Item = Node>, oids: &[Oid]) -> Vec<Pair> {
    nodes.zip(oids).map(|(node, oid)| Pair { node, oid: *oid }).collect()
}

/// Sorts tables as a segment needs them: ascending by node, each node once.
pub(crate) fn sorted(mut tables: [Vec<Pair>; 3]) -> [Vec<Pair>; 3] {
    for table in &mut tables {
        table.sort_unstable();
        table.dedup_by_key(|pair| pair.node);
    }
    tables
}

/// Writes [`sorted`] `tables` as a new segment into `directory`, for these `readers`. Its final
/// file name is `PREFIX-<16 digits of the checksum>.map`.
///
/// # Errors
///
/// [`crate::Error::Write`] if the segment cannot be written. No file is left behind.
pub(crate) fn create(
    directory: &Directory,
    readers: Readers,
    prefix: &str,
    tables: &[Vec<Pair>; 3],
) -> Result<Whole> {
    let whole = Whole::create(directory, UNFINISHED, readers, |out| {
        let digits = Oid::from_bytes(write(out, tables)?).to_string();
        Ok(format!("{prefix}-{}.map", &digits[..16]))
    })?;
    Ok(whole)
}
