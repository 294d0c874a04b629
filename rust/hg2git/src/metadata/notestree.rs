//! Notes trees: a flat map of 20-byte keys to oids as the tree that git's notes would be.
//!
//! Owns git's fan-out rule (`determine_fanout` in its `notes.c`): the entries whose keys share
//! their first bytes are a directory of their own, and a directory is divided again, by the next
//! byte, if at least two keys follow each of the 16 next digits. So the tree is a function of the
//! map alone, and a divided directory may have an undivided sibling.
//!
//! Knows neither what keys and oids stand for, nor where they are kept, see [`NotesEntries`].

mod entries;

use gitpack::tree::{Mode, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use parallel::hex::{DIGITS, hex};
use sha1lanes::{Message, best};

pub(crate) use entries::{Key, NotesEntries};

use crate::error::Result;
use crate::objects::object::Object;
use crate::objects::trees::Purpose;

/// Makes the tree of `entries`, whose leaves get the mode `leaf`, and answers its oid.
///
/// Trees go to `sink`, directories before what they are in. Without entries, it is the empty tree,
/// which the sink does not get. Next to its result it takes memory for 1/256 of the entries.
///
/// # Errors
///
/// Only those of `sink`.
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
    /// The content of the directory of all entries whose keys begin with `prefix`, `None` if there
    /// are none. What is in it has been written.
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

    /// The content of a directory with directories in it.
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

    /// Hashes directories side by side, and hands them over.
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
