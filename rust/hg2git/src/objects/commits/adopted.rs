//! Adopted commits in a run, checked against their changesets.
//!
//! An adopted commit is valid if it has the tree and the parents of its changeset. Its author, its
//! message and the order of its parents may differ. The tree may lack `.hgtags` in the root
//! directory, which hg-fast-export leaves out. Such trees are made here, so that only commits come
//! from outside. Does not know how a dialect writes commits.

use std::collections::HashMap;

use dialect::ParentCommit;
use gitpack::tree::{Mode, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use parallel::hex::hex;
use revlog::Node;
use sha1lanes::{Message, digest_one};

use crate::error::{Error, Misfit, Result, Unfit};
use crate::map::adopted::AdoptedCommits;
use crate::objects::directory::{EntryTarget, TrackedDirectory};
use crate::objects::history::{Batch, Sources};
use crate::objects::object::Object;
use crate::objects::trees::Purpose;
use crate::read::files::FileTable;
use crate::read::manifests::ChangesetTree;
use crate::read::names::Names;

/// The file that a tree may lack.
const LEFT_OUT: &[u8] = b".hgtags";

/// The adopted commits of a run.
pub(super) struct AdoptedHistory<'a> {
    commits: &'a AdoptedCommits,
    /// Manifests of changesets with adopted commits: positions in the plan, and positions of the
    /// commits. Ascending.
    wanted: Vec<(u32, u32)>,
    /// Trees without [`LEFT_OUT`], by the positions of their manifests.
    shown: HashMap<u32, Oid>,
}

/// A valid adopted commit.
pub(super) struct AdoptedCommit {
    pub oid: Oid,
    pub content: Vec<u8>,
}

impl<'a> AdoptedHistory<'a> {
    /// The adopted commits of `sources`, if it has any.
    pub fn of(sources: &Sources<'a>) -> Option<Self> {
        let commits = sources.adopted?;
        let index = sources.changelog.index();
        let wanted = sources.revs.iter().enumerate().filter_map(|(number, rev)| {
            let ChangesetTree::Position(position) = sources.trees.get(number) else { return None };
            let at = commits.position(&index.node(*rev))?;
            Some((u32::try_from(position).ok()?, u32::try_from(at).ok()?))
        });
        let mut wanted: Vec<_> = wanted.collect();
        wanted.sort_unstable();
        Some(Self { commits, wanted, shown: HashMap::new() })
    }

    /// The position of a changeset's commit.
    pub fn position(&self, node: &Node) -> Option<usize> {
        self.commits.position(node)
    }

    /// The changeset with this adopted commit.
    pub fn changeset(&self, oid: &Oid) -> Option<Node> {
        self.commits.changeset(oid)
    }

    /// Makes the trees of a batch that adopted commits have instead of `roots`, which include the
    /// roots of the batch.
    pub fn trees(
        &mut self,
        batch: &Batch,
        roots: &[Oid],
        names: &Names,
        files: &FileTable,
    ) -> Vec<Object> {
        let mut trees = Vec::new();
        for (manifest, position) in batch.manifests.iter().zip(batch.first_manifest..) {
            let Ok(number) = u32::try_from(position) else { continue };
            let start = self.wanted.partition_point(|(position, _)| *position < number);
            let wanted =
                self.wanted[start..].iter().take_while(|(position, _)| *position == number);
            let mut others = wanted
                .map(|(_, at)| self.commits.tree(*at as usize))
                .filter(|tree| *tree != roots[position]);
            let Some(other) = others.next() else { continue };
            let shown = manifest.root.as_ref().and_then(|root| tree_without(root, names, files));
            if let Some(tree) = shown.filter(|tree| tree.oid == other) {
                self.shown.insert(number, tree.oid);
                trees.push(tree);
            }
        }
        trees
    }

    /// The adopted commit of the changeset `node`, checked against its tree and the parents of the
    /// dialect's commit.
    ///
    /// # Errors
    ///
    /// [`Error::Unfit`] if the commit is not valid, [`Error::Adopted`] if it cannot be read.
    pub fn commit(
        &self,
        at: usize,
        node: Node,
        (tree, own): (ChangesetTree, Oid),
        parents: &[ParentCommit],
        content_of_dialect: &[u8],
    ) -> Result<AdoptedCommit> {
        let unfit = |misfit| Error::Unfit(Unfit { node, misfit });
        let content = self.commits.commit(at)?;
        let lines = CommitLines::parse(&content).ok_or_else(|| unfit(Misfit::Form))?;
        let given = self.commits.tree(at);
        if lines.tree != hex(given.as_bytes()) {
            return Err(unfit(Misfit::Form));
        }
        let is_parents = |parent: &ParentCommit| {
            self.commits.position(&parent.node).is_some_and(|at| self.commits.tree(at) == given)
        };
        let is_right = given == own
            || match tree {
                ChangesetTree::Position(position) => u32::try_from(position)
                    .is_ok_and(|position| self.shown.get(&position) == Some(&given)),
                // the manifest was converted with a parent, together with this tree
                ChangesetTree::Known(_) => parents.iter().any(is_parents),
                ChangesetTree::Empty => false,
            };
        if !is_right {
            return Err(unfit(Misfit::Tree));
        }
        let mut expected = parents_of(content_of_dialect);
        let mut found = lines.parents;
        expected.sort_unstable();
        found.sort_unstable();
        if found != expected {
            return Err(unfit(Misfit::Parents));
        }
        Ok(AdoptedCommit { oid: self.commits.oid(at), content })
    }
}

