//! Requests to `git cat-file --batch-command`, and parser of its output.
//!
//! Format: "BATCH OUTPUT" in git-cat-file(1). Does not know the content of objects.

use std::io::{BufRead, BufReader, Read, Write};

use gitpack::Oid;
use parallel::hex::hex;
use revlog::Node;

use crate::error::{Error, Result};

/// Size limit of an object that is read as a whole: the largest known trees have some megabytes.
/// Blobs are read in pieces, and only the beginning of commits.
const MOST_BYTES: u64 = 256 << 20;
/// Length limit of the line before an object. An id and a kind have less.
const LONGEST_LINE: u64 = 256;
const BUFFER_BYTES: usize = 256 << 10;

/// Requests contents from a `git cat-file --batch-command --buffer`. It reads all requests before
/// it answers any, so neither side blocks the other.
///
/// # Errors
///
/// [`Error::Io`].
pub(crate) fn ask(requests: &mut impl Write, oids: &[Oid]) -> Result<()> {
    if oids.is_empty() {
        return Ok(());
    }
    let mut lines = Vec::with_capacity(oids.len() * 50 + 6);
    for oid in oids {
        lines.extend_from_slice(b"contents ");
        lines.extend_from_slice(&hex(oid.as_bytes()));
        lines.push(b'\n');
    }
    lines.extend_from_slice(b"flush\n");
    requests.write_all(&lines)?;
    Ok(requests.flush()?)
}

/// Object, or its absence.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Id of the object.
    pub oid: Oid,
    /// Kind, such as `tree`; empty for a missing object.
    pub kind: &'a [u8],
    /// Content.
    pub content: &'a [u8],
}

/// Parser of answers.
#[derive(Debug)]
pub struct Answers<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    content: Vec<u8>,
}

impl<R: Read> Answers<R> {
    /// Parses `input`.
    pub fn new(input: R) -> Self {
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Self { input, line: Vec::new(), content: Vec::new() }
    }

    /// Next answer; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] within an answer, [`Error::Answer`] for other output, [`Error::TooLarge`],
    /// or [`Error::Io`].
    pub fn read(&mut self) -> Result<Option<Answer<'_>>> {
        let Some(AnswerHead { oid, bytes }) = self.head()? else { return Ok(None) };
        self.content.clear();
        let Some(bytes) = bytes else {
            return Ok(Some(Answer { oid, kind: b"", content: b"" }));
        };
        if bytes > MOST_BYTES {
            return Err(Error::TooLarge { oid, bytes, most: MOST_BYTES });
        }
        // with the line feed after the content
        (&mut self.input).take(bytes + 1).read_to_end(&mut self.content)?;
        match self.content.split_last() {
            Some((b'\n', content)) if content.len() as u64 == bytes => {
                Ok(Some(Answer { oid, kind: kind_of(&self.line), content }))
            }
            Some(_) if self.content.len() as u64 > bytes => Err(odd(&self.line)),
            _ => Err(Error::Ended),
        }
    }

    /// Next answer, with the first `most` bytes of its content; `None` at the end.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::read`], without [`Error::TooLarge`].
    pub(crate) fn read_start(&mut self, most: usize) -> Result<Option<Answer<'_>>> {
        let Some(AnswerHead { oid, bytes }) = self.head()? else { return Ok(None) };
        let Some(bytes) = bytes else {
            return Ok(Some(Answer { oid, kind: b"", content: b"" }));
        };
        let mut start = std::mem::take(&mut self.content);
        start.clear();
        self.content(bytes, |piece| {
            start.extend_from_slice(&piece[..piece.len().min(most - start.len())]);
            Ok(())
        })?;
        self.content = start;
        Ok(Some(Answer { oid, kind: kind_of(&self.line), content: &self.content }))
    }

    /// Line before the next object. [`Self::content`] has to follow.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::read`].
    pub(crate) fn head(&mut self) -> Result<Option<AnswerHead>> {
        self.line.clear();
        (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.pop_if(|last| *last == b'\n').is_none() {
            let is_cut = (self.line.len() as u64) < LONGEST_LINE;
            return Err(if is_cut { Error::Ended } else { odd(&self.line) });
        }
        let line = &*self.line;
        let mut words = line.split(|&byte| byte == b' ');
        let oid = words.next().and_then(Node::from_hex).ok_or_else(|| odd(line))?;
        let oid = Oid::from_bytes(*oid.as_bytes());
        let bytes = match (words.next(), words.next(), words.next()) {
            (Some(b"missing"), None, _) => return Ok(Some(AnswerHead { oid, bytes: None })),
            (Some(_), Some(bytes), None) => bytes,
            _ => return Err(odd(line)),
        };
        let bytes = std::str::from_utf8(bytes).ok().and_then(|digits| digits.parse().ok());
        Ok(Some(AnswerHead { oid, bytes: Some(bytes.ok_or_else(|| odd(line))?) }))
    }

    /// Kind of the object whose head was read last.
    pub(crate) fn kind(&self) -> &[u8] {
        kind_of(&self.line)
    }

    /// Passes the content of an object of `bytes` bytes to `take`, in pieces.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::read`] and `take`.
    pub(crate) fn content(
        &mut self,
        bytes: u64,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut left = bytes;
        while left > 0 {
            let piece = self.input.fill_buf()?;
            let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if len == 0 {
                return Err(Error::Ended);
            }
            take(&piece[..len])?;
            self.input.consume(len);
            left -= len as u64;
        }
        let mut end = [0];
        match self.input.read_exact(&mut end) {
            Ok(()) if end == [b'\n'] => Ok(()),
            Ok(()) => Err(odd(&self.line)),
            Err(_) => Err(Error::Ended),
        }
    }
}

