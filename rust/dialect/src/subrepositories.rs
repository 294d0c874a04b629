//! Files that Mercurial reads subrepositories from: `.hgsub` and `.hgsubstate`.
//!
//! If it cannot read one of them, `hg update` and most other commands stop, in each working copy
//! and clone (`subrepoutil.state` in Mercurial 7.2).

use crate::names::{hg_refuses, hg_refuses_in_root, is_no_component};

/// Whether Mercurial can read subrepositories from a file with this path; `true` for other paths.
///
/// Of the syntax of configuration files, only comments and `PATH = SOURCE` are accepted in
/// `.hgsub`: whether includes and the patterns of `[subpaths]` can be read depends on more.
#[must_use]
pub fn are_readable(path: &[u8], content: &[u8]) -> bool {
    let mut lines = content.split(|byte| matches!(byte, b'\n' | b'\r'));
    match path {
        b".hgsub" => lines.all(is_source),
        b".hgsubstate" => lines.all(|line| {
            let line = line.trim_ascii_start();
            line.is_empty() || line.contains(&b' ')
        }),
        _ => true,
    }
}

/// Whether a line is empty, a comment, or the source of a subrepository of a known kind.
fn is_source(line: &[u8]) -> bool {
    if line.trim_ascii().is_empty() || line.starts_with(b"#") || line.starts_with(b";") {
        return true;
    }
    let Some(equals) = memchr::memchr(b'=', line) else { return false };
    let (path, source) = (line[..equals].trim_ascii_end(), line[equals + 1..].trim_ascii());
    let mut names = path.split(|&byte| byte == b'/');
    let is_path = !path.starts_with(b"[")
        && !path.starts_with(b"%")
        && !path.first().is_none_or(u8::is_ascii_whitespace)
        && !names.clone().next().is_some_and(hg_refuses_in_root)
        && names.all(|name| !is_no_component(name) && !hg_refuses(name));
    let is_known = |source: &[u8]| {
        let kinds: [&[u8]; 3] = [b"hg]", b"git]", b"svn]"];
        kinds.iter().any(|kind| source.starts_with(kind))
    };
    is_path && source.strip_prefix(b"[").is_none_or(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_mercurial_is_not_readable() {
        for (path, content, expected) in [
            (".hgsubstate", "12 a\n  34 b/c\n\n", true),
            (".hgsubstate", "", true),
            (".hgsubstate", "junk", false),
            (".hgsubstate", "12 a\n\0\n", false),
            (".hgsub", "a = b\r\n\n# c\n; d\ne/f=[git]https://x\ng = [hg]y\nh =", true),
            (".hgsub", "junk", false),
            (".hgsub", " a = b", false),
            (".hgsub", "= b", false),
            (".hgsub", "a = b\n  more", false),
            (".hgsub", "%include x", false),
            (".hgsub", "[subpaths]\n( = x", false),
            (".hgsub", "a = [git b", false),
            (".hgsub", "a = [cvs]b", false),
            (".hgsub", ".hg/a = b", false),
            (".hgsub", "a/../b = b", false),
            (".hgsub", "/a = b", false),
            ("a/.hgsub", "junk", true),
        ] {
            assert_eq!(are_readable(path.as_bytes(), content.as_bytes()), expected, "{content}");
        }
    }
}
