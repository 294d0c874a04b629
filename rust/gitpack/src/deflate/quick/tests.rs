use proptest::prelude::*;

use super::*;
use crate::deflate::codes::WINDOW;
use crate::deflate::inflate;

fn deflated(deflater: &mut QuickDeflater, data: &[u8]) -> Vec<u8> {
    let mut out = vec![7; QuickDeflater::bound(data.len())];
    let len = deflater.deflate_to(data, &mut out);
    assert!(
        len <= data.len() + HEADER_LEN + STORED_HEAD_LEN + CHECKSUM_LEN,
        "{len} bytes of {}",
        data.len()
    );
    out.truncate(len);
    out
}

/// Compresses, and compares the content that libdeflate inflates.
fn stream(deflater: &mut QuickDeflater, data: &[u8]) -> Vec<u8> {
    let stream = deflated(deflater, data);
    assert_eq!(inflate(&stream, data.len()).as_deref(), Ok(data));
    stream
}

/// Bytes without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn text(len: usize) -> Vec<u8> {
    let line = |n: usize| format!("    line {n} of {} and {:x}\n", n * n % 97, n * n * n);
    (0..).flat_map(|n| line(n).into_bytes()).take(len).collect()
}

/// The type of the block of a stream.
fn form(stream: &[u8]) -> u8 {
    assert_eq!((stream[0], stream[1], stream[2] & 1), (0x78, 1, 1), "header, and last block");
    stream[2] >> 1 & 3
}

#[test]
fn all_short_lengths_are_inflated() {
    let mut deflater = QuickDeflater::default();
    for source in [noise(700), text(700), vec![0; 700], b"abcde".repeat(140)] {
        for len in 0..=source.len() {
            stream(&mut deflater, &source[..len]);
        }
    }
}

#[test]
fn lengths_about_the_longest_are_inflated() {
    let mut deflater = QuickDeflater::default();
    for source in [noise(LONGEST), text(LONGEST), vec![0; LONGEST]] {
        for len in LONGEST - 9..=LONGEST {
            stream(&mut deflater, &source[..len]);
        }
    }
}

#[test]
fn counts_make_up_the_payload() {
    let data = [text(3000), noise(500), vec![0; 600]].concat();
    let counts = QuickDeflater::default().count(&data);
    let matched: u32 = (3..).zip(counts.lengths).map(|(len, count)| len * count).sum();
    let bytes: u32 = counts.bytes.iter().sum();
    assert_eq!((bytes + matched) as usize, data.len());
    assert_eq!(counts.lengths.iter().sum::<u32>(), counts.distances.iter().sum());
    assert!(bytes > 500 && matched > 1000, "{bytes} and {matched}");
}

#[test]
fn noise_is_stored_and_text_is_not() {
    let mut deflater = QuickDeflater::default();
    for len in [1000, LONGEST] {
        let stored = stream(&mut deflater, &noise(len));
        assert_eq!((form(&stored), stored.len()), (0, len + 11));
    }
    assert_eq!(form(&stream(&mut deflater, b"")), 1);
    for len in [50, 100, 2000] {
        assert_ne!(form(&stream(&mut deflater, &text(len))), 0);
    }
}

#[test]
fn ids_in_hexadecimal_take_little_more_than_half_their_digits() {
    let hex =
        |len: usize| noise(len).iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect();
    let digits: Vec<u8> = hex(200);
    let commit = [b"tree ", &digits[..40], b"\nparent ", &digits[40..80], b"\nauthor "].concat();
    let delta = [&b"\xc8\x01\xc8\x01\x90\x05("[..], &digits[..40], b"\x91-\x08(", &digits[40..80]];
    let entry = |at: usize| [&b"160000 "[..], &digits[at..at + 36], b"\0", &noise(20)].concat();
    let notes: Vec<u8> = (0..300).step_by(36).flat_map(entry).collect();
    let mut deflater = QuickDeflater::default();
    for (data, most) in [(commit, 95), (delta.concat(), 90), (notes, 420)] {
        let stream = stream(&mut deflater, &data);
        assert!(stream.len() < most, "{} of {}", stream.len(), data.len());
    }
}

/// The stream with one choice of codes, if all runs have codes in it.
fn stream_with(choice: &Choice, data: &[u8], runs: &[Run], bits: u32) -> Option<Vec<u8>> {
    let bits = bits.checked_add(choice.bits())?;
    let mut out = vec![7; 4 * data.len() + BlockHead::MOST_BYTES + 2 * Bits::ROOM];
    let written = write_runs(&choice.codes, data, runs, Bits::after(&mut out, choice.head.bits()));
    let end = written.finish();
    assert_eq!(end, bits.div_ceil(8) as usize, "is as long as it was said to become");
    out.truncate(end);
    out.extend_from_slice(&libdeflater::adler32(data).to_be_bytes());
    Some(out)
}

