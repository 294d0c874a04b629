//! The texts of one revlog, rebuilt from its chunks.
//!
//! Made for walks in revision order: the texts rebuilt last are kept, so that most revisions cost
//! one delta. A revision whose base is not kept is rebuilt from the whole chain in one go.
//!
//! Over 350 lines: what is kept, the window and the chain are one state.

mod chunk;

use std::collections::VecDeque;
use std::sync::Arc;

use parallel::{Budget, Buffer, BufferPool, MemoryPlan};

use self::chunk::{Unpacker, Unpacking};
use crate::error::Result;
use crate::index::Rev;
use crate::patch::{Broken, Delta, apply_chain};
use crate::revlog::Revlog;

/// Room made for a text before its length is known for sure, at most.
const MOST_GUESSED: usize = 32 << 20;
/// Bytes read from a data file at once, at least: so many if chunks follow each other, fewer and fewer
/// if they are apart.
const WINDOW_LEN: usize = 128 << 10;
const SHORTEST_WINDOW: usize = 8 << 10;
/// How much shorter a window is than the one before, or longer.
const WINDOW_STEP: usize = 4;
/// A window that had to be longer than this is not kept.
const LONGEST_WINDOW_KEPT: usize = 1 << 20;

/// Bytes of deltas that are applied in one go: more of a chain is not unpacked at a time, and what they
/// replace is listed in memory. One that is longer is applied alone.
const DELTAS_AT_ONCE: usize = 4 << 20;

/// A text is only held if the budget is so many times as long.
const LARGEST_PART_HELD: usize = 4;

/// Buffers kept to use again, in bytes, if the caller does not say.
const USUAL_SPARE_BYTES: usize = 16 << 20;

/// What a thread keeps from revlog to revlog: decompressors and buffers.
#[derive(Debug)]
pub struct Scratch {
    unpacker: Unpacker,
    window: Buffer,
    pool: BufferPool,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new(USUAL_SPARE_BYTES)
    }
}

impl Scratch {
    /// Keeps buffers of up to `pool_bytes` together.
    #[must_use]
    pub fn new(pool_bytes: usize) -> Self {
        Self::with(pool_bytes, None)
    }

    /// The same, with all buffers within `budget`.
    #[must_use]
    pub fn within(budget: &Arc<Budget>, pool_bytes: usize) -> Self {
        Self::with(pool_bytes, Some(Arc::clone(budget)))
    }

    /// The same, with a thread's part of `memory_plan`.
    #[must_use]
    pub fn of(memory_plan: &MemoryPlan) -> Self {
        Self::within(&memory_plan.budget, memory_plan.pool_bytes)
    }

    fn with(pool_bytes: usize, budget: Option<Arc<Budget>>) -> Self {
        let window = Buffer::new(budget.clone());
        Self { unpacker: Unpacker::default(), window, pool: BufferPool::new(pool_bytes, budget) }
    }

    /// An empty buffer with room for about `len` bytes.
    ///
    /// # Errors
    ///
    /// As [`Buffer::reserve`].
    pub fn room(&mut self, len: usize) -> Result<Buffer> {
        Ok(self.pool.take(len)?)
    }

    /// Takes back the buffer of a text that nobody else holds.
    pub fn recycle(&mut self, text: Arc<Buffer>) {
        if let Some(buffer) = Arc::into_inner(text) {
            self.pool.put(buffer);
        }
    }

    /// Takes back the buffers of texts that are not to be kept any more.
    pub fn recycle_kept(&mut self, kept: KeptTexts) {
        let texts = kept.texts.into_iter().chain(kept.held);
        texts.for_each(|(_, text)| self.recycle(text));
    }
}

/// Texts of one revlog, to rebuild others from.
#[derive(Debug, Default)]
pub struct KeptTexts {
    /// Last used last.
    texts: VecDeque<(Rev, Arc<Buffer>)>,
    /// Those are so long together.
    bytes: usize,
    /// One that stays until it is replaced.
    held: Option<(Rev, Arc<Buffer>)>,
}

/// The stored delta of a revision.
#[derive(Debug)]
pub struct StoredDelta {
    /// The revision that it changes.
    pub base: Rev,
    /// Its bytes, which fit the text of `base`.
    pub bytes: Buffer,
}

/// A revision as stored.
#[derive(Debug)]
pub struct Revision {
    /// The raw text: what the node was computed from, copy metadata included.
    pub text: Arc<Buffer>,
    /// The delta it was rebuilt with; `None` if the text is stored in full, or was still known.
    pub delta: Option<StoredDelta>,
}

