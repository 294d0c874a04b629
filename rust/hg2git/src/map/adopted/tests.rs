//! The file as Python writes it, whole, cut and damaged.

use std::path::Path;

use gitpack::Deflater;

use super::*;

/// The content of a file with these commits.
pub(crate) fn file(commits: &[(Node, Vec<u8>)]) -> Vec<u8> {
    let mut commits = commits.to_vec();
    commits.sort();
    let count = u32::try_from(commits.len()).expect("few");
    let mut bytes = [&MAGIC[..], &VERSION.to_be_bytes(), &count.to_be_bytes()].concat();
    let oids: Vec<Oid> = commits.iter().map(|(_, content)| oid_of_commit(content)).collect();
    let mut ends = Vec::new();
    for (_, content) in &commits {
        Deflater::new(6).deflate(content, &mut bytes);
        ends.push(bytes.len() as u64);
    }
    bytes.extend(commits.iter().flat_map(|(node, _)| *node.as_bytes()));
    bytes.extend(oids.iter().flat_map(|oid| *oid.as_bytes()));
    for (_, content) in &commits {
        let tree = std::str::from_utf8(&content[5..45]).expect("digits");
        let byte = |at| u8::from_str_radix(&tree[at..at + 2], 16).expect("digits");
        bytes.extend((0..40).step_by(2).map(byte));
    }
    bytes.extend(ends.iter().flat_map(|end| end.to_be_bytes()));
    let lens = commits.iter().map(|(_, content)| u32::try_from(content.len()).expect("short"));
    bytes.extend(lens.flat_map(u32::to_be_bytes));
    let mut by_oid: Vec<u32> = (0..count).collect();
    by_oid.sort_by_key(|&at| oids[at as usize]);
    bytes.extend(by_oid.into_iter().flat_map(u32::to_be_bytes));
    let sum = digest_one(Message { head: &[], body: &bytes });
    bytes.extend(sum);
    bytes
}

fn commits() -> Vec<(Node, Vec<u8>)> {
    let of = |number: u8| {
        let content = format!("tree {number:040x}\nauthor {number}\n\ntext");
        (Node::from_bytes([0x80 ^ number; 20]), content.into_bytes())
    };
    (0..9).map(of).collect()
}

fn open(directory: &Path, bytes: &[u8]) -> Result<AdoptedCommits> {
    std::fs::write(directory.join("adopted"), bytes).expect("is writable");
    let directory = Directory::open(directory).expect("is there");
    AdoptedCommits::open(&directory, "adopted", Access::Read)
}

#[test]
fn commits_are_read_as_they_were_written() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let adopted = open(directory.path(), &file(&commits())).expect("it is whole");
    adopted.check().expect("it is whole");
    for (node, content) in commits() {
        let at = adopted.position(&node).expect("it is there");
        assert_eq!(adopted.commit(at).expect("it is whole"), content);
        assert_eq!(adopted.changeset(&adopted.oid(at)), Some(node));
        assert!(content.starts_with(format!("tree {}\n", adopted.tree(at)).as_bytes()));
    }
    assert_eq!(adopted.position(&Node::NULL), None);
    assert_eq!(adopted.changeset(&Oid::EMPTY_TREE), None);
}

#[test]
fn damage_anywhere_is_noticed_and_ends_nothing() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let bytes = file(&commits());
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x21;
        let Ok(adopted) = open(directory.path(), &changed) else { continue };
        assert!(adopted.check().is_err());
        for (node, content) in commits() {
            if let Some(at) = adopted.position(&node)
                && let Ok(found) = adopted.commit(at)
            {
                assert_eq!(oid_of_commit(&found), adopted.oid(at));
                assert!(found == content || adopted.changeset(&adopted.oid(at)) != Some(node));
            }
        }
    }
}

#[test]
fn a_cut_file_is_refused() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let bytes = file(&commits());
    for len in 0..bytes.len() {
        let opened = open(directory.path(), &bytes[..len]);
        assert!(opened.is_err() || opened.is_ok_and(|adopted| adopted.check().is_err()));
    }
}
