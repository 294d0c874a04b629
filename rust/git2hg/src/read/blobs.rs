//! Blobs of many commits, requested from git together.
//!
//! git stores versions of a file as deltas, and caches only some of their contents. So the versions
//! of a file are requested in a row. Contents wait until the conversion needs them, in the order of
//! commits: those that [`PackedObjects`] reads in memory, as many as fit, and others in a temporary
//! file.

use std::io::{Read, Write};
use std::sync::Arc;

use gitpack::pack::ObjectPlace;
use gitpack::{ObjectKind, Oid};
use parallel::{Budget, Buffer, Directory};

use crate::build::spool::Spool;
use crate::error::{Error, Result};
use crate::read::answers::{AnswerHead, Answers, ask};
use crate::read::packed::PackedObjects;

/// Length limit of contents. A text also has metadata, and a chunk has a header.
const MOST_BYTES: u64 = (i32::MAX as u64) - (64 << 10);

/// Length limit of contents, from the limit of the user.
pub(crate) fn most_bytes(allowed: u64) -> u64 {
    allowed.min(MOST_BYTES)
}

/// Blobs from a `git cat-file --batch-command --buffer`.
pub(crate) struct GitBlobs<'a, W, R> {
    requests: W,
    answers: Answers<R>,
    dir: &'a Directory,
    budget: Arc<Budget>,
    most_bytes: u64,
    packs: Option<PackedObjects>,
    /// Limit of the contents of a window that wait in memory.
    most_held: u64,
}

impl<'a, W: Write, R: Read> GitBlobs<'a, W, R> {
    /// Contents wait in files on the file system of `dir`, and their buffers count towards
    /// `budget`. Contents of more than `most_bytes` are too long.
    pub fn new(
        (requests, answers): (W, R),
        dir: &'a Directory,
        budget: Arc<Budget>,
        most_bytes: u64,
    ) -> Self {
        let (answers, packs) = (Answers::new(answers), None);
        Self { requests, answers, dir, budget, most_bytes, packs, most_held: 0 }
    }

    /// The same, looking for blobs in packs before git is asked. Contents of `most_held` bytes of
    /// each window wait in memory.
    pub fn with_packs(self, packs: Option<PackedObjects>, most_held: u64) -> Self {
        Self { packs, most_held, ..self }
    }

    /// Limit of the contents that wait in memory, if packs are read.
    pub fn most_held(&self) -> Option<u64> {
        self.packs.as_ref().map(|_| self.most_held)
    }

    /// Reads the blobs of some paths.
    ///
    /// # Errors
    ///
    /// The errors of [`Answers::read`] and [`PackedObjects::read`], [`Error::Missing`] and
    /// [`Error::Scratch`].
    pub fn read(&mut self, wanted: &[(&[u8], Oid)]) -> Result<BlobContents> {
        let order = RequestOrder::by_path(wanted);
        let mut spool = Spool::new(self.dir, "blobs")?;
        let mut there = vec![WaitingContent::TooLong; order.asked.len()]; // or git has it
        let (mut bytes, mut held_bytes) = (0, 0);
        let mut packs = self.packs.as_mut();
        for (place, number) in order.places(packs.as_deref()) {
            let object = (ObjectKind::Blob, &order.asked[number]);
            let packed = packs.as_mut().map_or(Ok(None), |it| it.read(object, place))?;
            let content = packed.filter(|it| it.len() as u64 <= self.most_bytes);
            bytes += content.as_ref().map_or(0, |it| it.len() as u64);
            there[number] = match content {
                Some(content) if held_bytes + content.len() as u64 <= self.most_held => {
                    held_bytes += content.len() as u64;
                    WaitingContent::Held(content)
                }
                Some(content) => {
                    let at = spool.len();
                    spool.push(&content)?;
                    WaitingContent::Spooled { at, len: content.len() }
                }
                None => continue,
            };
        }
        let is_late = |number: &usize| matches!(there[*number], WaitingContent::TooLong);
        let late: Vec<usize> = (0..there.len()).filter(is_late).collect();
        let asked: Vec<Oid> = late.iter().map(|number| order.asked[*number]).collect();
        ask(&mut self.requests, &asked)?;
        for (number, oid) in late.into_iter().zip(&asked) {
            let content_bytes = head(&mut self.answers, *oid)?;
            let at = spool.len();
            let len = usize::try_from(content_bytes).ok();
            let len = len.filter(|_| content_bytes <= self.most_bytes);
            // too long, but still skipped: later answers may be needed earlier
            let keep = |piece: &[u8]| if len.is_some() { spool.push(piece) } else { Ok(()) };
            self.answers.content(content_bytes, keep)?;
            if let Some(len) = len {
                there[number] = WaitingContent::Spooled { at, len };
            }
            bytes += content_bytes;
        }
        let wanted = order.read.iter().map(|number| (order.asked[*number], there[*number].clone()));
        let wanted = wanted.collect::<Vec<_>>().into_iter();
        Ok(BlobContents { wanted, spool, budget: Arc::clone(&self.budget), bytes, held_bytes })
    }
}

