//! Lines of a flat manifest: path, NUL, 40 digits of the file node, flag, LF.
//!
//! Sorted by path, bytewise (`mercurial/manifest.py`).

use crate::error::readable;
use crate::node::Node;

/// Longest path that is read, in bytes: `PATH_MAX` of Linux. Trees are walked by recursion, so a
/// path of a million directories, which a client may push, must not get that far; git itself stops
/// at 2048 (`core.maxTreeDepth`).
const MAX_PATH_LEN: usize = 4096;

/// What a file is, beside its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// No flag.
    Regular,
    /// `x`
    Executable,
    /// `l`: the content is the target.
    Symlink,
}

/// One file of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Path from the root of the repository, `/` between components.
    pub path: &'a [u8],
    /// The file's revision.
    pub node: Node,
    /// What the file is.
    pub flag: Flag,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The text ends within a line.
    #[error("its text ends within a line")]
    Cut,
    /// The path is empty, absolute or has an empty end.
    #[error("it has a path that names no file: '{0}'")]
    Path(String),
    /// The path is longer than any file system's.
    #[error("it has a path of {0} bytes, more than 4096")]
    LongPath(usize),
    /// There are no 40 digits after the path.
    #[error("it has no node for '{0}'")]
    Node(String),
    /// Another flag than `x` and `l`.
    #[error("it has the unknown flag '{1}' for '{0}'")]
    Flag(String, String),
}

/// The lines of a text.
#[derive(Clone, Debug)]
pub struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    /// Reads a manifest, or a part of one that begins and ends with whole lines.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    fn split_line(&mut self) -> Result<Line<'a>, Malformed> {
        let (path, rest) = match memchr::memchr(0, self.0) {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => return Err(Malformed::Cut),
        };
        if path.is_empty()
            || path.contains(&b'\n')
            || path.starts_with(b"/")
            || path.ends_with(b"/")
        {
            return Err(Malformed::Path(readable(path)));
        }
        if path.len() > MAX_PATH_LEN {
            return Err(Malformed::LongPath(path.len()));
        }
        let (digits, rest) = rest.split_at_checked(40).ok_or(Malformed::Cut)?;
        let node = Node::from_hex(digits).ok_or_else(|| Malformed::Node(readable(path)))?;
        let end = memchr::memchr(b'\n', rest).ok_or(Malformed::Cut)?;
        let flag = match &rest[..end] {
            b"" => Flag::Regular,
            b"x" => Flag::Executable,
            b"l" => Flag::Symlink,
            other => {
                return Err(Malformed::Flag(readable(path), readable(other)));
            }
        };
        self.0 = &rest[end + 1..];
        Ok(Line { path, node, flag })
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let line = self.split_line();
        if line.is_err() {
            self.0 = &[];
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_path_node_and_flag() {
        let hex = "7cf5203a514b008b1e2996986ea9627b44d287c1";
        let text = format!("a\0{hex}\nbin/run\0{hex}x\nlink\0{hex}l\n");
        let lines: Result<Vec<_>, _> = Lines::new(text.as_bytes()).collect();
        let lines = lines.expect("well-formed");
        assert_eq!(lines[1].path, b"bin/run");
        assert_eq!(lines.map_flags(), [Flag::Regular, Flag::Executable, Flag::Symlink]);
    }

    trait Flags {
        fn map_flags(&self) -> Vec<Flag>;
    }

    impl Flags for Vec<Line<'_>> {
        fn map_flags(&self) -> Vec<Flag> {
            self.iter().map(|line| line.flag).collect()
        }
    }

    #[test]
    fn a_message_stays_on_one_line() {
        let problem = Lines::new(b"a\nb\0").next().expect("a line").expect_err("names no file");
        assert_eq!(problem.to_string(), "it has a path that names no file: 'a\\nb'");
    }

    #[test]
    fn a_path_longer_than_file_systems_allow_is_refused() {
        let hex = "7cf5203a514b008b1e2996986ea9627b44d287c1";
        for (depth, problem) in [(2047, None), (2048, Some(Malformed::LongPath(4097)))] {
            let text = format!("{}f\0{hex}\n", "a/".repeat(depth));
            assert_eq!(Lines::new(text.as_bytes()).find_map(Result::err), problem);
        }
    }

    #[test]
    fn damage_is_an_error_and_ends_the_lines() {
        let hex = "7cf5203a514b008b1e2996986ea9627b44d287c1";
        for text in [
            "a".to_owned(),
            "a\0".to_owned(),
            format!("a\0{hex}"),
            format!("\0{hex}\n"),
            format!("a\0{}\n", "g".repeat(40)),
            format!("a\0{hex}t\n"),
            format!("/a\0{hex}\n"),
        ] {
            let lines: Vec<_> = Lines::new(text.as_bytes()).collect();
            assert!(matches!(lines.as_slice(), [Err(_)]), "{text:?}");
        }
    }
}
