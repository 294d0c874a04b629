//! Verification of manifest texts by their nodes, in batches.

use std::rc::Rc;

use revlog::{Rev, Revlog, Scratch, SharedText};

use super::reader::Reader;
use crate::error::Result;
use crate::read::verify::Check;

/// Texts hashed together.
const AT_ONCE: usize = 16;

/// Texts that wait to be hashed. They share memory with each other.
pub(super) struct Proof<'a> {
    revlog: &'a Revlog,
    /// Limit for all texts while some wait, in bytes.
    most_bytes: usize,
    waiting: Vec<(Rev, Rc<SharedText>)>,
    /// Bytes of the buffers that were taken for waiting texts.
    waiting_bytes: usize,
}

impl<'a> Proof<'a> {
    /// A batch of texts that may take `most_bytes` together with the texts in `Reader`.
    pub const fn new(revlog: &'a Revlog, most_bytes: usize) -> Self {
        Self { revlog, most_bytes, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Compares `text` with the node of `rev`, now or later. Returns a revision whose text is
    /// wrong.
    pub fn add(&mut self, rev: Rev, text: &Rc<SharedText>, reader: &Reader<'_>) -> Option<Rev> {
        self.waiting_bytes += text.made_bytes();
        self.waiting.push((rev, Rc::clone(text)));
        let bytes = self.waiting_bytes + reader.loose_bytes();
        let is_enough = self.waiting.len() == AT_ONCE || bytes > self.most_bytes;
        is_enough.then(|| self.finish()).flatten()
    }

    /// Compares all waiting texts. Returns the first revision whose text is wrong.
    pub fn finish(&mut self) -> Option<Rev> {
        let waiting = self.waiting.iter();
        let texts: Vec<_> = waiting.map(|(rev, text)| (*rev, text.pieces().collect())).collect();
        let wrong = Check::new(self.revlog).first_wrong_pieced(&texts);
        self.waiting_bytes = 0;
        self.waiting.clear();
        wrong
    }
}

/// Searches the delta chain of `rev` for the first revision that cannot be rebuilt or does not
/// match its node. Hashes the whole chain.
///
/// # Errors
///
/// The error of that revision.
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