/// A reader of one revlog.
#[derive(Debug)]
pub struct Texts<'a> {
    revlog: &'a Revlog,
    scratch: &'a mut Scratch,
    /// Where the window begins in the data file; `None` if it holds another file's bytes.
    window_start: Option<u64>,
    window_len: usize,
    kept: KeptTexts,
    budget_bytes: usize,
}

impl<'a> Texts<'a> {
    /// Reads `revlog`, keeping texts of about `budget_bytes` together, and at least two.
    pub fn new(revlog: &'a Revlog, scratch: &'a mut Scratch, budget_bytes: usize) -> Self {
        Self::resume(revlog, scratch, budget_bytes, KeptTexts::default())
    }

    /// Goes on with what another reader of the same revlog had.
    pub const fn resume(
        revlog: &'a Revlog,
        scratch: &'a mut Scratch,
        budget_bytes: usize,
        kept: KeptTexts,
    ) -> Self {
        Self { revlog, scratch, window_start: None, window_len: WINDOW_LEN, kept, budget_bytes }
    }

    /// Ends, and leaves its texts to another reader of the same revlog.
    #[must_use]
    pub fn pause(mut self) -> KeptTexts {
        while self.kept.texts.len() > 2 {
            self.forget_oldest();
        }
        std::mem::take(&mut self.kept)
    }

    /// Rebuilds one revision. Its node is not checked.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Io`] if the data cannot be read, [`crate::Error::Corrupt`] if a chunk of
    /// the delta chain cannot be unpacked or applied.
    pub fn get(&mut self, rev: Rev) -> Result<Revision> {
        if let Some(text) = self.recall(rev) {
            return Ok(Revision { text, delta: None });
        }
        let Some(base) = self.revlog.index().delta_base(rev) else {
            let text = Arc::new(self.unpack(rev)?);
            self.keep(rev, &text);
            return Ok(Revision { text, delta: None });
        };
        let base_text = match self.recall(base) {
            Some(text) => text,
            None => self.rebuild(base)?,
        };
        let bytes = self.unpack(rev)?;
        let delta = Delta::parse(&bytes, base_text.len())
            .map_err(|problem| self.revlog.corrupt(rev, problem))?;
        let mut text = self.scratch.pool.take(delta.result_len())?;
        delta.apply(&base_text, &mut text)?;
        let text = Arc::new(text);
        self.keep(rev, &text);
        Ok(Revision { text, delta: Some(StoredDelta { base, bytes }) })
    }

    /// Takes a text that the caller has of `rev`, so that it need not be rebuilt.
    pub fn learn(&mut self, rev: Rev, text: &Arc<Buffer>) {
        self.keep(rev, text);
    }

    /// Keeps the text of `rev` until another is to be held, unless it is long beside the budget. One
    /// is, and it is not counted.
    pub fn hold(&mut self, rev: Rev, text: &Arc<Buffer>) {
        let is_short = text.len() <= self.budget_bytes / LARGEST_PART_HELD;
        let held = is_short.then(|| (rev, Arc::clone(text)));
        if let Some((_, text)) = std::mem::replace(&mut self.kept.held, held) {
            self.scratch.recycle(text);
        }
    }

    /// What is stored of `rev`, unpacked: its text if it has no delta base, else a delta.
    ///
    /// # Errors
    ///
    /// As [`Self::get`].
    pub fn stored(&mut self, rev: Rev) -> Result<Buffer> {
        self.unpack(rev)
    }

    /// As [`Scratch::room`].
    ///
    /// # Errors
    ///
    /// As [`Buffer::reserve`].
    pub fn room(&mut self, len: usize) -> Result<Buffer> {
        self.scratch.room(len)
    }

    /// Takes back the buffer of a text that nobody else holds.
    pub fn recycle(&mut self, text: Arc<Buffer>) {
        self.scratch.recycle(text);
    }

    /// Takes back the buffer of a stored delta.
    pub fn recycle_delta(&mut self, delta: Option<StoredDelta>) {
        if let Some(StoredDelta { bytes, .. }) = delta {
            self.scratch.pool.put(bytes);
        }
    }

