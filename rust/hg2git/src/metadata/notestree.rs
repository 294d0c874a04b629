//! Notes trees: a flat map of 20-byte keys to oids, as a tree of git's notes.
//!
//! Owns git's fan-out rule (`determine_fanout` in its `notes.c`). Entries whose keys share their
//! first bytes are in one directory. A directory is divided by the next byte if at least two keys
//! continue with each of the 16 possible digits. So the tree depends on the map alone, and a
//! divided directory may have an undivided sibling.
//!
//! Does not know the meaning of keys and oids, nor their storage, see [`NotesEntries`].

mod entries;

use gitpack::tree::{Mode, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use parallel::hex::{DIGITS, hex};
use sha1lanes::{Message, best};

pub(crate) use entries::{Key, NotesEntries};

use crate::error::Result;
use crate::objects::object::Object;
use crate::objects::trees::Purpose;

/// Makes the tree of `entries`, whose leaves get the mode `leaf`, and returns its oid.
///
/// Trees go to `sink`, subdirectories first. Without entries the result is the empty tree, which
/// the sink does not get. Beside the result, it takes memory for 1/256 of the entries.
///
/// # Errors
///
/// Only errors of `sink`.
pub(crate) fn build(
    entries: &(impl NotesEntries + ?Sized),
    leaf: Mode,
    sink: &mut impl FnMut(Object) -> Result<()>,
) -> Result<Oid> {
    let mut writer = Writer { leaf, sink };
    let Some(root) = writer.directory(entries, &[])? else { return Ok(Oid::EMPTY_TREE) };
    let written = writer.write(vec![root])?;
    Ok(written[0])
}

struct Writer<'s, S> {
    leaf: Mode,
    sink: &'s mut S,
}

impl<S: FnMut(Object) -> Result<()>> Writer<'_, S> {
    /// The content of the directory of all entries whose keys begin with `prefix`; `None` if there
    /// are none. Its subdirectories have been written.
    fn directory<E: NotesEntries + ?Sized>(
        &mut self,
        entries: &E,
        prefix: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        if entries::is_divided(entries, prefix) {
            return self.divided(entries, prefix).map(Some);
        }
        let mut content = Vec::new();
        for (key, oid) in entries::with_prefix(entries, prefix) {
            push_entry(&mut content, self.leaf, &hex(&key)[2 * prefix.len()..], &oid);
        }
        Ok((!content.is_empty()).then_some(content))
    }

    /// The content of a directory with subdirectories.
    fn divided<E: NotesEntries + ?Sized>(&mut self, entries: &E, prefix: &[u8]) -> Result<Vec<u8>> {
        let (mut bytes, mut contents) = (Vec::new(), Vec::new());
        for byte in 0..=u8::MAX {
            let below = [prefix, &[byte]].concat();
            let content = if prefix.is_empty() {
                // the runs of entries are searched and merged once for each first byte
                let own: Vec<_> = entries::with_prefix(entries, &below).collect();
                self.directory(own.as_slice(), &below)?
            } else {
                self.directory(entries, &below)?
            };
            if let Some(content) = content {
                bytes.push(byte);
                contents.push(content);
            }
        }
        let mut content = Vec::new();
        for (byte, oid) in bytes.into_iter().zip(self.write(contents)?) {
            push_entry(&mut content, Mode::DIRECTORY, &DIGITS[usize::from(byte)], &oid);
        }
        Ok(content)
    }

    /// Hashes directories side by side, and passes them to the sink.
    fn write(&mut self, contents: Vec<Vec<u8>>) -> Result<Vec<Oid>> {
        let head = |content: &Vec<u8>| object_header(ObjectKind::Tree, content.len() as u64);
        let heads: Vec<_> = contents.iter().map(head).collect();
        let messages: Vec<_> =
            contents.iter().zip(&heads).map(|(body, head)| Message { head, body }).collect();
        let mut digests = vec![[0; 20]; messages.len()];
        best().digest(&messages, &mut digests);
        let oids: Vec<_> = digests.into_iter().map(Oid::from_bytes).collect();
        for (payload, oid) in contents.into_iter().zip(&oids) {
            let (kind, purpose) = (ObjectKind::Tree, Purpose::Aside);
            (self.sink)(Object { kind, oid: *oid, base: None, payload, purpose })?;
        }
        Ok(oids)
    }
}

#[cfg(test)]
mod tests;
