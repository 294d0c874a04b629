//! Commits as changesets, and the verdict on a commit object.
//!
//! A commit is accepted if the export of its changeset is the same commit. The checks before that
//! find the reason of a refusal. Trees and parents are judged elsewhere.

use gitpack::Oid;
use parallel::hex::hex;
use revlog::{Changeset, Node};

use super::commit;
use super::identity::read_back;
use crate::exact::{self, CommitFields, Octopus, commit_value};
use crate::reason::RefusedFor;
use crate::{ChangesetInput, ExactCommit, JudgedCommit, MOST_PARENTS, Reason};

/// Parts of a commit that its changeset stores, beside tree and parents.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommitParts<'a> {
    author: &'a [u8],
    committer: &'a [u8],
    message: &'a [u8],
}

impl<'a> CommitParts<'a> {
    /// Finds the parts of a commit that [`judge`] accepts.
    pub fn of(content: &'a [u8]) -> Option<Self> {
        let end = memchr::memmem::find(content, b"\n\n")?;
        let mut lines = content[..end].split(|&byte| byte == b'\n');
        let author = lines.find_map(|line| line.strip_prefix(b"author "))?;
        let committer = lines.find_map(|line| line.strip_prefix(b"committer "))?;
        Some(Self { author, committer, message: &content[end + 2..] })
    }

    /// Parts of a commit that [`exact::judge`](crate::exact::judge) accepts.
    fn of_exact(content: &'a [u8]) -> Option<Self> {
        let fields = CommitFields::of(content);
        let (author, committer) = (fields.value(b"author")?, fields.value(b"committer")?);
        Some(Self { author, committer, message: fields.message })
    }

    /// Text of the changeset; `None` if author or committer has no date.
    pub fn changeset(&self, made: &ChangesetInput<'_>) -> Option<Vec<u8>> {
        let tree = made.exact.and_then(|exact| exact.tree_value).map(|value| (exact::TREE, value));
        if self.author == self.committer {
            return self.with_extras(made, tree.as_slice());
        }
        let committer = read_back(self.committer)?.canonical();
        let committer = (&b"committer"[..], &*committer);
        self.with_extras(made, &[&[committer], tree.as_slice()].concat())
    }

    /// Text of the changeset with these extras after the branch, as they are stored, sorted by key.
    fn with_extras(
        &self,
        &ChangesetInput { manifest, branch, files, .. }: &ChangesetInput<'_>,
        extras: &[(&[u8], &[u8])],
    ) -> Option<Vec<u8>> {
        let user = read_back(self.author)?;
        let mut text = hex(manifest.as_bytes()).to_vec();
        text.push(b'\n');
        text.extend_from_slice(&user.user);
        text.push(b'\n');
        // git reads blanks, a sign and zeros before the number, too
        let seconds = std::str::from_utf8(user.seconds).ok()?.trim().parse::<i64>().ok()?;
        text.extend_from_slice(seconds.to_string().as_bytes());
        text.push(b' ');
        text.extend_from_slice(user.offset_seconds.to_string().as_bytes());
        let mut before = b' ';
        let branch = branch.map(|branch| (&b"branch"[..], branch));
        for (key, value) in branch.iter().chain(extras) {
            text.push(before);
            text.extend_from_slice(key);
            text.push(b':');
            text.extend_from_slice(value);
            before = 0;
        }
        for file in files {
            text.push(b'\n');
            text.extend_from_slice(file);
        }
        text.extend_from_slice(b"\n\n");
        text.extend_from_slice(self.message);
        Some(text)
    }
}

