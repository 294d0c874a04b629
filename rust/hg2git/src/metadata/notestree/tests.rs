//! Notes trees against git's, and against the plain definition.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

use proptest::prelude::*;
use sha1lanes::digest_one;

use super::*;

type Map = BTreeMap<Key, Oid>;
type Trees = BTreeMap<Oid, Vec<u8>>;

/// All trees of a map as `determine_fanout` of git's `notes.c` has it, literally: a trie of
/// digits, where `fanout` grows at even levels.
fn defined(map: &Map, leaf: Mode) -> (Oid, Trees) {
    fn digit(key: &Key, level: usize) -> u8 {
        if level.is_multiple_of(2) { key[level / 2] >> 4 } else { key[level / 2] & 15 }
    }
    fn depths(keys: &[Key], level: usize, fanout: usize, out: &mut BTreeMap<Key, usize>) {
        let of = |wanted| keys.partition_point(|key| digit(key, level) < wanted);
        let parts: Vec<_> = (0..16).map(|wanted| &keys[of(wanted)..of(wanted + 1)]).collect();
        let is_even = level.is_multiple_of(2) && level <= 2 * fanout;
        let grows = is_even && parts.iter().all(|part| part.len() > 1);
        for part in parts {
            match part {
                [] => {}
                [key] => {
                    out.insert(*key, fanout + usize::from(grows));
                }
                _ => depths(part, level + 1, fanout + usize::from(grows), out),
            }
        }
    }
    fn write(entries: &[(Vec<Vec<u8>>, Oid)], depth: usize, leaf: Mode, trees: &mut Trees) -> Oid {
        let mut content = Vec::new();
        for same in entries.chunk_by(|a, b| a.0[depth] == b.0[depth]) {
            let (path, oid) = &same[0];
            if path.len() == depth + 1 {
                push_entry(&mut content, leaf, &path[depth], oid);
            } else {
                let oid = write(same, depth + 1, leaf, trees);
                push_entry(&mut content, Mode::DIRECTORY, &path[depth], &oid);
            }
        }
        let head = object_header(ObjectKind::Tree, content.len() as u64);
        let oid = Oid::from_bytes(digest_one(Message { head: &head, body: &content }));
        trees.insert(oid, content);
        oid
    }
    let keys: Vec<Key> = map.keys().copied().collect();
    let mut found = BTreeMap::new();
    match keys.as_slice() {
        [] => {}
        [key] => {
            found.insert(*key, 0);
        }
        keys => depths(keys, 0, 0, &mut found),
    }
    let path = |key: &Key| {
        let digits = hex(key);
        let (upper, name) = digits.split_at(2 * found[key]);
        upper.chunks(2).chain([name]).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let entries: Vec<_> = map.iter().map(|(key, oid)| (path(key), *oid)).collect();
    let mut trees = Trees::new();
    (write(&entries, 0, leaf, &mut trees), trees)
}

fn entries(map: &Map) -> Vec<(Key, Oid)> {
    map.iter().map(|(key, oid)| (*key, *oid)).collect()
}

/// The trees that were written, each checked.
#[derive(Default)]
struct Store(Trees);

impl Store {
    /// Takes a tree and checks its oid.
    fn take(&mut self, object: Object) {
        let Object { kind, oid, base, payload, .. } = object;
        assert_eq!((kind, base), (ObjectKind::Tree, None));
        let head = object_header(ObjectKind::Tree, payload.len() as u64);
        assert_eq!(oid.as_bytes(), &digest_one(Message { head: &head, body: &payload }));
        self.0.insert(oid, payload);
    }

    fn build(&mut self, map: &Map, leaf: Mode) -> Oid {
        let mut sink = |object| {
            self.take(object);
            Ok(())
        };
        build(entries(map).as_slice(), leaf, &mut sink).expect("the sink takes all")
    }
}

/// Random keys, many of them in few directories, so that small maps divide deeply.
fn key() -> impl Strategy<Value = Key> {
    let crowded = (prop::sample::select(vec![0_u8, 1, 0x7f]), any::<u8>(), any::<[u8; 18]>());
    let deep = (any::<u8>(), any::<[u8; 17]>());
    prop_oneof![
        2 => any::<[u8; 20]>(),
        3 => crowded.prop_map(|(a, b, rest)| {
            let mut key = [0; 20];
            key[0] = a;
            key[1] = b;
            key[2..].copy_from_slice(&rest);
            key
        }),
        3 => deep.prop_map(|(c, rest)| {
            let mut key = [0x7f; 20];
            key[2] = c;
            key[3..].copy_from_slice(&rest);
            key
        }),
    ]
}

fn map(range: std::ops::Range<usize>) -> impl Strategy<Value = Map> {
    let oid = any::<u8>().prop_map(|byte| Oid::from_bytes([byte; 20]));
    prop::collection::vec((key(), oid), range).prop_map(|pairs| pairs.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_tree_is_what_the_definition_says(map in map(0..1500)) {
        for leaf in [Mode::GITLINK, Mode::FILE] {
            let mut store = Store::default();
            let tree = store.build(&map, leaf);
            let (root, mut trees) = defined(&map, leaf);
            prop_assert_eq!(tree, root);
            if map.is_empty() {
                trees.clear();
            }
            prop_assert_eq!(store.0, trees);
        }
    }
}

/// A map of `count` hashed keys.
fn hashed(count: u32) -> Map {
    let pair = |number: u32| {
        let key = digest_one(Message { head: &[], body: &number.to_be_bytes() });
        (key, Oid::from_bytes(digest_one(Message { head: &key, body: &[] })))
    };
    (0..count).map(pair).collect()
}

#[test]
fn no_entries_are_the_empty_tree() {
    let mut store = Store::default();
    assert_eq!(store.build(&Map::new(), Mode::FILE), Oid::EMPTY_TREE);
    assert!(store.0.is_empty());
}

#[test]
fn a_large_map_has_the_tree_of_the_definition() {
    let map = hashed(60_000);
    assert_eq!(Store::default().build(&map, Mode::GITLINK), defined(&map, Mode::GITLINK).0);
}

/// Runs git with `input` and returns its output, without the last line feed.
fn git(directory: &std::path::Path, arguments: &[&str], input: &[u8]) -> String {
    use std::io::Write as _;
    use std::process::Stdio;
    let identity = ["AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"];
    let mut child = Command::new("git")
        .current_dir(directory)
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", directory)
        .env_remove("GIT_DIR")
        .envs(identity.map(|name| (format!("GIT_{name}"), "a@b")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git is installed");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let done = child.wait_with_output().expect("it runs");
    writer.join().expect("no panic").expect("it reads");
    assert!(done.status.success(), "git {arguments:?}");
    String::from_utf8(done.stdout).expect("ascii").trim_end().to_owned()
}

#[test]
fn git_makes_the_same_trees() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    git(path, &["init", "--quiet"], b"");
    let blob: Oid = Oid::EMPTY_BLOB;
    git(path, &["hash-object", "-w", "--stdin"], b"");
    for count in [1, 31, 60, 90, 130, 600, 9000] {
        let mut map = hashed(count);
        for oid in map.values_mut() {
            *oid = blob;
        }
        // an undivided tree, which git divides when it adds the last note
        let (last, _) = map.last_key_value().expect("one");
        let mut lines = String::new();
        for key in map.keys().filter(|key| *key != last) {
            let key = Oid::from_bytes(*key);
            writeln!(lines, "100644 blob {blob}\t{key}").expect("memory suffices");
        }
        let tree = git(path, &["mktree"], lines.as_bytes());
        let commit = git(path, &["commit-tree", "-m", "notes", &tree], b"");
        git(path, &["update-ref", "refs/notes/commits", &commit], b"");
        let last = Oid::from_bytes(*last).to_string();
        git(path, &["notes", "add", "--allow-empty", "-C", &blob.to_string(), &last], b"");
        let expected = git(path, &["rev-parse", "refs/notes/commits^{tree}"], b"");
        let tree = Store::default().build(&map, Mode::FILE);
        assert_eq!(tree.to_string(), expected, "{count} notes");
    }
}
