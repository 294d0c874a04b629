//! Texts of changesets as hg-git sees them: extras without escapes, UTF-8, quoted values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use revlog::Changeset;

/// Extras by key, without escapes. The last of equal keys counts.
pub type Extras = BTreeMap<Vec<u8>, Vec<u8>>;

/// The extras of a changeset.
pub fn extras(changeset: &Changeset<'_>) -> Extras {
    let items = changeset.extra.unwrap_or_default().split(|&byte| byte == 0);
    let extra = |item: &[u8]| {
        let item = unescape(item);
        let colon = memchr::memchr(b':', &item).unwrap_or(item.len());
        (item[..colon].to_vec(), item.get(colon + 1..).unwrap_or_default().to_vec())
    };
    items.filter(|item| !item.is_empty()).map(extra).collect()
}

/// Removes the escapes of an item of the extras, which are those of Python's byte strings.
///
/// `\0` is always one byte. A malformed escape is left unchanged; Mercurial cannot read such a
/// changeset.
fn unescape(item: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', item).is_none() {
        return item.into();
    }
    let mut out = Vec::with_capacity(item.len());
    let mut rest = item;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (byte, len) = escaped(&rest[at..]);
        out.extend(byte);
        rest = &rest[at + len..];
    }
    out.extend_from_slice(rest);
    out.into()
}

/// The byte of the escape that `text` begins with, if any, and the length of the escape.
fn escaped(text: &[u8]) -> (Option<u8>, usize) {
    let octal = |len: usize| {
        text[1..=len].iter().fold(0_u8, |value, digit| value.wrapping_mul(8) + (digit - b'0'))
    };
    let byte = match text.get(1) {
        Some(byte @ (b'\\' | b'\'' | b'"')) => *byte,
        Some(b'0') => 0,
        Some(b'a') => 7,
        Some(b'b') => 8,
        Some(b't') => b'\t',
        Some(b'n') => b'\n',
        Some(b'v') => 0x0b,
        Some(b'f') => 0x0c,
        Some(b'r') => b'\r',
        Some(b'1'..=b'7') => {
            let digits = text[1..].iter().take(3);
            let len = digits.take_while(|digit| (b'0'..=b'7').contains(digit)).count();
            return (Some(octal(len)), 1 + len);
        }
        Some(b'x') => match text.get(2..4).and_then(hex_pair) {
            Some(byte) => return (Some(byte), 4),
            None => return (Some(b'\\'), 1),
        },
        _ => return (Some(b'\\'), 1),
    };
    (Some(byte), 2)
}

fn hex_pair(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

/// A text in UTF-8. Mercurial takes other texts for ISO 8859-1.
pub fn to_utf8(text: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(text).is_ok() {
        return text.into();
    }
    text.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes().into()
}

/// Appends bytes as `urllib.parse.quote` writes them.
pub fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' | b'/' => {
                out.push(*byte);
            }
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}

/// The bytes of a quoted text. A `%` without two digits stays.
pub fn unquote(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest.get(at + 1..at + 3).and_then(hex_pair);
        out.push(byte.unwrap_or(b'%'));
        rest = &rest[at + if byte.is_some() { 3 } else { 1 }..];
    }
    out.extend_from_slice(rest);
    out
}

/// Whether Python takes a byte for blank.
pub const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Removes blanks at the start, as Python does.
pub fn trim_start(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte));
    &text[start.unwrap_or(text.len())..]
}

/// Removes blanks at the end, as Python does.
pub fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_blank(*byte));
    &text[..end.map_or(0, |at| at + 1)]
}

/// Removes blanks at both ends, as Python does.
pub fn trim(text: &[u8]) -> &[u8] {
    trim_start(trim_end(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_python() {
        // codecs.escape_decode after mercurial.changelog._string_unescape
        for (item, expected) in [
            (&b"plain"[..], &b"plain"[..]),
            (br"a\\b\nc\rd\te", b"a\\b\nc\rd\te"),
            (br"\0", b"\0"),
            (br"\012", b"\x0012"),
            (br"\\0", b"\\0"),
            (br"\101\1018\7z", b"AA8\x07z"),
            (br"\x41\x4", b"A\\x4"),
            (br"\q\", b"\\q\\"),
            (br#"\'\"\a\b\v\f"#, b"'\"\x07\x08\x0b\x0c"),
            (br"\501", b"A"),
        ] {
            assert_eq!(
                unescape(item).escape_ascii().to_string(),
                expected.escape_ascii().to_string()
            );
        }
    }

    #[test]
    fn other_texts_than_utf8_are_latin_1() {
        assert_eq!(*to_utf8("é".as_bytes()), *"é".as_bytes());
        assert_eq!(*to_utf8(b"caf\xe9"), *"café".as_bytes());
    }

    #[test]
    fn quoting_is_reversible() {
        let all: Vec<u8> = (0..=255).collect();
        let mut quoted = Vec::new();
        push_quoted(&mut quoted, &all);
        assert_eq!(unquote(&quoted), all);
        let mut quoted = Vec::new();
        push_quoted(&mut quoted, "a b/c~é(".as_bytes());
        assert_eq!(quoted, b"a%20b/c~%C3%A9%28");
        assert_eq!(unquote(b"%4a%zz%"), b"J%zz%");
    }
}
