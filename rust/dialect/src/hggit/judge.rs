//! The verdict on a commit object: whether hg-git's changeset gives it back.

use gitpack::Oid;
use revlog::{Changeset, Node};

use super::commit::{self, OCTOPUS};
use super::import::ParsedCommit;
use super::metadata::CUT;
use crate::exact::CommitFields;
use crate::reason::RefusedFor;
use crate::{
    Authors, ChangesetHistory, CommitInput, CopySource, ImportSettings, ImportedExtras,
    JudgedCommit, MOST_COMMIT_BYTES, ParentCommit, Reason, Unreadable,
};

/// Texts of changesets that are a part of an octopus, and that are none.
const LINK: &[u8] = b"0000000000000000000000000000000000000000\n\n0 0 hg-git:octopus\n\n";
const NO_LINK: &[u8] = b"0000000000000000000000000000000000000000\n\n0 0\n\n";

/// Accepts any commit object of a length that can be stored.
pub fn judge_length(content: &[u8]) -> JudgedCommit<'_> {
    let ParsedCommit { tree, parents, .. } = ParsedCommit::of(content);
    let is_long = content.len() > MOST_COMMIT_BYTES;
    let refused = is_long.then_some((Reason::CommitSize, &b""[..]));
    JudgedCommit { tree, parents, refused }
}

/// Judges a commit object. Copies that it names have to be those of its files, and its last parent
/// no part of an octopus: nobody knows that here.
pub fn judge(content: &[u8]) -> JudgedCommit<'_> {
    let mut judged = judge_length(content);
    if judged.refused.is_none() {
        judged.refused = match judged.tree {
            Some(tree) => refusal(content, (tree, &judged.parents)),
            None => Some((Reason::MalformedCommit, b"")),
        };
    }
    judged
}

/// Reason and place at which the changeset of a commit does not give it back.
fn refusal<'a>(content: &'a [u8], (tree, parents): (Oid, &[Oid])) -> Option<RefusedFor<'a>> {
    let texts = ParsedCommit::of(content).texts(ImportSettings::default());
    let extras = ImportedExtras::Own { commit: None, tree: None };
    let text = texts.changeset(Node::NULL, &[], None, extras);
    let Ok(changeset) = Changeset::parse(&text) else {
        return Some((Reason::MalformedCommit, b""));
    };
    let copies = texts.sources.iter();
    let copies =
        copies.map(|(path, source)| CopySource { path: path.clone(), source: source.clone() });
    let history = ToldHistory { copies: copies.collect(), parents };
    let parents = &history.pair(0);
    let input = CommitInput { node: Node::NULL, changeset: &changeset, tree, parents };
    let mut back = Vec::with_capacity(content.len());
    let has_commit =
        matches!(commit::write(&mut back, &input, &history, &Authors::default()), Ok(true));
    let back = has_commit.then_some(&*back);
    (back != Some(content)).then(|| difference(content, back))
}

/// The first part of a commit that another commit has not. `None`: the changeset has no commit of
/// its own, since metadata of Mercurial makes it a part of an octopus.
pub fn difference<'a>(content: &'a [u8], other: Option<&[u8]>) -> RefusedFor<'a> {
    let Some(other) = other else { return (Reason::Header, OCTOPUS) };
    if memchr::memmem::find(content, b"\n\n").is_none() {
        return (Reason::MalformedCommit, b"");
    }
    let (one, two) = (CommitFields::of(content), CommitFields::of(other));
    for name in [&b"author"[..], b"committer"] {
        let (was, is) = (one.value(name), two.value(name));
        if was == is {
            continue;
        }
        let person = |value: &[u8]| {
            let end = memchr::memrchr(b'>', value).map_or(0, |at| at + 1);
            value[..end].to_vec()
        };
        let is_same = was.zip(is).is_some_and(|(was, is)| person(was) == person(is));
        let reason = if is_same { Reason::Date } else { Reason::Identity };
        return (reason, was.unwrap_or_default());
    }
    if one.head != two.head {
        let is_lost = |line: &&[u8]| !two.head.split(|byte| *byte == b'\n').any(|it| it == *line);
        let lost = one.head.split(|byte| *byte == b'\n').find(is_lost);
        return (Reason::Header, lost.unwrap_or_default());
    }
    let of_mercurial = memchr::memmem::find(content, CUT).map(|_| (Reason::Header, &CUT[1..]));
    of_mercurial.unwrap_or((Reason::Differs, b""))
}

