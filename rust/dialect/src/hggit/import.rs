//! Changesets of commits.
//!
//! Commits are parsed as leniently as by dulwich. Where hg-git stops with an error, the changeset
//! has a placeholder: `docs/decisions/hggit-import.rst` lists these cases.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gitpack::Oid;
use revlog::Node;

use super::commit::{OCTOPUS, RENAME_SOURCE};
use super::difflib::delta;
use super::metadata::HgMetadata;
use super::texts::{to_utf8, trim, trim_end, unquote};
use crate::imported::BRANCH;
use crate::{ImportSettings, ImportedCommit};

/// Author of commits that hg-git made for users without a name.
const NOBODY: &[u8] = b" <none@none>";
/// User of a commit without a readable author.
const UNKNOWN: &[u8] = b"unknown";

/// Header with its value, continuation lines joined.
type Header<'a> = (&'a [u8], Cow<'a, [u8]>);

/// Commit object, as dulwich parses it.
#[derive(Debug, Default)]
pub(super) struct ParsedCommit<'a> {
    pub tree: Option<Oid>,
    pub parents: Vec<Oid>,
    author: Option<Person<'a>>,
    committer: Option<Person<'a>>,
    encoding: Option<Cow<'a, [u8]>>,
    signature: Option<Cow<'a, [u8]>>,
    /// Headers that git does not use, in order.
    others: Vec<Header<'a>>,
    message: &'a [u8],
}

/// Author or committer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Person<'a> {
    who: Cow<'a, [u8]>,
    seconds: i64,
    east_seconds: i32,
}

impl<'a> ParsedCommit<'a> {
    /// Parses any content.
    pub fn of(content: &'a [u8]) -> Self {
        let mut parsed = Self::default();
        let mut rest = content;
        let mut open: Option<Header<'a>> = None;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            if let Some(more) = line.strip_prefix(b" ") {
                if let Some((_, value)) = &mut open {
                    value.to_mut().extend_from_slice(more);
                }
                continue;
            }
            parsed.add(open.take());
            if line == b"\n" {
                parsed.message = rest;
                break;
            }
            let space = memchr::memchr(b' ', line);
            open = space.map(|at| (&line[..at], Cow::Borrowed(&line[at + 1..])));
        }
        parsed.add(open);
        parsed
    }

    fn add(&mut self, header: Option<Header<'a>>) {
        let Some((key, value)) = header else { return };
        let value = match value {
            Cow::Borrowed(line) => Cow::Borrowed(line.strip_suffix(b"\n").unwrap_or(line)),
            Cow::Owned(mut lines) => {
                lines.pop_if(|last| *last == b'\n');
                Cow::Owned(lines)
            }
        };
        let oid = |digits| Node::from_hex(digits).map(|id| Oid::from_bytes(*id.as_bytes()));
        match key {
            b"tree" => self.tree = oid(&value),
            b"parent" => self.parents.extend(oid(&value)),
            b"author" => self.author = Person::of(value),
            b"committer" => self.committer = Person::of(value),
            b"encoding" => self.encoding = Some(value),
            b"gpgsig" => self.signature = Some(value),
            b"mergetag" => {}
            _ => self.others.push((key, value)),
        }
    }

    /// Texts of the changeset.
    pub fn texts(&self, settings: ImportSettings<'_>) -> ImportedCommit {
        let HgMetadata { message, renames, branch, mut extras, git_headers } =
            HgMetadata::of(self.message, &self.others);
        let mut of_commit: BTreeSet<Vec<u8>> = git_headers.into_iter().collect();
        let mut set = |key: &[u8], value: Vec<u8>| {
            if !matches!(key, RENAME_SOURCE | BRANCH | OCTOPUS) {
                of_commit.insert(key.to_vec());
            }
            extras.insert(key.to_vec(), value);
        };
        if renames.is_none() {
            set(RENAME_SOURCE, b"git".to_vec());
        }
        let description = description(&self.as_utf8(message, settings));
        let mut base = description.clone();
        base.push(b'\n');
        if base != message {
            set(b"message", delta(&base, message));
        }
        let who = self.author.as_ref().map_or(UNKNOWN, |author| &author.who);
        let user = user(who);
        let readable = self.as_utf8(&user, settings);
        if *readable != *user {
            set(b"author", delta(&readable, &user));
        }
        set(BRANCH, branch.unwrap_or_default().to_vec());
        if let (Some(author), Some(committer)) = (&self.author, &self.committer)
            && author != committer
        {
            let Person { who, seconds, east_seconds } = committer;
            let date = format!(" {seconds} {}", -east_seconds);
            set(b"committer", [who, date.as_bytes()].concat());
        }
        for (key, value) in [(&b"encoding"[..], &self.encoding), (&b"gpgsig"[..], &self.signature)]
        {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                set(key, value.to_vec());
            }
        }
        let extras_between = [(OCTOPUS.to_vec(), b"octopus".to_vec())].into();
        if self.parents.len() > 2 {
            set(OCTOPUS, b"octopus-done".to_vec());
        }
        ImportedCommit {
            user: one_line(if readable.is_empty() { settings.user } else { &readable }),
            seconds: self.author.as_ref().map_or(0, |author| author.seconds),
            west_seconds: self.author.as_ref().map_or(0, |author| -author.east_seconds),
            description,
            extras,
            of_commit,
            extras_between,
            is_of_git: renames.is_none(),
            sources: renames.unwrap_or_default(),
        }
    }

    /// A text in UTF-8.
    fn as_utf8<'t>(&self, text: &'t [u8], settings: ImportSettings<'_>) -> Cow<'t, [u8]> {
        let encoding = self.encoding.as_ref().filter(|name| !name.is_empty());
        let encoding = encoding.filter(|_| std::str::from_utf8(text).is_err());
        let decoded = encoding.and_then(|name| settings.decoder.decode(name, text));
        decoded.map_or_else(|| to_utf8(text), Cow::Owned)
    }
}

