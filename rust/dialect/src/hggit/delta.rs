//! Deltas in extras, applied as by dulwich (`dulwich/pack.py`).
//!
//! They have git's format, but may be shorter than any delta that git accepts.

use crate::MOST_COMMIT_BYTES;

/// Applies a delta; `None` if it does not fit the base.
pub fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta;
    let base_len = length(&mut rest)?;
    let made_len = length(&mut rest).filter(|len| *len <= MOST_COMMIT_BYTES)?;
    if base_len != base.len() {
        return None;
    }
    let mut made = Vec::with_capacity(made_len);
    while let Some(op) = next(&mut rest) {
        match op {
            0 => return None,
            1..=0x7f => made.extend_from_slice(rest.split_off(..usize::from(op))?),
            0x80.. => {
                let offset = number(&mut rest, op, 4)?;
                let len = match number(&mut rest, op >> 4, 3)? {
                    0 => 0x10000,
                    len => len,
                };
                match base.get(offset..offset + len).filter(|_| len <= made_len) {
                    Some(copied) => made.extend_from_slice(copied),
                    // a last copy that does not fit is left out
                    None => break,
                }
            }
        }
        if made.len() > made_len {
            return None;
        }
    }
    (rest.is_empty() && made.len() == made_len).then_some(made)
}

fn next(rest: &mut &[u8]) -> Option<u8> {
    rest.split_off_first().copied()
}

/// A length in groups of 7 bits, lowest first. The delta may end in it.
fn length(rest: &mut &[u8]) -> Option<usize> {
    let mut len = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let byte = next(rest).unwrap_or_default();
        len |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(len);
        }
    }
    None
}

/// A number of the bytes that the lowest `most` bits of `op` name, lowest first.
fn number(rest: &mut &[u8], op: u8, most: usize) -> Option<usize> {
    let mut number = 0;
    for at in (0..most).filter(|at| op >> at & 1 == 1) {
        number |= usize::from(next(rest)?) << (8 * at);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn deltas_are_applied_as_by_dulwich() {
        for (base, delta, made) in [
            ("\n", &b"\x01\x00"[..], Some("")),
            ("\n", b"\x01", Some("")),
            ("abcdef", b"\x06\x05\x02xy\x91\x03\x03", Some("xydef")),
            ("abcdef", b"\x06\x05\x02xy\x91\x04\x03", None),
            ("abcdef", b"\x06\x02\x02xy\x91\x04\x03", Some("xy")),
            ("abcdef", b"\x06\x02\x02xy\x91\x04\x03\x01", None),
            ("abc", b"\x03\x02\x00", None),
            ("abc", b"\x03\x02\x03x", None),
            ("abc", b"\x02\x00", None),
            ("abc", b"", None),
        ] {
            let found = apply(base.as_bytes(), delta);
            assert_eq!(found.as_deref(), made.map(str::as_bytes), "{delta:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_delta_is_applied_or_refused(base: Vec<u8>, delta: Vec<u8>) {
            let _ = apply(&base, &delta);
        }
    }
}