/// Order of requests, and order of use.
#[derive(Debug, Default)]
struct RequestOrder {
    asked: Vec<Oid>,
    /// Ends of the paths in `asked`.
    ends: Vec<usize>,
    /// For each use, the index in `asked`.
    read: Vec<usize>,
}

impl RequestOrder {
    /// Sorts requests by path. `wanted` has paths and blobs in order of use.
    fn by_path(wanted: &[(&[u8], Oid)]) -> Self {
        let mut numbers: Vec<usize> = (0..wanted.len()).collect();
        numbers.sort_by_key(|number| wanted[*number].0);
        let mut order = Self { read: vec![0; wanted.len()], ..Self::default() };
        let mut before = None;
        for number in numbers {
            let (path, oid) = wanted[number];
            if before.replace(path).is_some_and(|before| before != path) {
                order.ends.push(order.asked.len());
            }
            if order.asked.last() != Some(&oid) {
                order.asked.push(oid);
            }
            order.read[number] = order.asked.len() - 1;
        }
        order.ends.push(order.asked.len());
        order
    }

    /// Places of the objects in packs, with their indexes in `asked`: path by path, bases before
    /// their deltas.
    fn places(&self, packs: Option<&PackedObjects>) -> Vec<(ObjectPlace, usize)> {
        let place = |number: usize| Some((packs?.find(&self.asked[number])?, number));
        let mut places = Vec::with_capacity(self.asked.len());
        let mut start = 0;
        for end in &self.ends {
            let from = places.len();
            places.extend((start..*end).filter_map(place));
            places[from..].sort_unstable();
            start = *end;
        }
        places
    }
}

/// Content that is used later.
#[derive(Clone, Debug)]
enum WaitingContent {
    Held(Arc<Buffer>),
    /// In the temporary file.
    Spooled {
        at: u64,
        len: usize,
    },
    TooLong,
}

/// Contents read from git.
#[derive(Debug)]
pub(crate) struct BlobContents {
    wanted: std::vec::IntoIter<(Oid, WaitingContent)>,
    spool: Spool,
    budget: Arc<Budget>,
    bytes: u64,
    held_bytes: u64,
}

impl BlobContents {
    /// Bytes of all contents, each counted once.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of those that wait in memory.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Next content in order of use; it has to be `oid`. `None` if it is too long.
    ///
    /// # Errors
    ///
    /// [`Error::Scratch`].
    pub fn next(&mut self, oid: Oid) -> Result<Option<Arc<Buffer>>> {
        let next = self.wanted.next().filter(|(wanted, _)| *wanted == oid);
        let (_, content) =
            next.ok_or_else(|| Error::Wrong(format!("blob {oid} was not asked for")))?;
        let (at, len) = match content {
            WaitingContent::Held(content) => return Ok(Some(content)),
            WaitingContent::Spooled { at, len } => (at, len),
            WaitingContent::TooLong => return Ok(None),
        };
        let mut room = Buffer::new(Some(Arc::clone(&self.budget)));
        room.reserve_exact(len)?;
        room.resize(len)?;
        self.spool.read_exact(at, &mut room)?;
        Ok(Some(Arc::new(room)))
    }
}

/// Reads the line before the content of a blob, and returns the length of the content.
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

    /// Requests and contents, if git has the blobs `given`.
    fn read_all(wanted: &[(&str, u8)], given: &[(u8, &str)]) -> (String, Vec<String>) {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = Directory::open(scratch.path()).expect("opens");
        let (mut asked, budget) = (Vec::new(), Budget::new(1 << 20, &dir));
        let given = answers(given);
        let mut blobs = GitBlobs::new((&mut asked, &*given), &dir, budget, 5);
        let wanted: Vec<(&[u8], Oid)> =
            wanted.iter().map(|(path, byte)| (path.as_bytes(), oid(*byte))).collect();
        let mut contents = blobs.read(&wanted).expect("is answered");
        let text = |(_, oid): &(&[u8], Oid)| {
            let content = contents.next(*oid).expect("is read");
            let text = |it: Arc<Buffer>| String::from_utf8(it.to_vec()).expect("ascii");
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
    fn what_was_not_asked_for_is_an_error() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = Directory::open(scratch.path()).expect("opens");
        let (given, budget) = (answers(&[(1, "one")]), Budget::new(1 << 20, &dir));
        let mut blobs = GitBlobs::new((Vec::new(), &*given), &dir, budget, 5);
        let mut contents = blobs.read(&[(b"a", oid(1))]).expect("is answered");
        assert!(contents.next(oid(2)).is_err());
        assert!(contents.next(oid(1)).is_err());
    }
}