impl<'a> Person<'a> {
    fn of(value: Cow<'a, [u8]>) -> Option<Self> {
        let end = memchr::memmem::rfind(&value, b"> ")? + 1;
        let date = &value[end + 1..];
        let space = memchr::memrchr(b' ', date)?;
        let seconds = integer(&date[..space])?;
        let (sign, zone) = date[space + 1..].split_first()?;
        let zone = match sign {
            b'+' => integer(zone)?,
            b'-' => integer(zone)?.checked_neg()?,
            _ => return None,
        };
        let minutes = zone.unsigned_abs();
        let east = (minutes / 100).checked_mul(3600)?.checked_add(minutes % 100 * 60)?;
        let east = i64::try_from(east).ok()? * zone.signum();
        let east_seconds = i32::try_from(east).ok().filter(|seconds| *seconds != i32::MIN)?;
        let who = match value {
            Cow::Borrowed(value) => Cow::Borrowed(&value[..end]),
            Cow::Owned(mut value) => {
                value.truncate(end);
                Cow::Owned(value)
            }
        };
        Some(Self { who, seconds, east_seconds })
    }
}

/// Number as Python's `int` reads it from bytes.
fn integer(text: &[u8]) -> Option<i64> {
    let text = trim(text);
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    let mut number: i64 = 0;
    let mut was_digit = false;
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                let digit = i64::from(byte - b'0');
                number = number.checked_mul(10)?.checked_sub(digit)?;
                was_digit = true;
            }
            b'_' if was_digit => was_digit = false,
            _ => return None,
        }
    }
    if !was_digit {
        return None;
    }
    if is_negative { Some(number) } else { number.checked_neg() }
}

/// User of an author.
fn user(who: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(who, NOBODY).is_some() {
        return Cow::Borrowed(&who[..who.len() - NOBODY.len()]);
    }
    extended(who).map_or(Cow::Borrowed(who), Cow::Owned)
}

