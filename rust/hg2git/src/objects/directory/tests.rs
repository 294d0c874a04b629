//! Trees made by changes against trees made from scratch, and the contents that their deltas give.

use std::collections::{BTreeMap, BTreeSet};

use gitpack::tree::push_entry;
use gitpack::{ObjectKind, delta, object_header};
use proptest::prelude::*;
use sha1lanes::{Message, digest_one};

use super::*;
use crate::metadata::MANIFEST_TREES;
use crate::objects::collisions::CollisionCheck;
use crate::objects::object::Object;
use crate::objects::trees::{MAX_DEPTH, TreeForm, TreeWriter};
use crate::read::files::FileTable;

/// The tree oid of these files by the plain definition: every directory from scratch.
fn plain_oid(files: &[(&[u8], Oid, Mode)]) -> Oid {
    let mut content = Vec::new();
    let mut rest = files;
    while let Some((path, oid, mode)) = rest.first() {
        let (name, is_directory) = component(path, 0);
        if !is_directory {
            push_entry(&mut content, *mode, name, oid);
            rest = &rest[1..];
            continue;
        }
        let prefix = [name, b"/"].concat();
        let count = rest.iter().take_while(|(path, ..)| path.starts_with(&prefix)).count();
        let inner =
            rest[..count].iter().map(|(path, oid, mode)| (&path[prefix.len()..], *oid, *mode));
        push_entry(&mut content, Mode::DIRECTORY, name, &plain_oid(&inner.collect::<Vec<_>>()));
        rest = &rest[count..];
    }
    let head = object_header(ObjectKind::Tree, content.len() as u64);
    Oid::from_bytes(digest_one(Message { head: &head, body: &content }))
}

/// The oid of the manifest tree of these files, by the plain definition.
fn plain_manifest_oid(files: &[(String, Oid, Mode)]) -> Oid {
    let prefixed: Vec<_> = files
        .iter()
        .map(|(path, node, mode)| (format!("_{}", path.replace('/', "/_")), *node, *mode))
        .collect();
    let files: Vec<_> = prefixed
        .iter()
        .map(|(path, node, mode)| {
            let mode = if *mode == Mode::FILE { Mode(0o160_644) } else { Mode(0o160_755) };
            (path.as_bytes(), *node, mode)
        })
        .collect();
    plain_oid(&files)
}

fn edits() -> impl Strategy<Value = Vec<BTreeMap<String, Option<(u32, bool)>>>> {
    let path = "[ab](-|\\.|0)?(/[ab](\\.x)?){0,3}";
    let file = proptest::option::of((0..40u32, any::<bool>()));
    proptest::collection::vec(proptest::collection::btree_map(path, file, 0..12), 1..80)
}

/// A tree oid by git-cinnabar's rule for `//`, after its `create_git_tree`.
fn cinnabar_oid(tree: &Raw, merged: Option<&Raw>) -> Oid {
    if let (Some(Item::Tree(inner)), None) = (tree.get(""), merged) {
        return cinnabar_oid(tree, Some(inner));
    }
    let mut entries: Vec<(String, Mode, Oid)> = Vec::new();
    let both = merged.map_or_else(Vec::new, |merged| merged.keys().collect::<Vec<_>>());
    let names: BTreeSet<&String> = tree.keys().chain(both).collect();
    for name in names {
        let theirs = merged.and_then(|merged| merged.get(name));
        match (tree.get(name).or(theirs), theirs) {
            _ if name.is_empty() => {}
            (Some(Item::Tree(inner)), theirs) => {
                let theirs = match theirs {
                    Some(Item::Tree(theirs)) => Some(theirs),
                    _ => None,
                };
                entries.push((name.clone(), Mode::DIRECTORY, cinnabar_oid(inner, theirs)));
            }
            (Some(Item::File(oid, mode)), _) => entries.push((name.clone(), *mode, *oid)),
            (None, _) => unreachable!("it is the name of either"),
        }
    }
    entries.sort_by(|(a, mode_a, _), (b, mode_b, _)| {
        let is_directory = |mode: &Mode| mode.is_directory();
        entry_order(a.as_bytes(), is_directory(mode_a), b.as_bytes(), is_directory(mode_b))
    });
    let mut content = Vec::new();
    for (name, mode, oid) in entries {
        push_entry(&mut content, mode, name.as_bytes(), &oid);
    }
    let head = object_header(ObjectKind::Tree, content.len() as u64);
    Oid::from_bytes(digest_one(Message { head: &head, body: &content }))
}

