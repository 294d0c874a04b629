//! Kept trees and trees made again, against trees made from scratch.

use std::collections::HashSet;

use gitpack::tree::Mode;
use gitpack::{Oid, delta};
use proptest::prelude::*;
use revlog::Node;

use super::*;
use crate::objects::collisions::CollisionCheck;
use crate::objects::directory::{EntryTarget, oid_of};
use crate::objects::history::number_components;
use crate::objects::object::Object;
use crate::objects::trees::{Purpose, TreeForm, TreeWriter};
use crate::read::files::{FileId, FileTable};
use crate::read::names::Names;

static NO_EDITS: TreeEdits = TreeEdits::NONE;

type Files = BTreeMap<String, u32>;

/// A manifest: its distance to its base, and its changes.
type Told = (usize, BTreeMap<String, Option<u32>>);

fn files() -> FileTable {
    let mut files = FileTable::default();
    let path = Names::default().number(b"any");
    for seed in 0..20u8 {
        let known = |_: &Node| Some(Oid::from_bytes([seed + 100; 20]));
        files.number(Node::from_bytes([seed + 1; 20]), path, known);
    }
    files
}

/// Manifests of files in three directories. One in ten has any earlier base.
fn manifests() -> impl Strategy<Value = Vec<Told>> {
    let back = prop_oneof![9 => 1..6_usize, 1 => 0..200_usize];
    let changes =
        proptest::collection::btree_map("[abc]/[a-f]", proptest::option::of(0..20u32), 1..4);
    proptest::collection::vec((back, changes), 1..160)
}

/// The base of each manifest, and the log of all changes.
fn logged(manifests: &[Told]) -> (Vec<Option<usize>>, ChangeLog) {
    let mut log = ChangeLog::default();
    let base_of = |(at, (back, _)): (usize, &Told)| at.checked_sub((*back).max(1));
    let bases: Vec<_> = manifests.iter().enumerate().map(base_of).collect();
    // in any order
    for (position, (_, changes)) in manifests.iter().enumerate().rev() {
        log.begin(position, bases[position].map_or(Base::Empty, Base::Position));
        for (path, file) in changes {
            let path = log.number(path.as_bytes());
            log.push(path, file.map(|file| (FileId(file), Mode::FILE)));
        }
    }
    (bases, log)
}

fn written(names: &Names, files: &FileTable, replay: &mut Replay<'_>) -> Vec<Object> {
    let made = std::mem::take(&mut replay.made);
    let written = TreeWriter::new(&TreeForm::GIT, names, files, &CollisionCheck::Each).write(&made);
    written.expect("blobs are known")
}

/// The roots, the objects in order, and the largest number of kept trees, with the limit `most`.
fn replayed(log: &ChangeLog, count: usize, most: usize) -> (Vec<Oid>, Vec<Object>, usize) {
    let (mut names, files) = (Names::default(), files());
    number_components(log.paths(), &mut names);
    let mut replay = Replay::new(&names);
    let mut states = States::new((log, &NO_EDITS), count, StartTrees::new(), most);
    let (mut roots, mut objects, mut longest) = (Vec::new(), Vec::new(), 0);
    for position in 0..count {
        let before = states.before(position, &mut replay);
        let changes: Vec<_> = changes_at(log, &NO_EDITS, position).collect();
        let root = replay.apply(before.as_ref(), &changes);
        states.keep(position, &root);
        objects.append(&mut written(&names, &files, &mut replay));
        roots.push(oid_of(root.as_ref(), Purpose::Git));
        longest = longest.max(states.kept.len());
    }
    assert!(states.kept.is_empty() && states.next_uses.is_empty(), "nothing is of use any more");
    (roots, objects, longest)
}

/// The root of each manifest, made from all its files.
fn from_scratch(log: &ChangeLog, manifests: &[Told], bases: &[Option<usize>]) -> Vec<Oid> {
    let (mut names, files) = (Names::default(), files());
    number_components(log.paths(), &mut names);
    let mut all: Vec<Files> = Vec::new();
    let roots = manifests.iter().zip(bases).map(|((_, changes), base)| {
        let mut own = base.map_or_else(Files::new, |base| all[base].clone());
        for (path, file) in changes {
            match file {
                Some(file) => own.insert(path.clone(), *file),
                None => own.remove(path),
            };
        }
        let mut replay = Replay::new(&names);
        let lines = own.iter().map(|(path, file)| TreeChange {
            path: path.as_bytes(),
            target: Some(EntryTarget::File(FileId(*file), Mode::FILE)),
        });
        let root = replay.apply(None, &lines.collect::<Vec<_>>());
        written(&names, &files, &mut replay);
        all.push(own);
        oid_of(root.as_ref(), Purpose::Git)
    });
    roots.collect()
}

