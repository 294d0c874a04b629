//! The texts of manifests, rebuilt from their chunks as [`SharedText`].
//!
//! Made for walks that announce when a text is no longer needed. Until then the text is kept, and
//! shares memory with others. If texts take too much memory, the least recently used ones are
//! dropped. A text whose base is not kept is rebuilt from its delta chain.

use std::collections::VecDeque;
use std::rc::Rc;

use revlog::{Delta, Rev, Revlog, Scratch, SharedText, StoredDelta, Tally, Texts};

use crate::error::Result;

/// Texts kept, at most.
const MOST_KEPT: usize = 256;
/// Part of the memory limit that one text may have outside buffers: an eighth, so that a few texts
/// which share nothing have room.
const LOOSE_PART: usize = 8;

/// A manifest as stored.
pub(super) struct Stored {
    pub text: Rc<SharedText>,
    /// The delta that the text was rebuilt with, from a kept text; `None` if the revision is stored
    /// in full, or its text was kept.
    pub delta: Option<StoredDelta>,
}

/// A reader of manifests.
pub(super) struct Reader<'a> {
    revlog: &'a Revlog,
    chunks: Texts<'a>,
    /// Kept texts, least recently used first.
    kept: VecDeque<(Rev, Rc<SharedText>)>,
    /// Bytes of the buffers that were taken for kept texts, and the tally of bytes outside buffers.
    kept_bytes: usize,
    tally: Tally,
    budget_bytes: usize,
}

impl<'a> Reader<'a> {
    /// A reader that keeps texts of about `budget_bytes` together, and at least two.
    pub fn new(revlog: &'a Revlog, scratch: &'a mut Scratch, budget_bytes: usize) -> Self {
        let chunks = Texts::new(revlog, scratch, 0);
        let (kept, tally) = (VecDeque::new(), Tally::default());
        Self { revlog, chunks, kept, kept_bytes: 0, tally, budget_bytes }
    }

    /// Rebuilds one text. Its node is not checked.
    ///
    /// # Errors
    ///
    /// As [`Texts::get`].
    pub fn get(&mut self, rev: Rev) -> Result<Stored> {
        if let Some(text) = self.recall(rev) {
            return Ok(Stored { text, delta: None });
        }
        let Some(base) = self.revlog.index().delta_base(rev) else {
            let text = SharedText::new(self.chunks.stored(rev)?, &self.tally);
            return Ok(Stored { text: self.keep(rev, text), delta: None });
        };
        let base_text = match self.recall(base) {
            Some(text) => text,
            None => self.rebuild(base)?,
        };
        let bytes = self.chunks.stored(rev)?;
        let text = self.next(rev, &base_text, &bytes)?;
        Ok(Stored { text: self.keep(rev, text), delta: Some(StoredDelta { base, bytes }) })
    }

    /// Drops the text of `rev`.
    pub fn forget(&mut self, rev: Rev) {
        if let Some(position) = self.kept.iter().rposition(|(kept, _)| *kept == rev)
            && let Some((_, text)) = self.kept.remove(position)
        {
            self.kept_bytes -= text.made_bytes();
        }
    }

    /// The delta chain of `rev`, oldest first, with `rev` itself.
    pub fn chain(&self, rev: Rev) -> Vec<Rev> {
        let index = self.revlog.index();
        let mut chain: Vec<_> =
            std::iter::successors(Some(rev), |&rev| index.delta_base(rev)).collect();
        chain.reverse();
        chain
    }

    /// Bytes of all texts in use, except those in buffers.
    pub fn loose_bytes(&self) -> usize {
        self.tally.bytes()
    }

    /// Takes back the buffer of a stored delta.
    pub fn recycle(&mut self, delta: Option<StoredDelta>) {
        self.chunks.recycle_delta(delta);
    }

    /// Rebuilds a text from the nearest kept text of its chain, or from a full text, and keeps it.
    fn rebuild(&mut self, rev: Rev) -> Result<Rc<SharedText>> {
        let mut chain = self.chain(rev);
        let kept = chain.iter().rposition(|&rev| self.recall(rev).is_some());
        let first = chain.drain(..=kept.unwrap_or(0)).next_back().expect("a chain has its end");
        let mut text = match self.recall(first) {
            Some(text) => text,
            None => {
                // keep this one, too: branches that take turns share it
                let text = SharedText::new(self.chunks.stored(first)?, &self.tally);
                self.keep(first, text)
            }
        };
        let last = chain.pop();
        for rev in chain {
            text = Rc::new(self.applied(rev, &text)?);
        }
        if let Some(last) = last {
            let rebuilt = self.applied(last, &text)?;
            text = self.keep(last, rebuilt);
        }
        Ok(text)
    }

    /// Applies the stored delta of `rev` to the text of its base.
    fn applied(&mut self, rev: Rev, base: &SharedText) -> Result<SharedText> {
        let bytes = self.chunks.stored(rev)?;
        let text = self.next(rev, base, &bytes)?;
        self.chunks.recycle_delta(Some(StoredDelta { base: rev, bytes }));
        Ok(text)
    }

    fn next(&mut self, rev: Rev, base: &SharedText, bytes: &[u8]) -> Result<SharedText> {
        let delta = Delta::parse(bytes, base.len());
        let delta = delta.map_err(|problem| self.revlog.corrupt(rev, problem))?;
        let mut text = base.apply(&delta, &self.tally);
        text.gather(self.budget_bytes / LOOSE_PART, &self.tally, |len| self.chunks.room(len))?;
        Ok(text)
    }

    fn recall(&mut self, rev: Rev) -> Option<Rc<SharedText>> {
        let position = self.kept.iter().rposition(|(kept, _)| *kept == rev)?;
        let entry = self.kept.remove(position)?;
        let text = Rc::clone(&entry.1);
        self.kept.push_back(entry);
        Some(text)
    }

    fn keep(&mut self, rev: Rev, text: SharedText) -> Rc<SharedText> {
        let text = Rc::new(text);
        self.kept_bytes += text.made_bytes();
        self.kept.push_back((rev, Rc::clone(&text)));
        while self.kept.len() > MOST_KEPT
            || self.kept.len() > 2 && self.kept_bytes + self.tally.bytes() > self.budget_bytes
        {
            if let Some((_, text)) = self.kept.pop_front() {
                self.kept_bytes -= text.made_bytes();
            }
        }
        text
    }
}
