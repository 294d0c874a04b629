//! Parsers of single records, called directly.

use capi::message::Fields;
use changegroup::fuzzing::{ChangesetHead, line_delta};
use gitpack::delta;
use parallel::Buffer;
use revlog::manifest::check_depth;
use revlog::{Changeset, Delta, Encoding, Flag, Lines, ManifestEntries, split_metadata};

use crate::TEXT_BYTES;
use crate::scratch::cut;

/// A base and a delta in Mercurial's format.
pub(crate) fn patch(input: &[u8]) {
    let (base, bytes) = cut(input);
    let Ok(delta) = Delta::parse(bytes, base.len()) else { return };
    let mut out = Buffer::default();
    delta.apply(base, &mut out).expect("is memory");
    assert_eq!(out.len(), delta.result_len());
    let added: usize = delta.hunks().map(|hunk| hunk.data.len()).sum();
    assert!(out.len() <= base.len() + added);
}

/// A message of a job: only the canonical form is read.
pub(crate) fn message(input: &[u8]) {
    let Ok(fields) = Fields::decode(input) else { return };
    assert_eq!(fields.encode(), input);
    assert!(input == b"de" || fields.end().is_err());
}

/// The text of a changeset, its commit and its note.
pub(crate) fn changeset(input: &[u8]) {
    let Ok(changeset) = Changeset::parse(input) else { return };
    assert!(changeset.extras().count() <= input.len());
    assert!(input.ends_with(changeset.description));
    hg2git::fuzzing::commit_and_note(&changeset, input);
}

/// The head of a changeset, and two texts for a delta.
pub(crate) fn changegroup(input: &[u8]) {
    if let Ok(head) = ChangesetHead::parse(input) {
        assert!(head.files().map(<[u8]>::len).sum::<usize>() <= input.len());
    }
    let (base, target) = cut(input);
    let mut bytes = Vec::new();
    line_delta(base, target, &mut bytes);
    let delta = Delta::parse(&bytes, base.len()).expect("is a delta of the base");
    let mut made = Buffer::default();
    delta.apply(base, &mut made).expect("is memory");
    assert_eq!(made.as_slice(), target);
}

/// The text of a manifest, flat or of a directory.
pub(crate) fn manifest(input: &[u8]) {
    let mut again = Vec::new();
    for line in Lines::new(input) {
        let Ok(line) = line else { break };
        check_depth(line.path).expect("is checked");
        again.extend_from_slice(line.path);
        again.push(0);
        again.extend_from_slice(line.node.to_string().as_bytes());
        again.extend_from_slice(match line.flag {
            Flag::Regular => b"\n",
            Flag::Executable => b"x\n",
            Flag::Symlink => b"l\n",
        });
    }
    assert!(input.len() >= again.len());
    assert!(input[..again.len()].eq_ignore_ascii_case(&again));
    let names = ManifestEntries::new(input).map_while(Result::ok).map(|entry| entry.name);
    assert!(names.clone().all(|name| !name.is_empty() && !name.contains(&b'/')));
    if let Some(Err(problem)) = Lines::new(input).last() {
        assert!(problem.to_string().len() <= 10_000, "a message is read by people");
    }
}

/// The text of a file revision.
pub(crate) fn filelog(input: &[u8]) {
    let split = split_metadata(input);
    let metadata = split.metadata.map_or(0, |metadata| metadata.len() + 4);
    assert_eq!(metadata + split.content.len(), input.len());
    hg2git::fuzzing::pointer(input);
}

/// A tracked path.
pub(crate) fn path(input: &[u8]) {
    for encoding in [Encoding::DotEncode, Encoding::Hybrid] {
        for (root, suffix) in [("data/", ".i"), ("meta/", "/00manifest.i")] {
            let encoded = encoding.encode(&[root.as_bytes(), input, suffix.as_bytes()].concat());
            assert!(encoded.len() <= 120, "a hashed path is short");
            assert!(encoded.iter().all(|byte| matches!(byte, 32..=126)), "others are escaped");
            let mut components = encoded.split(|&byte| byte == b'/');
            assert!(components.all(|name| name != b".." && name != b"."), "it leads elsewhere");
        }
    }
    for encoding in [Encoding::Escaped, Encoding::Plain] {
        let encoded = encoding.encode(&[b"data/", input, b".i"].concat());
        assert!(encoded.len() <= 3 * input.len() * 2 + 10);
    }
}

/// A base and a delta in git's format.
pub(crate) fn git_delta(input: &[u8]) {
    let (base, bytes) = cut(input);
    if let Ok(result) = delta::apply(base, bytes, TEXT_BYTES) {
        assert!(result.len() <= TEXT_BYTES);
    }
}

/// The content of a tree that an earlier run wrote.
pub(crate) fn git_tree(input: &[u8]) {
    hg2git::fuzzing::tree(input);
}
