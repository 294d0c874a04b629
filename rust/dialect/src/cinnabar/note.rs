//! Note of a changeset: the blob that git-cinnabar keeps beside its commit.
//!
//! Commit and note together give the text of the changeset. The note has the parts that the commit
//! lacks, and a patch for the rest. The rules are git-cinnabar's (`src/store.rs` of 0.7.5,
//! `GeneratedGitChangesetMetadata`); docs/formats/cinnabar.rst lists them.

use std::collections::BTreeMap;

use parallel::hex::hex;
use revlog::{Changeset, Node};

use super::identity::{Who, read_back};
use super::linediff;
use crate::exact::CommitFields;

/// The extras of a changeset, ascending by key. The last one of a key counts.
type Extras<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// Approximate bytes of a note or changeset without names and texts.
const NAMES_LEN: usize = 128;

const COMMITTER: &[u8] = b"committer";

/// Content of the note of the changeset `node`, given its text and the content of its commit.
///
/// `None` if `commit` is not a commit of this dialect.
#[must_use]
pub fn note(node: Node, changeset: &Changeset<'_>, text: &[u8], commit: &[u8]) -> Option<Vec<u8>> {
    let commit = Commit::parse(commit)?;
    let (author, committer) = (read_back(commit.author)?, read_back(commit.committer)?);

    let mut blob = Vec::with_capacity(NAMES_LEN + changeset.files.len());
    blob.extend_from_slice(b"changeset ");
    blob.extend_from_slice(&hex(node.as_bytes()));
    if changeset.manifest != Node::NULL {
        push_line(&mut blob, b"manifest", &hex(changeset.manifest.as_bytes()));
    }
    if author.user != changeset.user {
        push_line(&mut blob, b"author", changeset.user);
    }
    let mut extras = changeset.extra.map(|_| changeset.extras().collect::<Extras<'_>>());
    if let Some(all) = &mut extras
        && all.get(COMMITTER).is_some_and(|value| *value == committer.canonical())
    {
        all.remove(COMMITTER);
        if all.is_empty() {
            extras = None;
        }
    }
    if let Some(extras) = &extras {
        push_line(&mut blob, b"extra", &joined(extras));
    }
    if !changeset.files.is_empty() {
        push_line(&mut blob, b"files", changeset.files);
        let files = blob.len() - changeset.files.len();
        blob[files..].iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = 0);
    }
    let made_again = make_again(changeset, extras, &author, &committer, &commit);
    if let Some(patch) = linediff::patch(&made_again, text) {
        push_line(&mut blob, b"patch", &patch);
    }
    Some(blob)
}

/// The text of the changeset as readers make it from commit and note, before the patch.
fn make_again(
    changeset: &Changeset<'_>,
    extras: Option<Extras<'_>>,
    author: &Who<'_>,
    committer: &Who<'_>,
    commit: &Commit<'_>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(
        NAMES_LEN + changeset.user.len() + changeset.files.len() + commit.message.len(),
    );
    text.extend_from_slice(&hex(changeset.manifest.as_bytes()));
    text.push(b'\n');
    text.extend_from_slice(changeset.user);
    text.push(b'\n');
    text.extend_from_slice(author.seconds);
    text.extend_from_slice(format!(" {}", author.offset_seconds).as_bytes());
    let has_committer = extras.as_ref().is_some_and(|extras| extras.contains_key(COMMITTER));
    let canonical = committer.canonical();
    let mut extras = extras;
    if !has_committer && commit.author != commit.committer {
        extras.get_or_insert_default().insert(COMMITTER, &canonical);
    }
    if let Some(extras) = extras {
        text.push(b' ');
        text.extend_from_slice(&joined(&extras));
    }
    if !changeset.files.is_empty() {
        let mut files: Vec<_> = changeset.files.split(|&byte| byte == b'\n').collect();
        files.sort_unstable();
        for file in files {
            text.push(b'\n');
            text.extend_from_slice(file);
        }
    }
    text.extend_from_slice(b"\n\n");
    text.extend_from_slice(commit.message);
    text
}

