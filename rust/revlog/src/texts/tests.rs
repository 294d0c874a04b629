use std::path::PathBuf;

use super::*;
use crate::index::Index;

/// So much that buffers are kept to use again.
const LEN: usize = 5000;

fn text(number: u8) -> Vec<u8> {
    vec![number; LEN]
}

/// As many revisions, of which each is stored in full, and one more: that is a delta against the
/// first, which inserts a letter.
fn revlog(full: u8) -> Revlog {
    let delta = b"\0\0\0\0\0\0\0\0\0\0\0\x01x".to_vec();
    let chunks = (0..full).map(|number| (i32::from(number), text(number))).chain([(0, delta)]);
    let mut bytes = Vec::new();
    let mut offset = 0;
    for (number, (base, text)) in chunks.enumerate() {
        let chunk = [b"u", &text[..]].concat();
        let place = if number == 0 { 0x3_0001 << 32 } else { offset << 16 };
        bytes.extend(u64::to_be_bytes(place));
        let len = u32::try_from(chunk.len()).expect("short");
        bytes.extend([len.to_be_bytes(), len.to_be_bytes(), base.to_be_bytes()].as_flattened());
        bytes.extend([0; 4]);
        bytes.extend([0xff; 8]);
        bytes.extend([0; 32]);
        bytes.extend(chunk);
        offset += u64::from(len);
    }
    let index = Index::parse(bytes).expect("is whole");
    Revlog::new(index, "test".to_owned(), PathBuf::new(), PathBuf::new())
}

fn get(texts: &mut Texts<'_>, number: u32) -> Arc<Buffer> {
    let rev = texts.revlog.index().rev(number).expect("is there");
    texts.get(rev).expect("is readable").text
}

/// Whether the text is still known, which it then is until others are.
fn is_known(texts: &mut Texts<'_>, number: u8, before: &Arc<Buffer>) -> bool {
    let now = get(texts, u32::from(number));
    assert_eq!(now[..], text(number));
    Arc::ptr_eq(&now, before)
}

#[test]
fn a_text_that_is_held_stays_until_another_is() {
    let revlog = revlog(12);
    let revs: Vec<_> = revlog.index().revs().collect();
    let mut scratch = Scratch::default();
    let mut texts = Texts::new(&revlog, &mut scratch, 4 * LEN);
    let all: Vec<_> = (0..2).map(|number| get(&mut texts, number)).collect();
    texts.hold(revs[0], &all[0]);
    for number in 2..12 {
        get(&mut texts, number);
    }
    assert!(is_known(&mut texts, 0, &all[0]));
    assert_eq!(get(&mut texts, 12)[..], [b"x", &text(0)[..]].concat());
    assert!(!is_known(&mut texts, 1, &all[1]), "nobody holds it");
    texts.hold(revs[5], &Arc::new(Buffer::from(text(5))));
    for number in 2..12 {
        get(&mut texts, number);
    }
    assert!(!is_known(&mut texts, 0, &all[0]));
}

#[test]
fn a_text_that_is_long_beside_the_budget_is_not_held() {
    let revlog = revlog(5);
    let mut scratch = Scratch::default();
    let mut texts = Texts::new(&revlog, &mut scratch, 4 * LEN - 1);
    let first = get(&mut texts, 0);
    texts.hold(revlog.index().rev(0).expect("is there"), &first);
    for number in 1..5 {
        get(&mut texts, number);
    }
    assert!(!is_known(&mut texts, 0, &first));
}

#[test]
fn a_reader_goes_on_with_the_last_two_texts_and_the_held_one() {
    let revlog = revlog(8);
    let mut scratch = Scratch::default();
    let mut texts = Texts::new(&revlog, &mut scratch, 4 * LEN);
    let all: Vec<_> = (0..8).map(|number| get(&mut texts, number)).collect();
    texts.hold(revlog.index().rev(0).expect("is there"), &all[0]);
    let kept = texts.pause();
    let mut texts = Texts::resume(&revlog, &mut scratch, 4 * LEN, kept);
    for known in [0, 6, 7] {
        assert!(is_known(&mut texts, known, &all[usize::from(known)]), "{known}");
    }
    assert!(!is_known(&mut texts, 5, &all[5]));
    assert_eq!(get(&mut texts, 8)[..], [b"x", &text(0)[..]].concat());
    // their lengths are known as well: four have room, and a fifth has not
    let five: Vec<_> = (1..6).map(|number| get(&mut texts, number)).collect();
    assert!(is_known(&mut texts, 2, &five[1]));
    assert!(!is_known(&mut texts, 1, &five[0]));
}

#[test]
fn buffers_of_texts_that_are_not_kept_any_more_are_used_again() {
    let revlog = revlog(2);
    let mut scratch = Scratch::default();
    let mut texts = Texts::new(&revlog, &mut scratch, 4 * LEN);
    let first = get(&mut texts, 0);
    texts.hold(revlog.index().rev(0).expect("is there"), &first);
    let place = first.as_ptr();
    drop(first);
    let kept = texts.pause();
    scratch.recycle_kept(kept);
    let room = scratch.pool.take(LEN).expect("is memory");
    assert_eq!(room.as_ptr(), place);
}

#[test]
fn windows_get_shorter_where_chunks_are_apart() {
    let log = revlog(1);
    let mut scratch = Scratch::default();
    let mut texts = Texts::new(&log, &mut scratch, 0);
    assert_eq!(texts.next_window_len(1 << 40), WINDOW_LEN, "nothing is known of the first");
    texts.scratch.window.resize(WINDOW_LEN).expect("is memory");
    let mut read_at = |offset: u64| {
        texts.window_len = texts.next_window_len(offset);
        texts.window_start = Some(offset);
        texts.scratch.window.resize(texts.window_len).expect("is memory");
        texts.window_len
    };
    assert_eq!(read_at(0), WINDOW_LEN);
    let apart = [1 << 20, 2 << 20, 3 << 20, 2 << 20].map(&mut read_at);
    assert_eq!(apart, [32 << 10, SHORTEST_WINDOW, SHORTEST_WINDOW, SHORTEST_WINDOW]);
    // one after the other, or nearly
    let next = (2 << 20) + SHORTEST_WINDOW as u64;
    assert_eq!(read_at(next), 32 << 10);
    assert_eq!(read_at(next + (32 << 10) + 1000), WINDOW_LEN);
}
