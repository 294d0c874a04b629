//! The oid map: git oids by Mercurial nodes, over all segments.
//!
//! The caller names the segments in use (Python keeps a docket). `crate::map::segment` has their
//! format. Lookups ask the newest segment first, because it is the most likely to have the node.

use gitpack::staged::Whole;
use gitpack::{Oid, Readers};
use parallel::Directory;
use revlog::{Node, Prefix};

use crate::error::Result;
use crate::map::segment::{Access, Pair, Segment, TABLES, Table, create, sorted};

/// Open segments, oldest first.
#[derive(Debug, Default)]
pub struct OidMap {
    segments: Vec<Segment>,
}

/// The side of a pair that a search compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The changeset's node.
    Node = 0,
    /// The commit's oid.
    Oid = 1,
}

/// The changesets that an abbreviated id may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matches {
    /// Nothing.
    None,
    /// One changeset.
    One(Pair),
    /// Several changesets. Two of them are given.
    Several(Pair, Pair),
}

/// A segment written by [`OidMap::extended`], without its final name, and the segments it extends.
#[derive(Debug)]
pub(crate) struct Extended {
    kept: Vec<String>,
    new: Whole,
}

impl Extended {
    /// Renames the new segment to its final name. Returns the file names of all segments of the
    /// extended map, oldest first.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Write`] if the rename fails.
    pub fn place(self) -> Result<Vec<String>> {
        let Self { mut kept, new } = self;
        kept.push(new.name().to_owned());
        new.place()?;
        Ok(kept)
    }
}

impl OidMap {
    /// Opens the segments with these names in `directory`. Segments named in `unmapped` are read,
    /// not mapped.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Io`] or [`crate::Error::Map`] if a segment cannot be read or has another
    /// format.
    pub fn open<S: AsRef<str>>(
        directory: &Directory,
        names: impl IntoIterator<Item = S>,
        unmapped: &[String],
    ) -> Result<Self> {
        let open = |name: S| {
            let name = name.as_ref();
            let is_read = unmapped.iter().any(|unmapped| unmapped == name);
            let access = if is_read { Access::Read } else { Access::Mapped };
            Segment::open(directory, name, access)
        };
        Ok(Self { segments: names.into_iter().map(open).collect::<Result<_>>()? })
    }

    /// The oid of a node.
    #[must_use]
    pub fn oid(&self, table: Table, node: &Node) -> Option<Oid> {
        self.segments.iter().rev().find_map(|segment| segment.oid(table, node))
    }

    /// The changeset whose commit has this oid.
    #[must_use]
    pub fn changeset(&self, oid: &Oid) -> Option<Node> {
        self.segments.iter().rev().find_map(|segment| segment.changeset(oid))
    }

    /// The changesets whose node or commit, by `side`, begins with `prefix`.
    #[must_use]
    pub fn matches(&self, side: Side, prefix: Prefix) -> Matches {
        let mut first: Option<Pair> = None;
        for segment in &self.segments {
            let found: [_; 2] = match side {
                Side::Node => first_two(segment.nodes_with(prefix)),
                Side::Oid => first_two(segment.oids_with(prefix)),
            };
            for pair in found.into_iter().flatten() {
                match first {
                    None => first = Some(pair),
                    Some(first) if first.node != pair.node => return Matches::Several(first, pair),
                    Some(_) => {}
                }
            }
        }
        first.map_or(Matches::None, Matches::One)
    }

    /// The pair at a position of a table, counted over all segments; `None` beyond the end.
    #[must_use]
    pub fn pair(&self, table: Table, mut at: usize) -> Option<Pair> {
        for segment in &self.segments {
            match at.checked_sub(segment.len(table)) {
                None => return segment.pair(table, at),
                Some(rest) => at = rest,
            }
        }
        None
    }

    /// Number of pairs in a table.
    #[must_use]
    pub fn len(&self, table: Table) -> usize {
        self.segments.iter().map(|segment| segment.len(table)).sum()
    }

    /// Whether all tables are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        TABLES.iter().all(|table| self.len(*table) == 0)
    }

    /// The segments, oldest first.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Writes the [`sorted`] new pairs as a segment in `directory`, merged with the newest segments
    /// that are less than twice as long as the result. So the number of segments stays logarithmic.
    /// Old files stay, and the first `base` segments are never merged.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Write`] if the segment cannot be written.
    pub(crate) fn extended(
        &self,
        (directory, readers): (&Directory, Readers),
        prefix: &str,
        base: usize,
        tables: &[Vec<Pair>; 3],
    ) -> Result<Extended> {
        let mut kept = self.segments.len();
        let mut count: usize = tables.iter().map(Vec::len).sum();
        let mut merged = None;
        while kept > base {
            let newest = &self.segments[kept - 1];
            let len: usize = TABLES.iter().map(|table| newest.len(*table)).sum();
            if len >= 2 * count {
                break;
            }
            let merged = merged.get_or_insert_with(|| tables.clone());
            for table in TABLES {
                merged[table as usize].extend(newest.pairs(table));
            }
            count += len;
            kept -= 1;
        }
        let name_of = |segment: &Segment| segment.name().to_owned();
        let merged = merged.map(sorted);
        let new = create(directory, readers, prefix, merged.as_ref().unwrap_or(tables))?;
        Ok(Extended { kept: self.segments[..kept].iter().map(name_of).collect(), new })
    }
}

fn first_two(mut pairs: impl Iterator<Item = Pair>) -> [Option<Pair>; 2] {
    [pairs.next(), pairs.next()]
}

#[cfg(test)]
mod tests;