/// Unpacks objects as a pack has them: the first of each id, after its base.
fn check_objects(objects: &[Object]) -> HashSet<Oid> {
    let mut contents: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
    for object in objects {
        if contents.contains_key(&object.oid) {
            continue;
        }
        let content = match object.base {
            Some(base) => {
                delta::apply(&contents[&base], &object.payload, 1 << 20).expect("it fits")
            }
            None => object.payload.clone(),
        };
        contents.insert(object.oid, content);
    }
    contents.into_keys().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn however_many_are_kept_the_trees_are_the_same(manifests in manifests()) {
        let (bases, log) = logged(&manifests);
        let expected = from_scratch(&log, &manifests, &bases);
        let (roots, objects, waiting) = replayed(&log, manifests.len(), usize::MAX);
        prop_assert_eq!(&roots, &expected);
        let all = check_objects(&objects);
        for most in [0, 1, 2, 5, waiting] {
            let (roots, objects, longest) = replayed(&log, manifests.len(), most);
            prop_assert_eq!(&roots, &expected);
            prop_assert!(longest <= most);
            prop_assert_eq!(&check_objects(&objects), &all);
        }
    }
}

#[test]
fn each_is_kept_until_its_last_use() {
    let changes = |name: &str| BTreeMap::from([(format!("a/{name}"), Some(1))]);
    // a line, with 2 and 5 based on 0
    let manifests: Vec<Told> = [0, 1, 2, 1, 1, 5, 1]
        .iter()
        .zip(["a", "b", "c", "d", "e", "f", "g"])
        .map(|(back, name)| (*back, changes(name)))
        .collect();
    let (_, log) = logged(&manifests);
    let mut names = Names::default();
    number_components(log.paths(), &mut names);
    let mut replay = Replay::new(&names);
    let mut states = States::new((&log, &NO_EDITS), manifests.len(), StartTrees::new(), 9);
    let mut kept = Vec::new();
    for position in 0..manifests.len() {
        let before = states.before(position, &mut replay);
        let changes: Vec<_> = changes_at(&log, &NO_EDITS, position).collect();
        let root = replay.apply(before.as_ref(), &changes);
        states.keep(position, &root);
        let mut now: Vec<_> = states.kept.keys().copied().collect();
        now.sort_unstable();
        kept.push(now);
    }
    let expected: [&[u32]; 7] = [&[0], &[0], &[0, 2], &[0, 3], &[0], &[5], &[]];
    assert_eq!(kept, expected);
    assert!(replay.made.iter().all(|made| !made.is_again));
}

#[test]
fn of_too_many_that_goes_which_is_of_use_last() {
    let changes = |name: String| BTreeMap::from([(name, Some(1))]);
    // three lines from one base, continued in turn
    let backs = [0, 1, 2, 3, 3, 3, 3, 3, 3, 3];
    let manifests: Vec<Told> =
        backs.iter().enumerate().map(|(at, back)| (*back, changes(format!("a/{at}")))).collect();
    let (_, log) = logged(&manifests);
    let again = |most: usize| {
        let mut names = Names::default();
        number_components(log.paths(), &mut names);
        let mut replay = Replay::new(&names);
        let mut states = States::new((&log, &NO_EDITS), manifests.len(), StartTrees::new(), most);
        for position in 0..manifests.len() {
            let before = states.before(position, &mut replay);
            let changes: Vec<_> = changes_at(&log, &NO_EDITS, position).collect();
            let root = replay.apply(before.as_ref(), &changes);
            states.keep(position, &root);
        }
        let roots = replay.made.iter().filter(|made| made.is_again && made.level == 0);
        roots.count()
    };
    assert_eq!(again(3), 0);
    // one of the three is dropped; the least recently used rule would drop all three
    assert!((1..=4).contains(&again(2)), "{} of 7", again(2));
    assert!(again(0) >= 8);
}
