//! Submodules of git as subrepositories of Mercurial: `.hgsub` and `.hgsubstate` instead of
//! `.gitmodules` and gitlinks.

use gitpack::Oid;
use hashbrown::HashMap;

use super::gitconfig::Sections;
use super::texts::trim;

/// A submodule of a `.gitmodules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submodule {
    /// Its path.
    pub path: Vec<u8>,
    /// Its URL.
    pub url: Vec<u8>,
}

/// Submodules of a `.gitmodules`, in order; `None` if it is malformed. A submodule needs a path and
/// a URL.
#[must_use]
pub fn gitmodules(content: &[u8]) -> Option<Vec<Submodule>> {
    let sections = Sections::parse(content)?;
    let submodule = |(_, path, url): (&[u8], &[u8], &[u8])| Submodule {
        path: path.to_vec(),
        url: url.to_vec(),
    };
    Some(sections.submodules().map(submodule).collect())
}

/// Sources of a changeset's subrepositories.
#[derive(Debug, Default)]
pub struct SubrepoSources<'a> {
    /// Submodules of a readable `.gitmodules`.
    pub modules: Option<&'a [Submodule]>,
    /// Whether the tree of the first parent has a `.gitmodules`.
    pub had_modules: bool,
    /// Content of the tree's own `.hgsub`.
    pub sub: &'a [u8],
    /// Content of the tree's own `.hgsubstate`.
    pub state: &'a [u8],
    /// Whether the commit removes its own `.hgsubstate`.
    pub is_state_removed: bool,
    /// Content of `.hgsubstate` in the first parent's changeset.
    pub parent_state: Option<&'a [u8]>,
    /// Changed gitlinks; `None` for removed ones.
    pub links: &'a [(&'a [u8], Option<Oid>)],
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecialFile {
    /// As in the tree of the commit.
    Unchanged,
    /// Removed.
    Removed,
    /// A regular file with this content.
    Content(Vec<u8>),
}

/// Files of a changeset's subrepositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubrepoFiles {
    /// `.hgsub`.
    pub sub: SpecialFile,
    /// `.hgsubstate`.
    pub state: SpecialFile,
    /// Whether `.gitmodules` is left out.
    pub hides_modules: bool,
}

/// Files of the subrepositories of a changeset.
#[must_use]
pub fn subrepo_files(sources: &SubrepoSources<'_>) -> SubrepoFiles {
    let mut state = Pairs::default();
    state.read_state(sources.state);
    state.read_state(sources.parent_state.unwrap_or_default());
    for (path, oid) in sources.links {
        match oid {
            Some(oid) => state.set(path.to_vec(), oid.to_string().into_bytes()),
            None => state.remove(path),
        }
    }
    let had_lines = sources.parent_state.is_some_and(|content| !content.is_empty());
    let is_removed = sources.is_state_removed || state.values.is_empty() && had_lines;
    let is_written = sources.parent_state.is_some() || !state.values.is_empty();
    let sub = match sources.modules {
        Some(modules) => {
            let mut known = Pairs::default();
            known.read_sub(sources.sub);
            for Submodule { path, url } in modules {
                known.set(path.clone(), [b"[git]", &url[..]].concat());
            }
            state.values.retain(|path, _| known.values.contains_key(path));
            let line = |path: &Vec<u8>| [&path[..], b" = ", &known.values[path], b"\n"].concat();
            SpecialFile::Content(known.order.iter().flat_map(line).collect())
        }
        None if sources.had_modules => SpecialFile::Removed,
        None => SpecialFile::Unchanged,
    };
    let state = match (is_removed, is_written) {
        (true, _) => SpecialFile::Removed,
        (false, true) => {
            let mut lines: Vec<_> = state.values.into_iter().collect();
            lines.sort_unstable();
            let line = |(path, id): (Vec<u8>, Vec<u8>)| [&id[..], b" ", &path, b"\n"].concat();
            SpecialFile::Content(lines.into_iter().flat_map(line).collect())
        }
        (false, false) => SpecialFile::Unchanged,
    };
    SubrepoFiles { sub, state, hides_modules: sources.modules.is_some() }
}

/// Values by path, in the order in which paths were added first.
#[derive(Default)]
struct Pairs {
    values: HashMap<Vec<u8>, Vec<u8>>,
    order: Vec<Vec<u8>>,
}

impl Pairs {
    fn set(&mut self, path: Vec<u8>, value: Vec<u8>) {
        if self.values.insert(path.clone(), value).is_none() {
            self.order.push(path);
        }
    }

    fn remove(&mut self, path: &[u8]) {
        self.values.remove(path);
    }

    /// Lines `PATH = SOURCE`.
    fn read_sub(&mut self, content: &[u8]) {
        for (path, source) in pairs(content, b'=') {
            self.set(path.to_vec(), source.to_vec());
        }
    }

    /// Lines `ID PATH`. Their order does not count.
    fn read_state(&mut self, content: &[u8]) {
        for (id, path) in pairs(content, b' ') {
            self.set(path.to_vec(), id.to_vec());
        }
    }
}

/// Parts of the lines of a content, without blanks around. hg-git stops at a line without
/// separator; it is ignored.
fn pairs(content: &[u8], separator: u8) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = content.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.filter_map(move |line| {
        let text = trim(line);
        if text.is_empty() || text.first() == Some(&b'#') {
            return None;
        }
        let at = memchr::memchr(separator, line)?;
        Some((trim(&line[..at]), trim(&line[at + 1..])))
    })
}
