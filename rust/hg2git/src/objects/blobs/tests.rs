//! Filelogs cut into jobs in all ways, and damaged ones.

use std::path::Path;

use revlog::node::node_of;
use revlog::{Encoding, Node, Store};

use super::*;
use crate::objects::reused::Reused;
use crate::objects::trees::MAX_DEPTH;

/// A text and its stored chunk: a delta against the revision before, or the full text.
struct Stored {
    text: Vec<u8>,
    chunk: Vec<u8>,
    is_delta: bool,
    flags: u16,
}

/// Revisions of many lines, of which one changes each time.
fn revisions(count: usize) -> Vec<Stored> {
    let line = |at: usize, number: usize| format!("{at:03} {number:06}\n").into_bytes();
    let mut lines: Vec<_> = (0..200).map(|at| line(at, 0)).collect();
    let first = lines.concat();
    let mut all = vec![Stored { chunk: plain(&first), text: first, is_delta: false, flags: 0 }];
    for number in 1..count {
        let at = number * 37 % lines.len();
        lines[at] = line(at, number);
        let place = |at: usize| u32::try_from(11 * at).expect("short").to_be_bytes();
        let delta = [&place(at)[..], &place(at + 1), &place(1), &lines[at]].concat();
        all.push(Stored { text: lines.concat(), chunk: plain(&delta), is_delta: true, flags: 0 });
    }
    all
}

fn plain(chunk: &[u8]) -> Vec<u8> {
    [b"u", chunk].concat()
}

/// Writes a filelog in which each revision is the child of the one before.
fn write(root: &Path, revisions: &[Stored]) -> Arc<Revlog> {
    let mut bytes = Vec::new();
    let (mut offset, mut parent) = (0, Node::NULL);
    for (number, Stored { text, chunk, is_delta, flags }) in (0..).zip(revisions) {
        let word = |number: usize| u32::try_from(number).expect("short").to_be_bytes();
        let before = i32::to_be_bytes(number - 1);
        let base = if *is_delta { before } else { number.to_be_bytes() };
        let node = node_of(parent, Node::NULL, text);
        // the first has version and features of the revlog: inline, with bases of any kind
        let place = if number == 0 { 0x3_0001 << 32 } else { (offset as u64) << 16 };
        let place = place | u64::from(*flags);
        bytes.extend(place.to_be_bytes());
        for field in [word(chunk.len()), word(text.len()), base, [0; 4], before, [0xff; 4]] {
            bytes.extend(field);
        }
        bytes.extend(node.as_bytes());
        bytes.extend([0; 12]);
        bytes.extend(chunk);
        offset += chunk.len();
        parent = node;
    }
    std::fs::create_dir_all(root.join("data")).expect("is writable");
    std::fs::write(root.join("data/file.i"), bytes).expect("is writable");
    let store = Store::new(root, Encoding::DotEncode);
    Arc::new(store.open(revlog::RevlogKind::Filelog(b"file")).expect("is readable"))
}

fn plan_of(revlog: &Revlog) -> Arc<BlobPlan> {
    let wanted: Vec<_> = revlog.index().revs().zip((0..).map(FileId)).collect();
    Arc::new(plan(revlog.index(), &wanted))
}

/// Blobs: oid, base and stream.
type Made = Vec<(Oid, Option<FileId>, Vec<u8>)>;

fn made(jobs: impl IntoIterator<Item = Result<Blobs>>) -> Made {
    let mut all = Made::new();
    for job in jobs {
        let Blobs { made: blobs, streams, .. } = job.expect("nothing is wrong");
        let made = blobs.iter().zip(streams.iter());
        all.extend(made.map(|(blob, stream)| (blob.oid, blob.base, stream.to_vec())));
    }
    all
}

#[test]
fn jobs_cut_anywhere_give_the_same_bytes() {
    let root = tempfile::tempdir().expect("temporary directory");
    let opened = parallel::Directory::open(root.path()).expect("is there");
    let revisions = revisions(180);
    let revlog = write(root.path(), &revisions);
    let plan = plan_of(&revlog);
    let expected = {
        let (collisions, memory_plan) =
            (CollisionCheck::Each, MemoryPlan::new(192 << 20, 0, 1, &opened));
        let piece = Piece { revlog: Arc::clone(&revlog), plan: Arc::clone(&plan), range: 0..180 };
        made([Converter::new(
            (1, true),
            (true, false),
            (&collisions, &Reused::default()),
            &memory_plan,
        )
        .convert(&[piece])])
    };
    let deepest = plan.0.iter().map(|planned| planned.depth).max();
    assert_eq!(deepest, Some(MAX_DEPTH), "there are landmarks");
    for (step, memory) in [(1, 192 << 20), (7, 192 << 20), (7, 0), (64, 1 << 20)] {
        let piece = |start: usize| {
            let range = start..180.min(start + step);
            [Piece { revlog: Arc::clone(&revlog), plan: Arc::clone(&plan), range }]
        };
        let (collisions, memory_plan) =
            (CollisionCheck::Each, MemoryPlan::new(memory, 0, 1, &opened));
        let reused = Reused::default();
        let new = || Converter::new((1, true), (true, false), (&collisions, &reused), &memory_plan);
        let mut one = new();
        // by one thread, by one for each job, and by two in turn
        let in_order = made((0..180).step_by(step).map(|start| one.convert(&piece(start))));
        let alone = made((0..180).step_by(step).map(|start| new().convert(&piece(start))));
        let mut two = [new(), new()];
        let mut turn = 0;
        let in_turn = made((0..180).step_by(step).map(|start| {
            turn += 1;
            two[turn % 2].convert(&piece(start))
        }));
        assert!(in_order == expected && alone == expected && in_turn == expected, "{step}");
    }
}

