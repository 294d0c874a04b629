//! git's configuration files, read and written as by dulwich 0.22.8 (`dulwich/config.py`).

use hashbrown::HashMap;

use super::texts::{trim, trim_end, trim_start};

/// Names of a section and its subsection, if any.
type SectionNames = Vec<Vec<u8>>;

/// Sections in the order of their first appearance. Names are compared without case.
#[derive(Default)]
pub struct Sections {
    numbers: HashMap<SectionNames, usize>,
    sections: Vec<Section>,
}

#[derive(Default)]
struct Section {
    /// As written first.
    names: SectionNames,
    /// Names and values; the last of a name counts.
    settings: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Section {
    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let mut settings = self.settings.iter().rev();
        settings.find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(&**value))
    }
}

impl Sections {
    /// The sections of a file; `None` if it is malformed.
    pub fn parse(content: &[u8]) -> Option<Self> {
        let mut sections = Self::default();
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
                    (name.to_vec(), Vec::new(), value)
                }
            };
            let section = section?;
            if let Some(text) = text.strip_suffix(b"\\\n").or(text.strip_suffix(b"\\\r\n")) {
                value.extend_from_slice(text);
                open = Some((name, value));
            } else {
                value.extend_from_slice(text);
                sections.sections[section].settings.push((name, unquoted(&value)?));
            }
        }
        Some(sections)
    }

    /// Names, paths and URLs of submodules that have all three.
    pub fn submodules(&self) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
        self.sections.iter().filter_map(|section| {
            let [kind, name] = &section.names[..] else { return None };
            let (path, url) = (section.get(b"path")?, section.get(b"url")?);
            kind.eq_ignore_ascii_case(b"submodule").then_some((&**name, path, url))
        })
    }

    /// Adds settings at the end of a section, after those of the same names.
    pub fn add(&mut self, names: &[&[u8]], settings: &[(&[u8], &[u8])]) {
        let number = self.number(names.iter().map(|name| name.to_vec()).collect());
        let settings = settings.iter().map(|(name, value)| (name.to_vec(), value.to_vec()));
        self.sections[number].settings.extend(settings);
    }

    /// The content of a file with these sections.
    pub fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for Section { names, settings } in &self.sections {
            out.extend_from_slice(&[b"[", &*names[0]].concat());
            if let Some(name) = names.get(1) {
                out.extend_from_slice(&[b" \"", &**name, b"\""].concat());
            }
            out.extend_from_slice(b"]\n");
            for (name, value) in settings {
                push_setting(&mut out, name, value);
            }
        }
        out
    }

    fn number(&mut self, names: SectionNames) -> usize {
        let key = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        *self.numbers.entry(key).or_insert_with(|| {
            self.sections.push(Section { names, ..Section::default() });
            self.sections.len() - 1
        })
    }
}

/// Names of a section and its subsection, and the text after them.
fn header(line: &[u8]) -> Option<(SectionNames, &[u8])> {
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
    Some((parts.into_iter().map(<[u8]>::to_vec).collect(), rest))
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

fn push_setting(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let is_end = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_quoted = is_end(value.first()) || is_end(value.last()) || value.contains(&b'#');
    let quote: &[u8] = if is_quoted { b"\"" } else { b"" };
    out.extend_from_slice(&[b"\t", name, b" = ", quote].concat());
    for byte in value {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'"' => out.extend_from_slice(b"\\\""),
            byte => out.push(*byte),
        }
    }
    out.extend_from_slice(quote);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_written_as_by_dulwich() {
        let content = "\u{feff}; comment\n[submodule \"A\"] Path = a ; b\n\turl = \"x # y\" \\\n z\n\
                       [core]\nbare\n[submodule \"a\"]\nurl=last\n[submodule.b]\npath=b\nURL=u\\tv\n\
                       [submodule \"c\"]\npath=c\n";
        let mut sections = Sections::parse(content.as_bytes()).expect("is well-formed");
        let found: Vec<_> = sections.submodules().collect();
        assert_eq!(found, [(&b"A"[..], &b"a"[..], &b"last"[..]), (b"b", b"b", b"u\tv")]);
        sections.add(&[b"Submodule", b"B"], &[(b"url", b" q\"\\")]);
        sections.add(&[b"submodule", b"New"], &[(b"path", b"n#")]);
        let expected = "[submodule \"A\"]\n\tPath = a\n\turl = \"x # y z\"\n\turl = last\n[core]\n\
                        \tbare = true\n[submodule \"b\"]\n\tpath = b\n\tURL = u\\tv\n\
                        \turl = \" q\\\"\\\\\"\n[submodule \"c\"]\n\tpath = c\n\
                        [submodule \"New\"]\n\tpath = \"n#\"\n";
        assert_eq!(String::from_utf8(sections.written()).as_deref(), Ok(expected));
    }

    #[test]
    fn malformed_files_are_none() {
        for content in
            ["a = b\n", "[a]\nb_c = d\n", "[a]\nb = \"c\n", "[a]\nb = \\x\n", "[a\n", "[a b]\n"]
        {
            assert!(Sections::parse(content.as_bytes()).is_none(), "{content}");
        }
        assert!(Sections::parse(b"").is_some());
    }
}
