//! The extra with a commit object, see [`COMMIT`].

use gitpack::Oid;
use parallel::hex::hex;
use revlog::Changeset;

use super::difference::{apply, push_difference};
use super::escape::{escape, unescape};
use super::{COMMIT, judge, named_oid};
use crate::MOST_COMMIT_BYTES;
use crate::cinnabar::commit::push_tree_and_parents;

/// Version of the format.
const VERSION: &[u8] = b"1 ";
/// Hexadecimal digits of an id.
const HEX_LEN: usize = 40;

/// A commit object in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitFields<'a> {
    /// Header lines, without the last line feed.
    pub head: &'a [u8],
    /// Whether the last header line ends in a line feed.
    pub is_ended: bool,
    /// Message; empty without a blank line before it.
    pub message: &'a [u8],
}

impl<'a> CommitFields<'a> {
    /// Splits a commit object.
    #[must_use]
    pub fn of(content: &'a [u8]) -> Self {
        if let Some(end) = memchr::memmem::find(content, b"\n\n") {
            return Self { head: &content[..end], is_ended: true, message: &content[end + 2..] };
        }
        let head = content.strip_suffix(b"\n");
        Self { head: head.unwrap_or(content), is_ended: head.is_some(), message: b"" }
    }

    /// Value of the first header line with this name.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut lines = self.head.split(|&byte| byte == b'\n');
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(b" "))
    }
}

/// Stored value of the extra for a commit object.
///
/// `changeset` has the user, the date and the description that the changeset will have.
#[must_use]
pub fn commit_value(
    oid: Oid,
    content: &[u8],
    changeset: &Changeset<'_>,
    (tree, parents): (Oid, &[Oid]),
) -> Vec<u8> {
    let mut value = VERSION.to_vec();
    value.extend_from_slice(&hex(oid.as_bytes()));
    value.push(b' ');
    let head = head(tree, parents);
    push_difference(&mut value, &base(changeset), content.strip_prefix(&*head).unwrap_or(content));
    escape(&value)
}

/// Whether a changeset has the extra.
#[must_use]
pub fn has_commit(changeset: &Changeset<'_>) -> bool {
    let has = |extra| memchr::memmem::find(extra, COMMIT).is_some();
    changeset.extra.is_some_and(has) && stored(changeset).is_some()
}

/// The commit that the extra of a changeset names, with its id; `None` without the extra, or if
/// it does not fit.
///
/// The changeset has this tree and these parents. `stands_for` returns whether it is one of a
/// commit, and `oid_of` the id of a commit object.
pub fn commit(
    changeset: &Changeset<'_>,
    (tree, parents): (Oid, &[Oid]),
    stands_for: impl FnOnce(&Changeset<'_>, &[u8]) -> bool,
    oid_of: impl FnOnce(&[u8]) -> Oid,
) -> Option<(Oid, Vec<u8>)> {
    let value = stored(changeset)?;
    if value.len().max(changeset.description.len()) > 2 * MOST_COMMIT_BYTES {
        return None;
    }
    let value = unescape(value)?;
    let (digits, difference) = value.strip_prefix(VERSION)?.split_at_checked(HEX_LEN)?;
    let oid = named_oid(digits)?;
    let mut content = Vec::new();
    apply(&mut content, &base(changeset), difference.strip_prefix(b" ")?)?;
    if !content.starts_with(b"tree ") {
        content.splice(..0, head(tree, parents));
    }
    let judged = judge(&content);
    let is_sound =
        judged.refused.is_none() && judged.tree == Some(tree) && judged.parents == parents;
    let fits = is_sound && stands_for(changeset, &content) && oid_of(&content) == oid;
    fits.then_some((oid, content))
}

/// Stored value of the last extra with this key, as Mercurial takes it.
fn stored<'a>(changeset: &Changeset<'a>) -> Option<&'a [u8]> {
    changeset.extras().filter(|(key, _)| *key == COMMIT).last().map(|(_, value)| value)
}

/// Lines of the tree and the parents.
fn head(tree: Oid, parents: &[Oid]) -> Vec<u8> {
    let mut head = Vec::with_capacity(64 * (1 + parents.len()));
    push_tree_and_parents(&mut head, tree, parents.iter().copied());
    head
}

/// Base of the difference: `USER LF SECONDS SP OFFSET LF DESCRIPTION`, ending in one line feed more
/// if the description ends in none.
fn base(changeset: &Changeset<'_>) -> Vec<u8> {
    let Changeset { user, seconds, offset_seconds, description, .. } = changeset;
    let date = format!("\n{seconds} {offset_seconds}\n");
    let end: &[u8] = if description.ends_with(b"\n") { b"" } else { b"\n" };
    [user, date.as_bytes(), description, end].concat()
}
