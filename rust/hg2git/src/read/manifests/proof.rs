//! The texts of manifests against their nodes, several at a time, and who is to blame if one is wrong.

use std::rc::Rc;

use revlog::{Rev, Revlog, Scratch};

use super::reader::Reader;
use super::shared::SharedText;
use crate::error::Result;
use crate::read::verify::Check;

/// Texts hashed together.
const AT_ONCE: usize = 16;

/// Texts that wait to be hashed, where they lie. They share what they have in common.
pub(super) struct Proof<'a> {
    revlog: &'a Revlog,
    /// What texts may take while some wait, in bytes.
    most_bytes: usize,
    waiting: Vec<(Rev, Rc<SharedText>)>,
    /// Bytes of buffers that those were made with.
    waiting_bytes: usize,
}

impl<'a> Proof<'a> {
    /// Lets texts wait as long as all, those that `Reader` keeps included, take `most_bytes`.
    pub const fn new(revlog: &'a Revlog, most_bytes: usize) -> Self {
        Self { revlog, most_bytes, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Compares `text` with the node of `rev`, now or later. A revision whose text was found to be
    /// wrong is answered.
    pub fn add(&mut self, rev: Rev, text: &Rc<SharedText>, reader: &Reader<'_>) -> Option<Rev> {
        self.waiting_bytes += text.made_bytes();
        self.waiting.push((rev, Rc::clone(text)));
        let bytes = self.waiting_bytes + reader.loose_bytes();
        let is_enough = self.waiting.len() == AT_ONCE || bytes > self.most_bytes;
        is_enough.then(|| self.finish()).flatten()
    }

    /// Compares all that wait. The first whose text is wrong is answered.
    pub fn finish(&mut self) -> Option<Rev> {
        let waiting = self.waiting.iter();
        let texts: Vec<_> = waiting.map(|(rev, text)| (*rev, text.pieces().collect())).collect();
        let wrong = Check::new(self.revlog).first_wrong_pieced(&texts);
        self.waiting_bytes = 0;
        self.waiting.clear();
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
        if check.first_wrong_pieced(&[(rev, text.pieces().collect())]).is_some() {
            return Err(check.mismatch(rev));
        }
    }
    Ok(())
}
