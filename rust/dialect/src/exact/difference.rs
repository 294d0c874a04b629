//! Difference of two byte strings: the lengths of their common start and end, and the bytes between.
//!
//! The common start is as long as possible, then the common end. So two strings have one
//! difference, and it can make no more bytes than both have.

/// Appends the difference from `base` to `target`: `START SP END SP BYTES`.
pub fn push_difference(out: &mut Vec<u8>, base: &[u8], target: &[u8]) {
    let common = |(one, two): &(&u8, &u8)| one == two;
    let start = base.iter().zip(target).take_while(common).count();
    let (base, target) = (&base[start..], &target[start..]);
    let end = base.iter().rev().zip(target.iter().rev()).take_while(common).count();
    out.extend_from_slice(format!("{start} {end} ").as_bytes());
    out.extend_from_slice(&target[..target.len() - end]);
}

/// Appends the target of a difference to `out`; `None` if it does not fit `base`.
pub fn apply(out: &mut Vec<u8>, base: &[u8], difference: &[u8]) -> Option<()> {
    let mut parts = difference.splitn(3, |&byte| byte == b' ');
    let (start, end) = (number(parts.next()?)?, number(parts.next()?)?);
    let between = parts.next()?;
    let rest = base.get(start..)?;
    let end = rest.get(rest.len().checked_sub(end)?..)?;
    out.extend_from_slice(&base[..start]);
    out.extend_from_slice(between);
    out.extend_from_slice(end);
    Some(())
}

/// A number without leading zeros.
pub fn number(digits: &[u8]) -> Option<usize> {
    let is_plain =
        digits == b"0" || digits.first().is_some_and(|first| (b'1'..=b'9').contains(first));
    std::str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn difference(base: &[u8], target: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_difference(&mut out, base, target);
        out
    }

    #[test]
    fn the_form_is_fixed() {
        for (base, target, expected) in [
            ("", "", "0 0 "),
            ("aaa", "aa", "2 0 "),
            ("abc", "abc", "3 0 "),
            ("axc", "ayyc", "1 1 yy"),
            ("ac", "a 1 c", "1 1  1 "),
            ("a\nm\n", "b\nm\n", "0 3 b"),
        ] {
            assert_eq!(difference(base.as_bytes(), target.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn lengths_outside_of_the_base_are_refused() {
        for odd in ["", "1", "1 1", "4 0 ", "0 4 ", "2 2 ", "01 0 ", "+1 0 ", "-1 0 ", "a 0 "] {
            assert_eq!(apply(&mut Vec::new(), b"abc", odd.as_bytes()), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn differences_come_back(start: Vec<u8>, one: Vec<u8>, two: Vec<u8>, end: Vec<u8>) {
            let (base, target) = ([&*start, &one, &end].concat(), [&*start, &two, &end].concat());
            let mut back = Vec::new();
            prop_assert_eq!(apply(&mut back, &base, &difference(&base, &target)), Some(()));
            prop_assert_eq!(back, target);
        }
    }
}