    /// Rebuilds a text whose base is not kept, from the nearest kept text or full text.
    fn rebuild(&mut self, rev: Rev) -> Result<Arc<Buffer>> {
        let mut chain = vec![rev]; // newest first
        let mut base_text = None;
        while let Some(base) = self.revlog.index().delta_base(chain[chain.len() - 1]) {
            base_text = self.recall(base);
            if base_text.is_some() {
                break;
            }
            chain.push(base);
        }
        chain.reverse();
        let mut chain = chain.into_iter().peekable();
        let mut text = match (base_text, chain.peek()) {
            (Some(text), _) => text,
            (None, _) => {
                let first = chain.next().expect("the chain has at least this revision");
                Arc::new(self.unpack(first)?)
            }
        };
        while chain.peek().is_some() {
            let (mut revs, mut deltas, mut bytes) = (Vec::new(), Vec::new(), 0);
            while let Some(rev) = chain.next_if(|_| bytes < DELTAS_AT_ONCE) {
                let delta = self.unpack(rev)?;
                bytes += delta.len();
                revs.push(rev);
                deltas.push(delta);
            }
            // a damaged index may claim any length; deltas cannot make more than they have
            let most = text.len() + bytes;
            let hint = match chain.peek() {
                None => self.revlog.index().text_len_hint(rev) as usize,
                Some(_) => text.len(),
            };
            let mut next = self.scratch.pool.take(hint.min(most))?;
            apply_chain(&text, &deltas, &mut next).map_err(|broken| match broken {
                Broken::Delta(position, problem) => self.revlog.corrupt(revs[position], problem),
                Broken::Room(problem) => problem.into(),
            })?;
            for delta in deltas {
                self.scratch.pool.put(delta);
            }
            self.scratch.recycle(std::mem::replace(&mut text, Arc::new(next)));
        }
        self.keep(rev, &text);
        Ok(text)
    }

    /// How much to read where a chunk begins that is not in the window.
    fn next_window_len(&self, offset: u64) -> usize {
        let Some(start) = self.window_start else { return self.window_len };
        let gap = offset.checked_sub(start + self.scratch.window.len() as u64);
        if gap.is_some_and(|gap| gap <= (self.window_len / WINDOW_STEP) as u64) {
            (self.window_len * WINDOW_STEP).min(WINDOW_LEN)
        } else {
            (self.window_len / WINDOW_STEP).max(SHORTEST_WINDOW)
        }
    }

    /// The stored chunk of `rev`, unpacked.
    fn unpack(&mut self, rev: Rev) -> Result<Buffer> {
        let index = self.revlog.index();
        let (offset, len) = index.chunk_range(rev);
        let is_full = index.delta_base(rev).is_none();
        let len_hint = if is_full { index.text_len_hint(rev) as usize } else { len * 3 };
        // a damaged index may claim any length; the unpacker makes room for a true one
        let mut out = self.scratch.pool.take(len_hint.min(len * 64).min(MOST_GUESSED))?;
        let chunk = match index.inline_chunk(rev) {
            Some(chunk) => chunk,
            None => {
                let from = match self.window_start {
                    Some(start)
                        if start <= offset
                            && offset + len as u64 <= start + self.scratch.window.len() as u64 =>
                    {
                        usize::try_from(offset - start).expect("the window is in memory")
                    }
                    _ => {
                        self.window_len = self.next_window_len(offset);
                        self.window_start = None;
                        if len > 0 {
                            let (chunk, most) = ((offset, len), len.max(self.window_len));
                            self.revlog.read_data(rev, chunk, most, &mut self.scratch.window)?;
                            self.window_start = Some(offset);
                        }
                        0
                    }
                };
                &self.scratch.window[from..from + len]
            }
        };
        if index.is_plain(rev) {
            out.clear();
            out.extend_from_slice(chunk)?;
        } else {
            let unpacked = self.scratch.unpacker.unpack(chunk, len_hint, &mut out);
            unpacked.map_err(|problem| match problem {
                Unpacking::Chunk(problem) => self.revlog.corrupt(rev, problem),
                Unpacking::Room(problem) => problem.into(),
            })?;
        }
        if self.scratch.window.len() > LONGEST_WINDOW_KEPT {
            self.scratch.window.discard();
            self.window_start = None;
        }
        Ok(out)
    }

    fn recall(&mut self, rev: Rev) -> Option<Arc<Buffer>> {
        let KeptTexts { texts, held, .. } = &mut self.kept;
        let Some(position) = texts.iter().rposition(|(kept, _)| *kept == rev) else {
            let held = held.as_ref().filter(|(held, _)| *held == rev);
            return held.map(|(_, text)| Arc::clone(text));
        };
        let entry = texts.remove(position)?;
        let text = Arc::clone(&entry.1);
        texts.push_back(entry);
        Some(text)
    }

    fn keep(&mut self, rev: Rev, text: &Arc<Buffer>) {
        self.kept.texts.push_back((rev, Arc::clone(text)));
        self.kept.bytes += text.len();
        while self.kept.texts.len() > 2 && self.kept.bytes > self.budget_bytes {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, text)) = self.kept.texts.pop_front() {
            self.kept.bytes -= text.len();
            self.scratch.recycle(text);
        }
    }
}

impl Drop for Texts<'_> {
    fn drop(&mut self) {
        self.scratch.recycle_kept(std::mem::take(&mut self.kept));
    }
}

#[cfg(test)]
mod tests;