type Raw = BTreeMap<String, Item>;

enum Item {
    File(Oid, Mode),
    Tree(Raw),
}

fn raw(files: &[(String, Oid)]) -> Raw {
    let mut root = Raw::new();
    for (path, oid) in files {
        let mut tree = &mut root;
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directories = path.contains('/').then(|| directories.split('/'));
        for directory in directories.into_iter().flatten() {
            let item = tree.entry(directory.to_owned());
            let Item::Tree(inner) = item.or_insert_with(|| Item::Tree(Raw::new())) else {
                unreachable!("files have other names than directories")
            };
            tree = inner;
        }
        tree.insert(name.to_owned(), Item::File(*oid, Mode::FILE));
    }
    root
}

/// Applies changes to a tree. Returns the new tree and its new objects.
fn replayed(
    names: &mut Names,
    files: &FileTable,
    before: Option<&Arc<TrackedDirectory>>,
    changes: &[TreeChange<'_>],
) -> (Option<Arc<TrackedDirectory>>, Vec<Object>) {
    number(names, changes);
    let mut replay = Replay::new(names);
    let after = replay.apply(before, changes);
    let objects = written(&mut replay, files);
    (after, objects)
}

fn number(names: &mut Names, changes: &[TreeChange<'_>]) {
    for name in changes.iter().flat_map(|change| change.path.split(|&byte| byte == b'/')) {
        names.number(name);
    }
}

fn written(replay: &mut Replay<'_>, files: &FileTable) -> Vec<Object> {
    let made = std::mem::take(&mut replay.made);
    let collisions = CollisionCheck::Each;
    let write = |form| TreeWriter::new(form, replay.names, files, &collisions).write(&made);
    let objects =
        [&TreeForm::GIT, &MANIFEST_TREES].map(|form| write(form).expect("blobs are known"));
    objects.into_iter().flatten().collect()
}

proptest! {
    #[test]
    fn empty_components_are_shown_as_git_cinnabar_shows_them(
        revisions in proptest::collection::vec(
            proptest::collection::btree_map(
                "[ab](//?[ab](//?[ab])?)?//?[fg]", proptest::option::of(0..40u32), 0..6),
            1..20),
    ) {
        let mut names = Names::default();
        let mut files = FileTable::default();
        let path = names.number(b"any");
        for seed in 0..40u8 {
            let node = revlog::Node::from_bytes([seed + 1; 20]);
            files.number(node, path, |_| Some(Oid::from_bytes([seed + 100; 20])));
        }
        let mut contents: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
        let mut tree: Option<Arc<TrackedDirectory>> = None;
        let mut expected: BTreeMap<String, u32> = BTreeMap::new();
        for revision in revisions {
            for (path, file) in &revision {
                match file {
                    Some(file) => expected.insert(path.clone(), *file),
                    None => expected.remove(path),
                };
            }
            let list: Vec<TreeChange<'_>> = revision.iter().map(|(path, file)| {
                TreeChange { path: path.as_bytes(), target: file.map(|id| EntryTarget::File(FileId(id), Mode::FILE)) }
            }).collect();
            let (after, objects) = replayed(&mut names, &files, tree.as_ref(), &list);
            tree = after;
            let list: Vec<_> = expected.iter().map(|(path, id)| {
                let seed = u8::try_from(*id).expect("small") + 100;
                (path.clone(), Oid::from_bytes([seed; 20]))
            }).collect();
            let oid = oid_of(tree.as_ref(), Purpose::Git);
            prop_assert_eq!(oid, cinnabar_oid(&raw(&list), None));
            let list: Vec<_> = expected.iter().map(|(path, id)| {
                let seed = u8::try_from(*id).expect("small") + 1;
                (path.clone(), Oid::from_bytes([seed; 20]), Mode::FILE)
            }).collect();
            let oid = oid_of(tree.as_ref(), Purpose::Aside);
            prop_assert_eq!(oid, plain_manifest_oid(&list));
            for object in objects {
                let content = match object.base {
                    Some(base) => delta::apply(&contents[&base], &object.payload, 1 << 20).expect("fits"),
                    None => object.payload,
                };
                let head = object_header(ObjectKind::Tree, content.len() as u64);
                let digest = digest_one(Message { head: &head, body: &content });
                prop_assert_eq!(Oid::from_bytes(digest), object.oid);
                contents.insert(object.oid, content);
            }
        }
    }

    #[test]
    fn a_changed_tree_equals_one_made_from_scratch(revisions in edits()) {
        let mut names = Names::default();
        let mut files = FileTable::default();
        let path = names.number(b"any");
        for seed in 0..40u8 {
            let node = revlog::Node::from_bytes([seed + 1; 20]);
            files.number(node, path, |_| Some(Oid::from_bytes([seed + 100; 20])));
        }
        let mut contents: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
        let mut tree: Option<Arc<TrackedDirectory>> = None;
        let mut expected: BTreeMap<String, (u32, bool)> = BTreeMap::new();
        for revision in revisions {
            // a manifest has no file and directory of the same name, and neither have the changes
            let mut changes: BTreeMap<String, Option<(u32, bool)>> = BTreeMap::new();
            for (path, file) in revision {
                if file.is_some() {
                    let below = format!("{path}/");
                    let clashes = |other: &String| {
                        other.starts_with(&below) || path.starts_with(&format!("{other}/"))
                    };
                    for gone in expected.keys().filter(|other| clashes(other)) {
                        changes.insert(gone.clone(), None);
                    }
                    changes.retain(|other, file| file.is_none() || !clashes(other));
                }
                changes.insert(path, file);
            }
            for (path, file) in &changes {
                match file {
                    Some(file) => expected.insert(path.clone(), *file),
                    None => expected.remove(path),
                };
            }
            let mode = |flag| if flag { Mode::EXECUTABLE } else { Mode::FILE };
            let list: Vec<TreeChange<'_>> = changes.iter().map(|(path, file)| {
                TreeChange { path: path.as_bytes(), target: file.map(|(id, flag)| EntryTarget::File(FileId(id), mode(flag))) }
            }).collect();
            let (after, objects) = replayed(&mut names, &files, tree.as_ref(), &list);
            tree = after;
            let plain: Vec<_> = expected.iter().map(|(path, (id, flag))| {
                (path.as_bytes(), Oid::from_bytes([u8::try_from(*id).expect("small") + 100; 20]), mode(*flag))
            }).collect();
            let oid = oid_of(tree.as_ref(), Purpose::Git);
            prop_assert_eq!(oid, plain_oid(&plain));
            let list: Vec<_> = expected.iter().map(|(path, (id, flag))| {
                let seed = u8::try_from(*id).expect("small") + 1;
                (path.clone(), Oid::from_bytes([seed; 20]), mode(*flag))
            }).collect();
            let oid = oid_of(tree.as_ref(), Purpose::Aside);
            prop_assert_eq!(oid, plain_manifest_oid(&list));
            for object in objects {
                let content = match object.base {
                    Some(base) => delta::apply(&contents[&base], &object.payload, 1 << 20).expect("fits"),
                    None => object.payload,
                };
                let head = object_header(ObjectKind::Tree, content.len() as u64);
                let digest = digest_one(Message { head: &head, body: &content });
                prop_assert_eq!(Oid::from_bytes(digest), object.oid);
                contents.insert(object.oid, content);
            }
        }
    }
}

