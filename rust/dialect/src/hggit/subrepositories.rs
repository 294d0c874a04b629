//! Subrepositories of kind `git` as gitlinks with a `.gitmodules`.
//!
//! `.hgsub` has Mercurial's configuration syntax (`mercurial/config.py`), and `.hgsubstate` has lines
//! `ID PATH` (`mercurial/subrepoutil.py`). The section `[subpaths]` is not applied: the rest of it
//! is configuration of a machine. Lines at which Mercurial stops are ignored.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use gitpack::Oid;
use hashbrown::HashMap;
use revlog::Node;
use revlog::manifest::check_depth;

use super::gitconfig::Sections;
use super::paths::{self, MODULES, STATE, SUB};
use super::texts::{is_blank, trim, trim_end, trim_start};
use crate::{EditedEntry, FileChange, Files, ManifestEdits, TreeEdit, Unreadable};

/// Most files that a `.hgsub` includes.
const MOST_INCLUDED: usize = 64;

/// Edits of a tree, based on the edited tree of an earlier manifest.
///
/// # Errors
///
/// The errors of `files` and `before`.
pub fn edits(
    changes: &[FileChange<'_>],
    before: Option<&dyn Files>,
    files: &dyn Files,
) -> Result<ManifestEdits, Unreadable> {
    let edited = changes.iter().filter(|change| paths::is_edited(change.path));
    let mut edits: BTreeMap<Vec<u8>, Option<EditedEntry>> =
        edited.map(|change| (change.path.to_vec(), None)).collect();
    let mut watched = Vec::new();
    if changes.iter().any(|change| !paths::is_left_out(change.path)) {
        let old = before.map_or_else(|| Ok(Vec::new()), submodules)?;
        let new = submodules(files)?;
        let modules = match files.mode(SUB)? {
            Some(mode) if !new.is_empty() => {
                let own = files.content(MODULES)?;
                Some(EditedEntry::Blob(mode, gitmodules(own.as_deref(), &new)))
            }
            _ => None,
        };
        edits.insert(MODULES.to_vec(), modules);
        for (path, _) in old.into_iter().filter_map(Submodule::into_link) {
            if files.mode(&path)?.is_none() {
                edits.insert(path, None);
            }
        }
        let links: BTreeMap<_, _> = new.into_iter().filter_map(Submodule::into_link).collect();
        watched.extend(links.keys().cloned());
        let taken = taken(&links, files)?;
        let possible = links.iter().filter(|(path, _)| !taken.contains(&***path));
        edits.extend(possible.map(|(path, oid)| (path.clone(), Some(EditedEntry::Gitlink(*oid)))));
    }
    let edits = edits.into_iter().map(|(path, entry)| TreeEdit { path, entry });
    Ok(ManifestEdits { edits: edits.collect(), watched })
}

/// The links that a tree cannot have, since git has one entry of a name: the manifest has a file or
/// a directory there, a file above it, or another link is below.
///
/// # Errors
///
/// The errors of `files`.
fn taken<'l>(
    links: &'l BTreeMap<Vec<u8>, Oid>,
    files: &dyn Files,
) -> Result<BTreeSet<&'l [u8]>, Unreadable> {
    let mut taken = BTreeSet::new();
    let mut parents = BTreeMap::new();
    for path in links.keys() {
        let mut is_taken = files.has(path)?;
        for parent in memchr::memchr_iter(b'/', path).map(|at| &path[..at]) {
            is_taken |= match parents.entry(parent) {
                Entry::Occupied(is_file) => *is_file.get(),
                Entry::Vacant(place) => *place.insert(files.mode(parent)?.is_some()),
            };
        }
        if is_taken {
            taken.insert(&**path);
        }
    }
    taken.extend(parents.into_keys());
    Ok(taken)
}

