//! Texts in chunks against flat ones.

use parallel::Buffer;
use proptest::prelude::*;

use super::*;

/// Position, number of removed bytes, and inserted bytes.
type Edit = (usize, usize, Vec<u8>);

/// A line of a manifest's length.
fn line(path: &str) -> Vec<u8> {
    format!("{path}\0{}\n", "0".repeat(40)).into_bytes()
}

fn shared(bytes: &[u8]) -> SharedText {
    SharedText::new(Buffer::from(bytes.to_vec()), &Tally::default())
}

fn flat(text: &SharedText) -> Vec<u8> {
    text.pieces().flatten().copied().collect()
}

fn delta_of(edits: &[Edit]) -> Vec<u8> {
    let number = |number: usize| u32::try_from(number).expect("short").to_be_bytes();
    let hunks = edits.iter().map(|(start, gone, data)| {
        [&number(*start)[..], &number(start + gone), &number(data.len()), data].concat()
    });
    hunks.collect::<Vec<_>>().concat()
}

#[test]
fn a_line_that_goes_on_is_one_piece() {
    let whole = line("a");
    let (cut, rest) = whole.split_at(whole.len() - 1);
    let base = shared(cut);
    let bytes = delta_of(&[(cut.len(), 0, rest.to_vec())]);
    let delta = Delta::parse(&bytes, cut.len()).expect("it fits");
    let text = base.apply(&delta, &Tally::default());
    assert!(text.pieces().eq([&whole]));
}

#[test]
fn a_line_of_any_length_is_one_piece() {
    let long = [vec![b'.'; 1 << 20], b"\n".to_vec()].concat();
    let bytes = delta_of(&[(0, 0, b"a\n".to_vec()), (0, 0, long.clone()), (0, 0, line("b"))]);
    let delta = Delta::parse(&bytes, 0).expect("it fits");
    let text = SharedText::default().apply(&delta, &Tally::default());
    assert_eq!(flat(&text).len(), long.len() + line("b").len() + 2);
    assert!(text.pieces().all(|piece| piece.ends_with(b"\n")));
}

#[test]
fn what_is_in_no_buffer_is_counted_as_long_as_it_is_there() {
    let tally = Tally::default();
    let lines = [line("a"), line("b"), line("c")].concat().repeat(2000);
    let base = SharedText::new(Buffer::from(lines), &tally);
    let lists = tally.bytes();
    let changed = |base: &SharedText, at| {
        let bytes = delta_of(&[(at, 0, line("a"))]);
        base.apply(&Delta::parse(&bytes, base.len()).expect("it fits"), &tally)
    };
    let first = changed(&base, 0);
    let one = tally.bytes() - lists;
    assert!((4000..20_000).contains(&one), "{one} bytes for a chunk and the list of its group");
    let second = changed(&first, 0);
    drop(first);
    assert!(tally.bytes() - lists < 2 * one);
    let third = changed(&second, 200_000);
    drop((base, second));
    assert!(tally.bytes() > one, "the first chunk is shared");
    drop(third);
    assert_eq!(tally.bytes(), 0);
}

/// Edits of bytes: position in thousandths, removed length, inserted bytes.
fn byte_edits() -> impl Strategy<Value = Vec<Vec<Edit>>> {
    let data = prop_oneof![
        Just(Vec::new()),
        "(a|\n){1,9}".prop_map(String::into_bytes),
        (0..200_000_usize).prop_map(|len| vec![b'.'; len]),
        (0..200_000_usize).prop_map(|len| b"a line of some length\n".repeat(len / 22)),
    ];
    let gone = prop_oneof![Just(0), 0..100_usize, 0..100_000_usize];
    let edit = (0..=1000_usize, gone, data);
    proptest::collection::vec(proptest::collection::vec(edit, 0..4), 1..6)
}

/// Edits at positions of a text, ascending and apart.
fn placed(mut edits: Vec<Edit>, len: usize) -> Vec<Edit> {
    edits.sort();
    let mut from = 0;
    for (place, gone, _) in &mut edits {
        *place = (*place * len / 1000).max(from);
        *gone = (*gone).min(len - *place);
        from = *place + *gone;
    }
    edits
}

fn spliced(base: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut text = base.to_vec();
    for (start, gone, data) in edits.iter().rev() {
        text.splice(*start..start + gone, data.iter().copied());
    }
    text
}

/// Replaces the unshared parts of one text by the other's.
fn patched(base: &SharedText, text: &SharedText) -> Vec<u8> {
    let (mut bytes, new_bytes) = (flat(base), flat(text));
    for (gone, new) in base.unshared(text).into_iter().rev() {
        bytes.splice(gone, new_bytes[new].iter().copied());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_are_the_text_that_they_are_made_of(
        lines in 0..9_000_usize,
        revisions in byte_edits(),
        most_bytes in prop_oneof![Just(0), 0..300_000_usize],
    ) {
        let mut expected: Vec<u8> =
            (0..lines).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
        let tally = Tally::default();
        let mut text = shared(&expected);
        for edits in revisions {
            let edits = placed(edits, expected.len());
            let bytes = delta_of(&edits);
            let delta = Delta::parse(&bytes, expected.len()).expect("it fits");
            expected = spliced(&expected, &edits);
            let mut made = text.apply(&delta, &tally);
            prop_assert!(flat(&made) == expected);
            prop_assert_eq!(made.len(), expected.len());
            prop_assert!(patched(&text, &made) == expected);
            made.gather(most_bytes, &tally, |len| {
                let mut room = Buffer::default();
                room.reserve_exact(len).map(|()| room)
            }).expect("is memory");
            prop_assert!(flat(&made) == expected);
            prop_assert!(patched(&text, &made) == expected);
            text = made;
        }
    }
}
