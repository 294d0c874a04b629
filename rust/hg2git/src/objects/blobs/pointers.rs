//! Pointers to contents in LFS, as git-lfs writes them.
//!
//! Mercurial's `hgext/lfs/pointer.py` writes more keys than git-lfs: `x-is-binary`, and metadata as
//! `x-hg-copy`. git-lfs refuses pointers with these keys. `docs/spec.md` of git-lfs has the format.

const VERSION: &[u8] = b"https://git-lfs.github.com/spec/v1";
const DIGEST_LEN: usize = 64;
/// The SHA-256 of an empty file, for which git-lfs has no pointer.
const OID_OF_NOTHING: &[u8; DIGEST_LEN] =
    b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Converts a pointer of Mercurial to one of git-lfs; `None` if `text` is no pointer.
///
/// A pointer has one line for each key, in any order. It must have each of git-lfs's keys once.
/// Other keys are left out.
pub(crate) fn pointer_of(text: &[u8]) -> Option<Vec<u8>> {
    let (mut version, mut digest, mut size) = (None, None, None);
    for line in text.strip_suffix(b"\n")?.split(|&byte| byte == b'\n') {
        let space = line.iter().position(|&byte| byte == b' ')?;
        let (key, value) = (&line[..space], &line[space + 1..]);
        let known = match key {
            b"version" => &mut version,
            b"oid" => &mut digest,
            b"size" => &mut size,
            _ if is_key(key) => continue,
            _ => return None,
        };
        if known.replace(value).is_some() {
            return None;
        }
    }
    let digest = digest?.strip_prefix(b"sha256:").filter(|digest| is_digest(digest))?;
    let size = parse_size(size?)?;
    if version? != VERSION || size == 0 && digest != OID_OF_NOTHING {
        return None;
    }
    if size == 0 {
        return Some(Vec::new());
    }
    let size = size.to_string();
    let parts: [&[u8]; 7] =
        [b"version ", VERSION, b"\noid sha256:", digest, b"\nsize ", size.as_bytes(), b"\n"];
    Some(parts.concat())
}

fn is_key(key: &[u8]) -> bool {
    let is_known = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
    !key.is_empty() && key.iter().all(is_known)
}

fn is_digest(digest: &[u8]) -> bool {
    digest.len() == DIGEST_LEN
        && digest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Parses a size: only digits, in the range of `int64`, as git-lfs reads it.
fn parse_size(digits: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of git-lfs's specification.
    const EXAMPLE: &str = "version https://git-lfs.github.com/spec/v1\n\
        oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n\
        size 12345\n";

    fn pointer(text: &str) -> Option<String> {
        pointer_of(text.as_bytes()).map(|made| String::from_utf8(made).expect("is ASCII"))
    }

    #[test]
    fn other_keys_are_left_out() {
        assert_eq!(pointer(EXAMPLE).as_deref(), Some(EXAMPLE));
        let keys = "x-hg-copy a file\nx-hg-copyrev 00\nx-is-binary 0\n";
        for text in [format!("{EXAMPLE}{keys}"), format!("{keys}{EXAMPLE}")] {
            assert_eq!(pointer(&text).as_deref(), Some(EXAMPLE));
        }
        let padded = EXAMPLE.replace("size 12345", "size 0012345");
        assert_eq!(pointer(&padded).as_deref(), Some(EXAMPLE));
    }

    #[test]
    fn an_empty_file_is_its_own_pointer() {
        let empty = EXAMPLE.replace("12345", "0");
        assert_eq!(pointer(&empty), None, "the digest is of something");
        let digest = std::str::from_utf8(OID_OF_NOTHING).expect("is ASCII");
        let start = EXAMPLE.find("4d7a").expect("is there");
        let empty = empty.replace(&EXAMPLE[start..start + DIGEST_LEN], digest);
        assert_eq!(pointer(&empty).as_deref(), Some(""));
    }

    #[test]
    fn other_texts_are_no_pointers() {
        let changes = [
            ("version", "versions"),
            ("spec/v1", "spec/v2"),
            ("sha256:4d", "sha256:4D"),
            ("sha256:4d", "sha256:d"),
            ("sha256:", "sha1:"),
            ("size 12345", "size -1"),
            ("size 12345", "size +1"),
            ("size 12345", "size "),
            ("size 12345", "size 9223372036854775808"),
            ("size 12345\n", "size 12345"),
            ("size 12345\n", "size 12345\r\n"),
            ("size 12345\n", ""),
            ("size 12345\n", "size 12345\nsize 12345\n"),
            ("size 12345\n", "size 12345\n\n"),
            ("size 12345\n", "size 12345\nX 1\n"),
            ("size 12345\n", "size 12345\n 1\n"),
        ];
        for (old, new) in changes {
            let text = EXAMPLE.replace(old, new);
            assert_ne!(text, EXAMPLE, "{old}");
            assert_eq!(pointer(&text), None, "{text}");
        }
        assert_eq!(pointer(""), None);
    }
}
