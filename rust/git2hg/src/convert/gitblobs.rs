//! The blobs of git, asked for ahead and read one after the other.
//!
//! git keeps deltas from one version of a file to the next, and in memory only some of what it made of
//! them. So it is asked for all versions of a file in a row. What is needed later goes to a temporary
//! file.

use std::io::{Read, Write};
use std::sync::Arc;

use gitpack::Oid;
use workshop::{Budget, Buffer, Directory};

use crate::answers::{AnswerHead, Answers, ask};
use crate::convert::spool::Spool;
use crate::error::{Error, Result};

/// Longest content: that of a text, with metadata and what a changegroup has before it.
const MOST_BYTES: u64 = (i32::MAX as u64) - (64 << 10);

/// A `git cat-file --batch-command --buffer`.
pub(crate) struct GitBlobs<W, R> {
    requests: W,
    answers: Answers<R>,
    budget: Arc<Budget>,
    most_bytes: u64,
    order: Order,
    /// How many were read.
    read: usize,
    /// What has come and may be needed later.
    arrived: Vec<Arrived>,
    /// Bytes that were read since the last question.
    bytes: u64,
    spool: Spool,
}

/// In which order contents were asked for, and are read.
#[derive(Debug, Default)]
struct Order {
    asked: Vec<Oid>,
    /// Of each that is read, its number in `asked`.
    read: Vec<usize>,
    /// Whether both orders are the same.
    is_as_read: bool,
}

impl Order {
    /// Contents by paths, where `wanted` are paths and blobs in the order in which they are read.
    fn by_path(wanted: &[(&[u8], Oid)]) -> Self {
        let mut numbers: Vec<usize> = (0..wanted.len()).collect();
        numbers.sort_by_key(|number| wanted[*number].0);
        let mut order = Self { is_as_read: true, ..Self::default() };
        order.read.resize(wanted.len(), 0);
        for (at, number) in numbers.into_iter().enumerate() {
            let oid = wanted[number].1;
            if order.asked.last() != Some(&oid) {
                order.asked.push(oid);
            }
            order.read[number] = order.asked.len() - 1;
            order.is_as_read &= number == at && order.asked.len() == at + 1;
        }
        order
    }
}

/// Where a content is.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    at: u64,
    /// `None` if it is too long.
    len: Option<usize>,
}

impl<W: Write, R: Read> GitBlobs<W, R> {
    /// Contents are buffers within `budget`, or wait in a temporary file; those of more than
    /// `most_bytes` are too long.
    pub fn new(
        (requests, answers): (W, R),
        dir: &Directory,
        budget: Arc<Budget>,
        most_bytes: u64,
    ) -> Result<Self> {
        Ok(Self {
            requests,
            answers: Answers::new(answers),
            budget,
            most_bytes: most_bytes.min(MOST_BYTES),
            order: Order::default(),
            read: 0,
            arrived: Vec::new(),
            bytes: 0,
            spool: Spool::new(dir, "blobs")?,
        })
    }

    /// The bytes that the longest content may have.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// The bytes of all contents that have come of those that were asked for last.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An empty buffer within the budget.
    pub fn room(&self) -> Buffer {
        Buffer::new(Some(Arc::clone(&self.budget)))
    }

    /// Asks for blobs at some paths, which have to be read in this order. All that were asked for before
    /// have been read.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn ask(&mut self, wanted: &[(&[u8], Oid)]) -> Result<()> {
        self.order = Order::by_path(wanted);
        self.read = 0;
        self.arrived.clear();
        self.bytes = 0;
        self.spool.clear();
        ask(&mut self.requests, &self.order.asked)
    }

    /// The next content, which is that of `oid`; `None` if it is too long.
    ///
    /// # Errors
    ///
    /// Those of [`Answers::read`], and [`Error::Missing`].
    pub fn next(&mut self, oid: Oid) -> Result<Option<Buffer>> {
        let mut room = self.room();
        let number = self.order.read.get(self.read).copied();
        let number = number.filter(|number| self.order.asked[*number] == oid);
        let number = number.ok_or_else(|| Error::Wrong(format!("blob {oid} was not asked for")))?;
        self.read += 1;
        if self.order.is_as_read {
            let content = read(&mut self.answers, oid, room, self.most_bytes)?;
            self.bytes += content.as_ref().map_or(0, |it| it.len() as u64);
            return Ok(content);
        }
        while self.arrived.len() <= number {
            self.arrive()?;
        }
        let Arrived { at, len: Some(len) } = self.arrived[number] else { return Ok(None) };
        room.reserve_exact(len)?;
        room.resize(len)?;
        self.spool.read_exact(at, &mut room)?;
        Ok(Some(room))
    }

    /// Puts the next answer into the temporary file.
    fn arrive(&mut self) -> Result<()> {
        let Self { answers, spool, most_bytes, .. } = self;
        let bytes = head(answers, self.order.asked[self.arrived.len()])?;
        let at = spool.len();
        self.bytes += bytes;
        let len = usize::try_from(bytes).ok().filter(|_| bytes <= *most_bytes);
        // what is too long is passed over: what was asked for after it may be needed before it
        answers.content(bytes, |piece| if len.is_some() { spool.push(piece) } else { Ok(()) })?;
        self.arrived.push(Arrived { at, len });
        Ok(())
    }
}