/// Files by their paths.
type Plain = BTreeMap<String, u8>;

/// Versions of a directory with many entries, written by one writer in batches: the changes and the
/// base of each, and the plain trees.
#[test]
fn large_directories_that_are_like_others_equal_those_made_from_scratch() {
    let mut names = Names::default();
    let mut files = FileTable::default();
    let any = names.number(b"any");
    for seed in 0..40u8 {
        let node = revlog::Node::from_bytes([seed + 1; 20]);
        files.number(node, any, |_| Some(Oid::from_bytes([seed + 100; 20])));
    }
    let path = |number: u32| match number % 3 {
        0 => format!("directory{number:05}/file"),
        _ => format!("file{number:05}"),
    };
    for name in
        (0..4000).map(path).flat_map(|path| path.split('/').map(str::to_owned).collect::<Vec<_>>())
    {
        names.number(name.as_bytes());
    }
    let mut replay = Replay::new(&names);
    let collisions = CollisionCheck::Each;
    let mut writers = [&TreeForm::GIT, &MANIFEST_TREES]
        .map(|form| TreeWriter::new(form, &names, &files, &collisions));
    let mut versions: Vec<(Option<Arc<TrackedDirectory>>, Plain)> = Vec::new();
    let mut contents: BTreeMap<Oid, Vec<u8>> = BTreeMap::new();
    for version in 0..60_u32 {
        // the first has half of the names; some have an older base than the version before
        let base = versions.len().checked_sub(if version % 7 == 6 { 3 } else { 1 });
        let (before, mut expected) = base.map_or_else(Default::default, |at| versions[at].clone());
        let edits: BTreeMap<String, Option<u8>> = match base {
            None => (0..2000).map(|number| (path(2 * number), Some(0))).collect(),
            Some(_) => (0..4)
                .map(|edit| {
                    let number = (version * 4 + edit).wrapping_mul(2_654_435_761) % 4000;
                    let file = u8::try_from(version % 40).expect("small");
                    (path(number), (edit > 0 || version % 5 > 0).then_some(file))
                })
                .collect(),
        };
        for (path, file) in &edits {
            match file {
                Some(file) => expected.insert(path.clone(), *file),
                None => expected.remove(path),
            };
        }
        let changes = edits.iter().map(|(path, file)| {
            let target = file.map(|file| EntryTarget::File(FileId(u32::from(file)), Mode::FILE));
            TreeChange { path: path.as_bytes(), target }
        });
        let after = replay.apply(before.as_ref(), &changes.collect::<Vec<_>>());
        versions.push((after, expected));
        if version % 25 == 9 || version == 59 {
            let made = std::mem::take(&mut replay.made);
            for object in writers.each_mut().map(|writer| writer.write(&made)).into_iter().flatten()
            {
                for object in object {
                    let content = match object.base {
                        Some(base) => {
                            delta::apply(&contents[&base], &object.payload, 1 << 20).expect("fits")
                        }
                        None => object.payload,
                    };
                    let head = object_header(ObjectKind::Tree, content.len() as u64);
                    let digest = digest_one(Message { head: &head, body: &content });
                    assert_eq!(Oid::from_bytes(digest), object.oid);
                    contents.insert(object.oid, content);
                }
            }
        }
    }
    for (root, expected) in &versions {
        let oid = |first: u8, file: u8| Oid::from_bytes([first + file; 20]);
        let plain =
            expected.iter().map(|(path, file)| (path.as_bytes(), oid(100, *file), Mode::FILE));
        assert_eq!(oid_of(root.as_ref(), Purpose::Git), plain_oid(&plain.collect::<Vec<_>>()));
        let list = expected.iter().map(|(path, file)| (path.clone(), oid(1, *file), Mode::FILE));
        let plain = plain_manifest_oid(&list.collect::<Vec<_>>());
        assert_eq!(oid_of(root.as_ref(), Purpose::Aside), plain);
    }
}

