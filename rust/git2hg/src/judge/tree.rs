//! Rules for the entries of one tree, without those in its directories.
//!
//! Format: "Tree objects" in gitdatamodel(7). Modes are compared as bytes, since a mode in another
//! form makes another tree.

use gitpack::Oid;
use gitpack::tree::entry_order;
use std::cmp::Ordering;

use dialect::exact::tree::{self as exact, Hides};
use dialect::names;

use crate::judge::reasons::TreeReasons;
use dialect::Reason;

/// Length limit of a file's path in Mercurial's store: `hashencode()` in its `pathencode.c` takes
/// less than 16 KiB for three times `PATH.i.s` and a NUL.
pub(crate) const LONGEST_PATH: usize = (16 << 10) / 3 - 5;

/// A tree, judged without its directories and their names.
#[derive(Debug, Default)]
pub struct JudgedTree<'a> {
    /// Reasons to refuse commits with this tree.
    pub reasons: TreeReasons,
    /// Directories with their names, except for empty ones.
    pub directories: Vec<(&'a [u8], Oid)>,
    /// Length of the longest name of a file.
    pub longest_file: usize,
}

/// Which trees commits may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct TreeRules {
    /// Whether extras keep entries that a manifest does not have.
    pub is_exact: bool,
    /// Paths of files that trees do not have from manifests. Without extras, no commit may have
    /// them.
    pub hides: Option<Hides>,
}

/// Judges the content of a tree.
#[must_use]
pub fn judge(content: &[u8], rules: TreeRules) -> JudgedTree<'_> {
    let mut judged = JudgedTree::default();
    let JudgedTree { reasons, directories, longest_file } = &mut judged;
    walk(
        (content, rules),
        |entry| {
            if exact::is_directory(entry.mode) {
                directories.push((entry.name, entry.oid));
            } else {
                *longest_file = entry.name.len().max(*longest_file);
            }
        },
        |found| match found {
            Found::Reason(reason, _) => reasons.add(reason),
            Found::FileName(of_name, _) => reasons.add_all(of_name),
            Found::Extra => reasons.add_extra(),
        },
    );
    if *longest_file > 0 {
        reasons.add_file();
    }
    judged
}

/// Name of the first entry with `reason`; empty if the reason is the content as a whole.
///
/// `None` if the tree itself does not have this reason.
#[must_use]
pub fn culprit(content: &[u8], reason: Reason, is_root: bool, rules: TreeRules) -> Option<&[u8]> {
    let mut first = None;
    walk(
        (content, rules),
        |_| {},
        |found| {
            let (is_same, name) = match found {
                Found::Reason(other, name) => (other == reason, name),
                Found::FileName(of_name, name) => (of_name.has_at(is_root, reason), name),
                Found::Extra => return,
            };
            if is_same {
                first.get_or_insert(name);
            }
        },
    );
    first
}