/// Text of the changeset of any commit that [`exact::judge`](crate::exact::judge) accepts. A commit
/// that does not come back otherwise has its extra in place of the one for the committer.
pub(super) fn exact_changeset(
    content: &[u8],
    made: &ChangesetInput<'_>,
    ExactCommit { oid, tree, parents, tree_value, octopus }: ExactCommit<'_>,
) -> Option<Vec<u8>> {
    if octopus.is_none() && judge(content).refused.is_none() {
        return CommitParts::of(content)?.changeset(made);
    }
    let parts = CommitParts::of_exact(content)?;
    let tree_extra = tree_value.map(|value| (exact::TREE, value));
    if octopus == Some(Octopus::Link) {
        let extras = [tree_extra, octopus.map(Octopus::extra)];
        return parts.with_extras(made, &extras.into_iter().flatten().collect::<Vec<_>>());
    }
    let plain = parts.with_extras(made, &[])?;
    let changeset = Changeset::parse(&plain).ok()?;
    let value = commit_value(oid, content, &changeset, (tree, parents));
    let extras = [Some((exact::COMMIT, &*value)), tree_extra, octopus.map(Octopus::extra)];
    parts.with_extras(made, &extras.into_iter().flatten().collect::<Vec<_>>())
}

/// Returns whether a changeset has the user, the date and the description of a commit.
pub(super) fn stands_for(changeset: &Changeset<'_>, content: &[u8]) -> bool {
    let made = ChangesetInput { manifest: Node::NULL, branch: None, files: &[], exact: None };
    let parts = CommitParts::of_exact(content);
    let Some(text) = parts.and_then(|parts| parts.with_extras(&made, &[])) else { return false };
    Changeset::parse(&text).is_ok_and(|other| {
        (other.user, other.seconds, other.offset_seconds, other.description)
            == (changeset.user, changeset.seconds, changeset.offset_seconds, changeset.description)
    })
}

/// Judges a commit object.
#[must_use]
pub fn judge(content: &[u8]) -> JudgedCommit<'_> {
    JudgedCommit::by(content, refusal)
}

fn refusal<'a>(content: &'a [u8], judged: &mut JudgedCommit<'a>) -> Result<(), RefusedFor<'a>> {
    let end = memchr::memmem::find(content, b"\n\n");
    let head = &content[..end.unwrap_or(content.len())];
    let mut lines = head.split(|&byte| byte == b'\n');
    let [author, committer] = judged.read(content.len(), &mut lines)?;
    let Some(end) = end else { return Err((Reason::MalformedCommit, b"")) };
    if memchr::memchr(0, head).is_some() {
        return Err((Reason::MalformedCommit, head));
    }
    // continuation lines of a header begin with a space
    let others = lines.filter(|line| !line.starts_with(b" "));
    others.map(header).min().map_or(Ok(()), Err)?;

    if judged.parents.len() > MOST_PARENTS {
        return Err((Reason::Octopus, b""));
    }
    for value in [author, committer] {
        if !has_plain_date(value) {
            return Err((Reason::Date, value));
        }
    }
    // extras are stored with escaped backslashes, which would change the committer
    if author != committer && committer.contains(&b'\\') {
        return Err((Reason::Backslash, committer));
    }
    comes_back(content, judged, [author, committer], &content[end + 2..])
}

/// Reason to refuse a commit with this header.
fn header(line: &[u8]) -> RefusedFor<'_> {
    let name = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let reason = match name {
        b"gpgsig" | b"gpgsig-sha256" => Reason::Signature,
        b"encoding" => Reason::Encoding,
        b"tree" | b"parent" | b"author" | b"committer" | b"" => Reason::MalformedCommit,
        _ => Reason::Header,
    };
    (reason, if reason == Reason::Encoding { line } else { name })
}

/// Returns whether a value ends in a date in the form of git, `SECONDS +hhmm`.
fn has_plain_date(value: &[u8]) -> bool {
    let mut parts = value.rsplitn(3, |&byte| byte == b' ');
    let (zone, seconds) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    parts.next().is_some() && is_seconds(seconds) && is_zone(zone)
}

fn is_seconds(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_digit)
        && (digits == b"0" || !digits.starts_with(b"0"))
        // git fsck refuses later dates as too large
        && std::str::from_utf8(digits).is_ok_and(|digits| digits.parse::<i64>().is_ok())
}