/// A branch makes 40 trees, and another goes to the last of them in one step, many times.
#[test]
fn chains_of_deltas_stay_short_where_branches_make_the_same_trees() {
    let (mut names, mut files) = (Names::default(), FileTable::default());
    let paths: Vec<String> = (0..30).map(|number| format!("file{number:02}")).collect();
    let any = names.number(b"any");
    for path in &paths {
        names.number(path.as_bytes());
    }
    for seed in 0..200u8 {
        let node = revlog::Node::from_bytes([seed + 1; 20]);
        files.number(node, any, |_| Some(Oid::from_bytes([seed + 1; 20])));
    }
    let collisions = CollisionCheck::Each;
    let mut writer = TreeWriter::new(&TreeForm::GIT, &names, &files, &collisions);
    let mut replay = Replay::new(&names);
    let change = |path: &'static str, seed: u32| TreeChange {
        path: path.as_bytes(),
        target: Some(EntryTarget::File(FileId(seed), Mode::FILE)),
    };
    let paths: Vec<&'static str> = paths.into_iter().map(|path| &*path.leak()).collect();
    let all: Vec<_> = paths.iter().map(|path| change(path, 0)).collect();
    let mut root = replay.apply(None, &all);
    let mut pairs = Vec::new();
    for round in 0..4 {
        let steps: Vec<_> =
            (0..40).map(|step| change(paths[step as usize % 30], 1 + 40 * round + step)).collect();
        let mut branch = root.clone();
        for step in &steps {
            branch = replay.apply(branch.as_ref(), std::slice::from_ref(step));
        }
        let mut last: Vec<_> = steps[10..].to_vec();
        last.sort_by_key(|change| change.path);
        root = replay.apply(root.as_ref(), &last);
        pairs.push([root.clone(), branch]);
    }
    let mut depths: BTreeMap<Oid, u8> = BTreeMap::new();
    for object in writer.write(&replay.made).unwrap_or_else(|_| panic!("is written")) {
        let depth = object.base.map_or(0, |base| depths[&base] + 1);
        assert!(depths.insert(object.oid, depth).is_none(), "{} is stored twice", object.oid);
    }
    for pair in pairs {
        let [root, branch] = pair.map(|tree| oid_of(tree.as_ref(), Purpose::Git));
        assert_eq!(root, branch);
    }
    assert_eq!(depths.len(), 161);
    assert_eq!(depths.values().max(), Some(&MAX_DEPTH));
}

