//! Lines of manifests: path, NUL, 40 digits of a node, flag, LF.
//!
//! Sorted by path, bytewise (`mercurial/manifest.py`). A flat manifest has the whole tree. In tree
//! manifests each directory has its own, with names for paths; flag `t` marks a directory, whose
//! node is that of its manifest.

use crate::error::readable;
use crate::node::Node;

/// Limit of the directories in a path, git's default for `core.maxTreeDepth`. Trees are walked by
/// recursion, so a pushed path of a million directories must be refused first.
pub const MAX_DEPTH: usize = 2048;

/// Flag of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Flag {
    /// No flag.
    Regular,
    /// `x`
    Executable,
    /// `l`: the content is the target.
    Symlink,
}

/// File in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Path from the root of the repository, `/` between components.
    pub path: &'a [u8],
    /// Node of the file revision.
    pub node: Node,
    /// Flag of the file.
    pub flag: Flag,
}

/// Entry in one directory of a tree manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestEntry<'a> {
    /// Name in the directory.
    pub name: &'a [u8],
    /// Node of the file revision, or of the directory's manifest.
    pub node: Node,
    /// Flag of a file; `None` for a directory.
    pub flag: Option<Flag>,
}

/// Malformed line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedManifest {
    /// The text ends within a line.
    #[error("its text ends within a line")]
    Cut,
    /// The path is empty or ends in a slash, or a name is invalid.
    #[error("it has a path that names no file: '{0}'")]
    Path(String),
    /// The path has too many directories.
    #[error("it has a path of {0} directories, more than 2048")]
    DeepPath(usize),
    /// The 40 digits after the path are missing.
    #[error("it has no node for '{0}'")]
    Node(String),
    /// Another flag than `x` and `l`.
    #[error("it has the unknown flag '{1}' for '{0}'")]
    Flag(String, String),
}

/// Lines of a manifest.
#[derive(Clone, Debug)]
pub struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    /// Lines of a manifest, or of a part with whole lines.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    fn split_line(&mut self) -> Result<Line<'a>, MalformedManifest> {
        let (Fields { path, node, flag }, rest) = split(self.0)?;
        if path.is_empty() || path.ends_with(b"/") {
            return Err(MalformedManifest::Path(readable(path)));
        }
        check_depth(path)?;
        let flag = flag_of(flag).ok_or_else(|| unknown(path, flag))?;
        self.0 = rest;
        Ok(Line { path, node, flag })
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, MalformedManifest>;

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

/// Entries of a directory's manifest.
#[derive(Clone, Debug)]
pub struct ManifestEntries<'a>(&'a [u8]);

impl<'a> ManifestEntries<'a> {
    /// Entries of the manifest of a directory.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    fn split_entry(&mut self) -> Result<ManifestEntry<'a>, MalformedManifest> {
        let (Fields { path: name, node, flag }, rest) = split(self.0)?;
        if name.is_empty() || name.contains(&b'/') {
            return Err(MalformedManifest::Path(readable(name)));
        }
        let flag = match flag {
            b"t" => None,
            _ => Some(flag_of(flag).ok_or_else(|| unknown(name, flag))?),
        };
        self.0 = rest;
        Ok(ManifestEntry { name, node, flag })
    }
}

impl<'a> Iterator for ManifestEntries<'a> {
    type Item = Result<ManifestEntry<'a>, MalformedManifest>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.split_entry();
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

/// Checks that a path has at most [`MAX_DEPTH`] directories.
///
/// # Errors
///
/// [`MalformedManifest::DeepPath`]
pub fn check_depth(path: &[u8]) -> Result<(), MalformedManifest> {
    if path.len() > 2 * MAX_DEPTH {
        let depth = memchr::memchr_iter(b'/', path).count();
        if depth > MAX_DEPTH {
            return Err(MalformedManifest::DeepPath(depth));
        }
    }
    Ok(())
}

/// Fields of a line, flat or not.
struct Fields<'a> {
    path: &'a [u8],
    node: Node,
    flag: &'a [u8],
}

/// First line of `text`, and the rest.
fn split(text: &[u8]) -> Result<(Fields<'_>, &[u8]), MalformedManifest> {
    let end = memchr::memchr(0, text).ok_or(MalformedManifest::Cut)?;
    let (path, rest) = (&text[..end], &text[end + 1..]);
    if path.contains(&b'\n') {
        return Err(MalformedManifest::Path(readable(path)));
    }
    let (digits, rest) = rest.split_at_checked(40).ok_or(MalformedManifest::Cut)?;
    let node = Node::from_hex(digits).ok_or_else(|| MalformedManifest::Node(readable(path)))?;
    let end = memchr::memchr(b'\n', rest).ok_or(MalformedManifest::Cut)?;
    Ok((Fields { path, node, flag: &rest[..end] }, &rest[end + 1..]))
}

const fn flag_of(flag: &[u8]) -> Option<Flag> {
    match flag {
        b"" => Some(Flag::Regular),
        b"x" => Some(Flag::Executable),
        b"l" => Some(Flag::Symlink),
        _ => None,
    }
}

fn unknown(path: &[u8], flag: &[u8]) -> MalformedManifest {
    MalformedManifest::Flag(readable(path), readable(flag))
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
    fn a_path_deeper_than_git_allows_is_refused() {
        let hex = "7cf5203a514b008b1e2996986ea9627b44d287c1";
        for (depth, problem) in [(2048, None), (2049, Some(MalformedManifest::DeepPath(2049)))] {
            let text = format!("{}f\0{hex}\n", "a/".repeat(depth));
            assert_eq!(Lines::new(text.as_bytes()).find_map(Result::err), problem);
        }
        let text = format!("{}\0{hex}\n", "long".repeat(100_000));
        assert_eq!(Lines::new(text.as_bytes()).find_map(Result::err), None);
    }

    #[test]
    fn entries_are_files_and_directories() {
        let hex = "7cf5203a514b008b1e2996986ea9627b44d287c1";
        let text = format!("a\0{hex}\nbin\0{hex}t\nrun\0{hex}x\n");
        let entries: Result<Vec<_>, _> = ManifestEntries::new(text.as_bytes()).collect();
        let entries = entries.expect("well-formed");
        let flags: Vec<_> = entries.iter().map(|entry| entry.flag).collect();
        assert_eq!(flags, [Some(Flag::Regular), None, Some(Flag::Executable)]);
        for text in [format!("a/b\0{hex}\n"), format!("\0{hex}\n"), format!("a\0{hex}d\n")] {
            let entries: Vec<_> = ManifestEntries::new(text.as_bytes()).collect();
            assert!(matches!(entries.as_slice(), [Err(_)]), "{text:?}");
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
            format!("a/\0{hex}\n"),
        ] {
            let lines: Vec<_> = Lines::new(text.as_bytes()).collect();
            assert!(matches!(lines.as_slice(), [Err(_)]), "{text:?}");
        }
    }
}
