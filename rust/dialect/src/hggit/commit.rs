//! Commits of changesets.
//!
//! Lines in order: `tree`, `parent`, `author`, `committer`, `encoding`, headers of git, `HG:rename`,
//! `HG:extra`, `gpgsig`. hg-git itself reads `encoding`, `gpgsig` and headers of git from commits,
//! but does not write them again. A description is followed by the branch, if it is not `default`.

use gitpack::Oid;

use super::delta::apply;
use super::identity::{Ident, is_line};
use super::texts::{Extras, extras, push_quoted, to_utf8, unquote};
use crate::cinnabar::commit::push_tree_and_parents;
use crate::{Authors, ChangesetHistory, CommitInput, ParentCommit, Unreadable, exact};

/// Most parents of a commit; a longer chain of changesets is no octopus.
const MOST_PARENTS: usize = 256;
/// Extra of the changesets of an octopus.
pub(super) const OCTOPUS: &[u8] = b"hg-git";
/// Extra that tells where renames come from.
pub(super) const RENAME_SOURCE: &[u8] = b"hg-git-rename-source";

/// Replaces `out` by the content of the changeset's commit; `false` if it has no commit.
///
/// Users among `authors` have another name there.
///
/// # Errors
///
/// The errors of `history`.
pub fn write(
    out: &mut Vec<u8>,
    CommitInput { changeset, tree, parents, .. }: &CommitInput<'_>,
    history: &dyn ChangesetHistory,
    authors: &Authors,
) -> Result<bool, Unreadable> {
    let extras = extras(changeset);
    let extra = |key: &[u8]| extras.get(key).map(Vec::as_slice);
    let parents: Vec<Oid> = match extra(OCTOPUS) {
        Some(b"octopus") => return Ok(false),
        Some(b"octopus-done") => octopus(parents, history)?,
        _ => parents.iter().filter_map(|parent| parent.commit).collect(),
    };
    out.clear();
    push_tree_and_parents(out, *tree, parents);
    let user = to_utf8(changeset.user);
    let user = authors.get(&*user).map_or(&*user, Vec::as_slice);
    let (seconds, west_seconds) = (changeset.seconds, changeset.offset_seconds);
    let author = Ident::author(user, seconds, west_seconds, extra(b"author"));
    let committer = extra(b"committer").and_then(Ident::committer);
    push_header(out, b"author", &author.text());
    push_header(out, b"committer", &committer.as_ref().unwrap_or(&author).text());

    let branch = extra(b"branch").map(to_utf8).filter(|branch| **branch != *b"default");
    let of_git = extra(RENAME_SOURCE) == Some(b"git");
    let SortedExtras { headers, others } = SortedExtras::of(&extras);
    // not if the changeset was changed since it was made of a commit
    let is_untouched = others.is_empty();
    if let Some(encoding) = extra(b"encoding").filter(|text| is_untouched && is_line(text)) {
        push_header(out, b"encoding", encoding);
    }
    for Header { name, value, .. } in &headers {
        push_header(out, name, value);
    }
    let copies = if of_git { Vec::new() } else { history.copies()? };
    for copy in &copies {
        push_pair(out, b"HG:rename ", &copy.source, &copy.path);
    }
    for (key, value) in &others {
        push_pair(out, b"HG:extra ", key, value);
    }
    if !of_git && branch.is_none() && headers.is_empty() && copies.is_empty() && others.is_empty() {
        out.extend_from_slice(b"HG:rename-source hg\n");
    }
    if let Some(signature) = extra(b"gpgsig").filter(|text| is_untouched && !text.contains(&0)) {
        push_header(out, b"gpgsig", signature);
    }

    out.push(b'\n');
    let mut message = to_utf8(changeset.description).into_owned();
    message.push(b'\n');
    let changed = extra(b"message").and_then(|delta| apply(&message, delta));
    out.extend_from_slice(changed.as_deref().unwrap_or(&message));
    if let Some(branch) = branch {
        out.extend_from_slice(&[b"\n--HG--\nbranch : ", &*branch, b"\n"].concat());
    }
    Ok(true)
}

/// Parents of an octopus: each is the first parent of a changeset of a chain, and the last one is
/// the second parent of the last changeset.
fn octopus(
    parents: &[ParentCommit],
    history: &dyn ChangesetHistory,
) -> Result<Vec<Oid>, Unreadable> {
    let own = || parents.iter().filter_map(|parent| parent.commit).collect();
    let mut found = Vec::new();
    let mut chain = parents.to_vec();
    while let [first, second] = chain[..] {
        found.extend(first.commit);
        if found.len() > MOST_PARENTS {
            return Ok(own());
        }
        let (text, above) = history.ancestor(&second.node)?;
        let Ok(changeset) = revlog::Changeset::parse(&text) else { return Ok(own()) };
        let is_part = extras(&changeset)
            .get(OCTOPUS)
            .is_some_and(|value| matches!(&**value, b"octopus" | b"octopus-done"));
        if !is_part {
            found.extend(second.commit);
            return Ok(found);
        }
        chain = above;
    }
    Ok(own()) // a part has one parent
}

/// Extras that become headers, in order.
struct SortedExtras<'a> {
    headers: Vec<Header>,
    /// Extras that become `HG:extra`.
    others: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> SortedExtras<'a> {
    fn of(extras: &'a Extras) -> Self {
        let (mut headers, mut others) = (Vec::new(), Vec::new());
        for (key, value) in extras {
            match &**key {
                b"author"
                | b"committer"
                | b"encoding"
                | b"message"
                | b"branch"
                | b"gpgsig"
                | OCTOPUS
                | RENAME_SOURCE
                | exact::COMMIT
                | exact::TREE => {}
                key => match Header::of(key, value) {
                    Some(header) => headers.push(header),
                    None => others.push((key, &**value)),
                },
            }
        }
        headers.sort_by_key(|header| header.number);
        Self { headers, others }
    }
}

/// Header of git that an extra `GIT<number>-<name>` has.
struct Header {
    number: u64,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Header {
    /// The header in an extra; `None` if it is none, or no header that git can read.
    fn of(key: &[u8], value: &[u8]) -> Option<Self> {
        let rest = key.strip_prefix(b"GIT")?;
        let (number, name) = rest.split_at(memchr::memchr(b'-', rest)?);
        let is_number = number.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(number).ok().filter(|_| is_number)?.parse().ok()?;
        let (name, value) = (unquote(&name[1..]), unquote(value));
        let is_name = !name.is_empty() && is_line(&name) && !name.contains(&b' ');
        (is_name && !value.contains(&0)).then_some(Self { number, name, value })
    }
}

fn push_pair(out: &mut Vec<u8>, name: &[u8], first: &[u8], second: &[u8]) {
    out.extend_from_slice(name);
    push_quoted(out, first);
    out.push(b':');
    push_quoted(out, second);
    out.push(b'\n');
}

/// Appends a header. Lines of the value after the first begin with a space.
fn push_header(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    for line in value.split(|byte| *byte == b'\n') {
        out.push(b' ');
        out.extend_from_slice(line);
        out.push(b'\n');
    }
}
