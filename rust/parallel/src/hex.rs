//! Hexadecimal digits of ids, for commits and notes with millions of them.
//!
//! `Display` writes digit by digit through `std::fmt`. That took a tenth of the processor time of
//! an export (100,000 changesets of one file each, 2026-11).

/// Number of values of a byte.
const BYTES: usize = 256;

/// The two digits of each byte.
pub static DIGITS: [[u8; 2]; BYTES] = {
    let mut digits = [[0; 2]; BYTES];
    let mut byte = 0;
    while byte < BYTES {
        digits[byte] = [b"0123456789abcdef"[byte >> 4], b"0123456789abcdef"[byte & 15]];
        byte += 1;
    }
    digits
};

/// The digits of a node, or of an oid.
#[inline]
#[must_use]
pub fn hex(id: &[u8; 20]) -> [u8; 40] {
    let mut digits = [0; 40];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(id) {
        *pair = DIGITS[usize::from(*byte)];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_display_writes() {
        let id = std::array::from_fn(|at| u8::try_from(at * 13).expect("small"));
        assert_eq!(hex(&id), *id.map(|byte| format!("{byte:02x}")).concat().as_bytes());
    }
}
