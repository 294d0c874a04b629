//! Conversions of commits of a git in memory, into an empty store.

use std::fs::File;

use changegroup::GroupVersion;
use dialect::{Cinnabar, ImportSettings, Reason};
use gitpack::tree::Mode;
use gitpack::{ObjectKind, Oid};
use parallel::Directory;
use revlog::{Encoding, Store};

use revlog::manifest::MAX_DEPTH;

use crate::fakegit::Git;
use crate::judge::tree::LONGEST_PATH;
use crate::{
    AtLimit, Conversion, ConversionPipes, ConversionRequest, ConversionStage, Error, Finding,
    Result, convert, survey,
};

const AUTHOR: &str = "A <a@x> 5 +0100";

/// Does `work` with a request for an empty store, and little memory.
pub(crate) fn with_request<T>(
    place: &tempfile::TempDir,
    version: GroupVersion,
    work: impl FnOnce(&ConversionRequest<'_>) -> T,
) -> T {
    let store = Store::new(place.path(), Encoding::DotEncode);
    let dir = Directory::open(place.path()).expect("is there");
    let memory_bytes = 1 << 20;
    let most_file_bytes = u64::MAX;
    work(&ConversionRequest {
        store: &store,
        known: &[],
        packs: None,
        verifies: false,
        version,
        dir: &dir,
        memory_bytes,
        most_file_bytes,
        branch: None,
        round_trip: true,
        import: ImportSettings::default(),
        is_exact: false,
        at_limit: AtLimit::Fail,
    })
}

/// Result of a conversion whose request is edited by `change`, and the number of bytes written.
fn converted(
    git: &Git,
    commits: &[Oid],
    change: impl FnOnce(ConversionRequest<'_>) -> ConversionRequest<'_>,
) -> (Result<Conversion>, u64) {
    let place = tempfile::tempdir().expect("is made");
    let out = tempfile::tempfile().expect("is made");
    let made = with_request(&place, GroupVersion::V02, |request| {
        let request = change(ConversionRequest { ..*request });
        let listed = git.listed(commits);
        let pipes = ConversionPipes { commits: &*listed, trees: git.pipes(), blobs: git.pipes() };
        convert::<Cinnabar, _, _>(pipes, &request, &out, &|_, _| false)
    });
    (made, out.metadata().expect("is open").len())
}

/// A chain of `count` commits with one file each, called `a`.
fn chain(git: &Git, count: usize, content: impl Fn(usize) -> Vec<u8>) -> Vec<Oid> {
    let mut commits: Vec<Oid> = Vec::with_capacity(count);
    for number in 0..count {
        let blob = git.add(ObjectKind::Blob, &content(number));
        let parents = &commits[number.saturating_sub(1)..];
        let tree = git.tree(&[(Mode::FILE, "a", blob)]);
        commits.push(git.commit(tree, parents, AUTHOR, &format!("{number}\n")));
    }
    commits
}

fn refused(made: &Conversion) -> Vec<(Oid, Reason, String)> {
    let detail = |detail: &[u8]| String::from_utf8_lossy(detail).into_owned();
    made.refused
        .iter()
        .map(|refusal| (refusal.oid, refusal.reason, detail(&refusal.detail)))
        .collect()
}

#[test]
fn objects_in_packs_are_read_from_there() {
    for memory_bytes in [1 << 20, 1 << 24] {
        let git = Git::default();
        let commits = chain(&git, 300, |number| vec![b'x'; number * 20]);
        let (whole, len) =
            converted(&git, &commits, |request| ConversionRequest { memory_bytes, ..request });
        let place = tempfile::tempdir().expect("is made");
        let packs = Directory::open(place.path()).expect("is there");
        git.pack(&packs);
        let out = tempfile::tempfile().expect("is made");
        let made = with_request(&place, GroupVersion::V02, |request| {
            let request = ConversionRequest { memory_bytes, packs: Some(&packs), ..*request };
            let listed = git.listed(&commits);
            let pipes =
                ConversionPipes { commits: &*listed, trees: git.pipes(), blobs: git.pipes() };
            convert::<Cinnabar, _, _>(pipes, &request, &out, &|_, _| false)
        });
        let [whole, made] = [whole, made].map(|it| it.expect("is converted").changesets);
        let other = out.metadata().expect("is open").len();
        assert_eq!((made.len(), made, other), (300, whole, len));
    }
}

/// Ten trees that name ten thousand million files. A judge reads each tree once, so a refused
/// commit before them is reported.
#[test]
fn trees_that_name_more_files_than_there_is_memory_for_are_refused() {
    let git = Git::default();
    let blob = git.add(ObjectKind::Blob, b"x");
    let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let files: Vec<_> = names.iter().map(|name| (Mode::FILE, &**name, blob)).collect();
    let mut tree = git.tree(&files);
    for _level in 1..10 {
        let below: Vec<_> = names.iter().map(|name| (Mode::DIRECTORY, &**name, tree)).collect();
        tree = git.tree(&below);
    }
    let signed = git.commit(Oid::EMPTY_TREE, &[], "A <a@x> 5 +0060", "date\n");
    let bomb = git.commit(tree, &[], AUTHOR, "bomb\n");
    let made = converted(&git, &[bomb], |request| request).0;
    assert!(matches!(made, Err(Error::TooManyFiles(oid)) if oid == bomb), "{made:?}");
    let made = converted(&git, &[signed, bomb], |request| request).0.expect("is judged");
    let reasons: Vec<_> =
        made.refused.iter().map(|refusal| (refusal.oid, refusal.reason)).collect();
    assert_eq!(reasons, [(signed, Reason::Date)]);
}

/// Two trees that alternate: each commit changes few enough files, but each time they are new
/// revisions.
#[test]
fn more_revisions_than_there_is_memory_for_are_refused() {
    let git = Git::default();
    let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let mut commits: Vec<Oid> = Vec::new();
    for number in 0..20 {
        let blob = git.add(ObjectKind::Blob, if number % 2 == 0 { b"even" } else { b"odd" });
        let mut files: Vec<_> = names.iter().map(|name| (Mode::FILE, &**name, blob)).collect();
        files.sort_unstable_by_key(|(_, name, _)| *name);
        let parents = &commits[commits.len().saturating_sub(1)..];
        commits.push(git.commit(git.tree(&files), parents, AUTHOR, "some\n"));
    }
    let (made, _) =
        converted(&git, &commits, |request| ConversionRequest { memory_bytes: 0, ..request });
    let is_one = |oid| commits.iter().position(|commit| *commit == oid) == Some(11);
    assert!(matches!(made, Err(Error::TooManyRevisions(oid)) if is_one(oid)), "{made:?}");

    // unless the commits before them are enough
    let (made, _) = converted(&git, &commits, |request| ConversionRequest {
        memory_bytes: 0,
        at_limit: AtLimit::Stop,
        ..request
    });
    let made = made.expect("is converted");
    let made: Vec<_> = made.changesets.iter().map(|(oid, _)| *oid).collect();
    assert_eq!(made, commits[..12]);
}

/// Windows that exceed the memory are split.
#[test]
fn many_large_commits_take_several_turns() {
    let git = Git::default();
    let mut commits: Vec<Oid> = Vec::new();
    for number in 0..40 {
        let blob = git.add(ObjectKind::Blob, format!("{number}\n").as_bytes());
        let names: Vec<String> = (0..200).map(|name| format!("{name:03}")).collect();
        let files: Vec<_> = names.iter().map(|name| (Mode::FILE, &**name, blob)).collect();
        let tree = git.tree(&files);
        let parents = &commits[commits.len().saturating_sub(1)..];
        commits.push(git.commit(tree, parents, AUTHOR, "all\n"));
    }
    let made = converted(&git, &commits, |request| request).0.expect("is converted");
    assert_eq!(made.refused, []);
    let oids: Vec<Oid> = made.changesets.iter().map(|(oid, _)| *oid).collect();
    assert_eq!(oids, commits);
}

#[test]
fn all_that_is_refused_is_told_and_nothing_is_written() {
    let git = Git::default();
    let blob = git.add(ObjectKind::Blob, b"x");
    let mut commits = chain(&git, 4, |_| b"x".to_vec());
    let odd = git.tree(&[(Mode::FILE, "a", blob), (Mode::GITLINK, "s", blob)]);
    let below = git.tree(&[(Mode::DIRECTORY, "b", odd)]);
    commits.push(git.commit(below, &commits[3..], AUTHOR, "submodule\n"));
    commits.push(git.commit(odd, &commits[4..], AUTHOR, "still there\n"));
    let plain = git.tree(&[(Mode::FILE, "a", blob)]);
    commits.push(git.commit(plain, &commits[5..], AUTHOR, "gone\n"));
    commits.push(git.commit(plain, &commits[..1], AUTHOR, "beside\n"));
    commits.push(git.commit(plain, &commits[..1], "<a@x> 5 +0100", "nameless\n"));
    let (made, len) = converted(&git, &commits, |request| request);
    let made = made.expect("is judged");
    assert_eq!(
        refused(&made),
        [
            (commits[4], Reason::Submodule, "b/s".to_owned()),
            (commits[5], Reason::Submodule, "s".to_owned()),
            (commits[6], Reason::Ancestor, String::new()),
            (commits[8], Reason::Identity, "<a@x> 5 +0100".to_owned()),
        ]
    );
    assert_eq!((made.changesets, len), (Vec::new(), 0));
}

/// Prefetched commits are judged after a content that is too long.
#[test]
fn what_was_read_ahead_is_judged_after_a_refusal() {
    const COUNT: usize = 3000;
    let git = Git::default();
    let content = |number: usize| vec![b'x'; if number == 100 { 9 } else { number % 2 }];
    let commits = chain(&git, COUNT, content);
    let (made, len) =
        converted(&git, &commits, |request| ConversionRequest { most_file_bytes: 8, ..request });
    let made = made.expect("is judged");
    let mut expected = vec![(commits[100], Reason::FileSize, "a".to_owned())];
    let after = commits[101..].iter();
    expected.extend(after.map(|oid| (*oid, Reason::Ancestor, String::new())));
    assert_eq!(refused(&made), expected);
    assert_eq!((made.changesets, len), (Vec::new(), 0));
}

/// The second window is read while the first one is converted, so its parents may be unknown yet.
#[test]
fn windows_follow_each_other() {
    let git = Git::default();
    let commits = chain(&git, 3000, |number| number.to_string().into_bytes());
    let made = converted(&git, &commits, |request| request).0.expect("is converted");
    let made: Vec<Oid> = made.changesets.iter().map(|(oid, _)| *oid).collect();
    assert_eq!(made, commits);
}

/// Manifests with one node are sent once, whichever parent comes first.
#[test]
fn commits_with_the_same_files_share_a_manifest() {
    let git = Git::default();
    let blob = |text: &str| git.add(ObjectKind::Blob, text.as_bytes());
    let tree = |files: &[(&str, Oid)]| {
        let files: Vec<_> = files.iter().map(|(name, blob)| (Mode::FILE, *name, *blob)).collect();
        git.tree(&files)
    };
    let [first, one, two] = ["0", "1", "2"].map(blob);
    let start = git.commit(tree(&[("a", first), ("b", first)]), &[], AUTHOR, "start\n");
    let mut commits = vec![start];
    let mut add = |tree, parents: &[Oid], message| {
        commits.push(git.commit(tree, parents, AUTHOR, message));
        commits[commits.len() - 1]
    };
    let left = add(tree(&[("a", one), ("b", first)]), &[start], "left\n");
    let right = add(tree(&[("a", first), ("b", two)]), &[start], "right\n");
    for message in ["again\n", "and again\n"] {
        add(tree(&[("a", one), ("b", first)]), &[start], message);
    }
    let both = tree(&[("a", one), ("b", two)]);
    let evil = tree(&[("a", two), ("b", two), ("c", one)]);
    for merged in [both, evil] {
        for (parents, message) in
            [([left, right], "here\n"), ([right, left], "there\n"), ([left, right], "here, too\n")]
        {
            add(merged, &parents, message);
        }
    }
    for is_exact in [false, true] {
        let (made, _) =
            converted(&git, &commits, |request| ConversionRequest { is_exact, ..request });
        let made = made.expect("is converted");
        assert_eq!(made.refused, []);
        let oids: Vec<Oid> = made.changesets.iter().map(|(oid, _)| *oid).collect();
        assert_eq!(oids, commits);
    }
}

/// Lines of history with long manifests take turns, and are merged.
#[test]
fn long_manifests_may_wait_for_their_nodes() {
    const FILES: usize = 1200;
    const LINES: usize = 5;
    let git = Git::default();
    let names: Vec<String> = (0..FILES).map(|name| format!("{name:06}")).collect();
    let mut blobs = vec![vec![git.add(ObjectKind::Blob, b"x"); FILES]; LINES];
    let mut commits: Vec<Oid> = Vec::new();
    for number in 0..200 {
        let line = number * 7 % LINES;
        let text = number.to_string();
        blobs[line][number * 37 % FILES] = git.add(ObjectKind::Blob, text.as_bytes());
        let files: Vec<_> = names
            .iter()
            .zip(&blobs[line])
            .map(|(name, blob)| (Mode::FILE, &**name, *blob))
            .collect();
        let parent = |ago: usize| commits.get(commits.len().wrapping_sub(ago)).copied();
        let second = parent(1).filter(|_| number % 9 == 8);
        let parents: Vec<Oid> = parent(LINES).into_iter().chain(second).collect();
        commits.push(git.commit(git.tree(&files), &parents, AUTHOR, &text));
    }
    for memory_bytes in [1 << 20, 1 << 26] {
        let (made, _) =
            converted(&git, &commits, |request| ConversionRequest { memory_bytes, ..request });
        let oids = made.expect("is converted").changesets.into_iter().map(|(oid, _)| oid);
        assert_eq!(oids.collect::<Vec<Oid>>(), commits);
    }
}

/// A stopped conversion returns an error.
#[test]
fn a_conversion_can_be_stopped() {
    let git = Git::default();
    let commits = chain(&git, 600, |number| number.to_string().into_bytes());
    let (place, out) = (tempfile::tempdir(), tempfile::tempfile());
    let (place, out): (_, File) = (place.expect("is made"), out.expect("is made"));
    for wanted in [ConversionStage::Convert, ConversionStage::Write, ConversionStage::Verify] {
        let made = with_request(&place, GroupVersion::V02, |request| {
            let listed = git.listed(&commits);
            let (trees, blobs) = (git.pipes(), git.pipes());
            let pipes = ConversionPipes { commits: &*listed, trees, blobs };
            convert::<Cinnabar, _, _>(pipes, request, &out, &|stage, done| {
                stage == wanted && done > 300
            })
        });
        assert!(matches!(made, Err(Error::Cancelled)), "{wanted:?}: {made:?}");
    }
}

/// Trees with one rare property each, and a plain one.
fn hostile_trees(git: &Git) -> Vec<Oid> {
    let blob = git.add(ObjectKind::Blob, b"x");
    let file = |name: &str| git.tree(&[(Mode::FILE, name, blob)]);
    let below = |name: &str, tree| git.tree(&[(Mode::DIRECTORY, name, tree)]);
    let deep = |levels| (0..levels).fold(file("a"), |tree, _| below("d", tree));
    // a path of so many bytes, with directories of 99
    let long = |len: usize| {
        let tree = file(&"f".repeat(len % 100 + 1));
        (0..len / 100).fold(tree, |tree, _| below(&"d".repeat(99), tree))
    };
    let shared = long(5400);
    let trees = [
        deep(MAX_DEPTH),
        deep(MAX_DEPTH + 1),
        long(LONGEST_PATH - 1),
        long(LONGEST_PATH),
        file(&"f".repeat(LONGEST_PATH)),
        file(&"f".repeat(LONGEST_PATH + 1)),
        file(&"f".repeat(70_000)),
        // short enough by itself, but not below a directory
        shared,
        below(&"n".repeat(54), shared),
        below(&"n".repeat(55), shared),
        below("d", file(".hg")),
        file("\u{200c}"),
        below("d", file("\u{200c}")),
        git.tree(&[(Mode::GITLINK, "s", blob)]),
        below("d", git.tree(&[(Mode::GITLINK, "s", blob)])),
        below("d", blob),
        below("d", Oid::EMPTY_TREE),
        git.tree(&[(Mode::FILE, "b", blob), (Mode::FILE, "a", blob)]),
        // the first reason counts
        git.tree(&[(Mode::DIRECTORY, "d", deep(MAX_DEPTH)), (Mode::GITLINK, "s", blob)]),
        file("plain"),
    ];
    trees.to_vec()
}

#[test]
fn a_survey_and_a_conversion_refuse_the_same_commits() {
    let git = Git::default();
    let trees = hostile_trees(&git);
    let commit = |tree, parents: &[Oid]| git.commit(tree, parents, AUTHOR, "hostile\n");
    let mut histories: Vec<Vec<Oid>> = trees.iter().map(|tree| vec![commit(*tree, &[])]).collect();
    // all in a row; and each after a plain one, which gives the comparison a tree to start from
    let plain = commit(trees[trees.len() - 1], &[]);
    histories.extend(trees.iter().map(|tree| vec![plain, commit(*tree, &[plain])]));
    let mut row: Vec<Oid> = vec![plain];
    for tree in &trees {
        row.push(commit(*tree, &row[row.len() - 1..]));
    }
    histories.push(row);
    for commits in histories {
        let (made, _) = converted(&git, &commits, |request| ConversionRequest {
            memory_bytes: 8 << 20,
            ..request
        });
        let made = made.expect("is converted or judged");
        let (requests, answers) = git.pipes();
        let listed = git.listed(&commits);
        let found =
            survey::<Cinnabar>(false, &*listed, requests, answers, &|_| false).expect("is judged");
        let refused: Vec<_> =
            made.refused.iter().map(|refusal| (refusal.oid, refusal.reason)).collect();
        assert_eq!(found.refused().collect::<Vec<_>>(), refused);
        for Finding { first, detail, .. } in found.findings() {
            let same = made.refused.iter().find(|refusal| refusal.oid == *first);
            assert_eq!(same.map(|refusal| &refusal.detail), Some(detail));
        }
    }
}
