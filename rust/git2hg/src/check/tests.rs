//! A conversion whose git is made up, and changegroups that are not what was pushed.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use changegroup::GroupVersion;
use gitpack::tree::{Mode, push_entry};
use gitpack::{ObjectKind, Oid, object_header};
use revlog::{Encoding, Node, RevlogKind, Store};
use sha1lanes::{Message, digest_one};
use workshop::Directory;

use crate::check::{Fault, check};
use crate::convert::gittrees::GitTrees;
use crate::{Conversion, ConversionPipes, ConversionRequest, Error, Reason, convert};

/// Objects, as `git cat-file --batch-command` tells them.
#[derive(Clone, Default)]
struct Git(Rc<RefCell<GitState>>);

#[derive(Default)]
struct GitState {
    objects: HashMap<Oid, Vec<u8>>,
    asked: Vec<u8>,
}

impl Git {
    fn add(&self, kind: ObjectKind, content: &[u8]) -> Oid {
        let head = object_header(kind, content.len() as u64);
        let oid = Oid::from_bytes(digest_one(Message { head: &head, body: content }));
        let mut answer = format!("{oid} {} {}\n", kind.name(), content.len()).into_bytes();
        answer.extend_from_slice(content);
        answer.push(b'\n');
        self.0.borrow_mut().objects.insert(oid, answer);
        oid
    }

    fn tree(&self, entries: &[(Mode, &str, Oid)]) -> Oid {
        let mut content = Vec::new();
        for (mode, name, oid) in entries {
            push_entry(&mut content, *mode, name.as_bytes(), oid);
        }
        self.add(ObjectKind::Tree, &content)
    }

    fn commit(&self, tree: Oid, parents: &[Oid], author: &str, message: &str) -> Oid {
        let parents: Vec<String> =
            parents.iter().map(|parent| format!("parent {parent}\n")).collect();
        let rest = format!("author {author}\ncommitter C <c@x> 9 -0100\n\n{message}");
        let text = format!("tree {tree}\n{}{rest}", parents.concat());
        self.add(ObjectKind::Commit, text.as_bytes())
    }

    fn pipes(&self) -> (Requests, Answers) {
        let answers = Answers::default();
        (Requests(self.clone(), Rc::clone(&answers.0)), answers)
    }
}

struct Requests(Git, Rc<RefCell<VecDeque<u8>>>);

#[derive(Default)]
struct Answers(Rc<RefCell<VecDeque<u8>>>);

impl Write for Requests {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.0.borrow_mut();
        state.asked.extend_from_slice(bytes);
        let asked = String::from_utf8(std::mem::take(&mut state.asked)).expect("is ascii");
        let (whole, rest) = asked.rsplit_once('\n').unwrap_or(("", &asked));
        for line in whole.lines().filter(|line| *line != "flush") {
            let digits = line.strip_prefix("contents ").expect("is the only command");
            let oid = Node::from_hex(digits.as_bytes()).expect("is an id");
            let answer = &state.objects[&Oid::from_bytes(*oid.as_bytes())];
            self.1.borrow_mut().extend(answer);
        }
        state.asked = rest.as_bytes().to_vec();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Answers {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(out)
    }
}

/// What a history may have in another way.
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

/// Four commits, of which the second and its descendants depend on the variant.
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

/// A conversion, and the file that it has written.
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
        let listed: Vec<u8> =
            commits.iter().flat_map(|oid| git.0.borrow().objects[oid].clone()).collect();
        let pipes = ConversionPipes { commits: &*listed, trees: git.pipes(), blobs: git.pipes() };
        let made = with_request(&place, version, |request| {
            convert(pipes, request, &out, &|_, _| false).expect("is converted")
        });
        Self { git, place, out, version, made }
    }

    fn check(&self, out: &File, expected: &[(Oid, Node)]) -> Option<Fault> {
        let (requests, answers) = self.git.pipes();
        let mut trees = GitTrees::new(requests, answers, 1000);
        with_request(&self.place, self.version, |request| {
            let manifest = request.store.open(RevlogKind::Manifest).expect("is empty");
            check((out, 0), (request, &manifest), &[], &mut trees, expected, &|_, _| false)
                .expect("is read")
        })
    }
}

fn with_request<T>(
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
        version,
        dir: &dir,
        memory_bytes,
        most_file_bytes,
        branch: None,
    })
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