#[test]
fn the_first_wrong_revision_is_named_whatever_the_memory() {
    let root = tempfile::tempdir().expect("temporary directory");
    let opened = parallel::Directory::open(root.path()).expect("is there");
    let mut revisions = revisions(20);
    revisions[3].chunk[13] ^= 1;
    revisions[12].chunk = b"u cut".to_vec();
    let revlog = write(root.path(), &revisions);
    for memory in [0, 192 << 20] {
        let (collisions, memory_plan) =
            (CollisionCheck::Each, MemoryPlan::new(memory, 0, 1, &opened));
        let piece = Piece { revlog: Arc::clone(&revlog), plan: plan_of(&revlog), range: 0..20 };
        let error = Converter::new(
            (1, true),
            (true, false),
            (&collisions, &Reused::default()),
            &memory_plan,
        )
        .convert(&[piece])
        .map(drop);
        let said = error.expect_err("two are wrong").to_string();
        assert!(said.contains("revision 3: text does not match its node"), "{memory}: {said}");
    }
}

/// The blobs of a filelog, and their payloads.
fn converted(revisions: &[Stored]) -> (Vec<Blob>, Vec<Vec<u8>>) {
    let root = tempfile::tempdir().expect("temporary directory");
    let revlog = write(root.path(), revisions);
    let opened = parallel::Directory::open(root.path()).expect("is there");
    let (collisions, memory_plan) =
        (CollisionCheck::Each, MemoryPlan::new(192 << 20, 0, 1, &opened));
    let range = 0..revisions.len();
    let piece = Piece { revlog: Arc::clone(&revlog), plan: plan_of(&revlog), range };
    let made =
        Converter::new((1, true), (true, false), (&collisions, &Reused::default()), &memory_plan)
            .convert(&[piece]);
    let Blobs { made: blobs, streams, .. } = made.expect("nothing is wrong");
    let inflated = std::iter::zip(&blobs, streams.iter()).map(|(blob, stream)| {
        gitpack::deflate::inflate(stream, blob.inflated_len).expect("is whole")
    });
    let payloads = inflated.collect();
    (blobs, payloads)
}

#[test]
fn a_stored_delta_of_pointers_is_not_one_of_blobs() {
    // as long as git-lfs's pointer, but in another order
    let tail = b"size 5\nversion https://git-lfs.github.com/spec/v1\n";
    let text = |digit: &str| [b"oid sha256:", digit.repeat(64).as_bytes(), b"\n", tail].concat();
    let place = |at: u32| at.to_be_bytes();
    let delta = [&place(11)[..], &place(75), &place(64), &[b'b'; 64]].concat();
    let stored = |text, chunk, is_delta| Stored { text, chunk, is_delta, flags: FLAG_EXTERNAL };
    let revisions =
        [stored(text("a"), plain(&text("a")), false), stored(text("b"), plain(&delta), true)];
    let (blobs, payloads) = converted(&revisions);
    let expected = revisions.map(|revision| pointer_of(&revision.text).expect("is a pointer"));
    assert_eq!(payloads[0], expected[0]);
    assert_eq!(blobs[1].base, Some(FileId(0)), "it is a delta");
    let second = gitpack::delta::apply(&expected[0], &payloads[1], 1000).expect("is a delta");
    assert_eq!(second, expected[1]);
}

#[test]
fn a_stored_delta_of_all_lines_gives_way_to_one_of_bytes() {
    let text = |number: usize| {
        let line = |at: usize| format!("# file-{at:03}.c:{}\nmessage {}\n", at + number, at * at);
        (0..500).map(line).collect::<String>().into_bytes()
    };
    let stored = |text, chunk, is_delta| Stored { text, chunk, is_delta, flags: 0 };
    let [one, two] = [text(1000), text(1001)];
    let len = |text: &[u8]| u32::try_from(text.len()).expect("short").to_be_bytes();
    let delta = [&[0; 4][..], &len(&one), &len(&two), &two].concat();
    let revisions = [stored(one.clone(), plain(&one), false), stored(two, plain(&delta), true)];
    let (blobs, payloads) = converted(&revisions);
    assert_eq!(blobs[1].base, Some(FileId(0)), "it is a delta");
    let applied = gitpack::delta::apply(&one, &payloads[1], 1 << 20).expect("is a delta");
    assert!(applied == revisions[1].text);
}