/// The tree of these paths and its objects, made at once or in parts.
fn made(paths: &[String], in_parts: bool) -> (Oid, Oid, BTreeSet<Oid>) {
    let mut names = Names::default();
    let mut files = FileTable::default();
    let mut changes = Vec::new();
    for (seed, path) in (0u32..).zip(paths) {
        let mut id = [0; 20];
        id[..4].copy_from_slice(&seed.to_le_bytes());
        id[19] = 1;
        let name = names.number(path.as_bytes());
        let node = revlog::Node::from_bytes(id);
        let file = files.number(node, name, |_| Some(Oid::from_bytes(id)));
        changes.push(TreeChange {
            path: path.as_bytes(),
            target: Some(EntryTarget::File(file, Mode::FILE)),
        });
    }
    number(&mut names, &changes);
    let mut replay = Replay::new(&names);
    let mut objects = Vec::new();
    let tree = if in_parts {
        let mut parts = Parts::new(changes);
        let mut count = 0;
        while parts.advance(&mut replay) {
            objects.append(&mut written(&mut replay, &files));
            count += 1;
        }
        assert!(count > 1, "{count} parts");
        parts.finish(&mut replay)
    } else {
        replay.apply(None, &changes)
    };
    objects.append(&mut written(&mut replay, &files));
    let tree = Some(tree.expect("it has files"));
    let [git, manifest] =
        [Purpose::Git, Purpose::Aside].map(|purpose| oid_of(tree.as_ref(), purpose));
    (git, manifest, objects.into_iter().map(|object| object.oid).collect())
}

#[test]
fn a_tree_made_in_parts_is_the_same() {
    let mut paths: Vec<String> = Vec::new();
    for number in 0..5000 {
        paths.push(format!("file{number:05}"));
        paths.push(format!("many/{:02}/file{number:05}", number % 50));
        paths.push(format!("many/flat/file{number:05}"));
    }
    paths.extend(
        ["a.c", "a/b", "a//c", "a0", "many.x", "many//flat/odd", "z/y/x"].map(str::to_owned),
    );
    paths.sort_unstable();
    assert_eq!(made(&paths, true), made(&paths, false));
}