/// User of an author `NAME ext:(QUOTED) <EMAIL>`.
fn extended(who: &[u8]) -> Option<Vec<u8>> {
    const OPEN: &[u8] = b" ext:(";
    const CLOSE: &[u8] = b") <";
    if memchr::memchr(b'\n', who).is_some() {
        return None;
    }
    let start = memchr::memmem::find(who, OPEN)?;
    let rest = &who[start + OPEN.len()..];
    let end = memchr::memmem::rfind(rest, CLOSE)?;
    let email = rest[end + CLOSE.len()..].strip_suffix(b">")?;
    Some([&who[..start], b" <", email, b">", &unquote(&rest[..end])].concat())
}

/// Whether a path is imported: no part is `.hg`, and it is one line, as in hg-git. Parts that lead
/// out of a directory are not imported either.
pub(super) fn accepts(path: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', path).is_none()
        && path.split(|byte| *byte == b'/').all(|part| !matches!(part, b".hg" | b"" | b"." | b".."))
}

/// User as Mercurial stores it.
fn one_line(user: &[u8]) -> Vec<u8> {
    let user = match trim(user) {
        b"" => UNKNOWN,
        user => user,
    };
    user.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect()
}

/// Description as Mercurial stores it: lines without blanks at their ends, and no empty lines at
/// the ends.
fn description(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 1);
    let mut rest = message;
    while !rest.is_empty() {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        out.extend_from_slice(trim_end(&rest[..end]));
        out.push(b'\n');
        rest = &rest[end..];
        rest = rest.strip_prefix(b"\r\n").or(rest.get(1..)).unwrap_or_default();
    }
    let start = out.iter().take_while(|byte| **byte == b'\n').count();
    let end = out.iter().rev().take_while(|byte| **byte == b'\n').count();
    out.truncate(out.len().saturating_sub(end));
    out.drain(..start.min(out.len()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(content: &[u8]) -> ImportedCommit {
        let settings =
            ImportSettings { user: b"Lab <lab@example.org>", ..ImportSettings::default() };
        ParsedCommit::of(content).texts(settings)
    }

    fn of_author(author: &[u8]) -> ImportedCommit {
        texts(&[b"author ", author, b"\ncommitter ", author, b"\n\nm\n"].concat())
    }

    #[test]
    fn dates_are_read_as_by_python() {
        for (date, expected) in [
            ("1 +0000", (1, 0)),
            (" 1_0  +0130", (10, -5400)),
            ("-5 -0200", (-5, 7200)),
            ("1 --100", (1, -3600)),
            ("1 +0060", (1, -3600)),
            ("x +0000", (0, 0)),
            ("1_ +0000", (0, 0)),
            ("1 0000", (0, 0)),
            ("1 -511111111111111111", (0, 0)),
        ] {
            let made = of_author(format!("A <a@x> {date}").as_bytes());
            assert_eq!((made.seconds, made.west_seconds), expected, "{date}");
        }
    }

    #[test]
    fn users_are_those_of_hg_git() {
        for (author, expected) in [
            ("A  B <a@x>", "A  B <a@x>"),
            ("A ext:(%20x) <a@x>", "A <a@x> x"),
            ("A ext:(1) <b> ext:(2) <a@x>", "A <a@x>1) <b> ext:(2"),
            ("A <none@none>", "A"),
            (" <none@none>", "Lab <lab@example.org>"),
            ("  <none@none>", "unknown"),
            ("A", "unknown"),
        ] {
            let made = of_author(format!("{author} 1 +0000").as_bytes());
            assert_eq!(String::from_utf8_lossy(&made.user), expected);
        }
    }

    #[test]
    fn descriptions_lose_blanks() {
        for (message, expected) in [
            ("\n\n a \t\r\nb\rc\n\n", " a\nb\nc"),
            ("", ""),
            ("\n\n", ""),
            ("a", "a"),
            ("a\n\n \nb", "a\n\n\nb"),
        ] {
            assert_eq!(description(message.as_bytes()), expected.as_bytes());
        }
    }
}
