//! Submodules of git as subrepositories of Mercurial: `.hgsub` and `.hgsubstate` instead of
//! `.gitmodules` and gitlinks.

use gitpack::Oid;
use hashbrown::HashMap;

use super::import::{is_blank, trim, trim_end};

/// A submodule of a `.gitmodules`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submodule {
    /// Its path.
    pub path: Vec<u8>,
    /// Its URL.
    pub url: Vec<u8>,
}

/// Submodules of a `.gitmodules`, in order; `None` if it is malformed.
///
/// The syntax is that of dulwich: names of sections are compared without case. A submodule needs a
/// path and a URL.
#[must_use]
pub fn gitmodules(content: &[u8]) -> Option<Vec<Submodule>> {
    let mut sections = Sections::default();
    let mut section = None;
    // setting that goes on in the next line
    let mut open: Option<(Vec<u8>, Vec<u8>)> = None;
    for (number, line) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| number == 0).unwrap_or(line);
        let mut line = trim_start(line);
        let (name, mut value, text) = match open.take() {
            Some((name, value)) => (name, value, line),
            None => {
                if line.first() == Some(&b'[') {
                    let (names, rest) = header(line)?;
                    section = Some(sections.number(names));
                    line = rest;
                }
                if trim(without_comment(line)).is_empty() {
                    continue;
                }
                let equals = memchr::memchr(b'=', line);
                let (name, value) =
                    equals.map_or((line, &b"true"[..]), |at| (&line[..at], &line[at + 1..]));
                let name = trim(name);
                if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
                    return None;
                }
                (name.to_ascii_lowercase(), Vec::new(), value)
            }
        };
        let section = section?;
        if let Some(text) = text.strip_suffix(b"\\\n").or(text.strip_suffix(b"\\\r\n")) {
            value.extend_from_slice(text);
            open = Some((name, value));
        } else {
            value.extend_from_slice(text);
            sections.values[section].1.insert(name, unquoted(&value)?);
        }
    }
    let submodule = |(names, values): &(SectionNames, Settings)| {
        let [kind, _] = &names[..] else { return None };
        let value = |name: &[u8]| values.get(name).cloned();
        let (path, url) = (value(b"path")?, value(b"url")?);
        (**kind == *b"submodule").then_some(Submodule { path, url })
    };
    Some(sections.values.iter().filter_map(submodule).collect())
}

/// Names of a section and its subsection.
type SectionNames = Vec<Vec<u8>>;
/// Values by name.
type Settings = HashMap<Vec<u8>, Vec<u8>>;

/// Sections in the order of their first appearance.
#[derive(Default)]
struct Sections {
    numbers: HashMap<SectionNames, usize>,
    values: Vec<(SectionNames, Settings)>,
}

impl Sections {
    fn number(&mut self, names: SectionNames) -> usize {
        *self.numbers.entry(names).or_insert_with_key(|names| {
            self.values.push((names.clone(), HashMap::new()));
            self.values.len() - 1
        })
    }
}

/// Names of a section, in lower case, and the text after its header.
fn header(line: &[u8]) -> Option<(Vec<Vec<u8>>, &[u8])> {
    let line = trim_end(without_comment(line));
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = line.iter().position(|byte| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' => is_escaped = true,
            _ => {}
        }
        *byte == b']' && !is_quoted
    })?;
    let (names, rest) = (line.get(1..end)?, &line[end + 1..]);
    let (first, second) = match memchr::memchr(b' ', names) {
        Some(at) => {
            let second = &names[at + 1..];
            if second.first() != Some(&b'"') || second.last() != Some(&b'"') {
                return None;
            }
            let end = second.len() - 1;
            (&names[..at], Some(second.get(1..end).unwrap_or_default()))
        }
        None => (names, None),
    };
    let is_named = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    if !first.iter().all(is_named) {
        return None;
    }
    let parts = match (second, memchr::memchr(b'.', first)) {
        (Some(second), _) => vec![first, second],
        (None, Some(at)) => vec![&first[..at], &first[at + 1..]],
        (None, None) => vec![first],
    };
    Some((parts.into_iter().map(<[u8]>::to_ascii_lowercase).collect(), rest))
}

/// Line up to a comment.
fn without_comment(line: &[u8]) -> &[u8] {
    let mut is_quoted = false;
    let end = line.iter().position(|byte| {
        is_quoted ^= *byte == b'"';
        matches!(byte, b'#' | b';') && !is_quoted
    });
    &line[..end.unwrap_or(line.len())]
}

/// Value without quotes and escapes; `None` if it is malformed.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut blanks) = (Vec::new(), Vec::new());
    let mut is_quoted = false;
    let mut bytes = trim(text).iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b't' => b'\t',
                b'b' => 8,
                byte @ (b'\\' | b'"') => *byte,
                _ => return None,
            },
            b'"' => {
                is_quoted = !is_quoted;
                continue;
            }
            b'#' | b';' if !is_quoted => break,
            b' ' | b'\t' => {
                blanks.push(*byte);
                continue;
            }
            _ => *byte,
        };
        out.append(&mut blanks);
        out.push(byte);
    }
    (!is_quoted).then_some(out)
}

fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    &text[blanks..]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("ascii");
        let pair = |Submodule { path, url }| (text(path), text(url));
        Some(gitmodules(content.as_bytes())?.into_iter().map(pair).collect())
    }

    fn pair(path: &str, url: &str) -> (String, String) {
        (path.to_owned(), url.to_owned())
    }

    #[test]
    fn settings_are_read_as_by_dulwich() {
        let content = "\u{feff}; comment\n[submodule \"A\"] path = a ; b\n\turl = \"x # y\" \\\n z\n\
                       [core]\nbare\n[submodule \"a\"]\nurl=last\n[submodule.b]\npath=b\nURL=u\\tv\n\
                       [submodule \"c\"]\npath=c\n";
        assert_eq!(read(content), Some(vec![pair("a", "last"), pair("b", "u\tv")]));
    }

    #[test]
    fn malformed_files_are_none() {
        for content in
            ["a = b\n", "[a]\nb_c = d\n", "[a]\nb = \"c\n", "[a]\nb = \\x\n", "[a\n", "[a b]\n"]
        {
            assert_eq!(read(content), None, "{content}");
        }
        assert_eq!(read(""), Some(Vec::new()));
    }
}