fn is_zone(zone: &[u8]) -> bool {
    let [b'+' | b'-', digits @ ..] = zone else { return false };
    let [_, _, tens, _] = digits else { return false };
    digits.iter().all(u8::is_ascii_digit) && *tens < b'6' && zone != b"-0000"
}

/// Converts the commit to a changeset and back, and compares the two commits.
fn comes_back<'a>(
    content: &[u8],
    judged: &JudgedCommit<'_>,
    [author, committer]: [&'a [u8]; 2],
    message: &[u8],
) -> Result<(), RefusedFor<'a>> {
    let parts = CommitParts { author, committer, message };
    let made = ChangesetInput { manifest: Node::NULL, branch: None, files: &[], exact: None };
    let text = parts.changeset(&made);
    let odd = [author, committer].into_iter().find(|value| read_back(value).is_none());
    let text = text.ok_or((Reason::Identity, odd.unwrap_or(author)))?;
    let changeset = Changeset::parse(&text).map_err(|_| (Reason::Identity, author))?;
    let mut again = Vec::with_capacity(content.len());
    let tree = judged.tree.unwrap_or(Oid::EMPTY_TREE);
    commit::write(&mut again, tree, judged.parents.iter().copied(), &changeset);
    if again == content {
        return Ok(());
    }
    let found =
        |name: &[u8]| again.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name));
    for (name, value) in [(&b"author "[..], author), (b"committer ", committer)] {
        let found = found(name).unwrap_or_default();
        if found != value {
            let reason =
                if who_of(found) == who_of(value) { Reason::Date } else { Reason::Identity };
            return Err((reason, value));
        }
    }
    Err((Reason::MalformedCommit, b""))
}