/// The tree of a directory without [`LEFT_OUT`]; `None` if the directory has no such file.
fn tree_without(root: &TrackedDirectory, names: &Names, files: &FileTable) -> Option<Object> {
    // otherwise the entries are not those of git's tree
    let found = root.entries.find(names, LEFT_OUT, false).filter(|_| root.is_plain)?;
    let mut payload = Vec::new();
    for entry in root.entries.iter().filter(|entry| entry.name != found.name) {
        let (mode, oid) = match &entry.target {
            EntryTarget::File(file, mode) => (*mode, files.oid(*file)?),
            EntryTarget::TrackedDirectory(inner) => (Mode::DIRECTORY, inner.tree(Purpose::Git).oid),
            EntryTarget::Object(id) => (id.1, id.0),
        };
        push_entry(&mut payload, mode, names.get(entry.name), &oid);
    }
    let head = object_header(ObjectKind::Tree, payload.len() as u64);
    let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &payload }));
    Some(Object { kind: ObjectKind::Tree, oid, base: None, payload, purpose: Purpose::Git })
}

/// The first lines of a commit, with ids in hexadecimal.
#[derive(Debug)]
struct CommitLines {
    tree: [u8; 40],
    parents: Vec<[u8; 40]>,
}

impl CommitLines {
    /// Parses the first lines; `None` if git-fsck(1) would refuse them.
    fn parse(content: &[u8]) -> Option<Self> {
        let mut rest = content;
        let mut next = || {
            let end = memchr::memchr(b'\n', rest)?;
            let line = &rest[..end];
            rest = &rest[end + 1..];
            Some(line)
        };
        let tree = id_of(next()?.strip_prefix(b"tree ")?)?;
        let mut parents = Vec::new();
        let mut line = next()?;
        while let Some(parent) = line.strip_prefix(b"parent ") {
            parents.push(id_of(parent)?);
            line = next()?;
        }
        let committer = next()?.strip_prefix(b"committer ")?;
        if !is_ident(line.strip_prefix(b"author ")?) || !is_ident(committer) {
            return None;
        }
        loop {
            let line = next()?;
            if line.is_empty() {
                return Some(Self { tree, parents });
            }
            let is_another =
                [&b"author "[..], b"committer "].iter().any(|key| line.starts_with(key));
            if line.contains(&0) || is_another {
                return None;
            }
        }
    }
}

/// Parents of a commit that a dialect wrote, in hexadecimal.
fn parents_of(content: &[u8]) -> Vec<[u8; 40]> {
    let lines = content.split(|byte| *byte == b'\n').skip(1);
    lines.map_while(|line| id_of(line.strip_prefix(b"parent ")?)).collect()
}

fn id_of(digits: &[u8]) -> Option<[u8; 40]> {
    let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    digits.try_into().ok().filter(|digits: &[u8; 40]| digits.iter().all(is_digit))
}

/// Whether this is an identity line: `NAME <EMAIL> SECONDS ZONE`.
fn is_ident(ident: &[u8]) -> bool {
    let mut parts = ident.rsplitn(3, |&byte| byte == b' ');
    let (zone, seconds, who) = (parts.next(), parts.next(), parts.next());
    let digits = |text: &[u8], most: usize| {
        (1..=most).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
    };
    let is_zone = |zone: &[u8]| match zone {
        [b'+' | b'-', clock @ ..] => clock.len() >= 4 && digits(clock, 6),
        _ => false,
    };
    let is_who = |who: &[u8]| {
        !who.contains(&0) && who.ends_with(b">") && memchr::memchr_iter(b'<', who).count() == 1
    };
    zone.is_some_and(is_zone)
        && seconds.is_some_and(|seconds| digits(seconds, 19))
        && who.is_some_and(is_who)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const WHO: &str = "A <a@b> 1 +0000";

    fn parsed(content: &str) -> Option<usize> {
        CommitLines::parse(content.as_bytes()).map(|lines| lines.parents.len())
    }

    #[test]
    fn commits_of_git_are_read() {
        let lines = format!("author {WHO}\ncommitter  <a@b> 9 -123456\n");
        assert_eq!(parsed(&format!("tree {TREE}\n{lines}\n")), Some(0));
        let parents = format!("parent {TREE}\n").repeat(3);
        let text = format!("tree {TREE}\n{parents}{lines}gpgsig -----\n more\n\ntext\0");
        assert_eq!(parsed(&text), Some(3));
    }

    #[test]
    fn what_git_would_not_take_is_refused() {
        let lines = format!("author {WHO}\ncommitter {WHO}\n");
        for text in [
            String::new(),
            format!("tree {TREE}\n{lines}"),
            format!("tree {}\n{lines}\n", &TREE[1..]),
            format!("tree {}\n{lines}\n", TREE.to_uppercase()),
            format!("tree {TREE}\nparent x\n{lines}\n"),
            format!("parent {TREE}\ntree {TREE}\n{lines}\n"),
            format!("tree {TREE}\n{lines}author {WHO}\n\n"),
            format!("tree {TREE}\n{lines}x\0y\n\n"),
            format!("tree {TREE}\ncommitter {WHO}\n\n"),
            format!("tree {TREE}\nauthor A a@b 1 +0000\ncommitter {WHO}\n\n"),
            format!("tree {TREE}\nauthor A <a@b> 1\ncommitter {WHO}\n\n"),
            format!("tree {TREE}\nauthor A <a@b> x +0000\ncommitter {WHO}\n\n"),
            format!("tree {TREE}\nauthor A <a@b> 1 0000\ncommitter {WHO}\n\n"),
            format!("tree {TREE}\nauthor A <<a@b> 1 +0000\ncommitter {WHO}\n\n"),
        ] {
            assert_eq!(parsed(&text), None, "{text:?}");
        }
    }
}