/// Writes the content with each possible choice of codes, and returns these choices.
fn try_all_codes(data: &[u8]) -> [bool; CODES] {
    let mut finder = Runs::default();
    let (runs, bits) = finder.of(data);
    let mut shortest = data.len() + 11;
    let mut can = [false; CODES];
    for ((can, bits), choice) in can.iter_mut().zip(bits).zip(&CHOICES) {
        let Some(stream) = stream_with(choice, data, runs, bits) else { continue };
        assert_eq!(inflate(&stream, data.len()).as_deref(), Ok(data));
        shortest = shortest.min(stream.len());
        *can = true;
    }
    assert_eq!(stream(&mut QuickDeflater::default(), data).len(), shortest);
    can
}

#[test]
fn all_codes_write_what_they_can_and_the_shortest_is_taken() {
    for len in [0, 1, 2, 3, 7, 8, 9, 1023, 1024, 1025, 2048, 2055, 5000, LONGEST] {
        let hex: Vec<u8> = noise(len).iter().map(|byte| b'a' + byte % 6).collect();
        let can = try_all_codes(&hex);
        assert!(len > 9 || can == [true; CODES], "{len}: {can:?}");
        assert!(try_all_codes(&noise(len))[0], "the fixed ones have all");
        assert!(try_all_codes(&text(len))[0], "the fixed ones have all");
    }
}

#[test]
fn all_codes_write_matches_of_all_lengths_and_distances() {
    let mut could = [0; CODES];
    for bit in 0..=15 {
        for back in [1 << bit, (1 << bit) * 3 / 2] {
            let mut data: Vec<u8> = noise(back).iter().map(|byte| b'a' + byte % 6).collect();
            for len in (4..=300).step_by(if back < 500 { 1 } else { 37 }) {
                data.truncate(back);
                data.extend((0..len).map(|at| data[at % back]).collect::<Vec<_>>());
                for (could, can) in could.iter_mut().zip(try_all_codes(&data)) {
                    *could += usize::from(can);
                }
            }
        }
    }
    assert!(could.into_iter().all(|could| could > 50), "{could:?}");
}

#[test]
fn each_byte_has_the_code_that_is_told() {
    for byte in 0..=u8::MAX {
        try_all_codes(&[byte; 3]);
    }
}

#[test]
fn a_match_is_as_far_and_as_long_as_the_format_allows() {
    // of the bytes that take eight bits each
    let mut data: Vec<u8> = noise(WINDOW).iter().map(|byte| byte & 0x7f).collect();
    data.extend_from_within(..300);
    let mut deflater = QuickDeflater::default();
    let found = stream(&mut deflater, &data).len();
    assert!(found < WINDOW + 200, "{found}");
    // one byte more between them, and nothing is found
    data.insert(WINDOW, 0);
    assert!(stream(&mut deflater, &data).len() > data.len());
}

#[test]
fn a_used_compressor_gives_the_bytes_of_a_new_one() {
    let mut deflater = QuickDeflater::default();
    let texts = [text(5000), text(300), noise(3000), text(5000), vec![], text(40)];
    for text in &texts {
        let fresh = deflated(&mut QuickDeflater::default(), text);
        assert_eq!(deflated(&mut deflater, text), fresh);
    }
    // places begin anew where they would no longer fit
    deflater.runs.base = u32::MAX - 7000;
    for text in &texts {
        let fresh = deflated(&mut QuickDeflater::default(), text);
        assert_eq!(deflated(&mut deflater, text), fresh);
    }
    assert!(deflater.runs.base < 70_000);
}

#[test]
#[should_panic(expected = "not for this compressor")]
fn what_is_long_is_refused() {
    let len = LONGEST + 1;
    QuickDeflater::default().deflate_to(&vec![0; len], &mut vec![0; 2 * len]);
}

#[test]
#[should_panic(expected = "bound() tells")]
fn too_little_room_is_refused() {
    QuickDeflater::default().deflate_to(&text(300), &mut [0; 100]);
}

proptest! {
    #[test]
    fn what_was_deflated_inflates(data: Vec<u8>) {
        stream(&mut QuickDeflater::default(), &data);
    }

    #[test]
    fn all_codes_agree_with_what_they_were_said_to_cost(
        data in proptest::collection::vec(0x20..0x80_u8, 0..3000),
        from: prop::sample::Index,
    ) {
        let again = [&data[..], &data[from.index(data.len() + 1)..]].concat();
        prop_assert!(try_all_codes(&again)[0]);
    }

    #[test]
    fn what_repeats_inflates_and_is_shorter(
        parts in proptest::collection::vec(proptest::collection::vec(0..9_u8, 1..80), 1..6),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..400),
    ) {
        let data: Vec<u8> = order.iter().flat_map(|part| part.get(&parts).clone()).collect();
        let stream = stream(&mut QuickDeflater::default(), &data);
        prop_assert!(stream.len() < data.len() + 9);
    }
}
