//! Notes trees: a flat map of 20-byte keys to oids as the tree that git's notes would be.
//!
//! Owns git's fan-out rule (`determine_fanout` in its `notes.c`): the entries whose keys share
//! their first bytes are a directory of their own, and a directory is divided again, by the next
//! byte, if at least two keys follow each of the 16 next digits. So the tree is a function of the
//! map alone, and a divided directory may have an undivided sibling.
//!
//! A new entry costs the directories on its way, whatever the size of the map: [`NotesTree`] keeps the
//! oids of the others, to a depth of two. Only maps of millions of entries are divided further,
//! and what is deeper is made again from the entries of its one directory.
//!
//! Knows neither what keys and oids stand for, nor where they are kept, see [`NotesEntries`].

mod entries;
mod upper;

use gitpack::tree::{Mode, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use sha1lanes::{Message, best};

pub(crate) use entries::{Key, NotesEntries};
pub(crate) use upper::NotesTree;
use upper::{Below, NotesDirectory};
use workshop::hex::{DIGITS, hex};

use crate::error::Result;
use crate::objects::object::Object;
use crate::objects::trees::Purpose;

/// Directories that one may have in it: one for each byte.
const BYTES: usize = 256;
/// Depth down to which [`NotesTree`] keeps oids, which bounds its size.
const KEPT_DEPTH: usize = 2;

/// Makes the whole tree of `entries`, whose leaves get the mode `leaf`.
///
/// Trees go to `sink`, directories before what they are in. Next to its result it takes memory for
/// 1/256 of the entries.
///
/// # Errors
///
/// Only those of `sink`.
pub(crate) fn build(
    entries: &(impl NotesEntries + ?Sized),
    leaf: Mode,
    sink: &mut impl FnMut(Object) -> Result<()>,
) -> Result<NotesTree> {
    let root = Writer { leaf, sink }.root(entries, None, Touched::All)?;
    Ok(NotesTree { leaf, root })
}

/// Makes the tree of `entries`, given the one before. `touched` are, ascending, all keys that were
/// added, were removed, or have another value since.
///
/// Only the trees that are new go to `sink`, directories before what they are in.
///
/// # Errors
///
/// Only those of `sink`.
pub(crate) fn update(
    before: NotesTree,
    entries: &(impl NotesEntries + ?Sized),
    touched: &[Key],
    sink: &mut impl FnMut(Object) -> Result<()>,
) -> Result<NotesTree> {
    debug_assert!(touched.is_sorted());
    let NotesTree { leaf, root } = before;
    if touched.is_empty() {
        return Ok(NotesTree { leaf, root });
    }
    let root = Writer { leaf, sink }.root(entries, root, Touched::These(touched))?;
    Ok(NotesTree { leaf, root })
}

/// Which keys of a directory are not as they were.
#[derive(Clone, Copy)]
enum Touched<'a> {
    /// Perhaps all: there was no such directory.
    All,
    /// Ascending. If there are none, the directory is in the store.
    These(&'a [Key]),
}

impl Touched<'_> {
    const fn is_none(self) -> bool {
        matches!(self, Self::These([]))
    }

    /// Those of them that have `byte` at `depth`; all have the same bytes before it.
    fn with(self, depth: usize, byte: u8) -> Self {
        let Self::These(keys) = self else { return self };
        let start = keys.partition_point(|key| key[depth] < byte);
        let count = keys[start..].partition_point(|key| key[depth] == byte);
        Self::These(&keys[start..start + count])
    }
}

/// A directory whose tree has no oid yet.
struct Unhashed {
    content: Vec<u8>,
    below: Below,
    /// Whether the store may lack the tree.
    is_new: bool,
}

struct Writer<'s, S> {
    leaf: Mode,
    sink: &'s mut S,
}

