//! Trees read from the store, against the trees written to it.

use std::collections::BTreeMap;

use gitpack::tree::Mode;
use gitpack::{Deflater, Entry, PackWriter, Readers};
use proptest::prelude::*;

use super::*;
use crate::metadata::MANIFEST_TREES;
use crate::objects::collisions::CollisionCheck;
use crate::objects::directory::oid_of;
use crate::objects::history::number_components;
use crate::objects::object::Object;
use crate::objects::trees::Purpose;
use crate::read::changes::ChangeLog;
use crate::read::files::FileId;

/// Files with seed and mode; `None` removes a file.
type Files = BTreeMap<String, Option<(u8, usize)>>;

const MODES: [Mode; 3] = [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK];

fn files() -> impl Strategy<Value = Files> {
    let file = prop_oneof![3 => (0..20u8, 0..3usize).prop_map(Some), 1 => Just(None)];
    proptest::collection::btree_map("([ab]/){0,3}([c-e]|[ab]-x)", file, 1..40)
}

/// The number of the file with this seed, in any table.
fn number(files: &mut FileTable, names: &mut Names, seed: u8) -> FileId {
    let path = names.number(b"any");
    let oid = Oid::from_bytes([seed + 100; 20]);
    files.number(Node::from_bytes([seed + 1; 20]), path, |_| Some(oid))
}

/// A run: its tables, and the tree after some changes.
#[derive(Default)]
struct Run {
    names: Names,
    files: FileTable,
    tree: RootDirectory,
}

impl Run {
    /// Applies changes, and returns the new objects of both forms.
    fn apply(&mut self, changes: &Files) -> Vec<Object> {
        self.apply_as(changes, &[&TreeForm::GIT, &MANIFEST_TREES])
    }

    /// As [`Self::apply`], in these forms.
    fn apply_as(&mut self, changes: &Files, forms: &[&'static TreeForm]) -> Vec<Object> {
        let mut log = ChangeLog::default();
        for path in changes.keys() {
            log.number(path.as_bytes());
        }
        number_components(log.paths(), &mut self.names);
        let Self { names, files, tree } = self;
        let changes: Vec<_> = changes
            .iter()
            .map(|(path, file)| {
                let mut target = |(seed, mode): (u8, usize)| {
                    EntryTarget::File(number(files, names, seed), MODES[mode])
                };
                TreeChange { path: path.as_bytes(), target: file.map(&mut target) }
            })
            .collect();
        let mut replay = Replay::new(names);
        *tree = replay.apply(tree.as_ref(), &changes);
        let mut objects = Vec::new();
        for form in forms {
            let mut writer = TreeWriter::new(form, names, files, &CollisionCheck::Each);
            objects.append(&mut writer.write(&replay.made).expect("all have their blobs"));
        }
        objects
    }

    fn root_of_git(&self) -> Oid {
        oid_of(self.tree.as_ref(), Purpose::Git)
    }

    fn roots(&self) -> [Oid; 2] {
        [Purpose::Git, Purpose::Aside].map(|purpose| oid_of(self.tree.as_ref(), purpose))
    }
}

fn write(directory: &Directory, objects: Vec<Object>) {
    let pack = PackWriter::create(directory, Readers::BY_UMASK).expect("is writable");
    let mut pack = pack.without_sync();
    for Object { kind, oid, base, payload, .. } in objects {
        let mut stream = Vec::new();
        Deflater::new(1).deflate(&payload, &mut stream);
        let base = base.and_then(|base| pack.position(&base).expect("is readable"));
        let entry = base.map_or(Entry::Full(kind), |base| Entry::Delta { base });
        pack.add_new(oid, entry, payload.len() as u64, &stream).expect("is writable");
    }
    pack.seal().and_then(gitpack::SealedPack::publish).expect("is writable");
}

/// Reads the directory with these roots from the store.
fn read(directory: &Directory, [git, aside]: [Oid; 2], changes: &Files) -> Option<Run> {
    let mut run = Run::default();
    let objects = Objects::open(directory, MOST_TREE_BYTES).expect("is readable");
    let Run { names, files, .. } = &mut run;
    let mut trees = StoredTrees { objects, aside_form: &MANIFEST_TREES, names, files };
    let paths: Vec<_> = changes.keys().map(String::as_bytes).collect();
    run.tree = Some(trees.directory(git, Some(aside), &paths)?);
    Some(run)
}

/// Reads the directory without a tree of metadata.
fn read_alone(directory: &Directory, git: Oid, changes: &Files) -> Option<Run> {
    let mut run = Run::default();
    let objects = Objects::open(directory, MOST_TREE_BYTES).expect("is readable");
    let Run { names, files, .. } = &mut run;
    let mut trees = StoredTrees { objects, aside_form: &TreeForm::GIT, names, files };
    let paths: Vec<_> = changes.keys().map(String::as_bytes).collect();
    run.tree = Some(trees.directory(git, None, &paths)?);
    Some(run)
}

proptest! {
    #[test]
    fn changes_of_stored_trees_make_the_same_trees(
        first in files(),
        second in files(),
        third in files(),
    ) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let directory = Directory::open(dir.path()).expect("is there");
        let mut run = Run::default();
        let mut objects = run.apply(&first);
        objects.append(&mut run.apply(&second));
        write(&directory, objects);
        let roots = run.roots();
        if run.tree.is_none() {
            prop_assert!(read(&directory, roots, &third).is_none());
            return Ok(());
        }
        let mut next = read(&directory, roots, &third).expect("all is there");
        prop_assert_eq!(next.roots(), roots);
        let expected: Vec<_> = run.apply(&third).iter().map(|object| object.oid).collect();
        let objects = next.apply(&third);
        prop_assert_eq!(next.roots(), run.roots());
        let oids: Vec<_> = objects.iter().map(|object| object.oid).collect();
        prop_assert_eq!(oids, expected);
        prop_assert!(objects.iter().all(|object| object.base.is_none()));
    }
}

