//! Files that Mercurial reads subrepositories from: `.hgsub` and `.hgsubstate`.
//!
//! If it cannot read one of them, `hg update` and most other commands stop, in each working copy
//! and clone (`subrepoutil.state` in Mercurial 7.2).

use std::collections::HashMap;

use crate::names::{hg_refuses, hg_refuses_in_root, is_no_component};

/// Whether Mercurial can read subrepositories from a file with this path; `true` for other paths.
///
/// Of the syntax of configuration files, only comments and `PATH = SOURCE` are accepted in
/// `.hgsub`: whether includes and the patterns of `[subpaths]` can be read depends on more.
#[must_use]
pub fn are_readable(path: &[u8], content: &[u8]) -> bool {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    match path {
        b".hgsub" => {
            let lines = content.strip_prefix(BOM).unwrap_or(content).split(is_end);
            let mut last: HashMap<&[u8], &[u8]> = HashMap::new();
            lines.filter(|line| !is_comment(line)).all(|line| {
                source(line).is_some_and(|(path, source)| {
                    last.insert(path, source);
                    is_path(path)
                })
            }) && last.into_values().all(is_source)
        }
        b".hgsubstate" => content.split(is_end).all(|line| {
            let line = trim_start(line);
            line.is_empty() || line.contains(&b' ')
        }),
        _ => true,
    }
}

/// Mark that Mercurial skips at the start of a configuration file.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Whether a byte is a blank of Python.
const fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn trim_start(line: &[u8]) -> &[u8] {
    &line[line.iter().take_while(|byte| is_blank(**byte)).count()..]
}

fn trim_end(line: &[u8]) -> &[u8] {
    &line[..line.len() - line.iter().rev().take_while(|byte| is_blank(**byte)).count()]
}

fn is_comment(line: &[u8]) -> bool {
    trim_start(line).is_empty() || line.starts_with(b"#") || line.starts_with(b";")
}

/// Path and source in a line.
fn source(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr::memchr(b'=', line)?;
    Some((trim_end(&line[..equals]), trim_start(&line[equals + 1..])))
}

/// Whether a subrepository may be there, as `_auditsubrepopath` in Mercurial's subrepo.py says.
fn is_path(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/');
    path.first().is_some_and(|&first| !is_blank(first) && !b"[%~".contains(&first))
        && memchr::memchr2(b'$', 0, path).is_none()
        && !names.clone().next().is_some_and(hg_refuses_in_root)
        && names.all(|name| !is_no_component(name) && !hg_refuses(name))
}

/// Whether a source is one of a known kind.
fn is_source(mut source: &[u8]) -> bool {
    if let Some(kind) = source.strip_prefix(b"[") {
        let kinds: [&[u8]; 3] = [b"hg]", b"git]", b"svn]"];
        let Some(rest) = kinds.iter().find_map(|known| kind.strip_prefix(*known)) else {
            return false;
        };
        source = trim_start(rest);
    }
    memchr::memchr(0, source).is_none() && !has_other_host(source)
}

/// Whether a source is a file of another host, which Mercurial takes for a mistake.
fn has_other_host(source: &[u8]) -> bool {
    let Some(rest) = source.strip_prefix(b"file://") else { return false };
    let host = rest.split(|byte| matches!(byte, b'/' | b'?' | b'#')).next();
    host.is_some_and(|host| !host.is_empty() && host != b"localhost")
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
            (".hgsub", "\u{feff}a = b\n\u{b}\na\u{b}= c", true),
            (".hgsub", "\u{feff} = b", false),
            (".hgsub", "\u{feff}%include x=y", false),
            (".hgsub", "\u{b}a = b", false),
            (".hgsub", ".hg\u{b}= b", false),
            (".hgsub", "~a = b", false),
            (".hgsub", "a/$b = b", false),
            (".hgsub", "a = \0", false),
            (".hgsub", "a = \0\na = [cvs]x\na = b", true),
            (".hgsub", "a = b\na = \0", false),
            (".hgsub", "a = file:///b\nb = file:c\nc = file://localhost/d\nd = file://?e", true),
            (".hgsub", "a = [hg] file://host/b", false),
            (".hgsubstate", "\u{b}\n12 ", true),
            (".hgsubstate", "\u{b} 1", false),
            ("a/.hgsub", "junk", true),
        ] {
            assert_eq!(are_readable(path.as_bytes(), content.as_bytes()), expected, "{content}");
        }
    }
}
