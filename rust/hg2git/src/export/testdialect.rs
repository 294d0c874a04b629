//! A dialect with the features that git-cinnabar's does not use: no metadata, edited trees, copies
//! in headers, changesets without a commit, two changesets with the same commit, and other names of
//! users. And the inherited file of hg-git's dialect.

use std::collections::BTreeMap;

use dialect::{
    Authors, ChangesetHistory, ChangesetInput, CommitInput, Dialect, EditedEntry, FileChange,
    Files, HgGit, JudgedCommit, ManifestEdits, MetadataKind, TreeEdit, Unreadable,
};
use gitpack::pack::Objects;
use gitpack::tree::Mode;
use gitpack::{ObjectKind, Oid};
use parallel::hex::hex;
use revlog::Node;

use super::tests::{Repository, WrittenChangeset, changeset};
use crate::objects::trees::{TreeForm, stored_entries};

/// Extra of changesets without a commit.
const SKIPPED: &[u8] = b"skip";
/// Extra of changesets whose commit has no parents.
const RESTART: &[u8] = b"restart";
/// File whose lines `PATH OID` are gitlinks, and which is not in the tree itself.
const LINKS: &[u8] = b"links";
/// File of the tree that no manifest has, made of the gitlinks.
const MODULES: &[u8] = b".modules";

#[derive(Debug, Default)]
struct TestDialect(Authors);

impl Dialect for TestDialect {
    const NAME: &'static str = "test";
    const METADATA: Option<MetadataKind> = None;
    const HAS_UNIQUE_COMMITS: bool = false;
    const READS_COPIES: bool = true;
    const EDITS_TREES: bool = true;

    fn set_authors(&mut self, authors: Authors) {
        self.0 = authors;
    }

    fn write_commit(
        &mut self,
        CommitInput { changeset, tree, parents, .. }: &CommitInput<'_>,
        history: &dyn ChangesetHistory,
        out: &mut Vec<u8>,
    ) -> Result<bool, Unreadable> {
        if changeset.extras().any(|(key, _)| key == SKIPPED) {
            return Ok(false);
        }
        let mut lines = vec![[b"tree ", &hex(tree.as_bytes())[..]].concat()];
        let restarts = changeset.extras().any(|(key, _)| key == RESTART);
        for parent in parents.iter().filter(|_| !restarts) {
            // the commit of the nearest ancestor with a commit
            let mut ancestors = vec![*parent];
            while let Some(ancestor) = ancestors.pop() {
                match ancestor.commit {
                    Some(oid) => lines.push([b"parent ", &hex(oid.as_bytes())[..]].concat()),
                    None => ancestors.extend(history.ancestor(&ancestor.node)?.1),
                }
            }
        }
        let user = self.0.get(changeset.user).map_or(&b"A <a@x>"[..], Vec::as_slice);
        lines.extend([&b"author "[..], b"committer "].map(|it| [it, user, b" 1 +0000"].concat()));
        for copy in history.copies()? {
            lines.push([b"copy ", &*copy.source, b" to ", &*copy.path].concat());
        }
        *out = [lines.join(&b'\n'), b"\n\n".to_vec(), changeset.description.to_vec()].concat();
        Ok(true)
    }

    fn is_edited(path: &[u8]) -> bool {
        path == LINKS
    }

    fn edit_tree(
        &mut self,
        _changes: &[FileChange<'_>],
        before: Option<&dyn Files>,
        files: &dyn Files,
    ) -> Result<ManifestEdits, Unreadable> {
        let removed = match before {
            Some(before) => links(before)?.into_keys().collect(),
            None => Vec::new(),
        };
        let added = links(files)?;
        let text = files.content(LINKS)?.filter(|_| !added.is_empty());
        let mut entries: BTreeMap<_, _> = removed.into_iter().map(|path| (path, None)).collect();
        entries
            .extend(added.into_iter().map(|(path, oid)| (path, Some(EditedEntry::Gitlink(oid)))));
        entries.insert(LINKS.to_vec(), None);
        entries.insert(MODULES.to_vec(), text.map(|text| EditedEntry::Blob(Mode::FILE, text)));
        let edits = entries.into_iter().map(|(path, entry)| TreeEdit { path, entry });
        Ok(ManifestEdits { edits: edits.collect(), watched: Vec::new() })
    }

    fn judge(_content: &[u8]) -> JudgedCommit<'_> {
        JudgedCommit::default()
    }