/// The history of a changeset as its commit tells it.
struct ToldHistory<'a> {
    copies: Vec<CopySource>,
    parents: &'a [Oid],
}

impl ToldHistory<'_> {
    /// Parents of the changeset at this place of a chain. Their nodes are places.
    fn pair(&self, place: usize) -> Vec<ParentCommit> {
        let node = |place: usize| {
            let mut bytes = [0xff; 20];
            bytes[..8].copy_from_slice(&(place as u64).to_be_bytes());
            Node::from_bytes(bytes)
        };
        let parent = |at: usize| {
            let commit = self.parents.get(at).copied()?;
            Some(ParentCommit { node: node(usize::MAX), commit: Some(commit) })
        };
        let second = if place + 2 < self.parents.len() {
            Some(ParentCommit { node: node(place + 1), commit: None })
        } else {
            parent(place + 1)
        };
        parent(place).into_iter().chain(second).collect()
    }
}

impl ChangesetHistory for ToldHistory<'_> {
    fn copies(&self) -> Result<Vec<CopySource>, Unreadable> {
        Ok(self.copies.clone())
    }

    fn ancestor(&self, node: &Node) -> Result<(Vec<u8>, Vec<ParentCommit>), Unreadable> {
        let place = node.as_bytes().first_chunk().map_or(u64::MAX, |it| u64::from_be_bytes(*it));
        match usize::try_from(place) {
            Ok(place) if place < self.parents.len() => Ok((LINK.to_vec(), self.pair(place))),
            _ => Ok((NO_LINK.to_vec(), Vec::new())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(parents: usize, rest: &str) -> Option<Reason> {
        let mut content = format!("tree {}\n", "1".repeat(40));
        let lines = (0..parents).map(|number| format!("parent {number:040}\n"));
        content.extend(lines.chain([rest.to_owned()]));
        judge(content.as_bytes()).refused.map(|(reason, _)| reason)
    }

    #[test]
    fn commits_that_come_back() {
        const WHO: &str = "author A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n";
        for rest in [
            "\nm\n",
            "\n\n m\r\n",
            "encoding latin1\n\n\n",
            "gpgsig a\n b\n\nm",
            "HG:rename-source hg\n\nm\n",
            "HG:rename a:b\n\nm\n",
            "change-id x\n\nm\n\n--HG--\nbranch : b\n",
        ] {
            for parents in [0, 1, 2, 3, 17] {
                assert_eq!(reason(parents, &format!("{WHO}{rest}")), None, "{rest}");
            }
        }
        let other = "author A <a@x> 1 -0130\ncommitter B <b@x> 2 +0545\n\nm\n";
        assert_eq!(reason(1, other), None);
    }

    #[test]
    fn commits_that_differ() {
        const WHO: &str = "author A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n";
        for (rest, expected) in [
            (format!("{WHO}HG:odd x\n\nm\n"), Reason::Header),
            (format!("{WHO}mergetag x\n\nm\n"), Reason::Header),
            (format!("{WHO}\nm\n\n--HG--\nprose"), Reason::Header),
            (format!("{WHO}HG:extra hg-git:octopus\n\nm\n"), Reason::Header),
            (WHO.replace("+0000", "-0000") + "\nm\n", Reason::Date),
            (WHO.replace("A <a@x>", " A <a@x>") + "\nm\n", Reason::Identity),
            ("author A\n\nm\n".to_owned(), Reason::Identity),
            (WHO.to_owned(), Reason::MalformedCommit),
        ] {
            assert_eq!(reason(1, &rest), Some(expected), "{rest}");
        }
        assert_eq!(judge(b"").refused, Some((Reason::MalformedCommit, &b""[..])));
    }
}