impl<S: FnMut(Object) -> Result<()>> Writer<'_, S> {
    fn root(
        &mut self,
        entries: &(impl NotesEntries + ?Sized),
        before: Option<NotesDirectory>,
        touched: Touched<'_>,
    ) -> Result<Option<NotesDirectory>> {
        let before_oid = before.as_ref().map(|before| before.oid);
        let Some(root) = self.directory(entries, &[], before, touched)? else { return Ok(None) };
        Ok(self.write(vec![root], &[before_oid])?.pop())
    }

    /// The directory of all entries whose keys begin with `prefix`, `None` if there are none. What
    /// is in it has been written.
    fn directory<E: NotesEntries + ?Sized>(
        &mut self,
        entries: &E,
        prefix: &[u8],
        before: Option<NotesDirectory>,
        touched: Touched<'_>,
    ) -> Result<Option<Unhashed>> {
        let before = before.map_or(Below::Entries, |before| before.below);
        let touched = match before {
            // it had no directories in it, so all that it has now are new
            Below::Entries if !touched.is_none() => Touched::All,
            _ => touched,
        };
        if entries::is_divided(entries, prefix) {
            // where all is looked at and it is not the whole map, it is looked up once
            let is_part = !prefix.is_empty() && !matches!(before, Below::Kept(_));
            let divided = if is_part {
                let own: Vec<_> = entries::with_prefix(entries, prefix).collect();
                self.divided(own.as_slice(), prefix, before, touched)
            } else {
                self.divided(entries, prefix, before, touched)
            };
            return divided.map(Some);
        }
        let mut content = Vec::new();
        for (key, oid) in entries::with_prefix(entries, prefix) {
            push_entry(&mut content, self.leaf, &hex(&key)[2 * prefix.len()..], &oid);
        }
        let is_new = !touched.is_none();
        Ok((!content.is_empty()).then_some(Unhashed { content, below: Below::Entries, is_new }))
    }

    /// A directory with directories in it.
    fn divided<E: NotesEntries + ?Sized>(
        &mut self,
        entries: &E,
        prefix: &[u8],
        before: Below,
        touched: Touched<'_>,
    ) -> Result<Unhashed> {
        let is_kept = matches!(before, Below::Kept(_));
        let mut directories = match before {
            Below::Kept(directories) => directories,
            Below::Entries | Below::NotKept => vec![None; BYTES],
        };
        let (mut made, mut places, mut oids_before) = (Vec::new(), Vec::new(), Vec::new());
        for (byte, place) in (0..=u8::MAX).zip(&mut directories) {
            let touched = touched.with(prefix.len(), byte);
            if is_kept && touched.is_none() {
                continue;
            }
            let before = place.take();
            let replaced = before.as_ref().map(|before| before.oid);
            let prefix = [prefix, &[byte]].concat();
            if let Some(directory) = self.directory(entries, &prefix, before, touched)? {
                made.push(directory);
                places.push(place);
                oids_before.push(replaced);
            }
        }
        let written = self.write(made, &oids_before)?;
        for (place, directory) in places.into_iter().zip(written) {
            *place = Some(directory);
        }
        let mut content = Vec::new();
        for (byte, directory) in (0..=u8::MAX).zip(&directories) {
            if let Some(directory) = directory {
                push_entry(
                    &mut content,
                    Mode::DIRECTORY,
                    &DIGITS[usize::from(byte)],
                    &directory.oid,
                );
            }
        }
        let below =
            if prefix.len() < KEPT_DEPTH { Below::Kept(directories) } else { Below::NotKept };
        Ok(Unhashed { content, below, is_new: !touched.is_none() })
    }

    /// Hashes directories side by side and hands over those that the store may lack, which are
    /// never those that have the oid they had before.
    fn write(
        &mut self,
        unhashed: Vec<Unhashed>,
        oids_before: &[Option<Oid>],
    ) -> Result<Vec<NotesDirectory>> {
        let heads: Vec<_> = unhashed
            .iter()
            .map(|directory| object_header(ObjectKind::Tree, directory.content.len() as u64))
            .collect();
        let messages: Vec<_> = unhashed
            .iter()
            .zip(&heads)
            .map(|(directory, head)| Message { head, body: &directory.content })
            .collect();
        let mut digests = vec![[0; 20]; messages.len()];
        best().digest(&messages, &mut digests);
        let mut written = Vec::with_capacity(unhashed.len());
        for ((directory, digest), before) in unhashed.into_iter().zip(digests).zip(oids_before) {
            let Unhashed { content: payload, below, is_new } = directory;
            let oid = Oid::from_bytes(digest);
            if is_new && *before != Some(oid) {
                (self.sink)(Object {
                    kind: ObjectKind::Tree,
                    oid,
                    base: None,
                    payload,
                    purpose: Purpose::Aside,
                })?;
            }
            written.push(NotesDirectory { oid, below });
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