fn push_line(note: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    note.push(b'\n');
    note.extend_from_slice(name);
    note.push(b' ');
    note.extend_from_slice(value);
}

fn joined(extras: &Extras<'_>) -> Vec<u8> {
    let items: Vec<_> = extras.iter().map(|(key, value)| [*key, *value].join(&b':')).collect();
    items.join(&0)
}

/// The parts of a commit that a note depends on.
struct Commit<'a> {
    author: &'a [u8],
    committer: &'a [u8],
    /// Message, with the line feeds of duplicates.
    message: &'a [u8],
}

impl<'a> Commit<'a> {
    fn parse(content: &'a [u8]) -> Option<Self> {
        let fields = CommitFields::of(content);
        let (author, committer) = (fields.value(b"author")?, fields.value(b"committer")?);
        Some(Self { author, committer, message: fields.message })
    }
}

#[cfg(test)]
mod tests {
    use gitpack::Oid;

    use super::super::commit;
    use super::*;

    const MANIFEST: &str = "644908d7432afeb9ee28c39a5f71feff08fac4ca";

    /// The lines of the note of a changeset, without the first two.
    fn lines(user: &str, date: &str, rest: &str, line_feeds: usize) -> Vec<String> {
        let text = format!("{MANIFEST}\n{user}\n{date}\n{rest}").into_bytes();
        let changeset = Changeset::parse(&text).expect("well-formed");
        let mut content = Vec::new();
        commit::write(&mut content, Oid::EMPTY_TREE, [], &changeset);
        content.extend(std::iter::repeat_n(b'\n', line_feeds));
        let blob = note(Node::from_bytes([0x11; 20]), &changeset, &text, &content);
        let blob = String::from_utf8(blob.expect("a commit of ours")).expect("ascii");
        let mut lines: Vec<_> = blob.split('\n').map(str::to_owned).collect();
        assert_eq!(lines.remove(0), format!("changeset {}", "11".repeat(20)));
        assert_eq!(lines.remove(0), format!("manifest {MANIFEST}"));
        lines
    }

    // the output of git-cinnabar 0.7.5, see the vectors and spec tables

    #[test]
    fn what_a_commit_tells_is_left_out() {
        assert_eq!(lines("A B <a@b.c>", "100 0", "\nroot", 0), [""; 0]);
        assert_eq!(lines("A B <a@b.c>", "100 -19800", "a\nb\n\nx", 0), ["files a\0b"]);
    }

    #[test]
    fn users_that_git_has_otherwise_are_kept() {
        for user in ["foo@bar", "foo>", "Foo <foo@bar>, Baz <b@z>", "foo <>", "tab\t<x@y>"] {
            assert_eq!(lines(user, "1 0", "\nx", 0), [format!("author {user}")]);
        }
        for user in ["<foo@bar>", "<>", "foo", "Foo  Bar  <foo@bar>", "no email <  >"] {
            assert_eq!(lines(user, "1 0", "\nx", 0), [""; 0]);
        }
    }

    #[test]
    fn extras_are_sorted_and_a_canonical_committer_left_out() {
        let of = |extra: &str| lines("A <a@b>", &format!("1 0 {extra}"), "\nx", 0);
        assert_eq!(of("branch:stable\0close:1"), ["extra branch:stable\0close:1"]);
        assert_eq!(of(""), ["extra "]);
        assert_eq!(of("committer:C O <c@o> 1234567890 -3600"), [""; 0]);
        let git_zone = "committer:C O <c@o> 1234567890 +0100";
        assert_eq!(of(git_zone), [format!("extra {git_zone}")]);
        assert_eq!(of("committer:C D <c@d.e> 400 -3600\0zz:1"), ["extra zz:1"]);
    }

    #[test]
    fn what_is_lost_otherwise_is_patched() {
        // offsets in a text that begins with 41 bytes of manifest and 8 of user
        assert_eq!(lines("A <a@b>", "1 1", "\nx", 0), ["patch 51,52,1"]);
        assert_eq!(lines("A <a@b>", "1 0", "\nx", 2), ["patch 55,57,"]);
    }
}