/// A subrepository of kind `git`.
#[derive(Debug, PartialEq, Eq)]
struct Submodule {
    path: Vec<u8>,
    url: Vec<u8>,
    /// The commit, if `.hgsubstate` has it.
    commit: Option<Oid>,
}

impl Submodule {
    /// Path and commit of its gitlink, if a tree can have it.
    fn into_link(self) -> Option<(Vec<u8>, Oid)> {
        let mut names = self.path.split(|byte| *byte == b'/');
        let is_possible = names.all(|name| !matches!(name, b"" | b"." | b".."))
            && !self.path.contains(&0)
            && check_depth(&self.path).is_ok()
            && !paths::is_edited(&self.path);
        let commit = self.commit.filter(|_| is_possible)?;
        Some((self.path, commit))
    }
}

/// The subrepositories of kind `git`, in the order of `.hgsub`.
fn submodules(files: &dyn Files) -> Result<Vec<Submodule>, Unreadable> {
    let Some(sub) = files.content(SUB)? else { return Ok(Vec::new()) };
    let mut sources = Sources::default();
    sources.read(&sub, files)?;
    let state = files.content(STATE)?.unwrap_or_default();
    let mut commits = BTreeMap::new();
    for line in lines(&state) {
        let line = trim_start(line.strip_suffix(b"\n").unwrap_or(line));
        if let Some(at) = memchr::memchr(b' ', line) {
            commits.insert(&line[at + 1..], &line[..at]);
        }
    }
    let submodule = |(path, source): (Vec<u8>, Vec<u8>)| {
        let url = trim(source.strip_prefix(b"[git]")?).to_vec();
        let id = commits.get(&*path).and_then(|digits| Node::from_hex(digits));
        let commit = id.map(|id| Oid::from_bytes(*id.as_bytes()));
        Some(Submodule { path, url, commit })
    };
    Ok(sources.into_items().filter_map(submodule).collect())
}

/// Items of the unnamed section.
#[derive(Default)]
struct Sources {
    /// Values by name, with the number of the setting.
    items: HashMap<Vec<u8>, (usize, Vec<u8>)>,
    /// Number of settings.
    count: usize,
    included: usize,
}

impl Sources {
    fn read(&mut self, content: &[u8], files: &dyn Files) -> Result<(), Unreadable> {
        let mut is_unnamed = true;
        let mut item: Option<Vec<u8>> = None;
        for line in lines(content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content)) {
            let text = trim(line);
            let is_comment = matches!(line.first(), Some(b';' | b'#'));
            if is_comment && item.is_some() {
                continue;
            }
            let name = item.take();
            if let Some(name) = name.filter(|_| line.first().is_some_and(|byte| is_blank(*byte)))
                && !text.is_empty()
            {
                if is_unnamed {
                    let value = self.value(&name);
                    value.push(b'\n');
                    value.extend_from_slice(text);
                }
                item = Some(name);
            } else if let Some(path) = directive(line, b"%include") {
                self.include(path, files)?;
            } else if is_comment || text.is_empty() {
            } else if is_section(line) {
                is_unnamed = false;
            } else if let Some((name, value)) = setting(line) {
                if is_unnamed {
                    *self.value(name) = value.to_vec();
                }
                item = Some(name.to_vec());
            } else if let Some(name) = directive(line, b"%unset").filter(|_| is_unnamed) {
                self.items.remove(name);
            }
        }
        Ok(())
    }

    fn include(&mut self, path: &[u8], files: &dyn Files) -> Result<(), Unreadable> {
        self.included += 1;
        if self.included <= MOST_INCLUDED
            && let Some(content) = files.content(path)?
        {
            self.read(&content, files)?;
        }
        Ok(())
    }

    /// The value of an item, which is set.
    fn value(&mut self, name: &[u8]) -> &mut Vec<u8> {
        self.count += 1;
        let (number, value) = self.items.entry_ref(name).or_default();
        *number = self.count;
        value
    }

    /// The items, in the order in which they were set last.
    fn into_items(self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let mut items: Vec<_> = self.items.into_iter().collect();
        items.sort_unstable_by_key(|(_, (number, _))| *number);
        items.into_iter().map(|(name, (_, value))| (name, value))
    }
}

