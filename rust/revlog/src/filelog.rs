//! Copy metadata before the content in the text of a file revision.
//!
//! Format: `parsemeta` in `mercurial/storageutil.py`. A text that begins with `\x01\n` has metadata
//! up to the next `\x01\n`, and content after it.

const MARK: &[u8] = b"\x01\n";

/// Parts of a file revision's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Bytes between the marks; `None` without marks.
    pub metadata: Option<&'a [u8]>,
    /// Content as in a working copy.
    pub content: &'a [u8],
}

/// Splits copy metadata from content. A text with a first mark only is content as a whole.
#[must_use]
pub fn split_metadata(text: &[u8]) -> Split<'_> {
    let whole = Split { metadata: None, content: text };
    let Some(rest) = text.strip_prefix(MARK) else { return whole };
    let Some(end) = memchr::memmem::find(rest, MARK) else { return whole };
    Split { metadata: Some(&rest[..end]), content: &rest[end + MARK.len()..] }
}

/// Source of the copy that metadata records: its path and its revision are needed. A revision with a
/// first parent is no copy (`filerevisioncopied` in `mercurial/utils/storageutil.py`).
#[must_use]
pub fn copy_source(metadata: &[u8]) -> Option<&[u8]> {
    let mut lines = metadata.split(|byte| *byte == b'\n');
    let has_rev = lines.clone().any(|line| line.starts_with(b"copyrev: "));
    lines.find_map(|line| line.strip_prefix(b"copy: ")).filter(|_| has_rev)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_what_lies_between_the_marks() {
        let split = split_metadata(b"\x01\ncopy: a\n\x01\ntext\x01\n");
        assert_eq!(split, Split { metadata: Some(b"copy: a\n"), content: b"text\x01\n" });
        assert_eq!(split_metadata(b"text").metadata, None);
        assert_eq!(split_metadata(b"\x01\n\x01\n"), Split { metadata: Some(b""), content: b"" });
        assert_eq!(split_metadata(b"\x01\nopen").content, b"\x01\nopen");
    }
}
