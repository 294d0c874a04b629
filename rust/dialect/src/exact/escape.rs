//! Extras as Mercurial stores them: `encodeextra` in its `changelog.py`.

/// Stored form of the value of an extra.
#[must_use]
pub fn escape(value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len());
    for &byte in value {
        match byte {
            b'\\' => stored.extend_from_slice(b"\\\\"),
            b'\n' => stored.extend_from_slice(b"\\n"),
            b'\r' => stored.extend_from_slice(b"\\r"),
            0 => stored.extend_from_slice(b"\\0"),
            _ => stored.push(byte),
        }
    }
    stored
}

/// Value of an extra; `None` if Mercurial would have escaped it otherwise.
#[must_use]
pub fn unescape(value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                b'0' => 0,
                _ => return None,
            },
            b'\n' | b'\r' | 0 => return None,
            _ => byte,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_come_back(value: Vec<u8>) {
            prop_assert_eq!(unescape(&escape(&value)), Some(value));
        }
    }

    #[test]
    fn other_escapes_are_refused() {
        for odd in [&b"\\"[..], b"\\x41", b"a\nb", b"\\t"] {
            assert_eq!(unescape(odd), None);
        }
    }
}
