use proptest::prelude::*;

use super::super::apply;
use super::*;

fn encoded(base_len: u64, result_len: u64, ops: &[Op]) -> Result<Vec<u8>, EncodeError> {
    let mut out = b"old".to_vec();
    let encoded = encode(base_len, result_len, ops.iter().copied(), &mut out);
    encoded.map(|()| out)
}

#[test]
fn lengths_come_in_seven_bits_least_first() {
    let copy = |len| encoded(0x1_2345, len, &[Op::Copy { offset: 0, len }]);
    assert_eq!(copy(1), Ok(vec![0xc5, 0xc6, 0x04, 1, 0x90, 1]));
    assert_eq!(copy(0x80), Ok(vec![0xc5, 0xc6, 0x04, 0x80, 1, 0x90, 0x80]));
}

#[test]
fn zero_bytes_of_a_copy_are_left_out() {
    let ops = [Op::Copy { offset: 0x0100_0002, len: 0x300 }];
    let delta = encoded(1 << 31, 0x300, &ops).expect("within the format");
    assert_eq!(delta[7..], [0x80 | 0x01 | 0x08 | 0x20, 2, 1, 3]);
}

#[test]
fn a_copy_is_split_as_git_splits_it() {
    let len = 0x2_0001;
    let delta = encoded(1 << 20, len, &[Op::Copy { offset: 1, len }]).expect("is legal");
    assert_eq!(delta[6..], [0x81, 1, 0x85, 1, 1, 0x95, 1, 2, 1]);
}

#[test]
fn operations_that_continue_each_other_become_one() {
    let ops = [
        Op::Insert(b""),
        Op::Copy { offset: 1, len: 2 },
        Op::Insert(b""),
        Op::Copy { offset: 9, len: 0 },
        Op::Copy { offset: 3, len: 4 },
        Op::Insert(b"ab"),
        Op::Copy { offset: 2, len: 0 },
        Op::Insert(b"c"),
    ];
    assert_eq!(encoded(9, 9, &ops), Ok(b"\x09\x09\x91\x01\x06\x03abc".to_vec()));
}

#[test]
fn an_insertion_after_a_copy_is_a_new_one() {
    let ops = [Op::Insert(b"a"), Op::Copy { offset: 0, len: 1 }, Op::Insert(b"b")];
    assert_eq!(encoded(1, 3, &ops), Ok(b"\x01\x03\x01a\x90\x01\x01b".to_vec()));
}

#[test]
fn long_insertions_are_cut_to_full_pieces() {
    let text = [b'x'; 300];
    let delta = encoded(1, 300, &[Op::Insert(&text[..100]), Op::Insert(&text[100..])]);
    let delta = delta.expect("is legal");
    assert_eq!(delta.len(), 3 + 300 + 3);
    assert_eq!([delta[3], delta[3 + 128], delta[3 + 256]], [127, 127, 46]);
}

#[test]
fn copies_from_beyond_4_gib_are_refused() {
    let limit = 1_u64 << 32;
    let last = Op::Copy { offset: limit - 1, len: 5 };
    assert!(encoded(limit + 9, 5, &[last]).is_ok());
    let far = Op::Copy { offset: limit, len: 5 };
    assert_eq!(encoded(limit + 9, 5, &[far]), Err(EncodeError::TooFar { offset: limit }));
    let len = 2 * LONGEST_COPY;
    let across = Op::Copy { offset: limit - LONGEST_COPY, len };
    assert_eq!(encoded(2 * limit, len, &[across]), Err(EncodeError::TooFar { offset: limit }));
}

#[test]
fn contents_without_bytes_have_no_delta() {
    assert_eq!(encoded(5, 0, &[]), Err(EncodeError::Empty { base_len: 5, result_len: 0 }));
    let insert = [Op::Insert(b"a")];
    let empty = EncodeError::Empty { base_len: 0, result_len: 1 };
    assert_eq!(encoded(0, 1, &insert), Err(empty));
}

#[test]
fn operations_that_do_not_fit_are_refused_and_leave_nothing() {
    let mut out = b"old".to_vec();
    let copy = |offset, len| [Op::Copy { offset, len }];
    let outside = EncodeError::OutsideBase { offset: 1, len: 9, base_len: 9 };
    assert_eq!(encode(9, 9, copy(1, 9), &mut out), Err(outside));
    assert!(out.is_empty());
    let far = u64::MAX;
    let outside = EncodeError::OutsideBase { offset: far, len: 1, base_len: 9 };
    assert_eq!(encode(9, 9, copy(far, 1), &mut out), Err(outside));
    let short = EncodeError::ResultLen { made: 8, result_len: 9 };
    assert_eq!(encode(9, 9, copy(1, 8), &mut out), Err(short));
    assert!(out.is_empty());
}

proptest! {
    #[test]
    fn an_encoded_delta_makes_what_its_operations_say(
        base in proptest::collection::vec(any::<u8>(), 1..300),
        steps in proptest::collection::vec((any::<bool>(), 0..300_usize, 0..300_usize), 0..20),
    ) {
        let base = base.repeat(300); // so that copies are split
        let mut expected = Vec::new();
        let mut ops = Vec::new();
        for (is_copy, at, len) in steps {
            let (start, len) = if is_copy { (at * 200, len * 300) } else { (at, len) };
            let start = start.min(base.len());
            let range = &base[start..base.len().min(start + len)];
            expected.extend_from_slice(range);
            ops.push(if is_copy {
                Op::Copy { offset: start as u64, len: range.len() as u64 }
            } else {
                Op::Insert(range)
            });
        }
        let delta = encoded(base.len() as u64, expected.len() as u64, &ops);
        if expected.is_empty() {
            prop_assert!(delta.is_err());
        } else {
            let delta = delta.expect("operations are within the base");
            prop_assert_eq!(apply(&base, &delta, 1 << 20), Ok(expected));
        }
    }
}
