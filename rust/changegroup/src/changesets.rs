//! Manifest and files in the text of a changeset.
//!
//! Format: `mercurial/changelog.py`. Lines are found as by `changelogrevision`. Other fields are
//! not parsed, so a changeset with a malformed date can be exchanged.

use revlog::Node;

/// Fields of a changeset that a changegroup follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangesetHead<'a> {
    /// Node of the manifest, or the null node if the tree is empty.
    pub manifest: Node,
    files: &'a [u8],
}

/// Text that is not of a changeset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its text is not that of a changeset")]
pub struct MalformedHead;

impl<'a> ChangesetHead<'a> {
    /// Parses the text of a changeset.
    ///
    /// # Errors
    ///
    /// [`MalformedHead`] if a line is missing.
    pub fn parse(text: &'a [u8]) -> Result<Self, MalformedHead> {
        if text.is_empty() {
            return Ok(Self { manifest: Node::NULL, files: &[] });
        }
        let (manifest, rest) = split_line(text)?;
        let manifest = Node::from_hex(manifest).ok_or(MalformedHead)?;
        let (_user, rest) = split_line(rest)?;
        let (_date, rest) = split_line(rest)?;
        let files = match rest {
            [b'\n', ..] => &[],
            _ => &rest[..memchr::memmem::find(rest, b"\n\n").ok_or(MalformedHead)?],
        };
        Ok(Self { manifest, files })
    }

    /// Files listed in the changeset.
    pub fn files(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let files = self.files;
        files.split(|&byte| byte == b'\n').filter(move |_| !files.is_empty())
    }
}

fn split_line(text: &[u8]) -> Result<(&[u8], &[u8]), MalformedHead> {
    let end = memchr::memchr(b'\n', text).ok_or(MalformedHead)?;
    Ok((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "7cf5203a514b008b1e2996986ea9627b44d287c1";

    fn files(text: &str) -> Result<Vec<String>, MalformedHead> {
        let text = format!("{HEX}\n{text}");
        let head = ChangesetHead::parse(text.as_bytes())?;
        assert_eq!(head.manifest.to_string(), HEX);
        Ok(head.files().map(|file| String::from_utf8_lossy(file).into_owned()).collect())
    }

    #[test]
    fn files_are_between_date_and_description() {
        assert_eq!(files("me\n0 0\na\nb c\n\nx\n\ny"), Ok(vec!["a".into(), "b c".into()]));
        assert_eq!(files("\nno date\na\n\n"), Ok(vec!["a".into()]));
        assert_eq!(files("me\n0 0\n\nx\n\ny"), Ok(vec![]));
    }

    #[test]
    fn an_empty_text_has_an_empty_tree() {
        let head = ChangesetHead::parse(b"").expect("is empty");
        assert_eq!((head.manifest, head.files().count()), (Node::NULL, 0));
    }

    #[test]
    fn a_truncated_text_is_refused() {
        for text in ["me", "me\n0 0", "me\n0 0\na", "me\n0 0\na\n"] {
            assert_eq!(files(text), Err(MalformedHead), "{text:?}");
        }
        assert_eq!(ChangesetHead::parse(b"7cf5\nme\n0 0\n\n"), Err(MalformedHead));
    }
}
