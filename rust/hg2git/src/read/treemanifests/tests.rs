use std::fmt::Write as _;
use std::path::Path;

use revlog::Encoding;
use revlog::node::node_of;

use super::*;

/// Writes a revlog with one revision and inline data, and returns its node.
fn write(path: &Path, text: &str) -> Node {
    let node = node_of(Node::NULL, Node::NULL, text.as_bytes());
    let len = u32::try_from(text.len()).expect("short");
    let words = [0x1_0001, 0, len + 1, len, 0, 0, u32::MAX, u32::MAX];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    bytes.extend(node.as_bytes());
    bytes.extend([0; 12]);
    bytes.push(b'u');
    bytes.extend(text.as_bytes());
    std::fs::create_dir_all(path.parent().expect("is in one")).expect("is writable");
    std::fs::write(path, bytes).expect("is writable");
    node
}

/// The flat text of a store with this root manifest, read with the least memory limit.
fn flat_text(store: &Path, root: &str) -> Result<Buffer> {
    write(&store.join("00manifest.i"), root);
    let store = Store::new(store, Encoding::DotEncode);
    let root = store.open(RevlogKind::Manifest).expect("is readable");
    let rev = root.index().revs().next().expect("has one");
    let directories = Directories::new(&store, &root, true, 0);
    directories.flat_text(rev, &mut Scratch::default())
}

/// Makes a store whose directory `d` has `count` files, and returns the text of its root.
fn with_files(store: &Path, count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        let _ = writeln!(text, "{number:080}\0{}", Node::NULL);
    }
    let node = write(&store.join("meta/d/00manifest.i"), &text);
    format!("d\0{node}t\n")
}

#[test]
fn a_flat_text_has_all_files_in_order() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let root = with_files(dir.path(), 2);
    let text = flat_text(dir.path(), &root).expect("is readable");
    let expected = [0, 1].map(|number| format!("d/{number:080}\0{}\n", Node::NULL));
    assert_eq!(text.as_slice(), expected.concat().as_bytes());
}

#[test]
fn more_files_than_there_is_memory_for_are_refused() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let root = with_files(dir.path(), 9000);
    let said = flat_text(dir.path(), &root).expect_err("is too long").to_string();
    assert!(said.contains("more than 1048576 bytes; a larger amalgam.git.memory"), "{said}");
}