    fn changeset(_content: &[u8], _made: &ChangesetInput<'_>) -> Option<Vec<u8>> {
        None
    }
}

/// The gitlinks of a manifest.
fn links(files: &dyn Files) -> Result<BTreeMap<Vec<u8>, Oid>, Unreadable> {
    let text = files.content(LINKS)?.unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let link = |line: &[u8]| {
        let (path, digits) = line.split_at(line.len() - 41);
        let id = Node::from_hex(&digits[1..]).expect("an id");
        (path.to_vec(), Oid::from_bytes(*id.as_bytes()))
    };
    Ok(lines.map(link).collect())
}

/// Exports `changesets` at once, and one by one, and returns the commits of both.
fn exported<D: Dialect>(changesets: &[WrittenChangeset]) -> [(Repository, Vec<Option<Oid>>); 2] {
    let mut whole = Repository::new();
    whole.export_as::<D>(changesets).expect("is converted");
    let mut parts = Repository::new();
    for end in 1..=changesets.len() {
        parts.export_as::<D>(&changesets[..end]).expect("is converted");
    }
    [whole, parts].map(|repository| {
        let commits = repository.commits();
        (repository, commits)
    })
}

fn object(repository: &Repository, kind: ObjectKind, oid: &Oid) -> Vec<u8> {
    let packs = parallel::Directory::open(&repository.path("packs")).expect("is there");
    let objects = Objects::open(&packs, 1 << 20).expect("has packs");
    objects.read(kind, oid).expect("can be read").expect("is there")
}

/// The headers of a commit, by their names.
fn headers(repository: &Repository, commit: &Oid) -> BTreeMap<String, String> {
    let content = String::from_utf8(object(repository, ObjectKind::Commit, commit));
    let content = content.expect("ascii");
    let lines = content.split("\n\n").next().unwrap_or_default().lines();
    lines.filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.into(), b.into())).collect()
}

fn entries(repository: &Repository, commit: &Oid) -> Vec<(Mode, String)> {
    let digits = &headers(repository, commit)["tree"];
    let oid = Node::from_hex(digits.as_bytes()).expect("an id");
    let content = object(repository, ObjectKind::Tree, &Oid::from_bytes(*oid.as_bytes()));
    let entries = stored_entries(&TreeForm::GIT, &content).expect("a tree");
    let named = entries.into_iter().map(|entry| (entry.mode, entry.name.to_vec()));
    named.map(|(mode, name)| (mode, String::from_utf8(name).expect("ascii"))).collect()
}

#[test]
fn changesets_without_a_commit_are_passed_over() {
    let mut changesets =
        [changeset(&[("a", "1")]), changeset(&[("a", "2")]), changeset(&[("a", "3")])];
    changesets[1].extra = "skip:1".into();
    for (repository, commits) in exported::<TestDialect>(&changesets) {
        let [Some(first), None, Some(last)] = commits[..] else { panic!("{commits:?}") };
        assert_eq!(headers(&repository, &last)["parent"], first.to_string());
    }
}

#[test]
fn two_changesets_may_have_one_commit() {
    let same = changeset(&[("a", "1")]);
    let skipped = WrittenChangeset { extra: "skip:1".into(), ..same.clone() };
    let again = WrittenChangeset { extra: "restart:1".into(), ..same.clone() };
    for (_, commits) in exported::<TestDialect>(&[same, skipped, again]) {
        let [Some(first), None, Some(last)] = commits[..] else { panic!("{commits:?}") };
        assert_eq!(first, last);
    }
}