/// Lines with their ends, as Python splits byte strings.
fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let end = match memchr::memchr2(b'\n', b'\r', rest) {
            Some(at) if rest[at..].starts_with(b"\r\n") => at + 2,
            Some(at) => at + 1,
            None => rest.len(),
        };
        let (line, after) = rest.split_at(end);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

/// The argument of a line like `%include ARGUMENT`.
fn directive<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(name).filter(|rest| rest.first().is_some_and(|it| is_blank(*it)));
    rest.map(trim).filter(|argument| !argument.is_empty())
}

/// Whether a line begins a section.
fn is_section(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"[") else { return false };
    let end = memchr::memchr(b'[', rest).unwrap_or(rest.len());
    memchr::memrchr(b']', &rest[..end]).is_some_and(|at| at > 0)
}

/// Name and value of a line `NAME = VALUE`.
fn setting(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b'=', line)?;
    let name = trim_end(&line[..at]);
    let is_name = name.first().is_some_and(|byte| !is_blank(*byte));
    is_name.then(|| (name, trim(&line[at + 1..])))
}

/// The content of a `.gitmodules`, from a manifest's own one.
fn gitmodules(own: Option<&[u8]>, submodules: &[Submodule]) -> Vec<u8> {
    let mut sections = own.and_then(Sections::parse).unwrap_or_default();
    let names: BTreeMap<Vec<u8>, Vec<u8>> = sections
        .submodules()
        .map(|(name, path, _)| (path.to_vec(), name.to_ascii_lowercase()))
        .collect();
    for Submodule { path, url, .. } in submodules {
        let name = names.get(path).unwrap_or(path);
        sections.add(&[b"submodule", name], &[(b"path", path), (b"url", url)]);
    }
    sections.written()
}

#[cfg(test)]
mod tests {
    use gitpack::tree::Mode;
    use revlog::manifest::MAX_DEPTH;

    use super::*;

