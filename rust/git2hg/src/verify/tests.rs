//! Conversions with a git in memory, and changegroups that differ from the pushed commits.

use std::fs::File;
use std::os::unix::fs::FileExt;

use changegroup::GroupVersion;
use dialect::{Cinnabar, Reason};
use gitpack::tree::Mode;
use gitpack::{ObjectKind, Oid};
use revlog::{Node, RevlogKind};

use crate::convert::tests::with_request;
use crate::fakegit::Git;
use crate::read::trees::GitTrees;
use crate::verify::{Fault, verify};
use crate::{Conversion, ConversionPipes, convert};

/// Properties in which a history may differ.
#[derive(Clone, Copy)]
struct Variant {
    content: &'static str,
    mode: Mode,
    name: &'static str,
    author: &'static str,
    message: &'static str,
    escaped: &'static str,
    swaps_parents: bool,
}

const PLAIN: Variant = Variant {
    content: "content\n",
    mode: Mode::FILE,
    name: "name",
    author: "A <a@x> 5 +0100",
    message: "message\n",
    escaped: "\x01\nescaped",
    swaps_parents: false,
};

/// Four commits. The second and its descendants depend on the variant.
fn history(git: &Git, variant: Variant) -> Vec<Oid> {
    let blob = |text: &str| git.add(ObjectKind::Blob, text.as_bytes());
    let long = blob(&"a line\n".repeat(40));
    let below = git.tree(&[(Mode::EXECUTABLE, "run", long)]);
    let entries = [(Mode::FILE, "a", blob("a\n")), (Mode::DIRECTORY, "d", below)];
    let root = git.commit(git.tree(&entries), &[], PLAIN.author, "root\n");
    let mut entries = entries.to_vec();
    entries.push((Mode::FILE, "e", blob(variant.escaped)));
    entries.push((variant.mode, variant.name, blob(variant.content)));
    entries.push((Mode::EXECUTABLE, "zcopy", long));
    let second = git.commit(git.tree(&entries), &[root], variant.author, variant.message);
    let other = git.tree(&[(Mode::FILE, "a", blob("other\n")), (Mode::DIRECTORY, "d", below)]);
    let other = git.commit(other, &[root], PLAIN.author, "other\n");
    entries[0].2 = blob("a\nother\n");
    let mut parents = [second, other];
    if variant.swaps_parents {
        parents.reverse();
    }
    let merge = git.commit(git.tree(&entries), &parents, PLAIN.author, "merge\n");
    vec![root, second, other, merge]
}

/// Conversion with the file that it has written.
struct Converted {
    git: Git,
    place: tempfile::TempDir,
    out: File,
    version: GroupVersion,
    made: Conversion,
}

impl Converted {
    fn of(git: Git, commits: &[Oid], version: GroupVersion) -> Self {
        let place = tempfile::tempdir().expect("is made");
        let out = tempfile::tempfile().expect("is made");
        let listed = git.listed(commits);
        let pipes = ConversionPipes { commits: &*listed, trees: git.pipes(), blobs: git.pipes() };
        let made = with_request(&place, version, |request| {
            convert::<Cinnabar, _, _>(pipes, request, &out, &|_, _| false).expect("is converted")
        });
        Self { git, place, out, version, made }
    }

    fn check(&self, out: &File, expected: &[(Oid, Node)]) -> Option<Fault> {
        let (requests, answers) = self.git.pipes();
        let trees = GitTrees::new(requests, answers, 1000);
        with_request(&self.place, self.version, |request| {
            let manifest = request.store.open(RevlogKind::Manifest).expect("is empty");
            verify::<Cinnabar>((out, 0), (request, &manifest), &[], &trees, expected, &|_, _| false)
                .expect("is read")
        })
    }
}

#[test]
fn what_was_converted_comes_back() {
    for version in [GroupVersion::V02, GroupVersion::V03] {
        let git = Git::default();
        let commits = history(&git, PLAIN);
        let converted = Converted::of(git, &commits, version);
        assert_eq!(converted.made.refused, []);
        let made: Vec<Oid> = converted.made.changesets.iter().map(|(oid, _)| *oid).collect();
        assert_eq!(made, commits);
        assert_eq!(converted.check(&converted.out, &converted.made.changesets), None);
    }
}