/// Line of git before a content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerHead {
    pub oid: Oid,
    /// Length of the content; `None` for a missing object.
    pub bytes: Option<u64>,
}

fn odd(line: &[u8]) -> Error {
    Error::Answer(line.escape_ascii().to_string())
}

fn kind_of(line: &[u8]) -> &[u8] {
    line.split(|&byte| byte == b' ').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1212121212121212121212121212121212121212";

    fn first(input: &str) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut answers = Answers::new(input.as_bytes());
        let read = answers.read()?;
        Ok(read.map(|Answer { kind, content, .. }| (kind.to_vec(), content.to_vec())))
    }

    #[test]
    fn objects_are_read_one_after_the_other() {
        let input = format!("{ID} tree 3\na\nb\n{ID} missing\n{ID} blob 0\n\n");
        let mut answers = Answers::new(input.as_bytes());
        let oid = Oid::from_bytes([0x12; 20]);
        for (kind, content) in [(&b"tree"[..], &b"a\nb"[..]), (b"", b""), (b"blob", b"")] {
            let answer = answers.read().expect("well-formed");
            assert_eq!(answer, Some(Answer { oid, kind, content }));
        }
        assert_eq!(answers.read().expect("ends"), None);
    }

    #[test]
    fn of_a_long_object_only_the_start_is_read() {
        let long = "x".repeat(3 * BUFFER_BYTES);
        let input = format!("{ID} commit {}\n{long}\n{ID} commit 2\nab\n", long.len());
        let mut answers = Answers::new(input.as_bytes());
        for content in [&long[..BUFFER_BYTES + 9], "ab"] {
            let answer = answers.read_start(BUFFER_BYTES + 9).expect("well-formed");
            assert_eq!(
                answer.map(|answer| answer.content.to_vec()),
                Some(content.as_bytes().to_vec())
            );
        }
        assert_eq!(answers.read_start(9).expect("ends"), None);
        assert!(answers.content.capacity() < long.len());
    }

    #[test]
    fn a_cut_answer_is_an_end() {
        let whole = format!("{ID} tree 3\na\nb\n");
        for cut in 1..whole.len() {
            assert!(matches!(first(&whole[..cut]), Err(Error::Ended)), "{cut}");
        }
        assert!(matches!(first(""), Ok(None)));
    }

    #[test]
    fn odd_answers_are_refused() {
        for line in ["", "x", "12 tree 3", "tree 3", &format!("{ID} tree"), &"x".repeat(300)] {
            assert!(matches!(first(&format!("{line}\nabc\n")), Err(Error::Answer(_))), "{line}");
        }
        for bytes in ["-1", "x", "99999999999999999999"] {
            assert!(matches!(first(&format!("{ID} tree {bytes}\n")), Err(Error::Answer(_))));
        }
        assert!(matches!(first(&format!("{ID} tree 1\nab\n")), Err(Error::Answer(_))));
        let large = format!("{ID} tree 300000000\n");
        assert!(matches!(first(&large), Err(Error::TooLarge { bytes: 300_000_000, .. })));
    }
}