    struct Contents(Vec<(&'static str, String)>);

    impl Files for Contents {
        fn content(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Unreadable> {
            let found = self.0.iter().find(|(known, _)| known.as_bytes() == path);
            Ok(found.map(|(_, content)| content.clone().into_bytes()))
        }

        fn mode(&self, path: &[u8]) -> Result<Option<Mode>, Unreadable> {
            Ok(self.content(path)?.map(|_| Mode::EXECUTABLE))
        }

        fn has(&self, path: &[u8]) -> Result<bool, Unreadable> {
            Ok(path == b"taken")
        }
    }

    fn of(sub: &str, state: &str) -> Contents {
        let included = "inner = [git]i\n\n[subpaths]\nx = y\n".to_owned();
        Contents(vec![(".hgsub", sub.into()), (".hgsubstate", state.into()), ("more", included)])
    }

    fn urls(sub: &str) -> Vec<(String, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("ascii");
        let found = submodules(&of(sub, "")).expect("can be read");
        found.into_iter().map(|it| (text(it.path), text(it.url))).collect()
    }

    #[test]
    fn sources_are_read_as_by_mercurial() {
        let pair = |path: &str, url: &str| (path.to_owned(), url.to_owned());
        let found = urls(
            "\u{feff}a = [git] u \n; comment\n  more\nb=hg\nc = [git]1\nd = [git]2\nc = [git]3\n\
             %include more\n%unset d\nnonsense\n odd = [git]4\n[x]\ne = [git]5\n",
        );
        assert_eq!(found, [pair("a", "u\nmore"), pair("c", "3"), pair("inner", "i")]);
        assert_eq!(urls("%include .hgsub\nz = [git]u\n").len(), 1);
    }

    #[test]
    fn gitlinks_follow_the_state() {
        let id = "12".repeat(20);
        let sub = "lib = [git]u\nnew = [git]v\n../up = [git]w\ntaken = [git]x\n";
        let now = of(sub, &format!("  {id} lib\n{id} ../up\nx new\n{id} taken\n"));
        let before = of("old = [git]u\n", &format!("{id} old\n"));
        let change = |path| FileChange { path, is_there: true };
        let changes: [FileChange<'_>; 3] =
            [b".hgsub".as_slice(), b"a/.git/b", b"main.c"].map(change);
        let made = edits(&changes, Some(&before), &now).expect("can be read");
        assert_eq!(made.watched, [b"lib".to_vec(), b"taken".to_vec()]);
        let found: Vec<_> = (made.edits)
            .iter()
            .map(|edit| (std::str::from_utf8(&edit.path).expect("ascii"), edit.entry.is_some()))
            .collect();
        let is_kept =
            |edit: &TreeEdit| matches!(edit.entry, Some(EditedEntry::Blob(Mode::EXECUTABLE, _)));
        assert!(made.edits.iter().any(is_kept), "the mode is that of .hgsub");
        let expected = [
            (".gitmodules", true),
            (".hgsub", false),
            ("a/.git/b", false),
            ("lib", true),
            ("old", false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_has_one_entry() {
        let paths = ["taken", "a", "a/b/c", "a-b", "main.c/lib", "d/taken", "d/lib"];
        let sub = paths.map(|path| format!("{path} = [git]u\n")).concat();
        let state = paths.map(|path| format!("{} {path}\n", "12".repeat(20))).concat();
        let Contents(mut files) = of(&sub, &state);
        files.push(("main.c", "1\n".to_owned()));
        let change = FileChange { path: b".hgsub", is_there: true };
        let made = edits(&[change], None, &Contents(files)).expect("can be read");
        let links = made.edits.iter().filter_map(|edit| match edit.entry {
            Some(EditedEntry::Gitlink(_)) => std::str::from_utf8(&edit.path).ok(),
            _ => None,
        });
        assert!(links.eq(["a-b", "a/b/c", "d/lib", "d/taken"]));
        assert_eq!(made.watched.len(), paths.len());
    }

    #[test]
    fn gitlinks_are_no_deeper_than_files() {
        for (directories, count) in [(MAX_DEPTH, 1), (MAX_DEPTH + 1, 0), (1 << 20, 0)] {
            let path = "a/".repeat(directories) + "s";
            let state = format!("{} {path}\n", "12".repeat(20));
            let now = of(&format!("{path} = [git]u\n"), &state);
            let change = FileChange { path: b".hgsub", is_there: true };
            let made = edits(&[change], None, &now).expect("can be read");
            assert_eq!(made.watched.len(), count, "{directories}");
        }
    }

    #[test]
    fn submodules_are_added_to_the_own_file() {
        let submodule =
            |path: &str, url: &str| Submodule { path: path.into(), url: url.into(), commit: None };
        let submodules = [submodule("Lib", "a"), submodule("x", "b"), submodule("lib", "c")];
        let own = "[submodule \"Name\"]\npath = x\nurl = old\n";
        let text = |own: Option<&str>| gitmodules(own.map(str::as_bytes), &submodules);
        let ends = "[submodule \"Lib\"]\n\tpath = Lib\n\turl = a\n\tpath = lib\n\turl = c\n";
        let named = "[submodule \"Name\"]\n\tpath = x\n\turl = old\n\tpath = x\n\turl = b\n";
        assert_eq!(String::from_utf8(text(Some(own))), Ok(format!("{named}{ends}")));
        let plain = format!("{ends}[submodule \"x\"]\n\tpath = x\n\turl = b\n");
        assert_eq!(String::from_utf8(text(Some("malformed"))), Ok(plain.clone()));
        assert_eq!(String::from_utf8(text(None)), Ok(plain));
    }
}