/// A forward path with a bug makes a sound changegroup of other commits. So that of another history
/// stands for it.
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
        assert!(fault.what.starts_with("it is exported as"), "{fault:?}");
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
        let reasons: Vec<_> = made.refused.iter().map(|it| it.reason).collect();
        let expected = if depth > 2048 { &[Reason::Path][..] } else { &[] };
        assert_eq!(reasons, expected, "{depth}");
    }
}

/// Ten trees that name ten thousand million files. Which commits are refused is told as far as that
/// needs no look at all of them.
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
    let bomb = git.commit(tree, &[], PLAIN.author, "bomb\n");
    for commits in [&[bomb][..], &[signed, bomb]] {
        let place = tempfile::tempdir().expect("is made");
        let listed: Vec<u8> =
            commits.iter().flat_map(|oid| git.0.borrow().objects[oid].clone()).collect();
        let pipes = ConversionPipes { commits: &*listed, trees: git.pipes(), blobs: git.pipes() };
        let out = tempfile::tempfile().expect("is made");
        let made = with_request(&place, GroupVersion::V02, |request| {
            convert(pipes, request, &out, &|_, _| false)
        });
        assert!(matches!(made, Err(Error::TooManyFiles(oid)) if oid == bomb), "{made:?}");
    }
}

/// Two trees that alternate: each commit changes few enough files, but each time they are new revisions.
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
        commits.push(git.commit(git.tree(&files), parents, PLAIN.author, "some\n"));
    }
    let place = tempfile::tempdir().expect("is made");
    let listed: Vec<u8> =
        commits.iter().flat_map(|oid| git.0.borrow().objects[oid].clone()).collect();
    let pipes = ConversionPipes { commits: &*listed, trees: git.pipes(), blobs: git.pipes() };
    let out = tempfile::tempfile().expect("is made");
    let made = with_request(&place, GroupVersion::V02, |request| {
        let request = &ConversionRequest { memory_bytes: 0, ..*request };
        convert(pipes, request, &out, &|_, _| false)
    });
    let is_one = |oid| commits.iter().position(|commit| *commit == oid) == Some(11);
    assert!(matches!(made, Err(Error::TooManyRevisions(oid)) if is_one(oid)), "{made:?}");
}

/// More commits than can be compared at once are compared in parts.
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
        commits.push(git.commit(tree, parents, PLAIN.author, "all\n"));
    }
    let made = Converted::of(git, &commits, GroupVersion::V02).made;
    assert_eq!(made.refused, []);
    let oids: Vec<Oid> = made.changesets.iter().map(|(oid, _)| *oid).collect();
    assert_eq!(oids, commits);
}

#[test]
fn all_that_is_refused_is_told_and_nothing_is_written() {
    let git = Git::default();
    let mut commits = history(&git, PLAIN);
    let blob = git.add(ObjectKind::Blob, b"x");
    let odd = git.tree(&[(Mode::FILE, "a", blob), (Mode::GITLINK, "s", blob)]);
    let below = git.tree(&[(Mode::DIRECTORY, "b", odd)]);
    commits.push(git.commit(below, &commits[3..], PLAIN.author, "submodule\n"));
    commits.push(git.commit(odd, &commits[4..], PLAIN.author, "still there\n"));
    let plain = git.tree(&[(Mode::FILE, "a", blob)]);
    commits.push(git.commit(plain, &commits[5..], PLAIN.author, "gone\n"));
    commits.push(git.commit(plain, &commits[..1], PLAIN.author, "beside\n"));
    commits.push(git.commit(plain, &commits[..1], "<a@x> 5 +0100", "nameless\n"));
    let converted = Converted::of(git, &commits, GroupVersion::V02);
    let refused = converted.made.refused.iter();
    let refused: Vec<_> =
        refused.map(|it| (it.oid, it.reason, String::from_utf8_lossy(&it.detail))).collect();
    assert_eq!(
        refused,
        [
            (commits[4], Reason::Submodule, "b/s".into()),
            (commits[5], Reason::Submodule, "s".into()),
            (commits[6], Reason::Ancestor, "".into()),
            (commits[8], Reason::Identity, "<a@x> 5 +0100".into()),
        ]
    );
    assert_eq!(converted.made.changesets, []);
    assert_eq!(converted.out.metadata().expect("is open").len(), 0);
}
