//! Revlogs in files: chunks, chains of deltas, indexes, dockets.

use std::cell::Cell;
use std::sync::Arc;

use parallel::{Budget, Buffer};
use revlog::{Encoding, Parents, Revlog, RevlogKind, Scratch, Store, Texts};

use crate::TEXT_BYTES;
use crate::scratch::{Planted, cut, directory, opened};

/// Maximum number of revisions that are read of a revlog. More would only take time.
const MOST_READ: usize = 200;
/// Limit of the bytes of texts that are read. Long texts are written to files, and a few cover all
/// code.
const MOST_WRITTEN: usize = 16 << 20;

const FILELOG: RevlogKind<'_> = RevlogKind::Filelog(b"f");
/// Version 1, with data inline, and deltas against any revision.
const HEADER: u32 = 0x0003_0001;

/// Calls `read` with buffers that this thread keeps for all inputs, as an export does.
///
/// Creating decompressors takes longer than using them.
fn with_scratch<R>(read: impl FnOnce(&mut Scratch) -> R) -> R {
    thread_local! {
        static KEPT: Cell<Option<Scratch>> = const { Cell::new(None) };
    }
    let make = || Scratch::within(&Budget::new(TEXT_BYTES, &opened()), 0);
    let mut scratch = KEPT.take().unwrap_or_else(make);
    let done = read(&mut scratch);
    KEPT.set(Some(scratch));
    done
}

/// The entry of a revision without parents, and its data.
fn push_entry(out: &mut Vec<u8>, base: usize, rev: usize, text_len: u32, chunk: &[u8]) {
    let start = out.len();
    out.resize(start + 64, 0);
    let entry = &mut out[start..];
    let mut put = |at: usize, number: u32| {
        entry[at..at + 4].copy_from_slice(&number.to_be_bytes());
    };
    put(0, if rev == 0 { HEADER } else { 0 });
    put(8, u32::try_from(chunk.len()).expect("inputs are short"));
    put(12, text_len);
    put(16, u32::try_from(base).expect("inputs are short"));
    put(24, u32::MAX);
    put(28, u32::MAX);
    out.extend_from_slice(chunk);
}

fn open(kind: RevlogKind<'_>, encoding: Encoding) -> Option<Revlog> {
    Store::new(&directory(), encoding).open(kind).ok()
}

/// The length of a text in the index, and its chunk.
pub(crate) fn chunk(input: &[u8]) {
    let Some((len, chunk)) = input.split_first_chunk() else { return };
    let mut index = Vec::new();
    push_entry(&mut index, 0, 0, u32::from_be_bytes(*len) & 0x7fff_ffff, chunk);
    let planted = directory().join("data");
    std::fs::create_dir_all(&planted).expect("room for it");
    let _planted = Planted::new(planted.join("f.i"), &index);
    let revlog = open(FILELOG, Encoding::DotEncode).expect("it is well-formed");
    let rev = revlog.index().rev(0).expect("it has one revision");
    let revision = with_scratch(|scratch| Texts::new(&revlog, scratch, 0).get(rev));
    if let Ok(revision) = revision {
        assert!(i32::try_from(revision.text.len()).is_ok());
    }
}

/// A text and deltas, each of the text before it: read one by one, and in one go.
pub(crate) fn chain(input: &[u8]) {
    let mut index = Vec::new();
    let (mut rest, mut count) = (input, 0);
    while !rest.is_empty() && count < MOST_READ {
        let (data, after) = cut(rest);
        let chunk = if data.is_empty() { Vec::new() } else { [b"u", data].concat() };
        push_entry(&mut index, count.saturating_sub(1), count, 0, &chunk);
        (rest, count) = (after, count + 1);
    }
    let planted = directory().join("data");
    std::fs::create_dir_all(&planted).expect("room for it");
    let _planted = Planted::new(planted.join("f.i"), &index);
    let revlog = open(FILELOG, Encoding::DotEncode).expect("it is well-formed");
    let walked: Vec<Option<Arc<Buffer>>> = with_scratch(|scratch| {
        let mut texts = Texts::new(&revlog, scratch, 0);
        let read = |rev| texts.get(rev).ok().map(|revision| revision.text);
        revlog.index().revs().map(read).collect()
    });
    let Some(last) = revlog.index().revs().next_back() else { return };
    let rebuilt = with_scratch(|scratch| Texts::new(&revlog, scratch, 0).get(last).ok());
    let same = walked.last().and_then(Option::as_deref).map(Buffer::as_slice);
    assert!(rebuilt.as_ref().map(|revision| revision.text.as_slice()) == same);
}

/// The file `*.i`; and the file `*.d`, or index and data if `*.i` is a docket.
pub(crate) fn revlog(input: &[u8]) {
    let (index, other) = cut(input);
    let root = directory();
    let mut planted = vec![Planted::new(root.join("00changelog.i"), index)];
    planted.push(Planted::new(root.join("00changelog.d"), other));
    let uid_len = index.get(4).copied().map_or(0, usize::from);
    if let Some(uid) = index.get(59..59 + uid_len).and_then(|uid| std::str::from_utf8(uid).ok())
        && uid.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && uid.len() < 100
    {
        planted.push(Planted::new(root.join(format!("00changelog-{uid}.idx")), other));
        planted.push(Planted::new(root.join(format!("00changelog-{uid}.dat")), other));
    }
    if let Some(revlog) = open(RevlogKind::Changelog, Encoding::DotEncode) {
        with_scratch(|scratch| read(&revlog, scratch));
    }
}

/// Reads all of a revlog.
fn read(revlog: &Revlog, scratch: &mut Scratch) {
    let index = revlog.index();
    let nodes: Vec<_> = index.revs().map(|rev| index.node(rev)).collect();
    if let Ok(found) = revlog.find(&nodes) {
        assert!(found.iter().zip(&nodes).all(|(rev, node)| index.node(*rev) == *node));
    }
    let mut texts = Texts::new(revlog, scratch, TEXT_BYTES / 8);
    let mut written = 0;
    for rev in index.revs().take(MOST_READ) {
        let Parents(p1, p2) = index.parents(rev);
        let earlier = [p1, p2, index.delta_base(rev)];
        assert!(earlier.into_iter().flatten().all(|other| other < rev));
        let _ = (index.unusual_flags(rev), index.text_len_hint(rev));
        match texts.get(rev) {
            Ok(revision) => written += revision.text.len(),
            Err(problem) => {
                assert!(problem.to_string().len() <= 10_000, "a message is read by people");
            }
        }
        if written > MOST_WRITTEN {
            break;
        }
    }
}