/// Reason with the name of its entry.
enum Found<'a> {
    Reason(Reason, &'a [u8]),
    /// Name of a file that Mercurial refuses.
    FileName(TreeReasons, &'a [u8]),
    /// Entry that an extra keeps.
    Extra,
}

fn walk<'a>(
    (content, rules): (&'a [u8], TreeRules),
    mut keep: impl FnMut(&TreeEntry<'a>),
    mut report: impl FnMut(Found<'a>),
) {
    let is_exact = rules.is_exact;
    let mut before: Option<(&[u8], bool)> = None;
    let mut files = FileNames::default();
    let mut rest = content;
    while !rest.is_empty() {
        let Some(entry) = TreeEntry::first(rest) else {
            report(Found::Reason(Reason::MalformedTree, b""));
            return;
        };
        let TreeEntry { mode, name, oid, after } = entry;
        rest = after;
        let is_directory = mode == b"40000" || is_exact && exact::is_directory(mode);
        let is_plain = matches!(mode, b"40000" | b"100644" | b"100755" | b"120000");
        let odd = match mode {
            _ if is_exact => match exact::kind_of(mode, &oid) {
                None => Some(Found::Reason(Reason::MalformedTree, name)),
                Some(exact::TreeEntryKind::Other) => Some(Found::Extra),
                Some(_) => None,
            },
            b"40000" if oid == Oid::EMPTY_TREE => Some(Found::Reason(Reason::EmptyDirectory, name)),
            b"160000" => Some(Found::Reason(Reason::Submodule, name)),
            _ => (!is_plain).then_some(Found::Reason(Reason::Mode, name)),
        };
        if let Some(found) = odd {
            report(found);
        } else {
            keep(&entry);
            if !is_plain {
                report(Found::Extra);
            }
            let of_name = TreeReasons::of_name(name, rules);
            if !is_directory && !of_name.is_empty() {
                report(Found::FileName(of_name, name));
            }
        }
        let is_in_order = before.is_none_or(|(before, was_directory)| {
            entry_order(before, was_directory, name, is_directory) == Ordering::Less
        });
        if !is_in_order
            || before.is_some_and(|before| files.has(before, (name, is_directory)))
            || oid.as_bytes() == &[0; 20]
            || !is_exact && names::git_refuses(name)
        {
            report(Found::Reason(Reason::MalformedTree, name));
        }
        if names::is_no_component(name) {
            report(Found::Reason(Reason::Path, name));
        }
        before = Some((name, is_directory));
    }
}

/// Names of files that a later directory may have, too: `a` in `a`, `a-b`, `a/`.
///
/// As `verify_ordered()` in git's `fsck.c`. Each name begins with the one before it. A name is
/// compared once with each directory that follows right after it, and once when it is dropped.
#[derive(Debug, Default)]
struct FileNames<'a> {
    names: Vec<&'a [u8]>,
    #[cfg(test)]
    looked_at: usize,
}

impl<'a> FileNames<'a> {
    /// Whether the next entry is a directory with the name of a file, given the entry before it.
    /// Entries have to be sorted.
    fn has(&mut self, before: (&'a [u8], bool), (name, is_directory): (&'a [u8], bool)) -> bool {
        const IS_LESS: fn(&u8) -> bool = |byte| *byte < b'/';
        let (last, was_directory) = before;
        if last == name {
            return true;
        }
        let goes_on = |long: &[u8], short: &[u8]| {
            long.strip_prefix(short).and_then(<[u8]>::first).is_some_and(IS_LESS)
        };
        if !was_directory && goes_on(name, last) {
            self.names.push(last);
        } else if is_directory && goes_on(last, name) {
            while let Some(file) = self.names.pop() {
                #[cfg(test)]
                {
                    self.looked_at += 1;
                }
                let Some(rest) = name.strip_prefix(file) else { continue };
                match rest.first() {
                    None => return true,
                    Some(byte) if IS_LESS(byte) => {
                        self.names.push(file);
                        break;
                    }
                    Some(_) => {}
                }
            }
        }
        false
    }
}

/// Entry of a tree, with the bytes after it.
pub(crate) struct TreeEntry<'a> {
    pub mode: &'a [u8],
    pub name: &'a [u8],
    pub oid: Oid,
    pub after: &'a [u8],
}

impl<'a> TreeEntry<'a> {
    /// First entry of a tree; `None` if it is truncated.
    pub fn first(content: &'a [u8]) -> Option<Self> {
        let space = memchr::memchr(b' ', content)?;
        let (mode, rest) = (&content[..space], &content[space + 1..]);
        let end = memchr::memchr(0, rest)?;
        let (id, after) = rest[end + 1..].split_first_chunk()?;
        Some(Self { mode, name: &rest[..end], oid: Oid::from_bytes(*id), after })
    }
}

/// Reasons of an object that is not a tree.
pub(crate) fn not_a_tree() -> TreeReasons {
    let mut reasons = TreeReasons::default();
    reasons.add(Reason::MalformedTree);
    reasons
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    const PLAIN: TreeRules = TreeRules { is_exact: false, hides: None };

    fn tree(entries: &[(&str, &str)]) -> Vec<u8> {
        let entry = |(mode, name): &(&str, &str)| {
            [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &[7; 20]].concat()
        };
        entries.iter().flat_map(entry).collect()
    }

    fn reason(entries: &[(&str, &str)]) -> Option<Reason> {
        judge(&tree(entries), PLAIN).reasons.of_root()
    }

    #[test]
    fn an_ordinary_tree_comes_back() {
        let content = tree(&[
            ("100644", "a"),
            ("100755", "a-b"),
            ("40000", "b"),
            ("120000", "b0"),
            ("100644", "c d"),
        ]);
        let judged = judge(&content, PLAIN);
        assert_eq!(judged.reasons.of_root(), None);
        assert_eq!(judged.directories, [(&b"b"[..], Oid::from_bytes([7; 20]))]);
        assert_eq!(judge(b"", PLAIN).reasons.of_root(), None);
    }

    #[test]
    fn each_row_has_its_reason() {
        for (entries, expected) in [
            (&[("160000", "sub")][..], Reason::Submodule),
            (&[("100664", "a")], Reason::Mode),
            (&[("040000", "a")], Reason::Mode),
            (&[("100644", "b"), ("100644", "a")], Reason::MalformedTree),
            (&[("100644", "a"), ("100644", "a")], Reason::MalformedTree),
            (&[("100644", "a"), ("100644", "a-"), ("40000", "a")], Reason::MalformedTree),
            (&[("40000", ".git")], Reason::MalformedTree),
            (&[("100644", ".hg")], Reason::Path),
            (&[("100644", "a\nb")], Reason::Path),
            (&[("100644", "a\rb")], Reason::Path),
        ] {
            assert_eq!(reason(entries), Some(expected), "{entries:?}");
        }
        let empty = [&b"40000 d\0"[..], Oid::EMPTY_TREE.as_bytes()].concat();
        assert_eq!(judge(&empty, PLAIN).reasons.of_root(), Some(Reason::EmptyDirectory));
        let null = [&b"100644 d\0"[..], &[0; 20]].concat();
        assert_eq!(judge(&null, PLAIN).reasons.of_root(), Some(Reason::MalformedTree));
        let cut = tree(&[("100644", "a")]);
        assert_eq!(judge(&cut[..20], PLAIN).reasons.of_root(), Some(Reason::MalformedTree));
    }

    #[test]
    fn names_are_looked_at_a_few_times() {
        // many files between each file and the directory with its name, and between directories
        let long = "!".repeat(500);
        let mut entries: Vec<(String, bool)> =
            (1..500).step_by(2).map(|len| (long[..len].to_owned(), false)).collect();
        entries.extend((0..500).map(|number| (format!("{long}{number:03}"), false)));
        entries.extend((1..500).rev().map(|len| (long[..len].to_owned(), true)));
        let mut files = FileNames::default();
        let mut same = 0;
        for pair in entries.windows(2) {
            let [one, two] = [&pair[0], &pair[1]].map(|(name, is)| (name.as_bytes(), *is));
            assert_eq!(entry_order(one.0, one.1, two.0, two.1), Ordering::Less);
            same += usize::from(files.has(one, two));
        }
        assert_eq!(same, 250);
        assert!(files.looked_at <= entries.len(), "{}", files.looked_at);
    }

    #[test]
    fn the_culprit_is_named() {
        let content = tree(&[("100644", "a"), ("160000", "s"), ("160000", "t")]);
        assert_eq!(culprit(&content, Reason::Submodule, true, PLAIN), Some(&b"s"[..]));
        assert_eq!(culprit(&content, Reason::Path, true, PLAIN), None);
        let content = tree(&[("100644", "\u{feff}")]);
        assert_eq!(culprit(&content, Reason::Path, true, PLAIN), Some("\u{feff}".as_bytes()));
        assert_eq!(culprit(&content, Reason::Path, false, PLAIN), None);
    }

    proptest! {
        #[test]
        fn a_directory_with_the_name_of_a_file_is_found(
            names in btree_set(("[a!0-]{1,4}", any::<bool>()), 0..30),
        ) {
            let mut names: Vec<_> = names.iter().map(|(name, is)| (name.as_bytes(), *is)).collect();
            names.sort_by(|one, two| entry_order(one.0, one.1, two.0, two.1));
            let mut files = FileNames::default();
            for at in 1..names.len() {
                let (name, is_directory) = names[at];
                let is_there = is_directory && names[..at].contains(&(name, false));
                prop_assert_eq!(files.has(names[at - 1], names[at]), is_there);
                if is_there {
                    break; // of one tree, one is enough
                }
            }
        }

        #[test]
        fn any_content_is_judged(mut content: Vec<u8>) {
            let _ = judge(&content, PLAIN);
            content.splice(..0, *b"100644 a\0");
            let judged = judge(&content, PLAIN);
            for reason in Reason::ALL {
                prop_assert_eq!(judged.reasons.has(reason), culprit(&content, reason, false, PLAIN).is_some());
            }
        }
    }
}