/// Name and address of an author or committer line.
fn who_of(value: &[u8]) -> Option<&[u8]> {
    value.rsplitn(3, |&byte| byte == b' ').nth(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::MOST_COMMIT_BYTES;

    const TREE: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";
    const PLAIN: &str = "A U <a@x> 12 +0100";

    fn commit(author: &str, committer: &str, others: &str) -> String {
        format!("{TREE}author {author}\ncommitter {committer}\n{others}\nmessage\n")
    }

    fn reason(content: &str) -> Option<Reason> {
        judge(content.as_bytes()).refused.map(|(reason, _)| reason)
    }

    #[test]
    fn a_commit_that_is_too_long_is_refused() {
        let content = commit(PLAIN, PLAIN, "");
        let filled = |len: usize| content.clone() + &"x".repeat(len - content.len());
        assert_eq!(reason(&filled(MOST_COMMIT_BYTES)), None);
        assert_eq!(reason(&filled(MOST_COMMIT_BYTES + 1)), Some(Reason::CommitSize));
    }

    #[test]
    fn ordinary_commits_come_back() {
        for (author, committer) in [
            (PLAIN, PLAIN),
            (PLAIN, "C <c@x> 13 -0330"),
            ("A <> 0 +0000", "A <> 1 +0000"),
            (" <> 1 +0000", " <> 1 +0000"),
            ("  A  B  <a@x> 2147483648 +0000", PLAIN),
            ("A\\nB <a@x> 1 +0000", "A\\nB <a@x> 1 +0000"),
            (" <a@x> 1 +1400", " <a@x> 1 -1200"),
            ("A@B <a> 1 +0000", PLAIN),
        ] {
            assert_eq!(reason(&commit(author, committer, "")), None, "{author}, {committer}");
        }
        for message in ["", "\n\n\na\n\n", "no end", "NUL \0", "\r\n"] {
            let content = format!("{TREE}author {PLAIN}\ncommitter {PLAIN}\n\n{message}");
            assert_eq!(reason(&content), None, "{message:?}");
        }
    }

    #[test]
    fn each_row_has_its_reason() {
        let with = |header: &str| commit(PLAIN, PLAIN, header);
        assert_eq!(reason(&with("gpgsig x\n y\n \n z\n")), Some(Reason::Signature));
        assert_eq!(reason(&with("gpgsig-sha256 x\n")), Some(Reason::Signature));
        assert_eq!(reason(&with("encoding x\ngpgsig x\n")), Some(Reason::Signature));
        assert_eq!(reason(&with("encoding latin1\n")), Some(Reason::Encoding));
        assert_eq!(reason(&with("mergetag x\n y\n")), Some(Reason::Header));
        assert_eq!(reason(&with("author x\n")), Some(Reason::MalformedCommit));
        for (author, expected) in [
            ("name@x <> 1 +0000", Reason::Identity),
            ("A<a@x> 1 +0000", Reason::Identity),
            ("<a@x> 1 +0000", Reason::Identity),
            ("A <a@x>  1 +0000", Reason::Identity),
            ("A <a@x> b 1 +0000", Reason::Identity),
            ("A <a<b>@x> 1 +0000", Reason::Identity),
            ("A 1 +0000", Reason::Identity),
            ("A <a@x> 01 +0000", Reason::Date),
            ("A <a@x> -1 +0000", Reason::Date),
            ("A <a@x> +1 +0000", Reason::Date),
            ("A <a@x> 9223372036854775808 +0000", Reason::Date),
            ("A <a@x> 1 -0000", Reason::Date),
            ("A <a@x> 1 +0060", Reason::Date),
            ("A <a@x> 1 +051800", Reason::Date),
            ("A <a@x> 1", Reason::Date),
            ("A <a@x>", Reason::Date),
            ("", Reason::Date),
            ("A\0 <a@x> 1 +0000", Reason::MalformedCommit),
        ] {
            assert_eq!(reason(&commit(author, author, "")), Some(expected), "author {author}");
            assert_eq!(reason(&commit(PLAIN, author, "")), Some(expected), "committer {author}");
        }
        assert_eq!(reason(&commit(PLAIN, "A\\B <a@x> 1 +0000", "")), Some(Reason::Backslash));
    }

    #[test]
    fn a_zone_that_an_extra_takes_for_another_is_found() {
        // -1500 seconds look like fifteen hours: `zone_seconds` of git-cinnabar
        let odd = "A <a@x> 1 +0025";
        assert_eq!(reason(&commit(odd, odd, "")), None);
        assert_eq!(reason(&commit(PLAIN, odd, "")), Some(Reason::Date));
    }

    #[test]
    fn what_is_no_commit_is_malformed() {
        let whole = commit(PLAIN, PLAIN, "");
        let end = whole.find("\n\n").expect("has one");
        for cut in 0..=end {
            assert_eq!(reason(&whole[..cut]), Some(Reason::MalformedCommit), "{cut}");
        }
        assert_eq!(reason(&whole.replace("tree 4b", "tree 4B")), Some(Reason::MalformedCommit));
    }

    #[test]
    fn parents_are_counted() {
        let line = format!("parent {}\n", "12".repeat(20));
        for (count, expected) in [(0, None), (1, None), (2, None), (3, Some(Reason::Octopus))] {
            let lines = format!("{TREE}{}author", line.repeat(count));
            let content = commit(PLAIN, PLAIN, "").replace(&format!("{TREE}author"), &lines);
            let judged = judge(content.as_bytes());
            assert_eq!(judged.parents.len(), count);
            assert_eq!(judged.refused.map(|(reason, _)| reason), expected);
        }
    }

    proptest! {
        #[test]
        fn any_content_is_judged(head in "[ <>@a0-9+\\\\\n-]{0,40}", rest: Vec<u8>) {
            let content = [TREE.as_bytes(), b"author ", head.as_bytes(), &rest].concat();
            let _ = judge(&content);
            let _ = judge(&rest);
        }
    }
}
