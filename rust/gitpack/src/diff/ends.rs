//! The common beginning and the common end of two contents.

/// Number of bytes compared at once, in vector registers.
const STRIDE: usize = 32;

/// Length of the common beginning.
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let (a_strides, a_rest) = a.as_chunks::<STRIDE>();
    let (b_strides, b_rest) = b.as_chunks::<STRIDE>();
    let strides = a_strides.iter().zip(b_strides).take_while(|(a, b)| a == b).count();
    let (a_rest, b_rest) = match (a_strides.get(strides), b_strides.get(strides)) {
        (Some(a), Some(b)) => (&a[..], &b[..]),
        _ => (a_rest, b_rest),
    };
    strides * STRIDE + common_prefix_in_stride(a_rest, b_rest)
}

/// Length of the common beginning of two short slices of one length.
fn common_prefix_in_stride(a: &[u8], b: &[u8]) -> usize {
    let (a_words, a_rest) = a.as_chunks();
    let (b_words, b_rest) = b.as_chunks();
    for (word, (a, b)) in a_words.iter().zip(b_words).enumerate() {
        let differs = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differs != 0 {
            return word * 8 + differs.trailing_zeros() as usize / 8;
        }
    }
    let rest = a_rest.iter().zip(b_rest).take_while(|(a, b)| a == b).count();
    a_words.len() * 8 + rest
}

/// Length of the common end.
pub(super) fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[a.len() - len..], &b[b.len() - len..]);
    let (_, a_strides) = a.as_rchunks::<STRIDE>();
    let (_, b_strides) = b.as_rchunks::<STRIDE>();
    let strides = a_strides.iter().rev().zip(b_strides.iter().rev());
    let equal = strides.take_while(|(a, b)| a == b).count() * STRIDE;
    let left = len - equal;
    let rest = a[..left].iter().rev().zip(b[..left].iter().rev());
    equal + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn common_ends_are_counted_to_the_byte(
            common in proptest::collection::vec(any::<u8>(), 0..200), a: Vec<u8>, b: Vec<u8>,
        ) {
            let plain = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
            let mut a = [&common[..], &a].concat();
            let mut b = [&common[..], &b].concat();
            let expected = plain(&a, &b);
            prop_assert_eq!(common_prefix(&a, &b), expected);
            a.reverse();
            b.reverse();
            prop_assert_eq!(common_suffix(&a, &b), expected);
        }
    }
}