#[test]
fn trees_without_metadata_make_the_same_trees() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = Directory::open(dir.path()).expect("is there");
    let files = |paths: &[(&str, u8)]| -> Files {
        paths.iter().map(|(path, seed)| ((*path).to_owned(), Some((*seed, 0)))).collect()
    };
    let mut run = Run::default();
    write(&directory, run.apply(&files(&[("a/c", 1), ("a/d", 2), ("b/c", 3), ("e", 4)])));
    let changes = files(&[("a/c", 5), ("b/d", 6)]);
    let mut next = read_alone(&directory, run.roots()[0], &changes).expect("all is there");
    assert_eq!(next.root_of_git(), run.root_of_git());
    let new = next.apply_as(&changes, &[&TreeForm::GIT]);
    run.apply(&changes);
    assert_eq!(next.root_of_git(), run.root_of_git());
    assert_eq!(new.len(), 3);
}

#[test]
fn directories_that_do_not_change_are_not_read() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = Directory::open(dir.path()).expect("is there");
    let tree = |paths: &[&str]| -> Files {
        paths.iter().map(|path| ((*path).to_owned(), Some((1, 0)))).collect()
    };
    let mut run = Run::default();
    let mut objects = run.apply(&tree(&["a/w", "b/c/x", "b/d/y", "e"]));
    let tree_of = |path: &str, run: &Run| {
        let mut directory = run.tree.clone();
        for name in path.split('/') {
            let entries = &directory.as_ref().expect("is one").entries;
            let found = entries.find(&run.names, name.as_bytes(), true).expect("is there");
            directory = match &found.target {
                EntryTarget::TrackedDirectory(inner) => Some(Arc::clone(inner)),
                EntryTarget::File(..) | EntryTarget::Object(_) => None,
            };
        }
        oid_of(directory.as_ref(), Purpose::Git)
    };
    let gone = ["a", "b/d"].map(|path| tree_of(path, &run));
    objects.retain(|object| !gone.contains(&object.oid));
    write(&directory, objects);
    let mut next = read(&directory, run.roots(), &tree(&["b/c/z"])).expect("enough is there");
    let made = next.apply(&tree(&["b/c/z"]));
    run.apply(&tree(&["b/c/z"]));
    assert_eq!((next.roots(), made.len()), (run.roots(), 6));
    assert!(read(&directory, run.roots(), &tree(&["b/d/z"])).is_none());
}

#[test]
fn trees_of_different_files_are_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let directory = Directory::open(dir.path()).expect("is there");
    let mut runs = [Run::default(), Run::default()];
    for (run, name) in runs.iter_mut().zip(["a", "b"]) {
        write(&directory, run.apply(&Files::from([(name.to_owned(), Some((1, 0)))])));
    }
    let [[git, _], [_, aside]] = runs.map(|run| run.roots());
    assert!(read(&directory, [git, aside], &Files::new()).is_none());
}

#[test]
fn paths_in_few_directories_are_taken() {
    let taken = |paths: &[&str], most| {
        let mut changes = ChangeLog::default();
        for path in paths {
            changes.number(path.as_bytes());
        }
        changed_paths(changes.paths(), most).map(|paths| paths.len())
    };
    assert_eq!(taken(&["b", "a/b/c", "a/b/d", "a/e"], 3), Some(4));
    assert_eq!(taken(&["b", "a/b/c", "a/b/d", "a/e"], 2), None);
    assert_eq!(taken(&["a//b"], 9), None);
    assert_eq!(taken(&["/a"], 9), None);
    assert_eq!(taken(&[], 1), Some(0));
}
