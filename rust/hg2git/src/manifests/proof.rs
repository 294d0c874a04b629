//! The texts of manifests against their nodes, several at a time, and who is to blame if one is wrong.

use std::rc::Rc;

use revlog::{Buffer, Rev, Revlog, Scratch};

use super::reader::Reader;
use super::shared::SharedText;
use crate::error::Result;
use crate::verify::Check;

/// Texts hashed together.
const AT_ONCE: usize = 16;

/// Texts that wait to be hashed.
pub(super) struct Proof<'a> {
    revlog: &'a Revlog,
    /// What they may take, in bytes.
    most_bytes: usize,
    waiting: Vec<(Rev, Buffer)>,
    waiting_bytes: usize,
}

impl<'a> Proof<'a> {
    /// Copies up to `most_bytes` of texts to hash them side by side; those that it would be one of at a
    /// time are hashed where they are.
    pub const fn new(revlog: &'a Revlog, most_bytes: usize) -> Self {
        Self { revlog, most_bytes, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Compares `text` with the node of `rev`, now or later. A revision whose text was found to be
    /// wrong is answered.
    ///
    /// # Errors
    ///
    /// As [`Buffer::reserve`].
    pub fn add(
        &mut self,
        rev: Rev,
        text: &Rc<SharedText>,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Rev>> {
        if 2 * text.len() > self.most_bytes {
            let is_right = Check::new(self.revlog).is_text(rev, text.pieces());
            return Ok(self.finish(reader).or((!is_right).then_some(rev)));
        }
        let mut wrong = None;
        if self.waiting.len() == AT_ONCE || self.waiting_bytes + text.len() > self.most_bytes {
            wrong = self.finish(reader);
        }
        let mut buffer = reader.room(text.len())?;
        for piece in text.pieces() {
            buffer.extend_from_slice(piece)?;
        }
        self.waiting_bytes += text.len();
        self.waiting.push((rev, buffer));
        Ok(wrong)
    }

    /// Compares all that wait. The first whose text is wrong is answered.
    pub fn finish(&mut self, reader: &mut Reader<'_>) -> Option<Rev> {
        let texts: Vec<_> =
            self.waiting.iter().map(|(rev, text)| (*rev, text.as_slice())).collect();
        let wrong = Check::new(self.revlog).first_wrong(&texts);
        self.waiting_bytes = 0;
        self.waiting.drain(..).for_each(|(_, buffer)| reader.give_back(buffer));
        wrong
    }
}

/// Who is to blame if the text of `rev` is wrong, or seems to be: the first revision of its chain
/// that cannot be rebuilt or is not its node's text. Hashes all of them.
///
/// # Errors
///
/// That of the first; none if all are right.
pub(super) fn blame(
    revlog: &Revlog,
    rev: Rev,
    scratch: &mut Scratch,
    kept_bytes: usize,
) -> Result<()> {
    let check = Check::new(revlog);
    let mut reader = Reader::new(revlog, scratch, kept_bytes);
    for rev in reader.chain(rev) {
        let text = reader.get(rev)?.text;
        if !check.is_text(rev, text.pieces()) {
            return Err(check.mismatch(rev));
        }
    }
    Ok(())
}
