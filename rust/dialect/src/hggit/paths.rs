//! Paths that hg-git leaves out of trees: git would not check them out.

/// git's list of submodules. Not in a tree as the manifest has it.
pub const MODULES: &[u8] = b".gitmodules";
/// Mercurial's list of subrepositories, and their commits. Not in trees.
pub const SUB: &[u8] = b".hgsub";
pub const STATE: &[u8] = b".hgsubstate";

/// Code points that HFS+ ignores in names, as `mercurial.encoding.hfsignoreclean`.
const IGNORED: [char; 16] = [
    '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
    '\u{202e}', '\u{206a}', '\u{206b}', '\u{206c}', '\u{206d}', '\u{206e}', '\u{206f}', '\u{feff}',
];

/// Whether a tree has something else at this path than the manifest.
pub fn is_edited(path: &[u8]) -> bool {
    [MODULES, SUB, STATE].contains(&path) || is_left_out(path)
}

/// Whether a component of the path means `.git` to a file system, by hg-git's rules, or the path is
/// absolute.
pub fn is_left_out(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
        || path.split(|byte| *byte == b'/').any(|name| {
            is_git(name) || memchr::memchr(b'~', name).is_some_and(|at| is_short(name, at))
        })
}

/// Whether a name is `.git` without ignored code points.
fn is_git(name: &[u8]) -> bool {
    if !name.iter().any(|byte| matches!(byte, 0xe2 | 0xef)) {
        return name == b".git";
    }
    let mut kept = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [byte, after @ ..] = rest {
        let ignored = IGNORED
            .iter()
            .find_map(|point| rest.strip_prefix(point.encode_utf8(&mut [0; 4]).as_bytes()));
        if ignored.is_none() {
            kept.push(*byte);
        }
        rest = ignored.unwrap_or(after);
    }
    kept == b".git"
}

/// Whether a name with `~` at this position is like `git~1`, the short name of `.git` on Windows.
fn is_short(name: &[u8], at: usize) -> bool {
    let (stem, number) = (&name[..at], &name[at + 1..]);
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    is_number && stem.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"git"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_git_are_left_out() {
        // the choice of hg-git 1.2.0
        for path in
            [".git", "a/.git/b", ".g\u{200c}it", "\u{feff}.git/x", "git~1", "GITfoo~12", "/a"]
        {
            assert!(is_left_out(path.as_bytes()), "{path}");
        }
        for path in [".GIT", "GIT~x", "git~", ".gitx", "gi~1", "a~1", "\u{2010}.git", ".hgsub"] {
            assert!(!is_left_out(path.as_bytes()), "{path}");
        }
    }
}