/// A bug of the conversion makes a sound changegroup of other commits. The changegroup of another
/// history stands for it.
#[test]
fn a_sound_changegroup_of_other_commits_is_found() {
    for wrong in [
        Variant { content: "other\n", ..PLAIN },
        Variant { content: "", ..PLAIN },
        Variant { mode: Mode::EXECUTABLE, ..PLAIN },
        Variant { mode: Mode::SYMLINK, ..PLAIN },
        Variant { name: "nam", ..PLAIN },
        Variant { author: "A <a@x> 5 +0200", ..PLAIN },
        Variant { author: "A  <a@x> 5 +0100", ..PLAIN },
        Variant { message: "message", ..PLAIN },
        Variant { escaped: "escaped", ..PLAIN },
        Variant { swaps_parents: true, ..PLAIN },
    ] {
        let git = Git::default();
        let pushed = history(&git, PLAIN);
        let converted = Converted::of(git.clone(), &history(&git, wrong), GroupVersion::V02);
        let nodes = converted.made.changesets.iter().map(|(_, node)| *node);
        let expected: Vec<_> = pushed.iter().copied().zip(nodes).collect();
        let fault = converted.check(&converted.out, &expected).expect("is found");
        let first = if wrong.swaps_parents { pushed[3] } else { pushed[1] };
        assert_eq!(fault.oid, Some(first), "{fault:?}");
        assert!(fault.message.starts_with("it is exported as"), "{fault:?}");
    }
}

#[test]
fn no_byte_may_be_another() {
    for version in [GroupVersion::V02, GroupVersion::V03] {
        let git = Git::default();
        let commits = history(&git, PLAIN);
        let converted = Converted::of(git, &commits, version);
        let len = converted.out.metadata().expect("is open").len();
        let mut bytes = vec![0; usize::try_from(len).expect("is short")];
        converted.out.read_exact_at(&mut bytes, 0).expect("is there");
        let spoilt = tempfile::tempfile().expect("is made");
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            spoilt.write_all_at(&bytes, 0).expect("has room");
            let fault = converted.check(&spoilt, &converted.made.changesets);
            assert!(fault.is_some(), "byte {at} of {}", bytes.len());
        }
        spoilt.write_all_at(&bytes, 0).expect("has room");
        assert_eq!(converted.check(&spoilt, &converted.made.changesets), None);
        spoilt.set_len(len - 1).expect("is open");
        assert!(converted.check(&spoilt, &converted.made.changesets).is_some());
    }
}

#[test]
fn a_path_deeper_than_exports_allow_is_refused_as_a_path() {
    let git = Git::default();
    let blob = git.add(ObjectKind::Blob, b"x");
    let mut tree = git.tree(&[(Mode::FILE, "a", blob)]);
    for depth in 1..=2050 {
        tree = git.tree(&[(Mode::DIRECTORY, "d", tree)]);
        let commits = [git.commit(tree, &[], PLAIN.author, "deep\n")];
        if depth < 2047 {
            continue;
        }
        let made = Converted::of(git.clone(), &commits, GroupVersion::V02).made;
        let reasons: Vec<_> = made.refused.iter().map(|refusal| refusal.reason).collect();
        let expected = if depth > 2048 { &[Reason::Path][..] } else { &[] };
        assert_eq!(reasons, expected, "{depth}");
    }
}

#[test]
fn branches_from_old_commits_come_back() {
    let git = Git::default();
    let contents: Vec<Oid> =
        ["one\n", "two\n"].map(|text| git.add(ObjectKind::Blob, text.as_bytes())).into();
    let names: Vec<String> = (100..400).map(|number| format!("file{number}")).collect();
    let mut entries: Vec<_> =
        names.iter().map(|name| (Mode::FILE, name.as_str(), contents[0])).collect();
    let (mut commits, mut trees) = (Vec::new(), Vec::new());
    for at in 0..250 {
        entries[at].2 = contents[1];
        let above: Vec<Oid> = commits.last().copied().into_iter().collect();
        trees.push(entries.clone());
        commits.push(git.commit(git.tree(&entries), &above, PLAIN.author, "next\n"));
    }
    // the cache has only the newest texts
    for at in [3, 98, 99, 100, 150, 198, 199, 249] {
        trees[at][299].2 = contents[1];
        commits.push(git.commit(git.tree(&trees[at]), &[commits[at]], PLAIN.author, "branch\n"));
    }
    let converted = Converted::of(git, &commits, GroupVersion::V02);
    assert_eq!(converted.made.refused, []);
    assert_eq!(converted.made.changesets.len(), commits.len());
}
