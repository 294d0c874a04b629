//! Metadata of Mercurial in the message and the headers of a commit.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::texts::{push_quoted, unquote};

/// Separator between message and metadata.
pub(super) const CUT: &[u8] = b"\n--HG--\n";

/// Metadata of a commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HgMetadata<'a> {
    /// Message before the metadata.
    pub message: &'a [u8],
    /// Sources of renamed files by their new paths; `None` if the commit is not of Mercurial.
    pub renames: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub branch: Option<&'a [u8]>,
    pub extras: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys of those that are headers of git.
    pub git_headers: Vec<Vec<u8>>,
}

impl<'a> HgMetadata<'a> {
    /// Reads the metadata of a message, and of those headers that git itself does not use.
    ///
    /// hg-git stops at malformed lines; they are ignored.
    pub fn of(message: &'a [u8], headers: &[(&'a [u8], Cow<'a, [u8]>)]) -> Self {
        let mut found = Self { message, ..Self::default() };
        if let Some(at) = memchr::memmem::find(message, CUT) {
            found.message = &message[..at];
            found.section(&message[at + CUT.len()..]);
        }
        let mut count = 0;
        for (field, value) in headers {
            if field.starts_with(b"HG:") {
                found.header(field, value);
                continue;
            }
            let key = [format!("GIT{count}-").as_bytes(), field].concat();
            found.git_headers.push(quoted(&key));
            found.extras.insert(quoted(&key), quoted(value));
            count += 1;
        }
        found
    }

    fn section(&mut self, section: &'a [u8]) {
        let renames = self.renames.get_or_insert_default();
        for line in section.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Some((command, data)) = split(line, b" : ") else { break };
            match command {
                b"rename" => {
                    if let Some((before, after)) = split(data, b" => ") {
                        renames.insert(after.to_vec(), before.to_vec());
                    }
                }
                b"branch" => self.branch = Some(data),
                b"extra" => {
                    if let Some((key, value)) = split(data, b" : ") {
                        self.extras.insert(key.to_vec(), unquote(value));
                    }
                }
                _ => {}
            }
        }
    }

    fn header(&mut self, field: &[u8], value: &[u8]) {
        let renames = self.renames.get_or_insert_default();
        let Some((one, two)) = split(value, b":") else { return };
        match field {
            b"HG:rename" => {
                renames.insert(unquote(two), unquote(one));
            }
            b"HG:extra" => {
                self.extras.insert(unquote(one), unquote(two));
            }
            _ => {}
        }
    }
}

/// Parts before and after the first `separator`.
fn split<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memchr::memmem::find(text, separator)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    push_quoted(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_section_are_read_up_to_prose() {
        let message =
            b"text\n--HG--\nbranch : one\n\nrename : a => b\nextra : k : %0a\nprose\nbranch : no";
        let found = HgMetadata::of(message, &[]);
        assert_eq!((found.message, found.branch), (&b"text"[..], Some(&b"one"[..])));
        assert_eq!(found.renames.unwrap_or_default()[&b"b"[..]], b"a");
        assert_eq!(found.extras[&b"k"[..]], b"\n");
    }
}
