//! File names that Mercurial or git refuses.
//!
//! Mercurial's rules are those of `pathutil.pathauditor` and `scmutil.checkfilename`, git's those
//! of `fsck_tree` in `fsck.c`. Both apply to one component of a path.

use std::borrow::Cow;

/// Code points that HFS+ ignores, in UTF-8, in the order of `mercurial/encoding.py`.
const IGNORED: [&[u8]; 16] = [
    b"\xe2\x80\x8c",
    b"\xe2\x80\x8d",
    b"\xe2\x80\x8e",
    b"\xe2\x80\x8f",
    b"\xe2\x80\xaa",
    b"\xe2\x80\xab",
    b"\xe2\x80\xac",
    b"\xe2\x80\xad",
    b"\xe2\x80\xae",
    b"\xe2\x81\xaa",
    b"\xe2\x81\xab",
    b"\xe2\x81\xac",
    b"\xe2\x81\xad",
    b"\xe2\x81\xae",
    b"\xe2\x81\xaf",
    b"\xef\xbb\xbf",
];

/// Whether Mercurial refuses a path with this component.
///
/// Mercurial splits its list of files at line feeds and at carriage returns. With one in a path,
/// the store works until `hg verify` reads the list (Mercurial 7.2, `fncache` in `store.py`).
#[must_use]
pub fn hg_refuses(name: &[u8]) -> bool {
    if memchr::memchr2(b'\n', b'\r', name).is_some() {
        return true;
    }
    let seen = as_on_hfs(name);
    is_short_name(name) || seen.eq_ignore_ascii_case(b".hg") || seen.eq_ignore_ascii_case(b".hg.")
}

/// Whether Mercurial refuses a path that begins with this component.
#[must_use]
pub fn hg_refuses_in_root(name: &[u8]) -> bool {
    as_on_hfs(name).is_empty()
}

/// Whether paths with this entry of a tree lead elsewhere.
#[must_use]
pub fn is_no_component(name: &[u8]) -> bool {
    matches!(name, b"" | b"." | b"..") || memchr::memchr(b'/', name).is_some()
}

/// Whether git refuses a tree with this entry.
#[must_use]
pub fn git_refuses(name: &[u8]) -> bool {
    is_no_component(name)
        || is_dot_git_on_hfs(name)
        || name.split(|&byte| byte == b'\\').any(is_dot_git_on_ntfs)
}

/// Short name of Windows for `.hg`: `HG~1`.
fn is_short_name(name: &[u8]) -> bool {
    let Some(tilde) = memchr::memchr(b'~', name) else { return false };
    let (first, digits) = (&name[..tilde], &name[tilde + 1..]);
    !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
        && (first.eq_ignore_ascii_case(b"HG") || first.eq_ignore_ascii_case(b"HG8B6C"))
}

/// `is_hfs_dotgit` of git's `utf8.c`, for which a name ends at the first character that is none.
fn is_dot_git_on_hfs(name: &[u8]) -> bool {
    let valid = name.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let is_ignored = |c: &char| IGNORED.contains(&c.encode_utf8(&mut [0; 4]).as_bytes());
    valid
        .chars()
        .take_while(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'))
        .filter(|c| !is_ignored(c))
        .map(|c| c.to_ascii_lowercase())
        .eq(".git".chars())
}

/// `is_ntfs_dotgit` of git's `path.c`, for a part between backslashes.
fn is_dot_git_on_ntfs(name: &[u8]) -> bool {
    let begins = |start: &[u8]| {
        let (head, rest) = name.split_at_checked(start.len())?;
        head.eq_ignore_ascii_case(start).then_some(rest)
    };
    let Some(rest) = begins(b".git").or_else(|| begins(b"git~1")) else { return false };
    let end = rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len());
    rest[..end].iter().all(|byte| matches!(byte, b' ' | b'.'))
}

/// Name without the code points that HFS+ ignores.
fn as_on_hfs(name: &[u8]) -> Cow<'_, [u8]> {
    let mut seen = Cow::Borrowed(name);
    if memchr::memchr2(0xe2, 0xef, name).is_some() {
        // in sequence: removing one may make another
        for ignored in IGNORED {
            if memchr::memmem::find(&seen, ignored).is_some() {
                seen = Cow::Owned(without(&seen, ignored));
            }
        }
    }
    seen
}

fn without(name: &[u8], ignored: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(name.len());
    let mut at = 0;
    for found in memchr::memmem::find_iter(name, ignored) {
        kept.extend_from_slice(&name[at..found]);
        at = found + ignored.len();
    }
    kept.extend_from_slice(&name[at..]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_repository_are_refused() {
        for name in [".hg", ".HG", ".hg.", "HG~1", "hg8b6c~12", ".h\u{200c}g", "a\nb", "a\rb"] {
            assert!(hg_refuses(name.as_bytes()), "{name:?}");
        }
        for name in ["hg", ".hgignore", ".hg..", "hg~", "hg~1a", "xhg~1", ".git", "~", ""] {
            assert!(!hg_refuses(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn a_name_of_ignored_code_points_is_refused_in_the_root() {
        assert!(hg_refuses_in_root("\u{200c}\u{feff}".as_bytes()));
        // removing the first makes the second
        assert!(hg_refuses_in_root(b"\xe2\x80\xe2\x80\x8c\x8d"));
        assert!(!hg_refuses_in_root(b"\xe2\x80\xe2\x80\x8d\x8c"));
        assert!(!hg_refuses_in_root("\u{200c}a".as_bytes()));
    }

    #[test]
    fn names_that_git_refuses() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            ".git",
            ".GIT",
            ".g\u{200d}it",
            ".git ",
            ".git. .",
            "git~1",
            ".git:x",
            "GIT~1.",
            "a\\.git",
            "\\git~1\\b",
            ".git::$INDEX",
        ] {
            assert!(git_refuses(name.as_bytes()), "{name:?}");
        }
        for name in [
            &b".git\xff"[..],
            b".GIT\xffx",
            b".git\xe2\x80",
            b".git\xc0\xafz",
            b".git\xed\xa0\x80",
            b".git\xef\xbf\xbe",
            b".git\xf4\x90\x80\x80",
            b".gi\xe2\x80\x8ct\xff",
        ] {
            assert!(git_refuses(name), "{name:?}");
        }
        for name in [&b".gi\xfft"[..], b".gitx\xff", b"\xff.git", b".git\xc3\xa9"] {
            assert!(!git_refuses(name), "{name:?}");
        }
        for name in ["...", ".gitx", ".gitignore", "git", "git~2", ".hg", ".git.x", "a.git"] {
            assert!(!git_refuses(name.as_bytes()), "{name:?}");
        }
    }
}