/// Reads the line before the content of a blob, and answers how long that is.
fn head(answers: &mut Answers<impl Read>, oid: Oid) -> Result<u64> {
    let AnswerHead { oid: found, bytes } = answers.head()?.ok_or(Error::Ended)?;
    let bytes = bytes.ok_or(Error::Missing(found))?;
    if found != oid || answers.kind() != b"blob" {
        let kind = answers.kind().escape_ascii();
        return Err(Error::Answer(format!("{found} {kind}")));
    }
    Ok(bytes)
}

/// Reads the content of a blob from `answers` into an empty buffer; `None` if it is too long.
pub(crate) fn read(
    answers: &mut Answers<impl Read>,
    oid: Oid,
    mut content: Buffer,
    most_bytes: u64,
) -> Result<Option<Buffer>> {
    let bytes = head(answers, oid)?;
    if bytes > most_bytes {
        answers.content(bytes, |_| Ok(()))?;
        return Ok(None);
    }
    content.reserve_exact(usize::try_from(bytes).map_err(|_| Error::TooMany)?)?;
    answers.content(bytes, |piece| Ok(content.extend_from_slice(piece)?))?;
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(byte: u8) -> Oid {
        Oid::from_bytes([byte; 20])
    }

    fn answers(contents: &[(u8, &str)]) -> Vec<u8> {
        let answer = |(byte, content): &(u8, &str)| {
            format!("{} blob {}\n{content}\n", oid(*byte), content.len())
        };
        contents.iter().map(answer).collect::<String>().into_bytes()
    }

    /// What is asked for and what is read, where git has the blobs `given`.
    fn read_all(wanted: &[(&str, u8)], given: &[(u8, &str)]) -> (String, Vec<String>) {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = Directory::open(scratch.path()).expect("opens");
        let (mut asked, budget) = (Vec::new(), Budget::new(1 << 20, &dir));
        let given = answers(given);
        let mut blobs = GitBlobs::new((&mut asked, &*given), &dir, budget, 5).expect("a file");
        let wanted: Vec<(&[u8], Oid)> =
            wanted.iter().map(|(path, byte)| (path.as_bytes(), oid(*byte))).collect();
        blobs.ask(&wanted).expect("is asked");
        let text = |(_, oid): &(&[u8], Oid)| {
            let content = blobs.next(*oid).expect("is read");
            let text = |it: Buffer| String::from_utf8(it.to_vec()).expect("ascii");
            content.map_or_else(|| "too long".to_owned(), text)
        };
        let read = wanted.iter().map(text).collect();
        drop(blobs);
        let digits = String::from_utf8(asked).expect("ascii");
        (digits.lines().filter_map(|line| line.split(' ').nth(1)?.get(..2)).collect(), read)
    }

    #[test]
    fn versions_of_a_file_are_asked_for_in_a_row() {
        let wanted = [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 3)];
        let given = [(2, "two"), (4, ""), (1, "one"), (3, "three")];
        let (asked, read) = read_all(&wanted, &given);
        assert_eq!(asked, "02040103");
        assert_eq!(read, ["one", "two", "three", "", "three"]);
    }

    #[test]
    fn what_is_too_long_hides_nothing() {
        for wanted in [[("a", 1), ("b", 2), ("c", 3)], [("c", 3), ("b", 2), ("a", 1)]] {
            let given = [(1, "one"), (2, "more than five"), (3, "three")];
            let (_, mut read) = read_all(&wanted, &given);
            read.sort();
            assert_eq!(read, ["one", "three", "too long"]);
        }
    }

    #[test]
    fn what_is_in_order_is_read_as_it_comes() {
        let given = [(1, "one"), (2, "two")];
        let (asked, read) = read_all(&[("a", 1), ("b", 2)], &given);
        assert_eq!((&*asked, read), ("0102", vec!["one".to_owned(), "two".to_owned()]));
        let order = Order::by_path(&[(b"a", oid(1)), (b"b", oid(1))]);
        assert!(!order.is_as_read);
        assert_eq!(order.read, [0, 0]);
    }
}