#[test]
fn copies_are_those_of_the_files_of_a_changeset() {
    let copied = "\u{1}\ncopy: a\ncopyrev: 0000000000000000000000000000000000000000\n\u{1}\n1";
    let changesets = [
        changeset(&[("a", "1")]),
        changeset(&[("a", "1"), ("b", copied)]),
        changeset(&[("a", "2"), ("b", copied)]),
    ];
    for (repository, commits) in exported::<TestDialect>(&changesets) {
        let all = commits.iter().flatten().map(|commit| headers(&repository, commit));
        let found: Vec<_> = all.map(|headers| headers.get("copy").cloned()).collect();
        assert_eq!(found, [None, Some("a to b".into()), None]);
    }
}

#[test]
fn users_have_the_names_of_the_request() {
    let mut repository = Repository::new();
    let changesets = [changeset(&[("a", "1")]), changeset(&[("a", "2")])];
    repository.export_as::<TestDialect>(&changesets[..1]).expect("is converted");
    repository.authors = Authors::from([(b"me".into(), b"B <b@x>".into())]);
    repository.export_as::<TestDialect>(&changesets).expect("is converted");
    let all = repository.commits();
    let all = all.iter().flatten().map(|commit| headers(&repository, commit)["author"].clone());
    assert_eq!(all.collect::<Vec<_>>(), ["A <a@x> 1 +0000", "B <b@x> 1 +0000"]);
}

#[test]
fn trees_have_the_edits_of_the_dialect() {
    let link = format!("sub {}\n", "12".repeat(20));
    let changesets = [
        changeset(&[("a", "1"), ("links", &link)]),
        changeset(&[("a", "2"), ("links", &link)]),
        changeset(&[("a", "2"), ("links", "")]),
        changeset(&[("a", "3")]),
    ];
    let file = |name: &str| (Mode::FILE, name.to_owned());
    let edited = [file(".modules"), file("a"), (Mode::GITLINK, "sub".to_owned())];
    for (repository, commits) in exported::<TestDialect>(&changesets) {
        let trees = commits.iter().flatten().map(|commit| entries(&repository, commit));
        let trees: Vec<_> = trees.collect();
        assert_eq!(trees, [&edited[..], &edited[..], &[file("a")][..], &[file("a")][..]]);
    }
}

#[test]
fn lists_of_submodules_are_inherited() {
    let sub = "sub = [git]u\n";
    let state = format!("{} sub\n", "12".repeat(20));
    let with = |files: &[(&str, &str)]| {
        changeset(&[&[(".hgsub", sub), (".hgsubstate", &state)], files].concat())
    };
    let changesets = [
        with(&[("a", "1"), (".git/config", "x")]),
        changeset(&[("a", "1")]),
        changeset(&[("a", "2"), ("sub/b", "1")]),
        with(&[("a", "3"), ("sub/b", "1")]),
        with(&[("a", "3")]),
        changeset(&[("a", "3"), ("sub", "1")]),
        changeset(&[]),
    ];
    let file = |name: &str| (Mode::FILE, name.to_owned());
    let (list, link) = (file(".gitmodules"), (Mode::GITLINK, "sub".to_owned()));
    let directory = (Mode::DIRECTORY, "sub".to_owned());
    let expected = [
        vec![list.clone(), file("a"), link.clone()],
        vec![list.clone(), file("a")],
        vec![list.clone(), file("a"), directory.clone()],
        vec![list.clone(), file("a"), directory],
        vec![list.clone(), file("a"), link],
        vec![list.clone(), file("a"), file("sub")],
        vec![list],
    ];
    for (repository, commits) in exported::<HgGit>(&changesets) {
        let trees = commits.iter().flatten().map(|commit| entries(&repository, commit));
        assert_eq!(trees.collect::<Vec<_>>(), expected);
    }
}
