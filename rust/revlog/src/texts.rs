//! Texts of one revlog, rebuilt from its chunks.
//!
//! Made for walks in revision order: the last texts are cached, so most revisions cost one delta.
//! If the base of a revision is not cached, the whole chain is applied in one go.

pub(crate) mod chunk;

use std::collections::VecDeque;
use std::sync::Arc;

use parallel::{Budget, Buffer, BufferPool, MemoryPlan};

use self::chunk::{Unpacker, Unpacking};
use crate::error::Result;
use crate::index::Rev;
use crate::patch::{Broken, Delta, apply_chain};
use crate::revlog::Revlog;

/// Memory allocated for a text before its length is certain, at most.
const MOST_GUESSED: usize = 32 << 20;
/// Window: bytes read from a data file at once. It shrinks to the minimum while chunks are far
/// apart, and grows again.
const WINDOW_LEN: usize = 128 << 10;
const SHORTEST_WINDOW: usize = 8 << 10;
/// Factor between the lengths of successive windows.
const WINDOW_STEP: usize = 4;
/// Longest window that is kept in memory.
const LONGEST_WINDOW_KEPT: usize = 1 << 20;

/// Bytes of deltas applied in one go. More deltas of a chain are not unpacked at a time, since the
/// replaced ranges are listed in memory. A longer delta is applied alone.
const DELTAS_AT_ONCE: usize = 4 << 20;

/// A held text takes at most this part of the budget.
const LARGEST_PART_HELD: usize = 4;

/// Default of the buffers kept for reuse, in bytes.
const USUAL_SPARE_BYTES: usize = 16 << 20;

/// State that a thread keeps across revlogs: decompressors and buffers.
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

    /// The same, with all buffers counted towards `budget`.
    #[must_use]
    pub fn within(budget: &Arc<Budget>, pool_bytes: usize) -> Self {
        Self::with(pool_bytes, Some(Arc::clone(budget)))
    }

    /// The same, with a thread's share of `memory_plan`.
    #[must_use]
    pub fn of(memory_plan: &MemoryPlan) -> Self {
        Self::within(&memory_plan.budget, memory_plan.pool_bytes)
    }

    fn with(pool_bytes: usize, budget: Option<Arc<Budget>>) -> Self {
        let window = Buffer::new(budget.clone());
        Self { unpacker: Unpacker::default(), window, pool: BufferPool::new(pool_bytes, budget) }
    }

    /// An empty buffer with a capacity of about `len` bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::reserve`].
    pub fn room(&mut self, len: usize) -> Result<Buffer> {
        Ok(self.pool.take(len)?)
    }

    /// Takes back the buffer of a text without other holders.
    pub fn recycle(&mut self, text: Arc<Buffer>) {
        if let Some(buffer) = Arc::into_inner(text) {
            self.pool.put(buffer);
        }
    }

    /// Takes back the buffers of cached texts.
    pub fn recycle_kept(&mut self, kept: KeptTexts) {
        let texts = kept.texts.into_iter().chain(kept.held);
        texts.for_each(|(_, text)| self.recycle(text));
    }
}

/// Cached texts of one revlog, used as bases.
#[derive(Debug, Default)]
pub struct KeptTexts {
    /// Least recently used first.
    texts: VecDeque<(Rev, Arc<Buffer>)>,
    /// Bytes of `texts`.
    bytes: usize,
    /// One text that stays until it is replaced.
    held: Option<(Rev, Arc<Buffer>)>,
}

/// Stored delta of a revision.
#[derive(Debug)]
pub struct StoredDelta {
    /// Delta base.
    pub base: Rev,
    /// Bytes, which fit the text of `base`.
    pub bytes: Buffer,
}

/// Revision as stored.
#[derive(Debug)]
pub struct Revision {
    /// Raw text, which the node is of, with copy metadata.
    pub text: Arc<Buffer>,
    /// Delta applied last; `None` if the text is stored in full, or was cached.
    pub delta: Option<StoredDelta>,
}

/// Reader of the texts of one revlog.
#[derive(Debug)]
pub struct Texts<'a> {
    revlog: &'a Revlog,
    scratch: &'a mut Scratch,
    /// Offset of the window in the data file; `None` if its bytes are of another file.
    window_start: Option<u64>,
    window_len: usize,
    kept: KeptTexts,
    budget_bytes: usize,
}

impl<'a> Texts<'a> {
    /// Reads `revlog` with a cache of about `budget_bytes`, and of two texts at least.
    pub fn new(revlog: &'a Revlog, scratch: &'a mut Scratch, budget_bytes: usize) -> Self {
        Self::resume(revlog, scratch, budget_bytes, KeptTexts::default())
    }

    /// Continues with the cache of another reader of the same revlog.
    pub const fn resume(
        revlog: &'a Revlog,
        scratch: &'a mut Scratch,
        budget_bytes: usize,
        kept: KeptTexts,
    ) -> Self {
        Self { revlog, scratch, window_start: None, window_len: WINDOW_LEN, kept, budget_bytes }
    }

    /// Ends the reader, and returns its cache for another reader of the same revlog.
    #[must_use]
    pub fn pause(mut self) -> KeptTexts {
        while self.kept.texts.len() > 2 {
            self.forget_oldest();
        }
        std::mem::take(&mut self.kept)
    }

    /// Rebuilds a revision. Its node is not verified.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Io`] if the data cannot be read, [`crate::Error::Corrupt`] if a chunk of the
    /// delta chain cannot be unpacked or applied.
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

    /// Caches a text of `rev` that the caller has.
    pub fn learn(&mut self, rev: Rev, text: &Arc<Buffer>) {
        self.keep(rev, text);
    }

    /// Holds the text of `rev` until the next call, unless it is long for the budget. Only one text
    /// is held; it does not count towards the budget.
    pub fn hold(&mut self, rev: Rev, text: &Arc<Buffer>) {
        let is_short = text.len() <= self.budget_bytes / LARGEST_PART_HELD;
        let held = is_short.then(|| (rev, Arc::clone(text)));
        if let Some((_, text)) = std::mem::replace(&mut self.kept.held, held) {
            self.scratch.recycle(text);
        }
    }

    /// Unpacked chunk of `rev`: its text if it has no delta base, otherwise a delta.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::get`].
    pub fn stored(&mut self, rev: Rev) -> Result<Buffer> {
        self.unpack(rev)
    }

    /// Like [`Scratch::room`].
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::reserve`].
    pub fn room(&mut self, len: usize) -> Result<Buffer> {
        self.scratch.room(len)
    }

    /// Takes back the buffer of a text without other holders.
    pub fn recycle(&mut self, text: Arc<Buffer>) {
        self.scratch.recycle(text);
    }

    /// Takes back the buffer of a stored delta.
    pub fn recycle_delta(&mut self, delta: Option<StoredDelta>) {
        if let Some(StoredDelta { bytes, .. }) = delta {
            self.scratch.pool.put(bytes);
        }
    }

    /// Rebuilds a text whose base is not cached, from the nearest cached or full text.
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

    /// Length of the next window, for a chunk outside the current one.
    fn next_window_len(&self, offset: u64) -> usize {
        let Some(start) = self.window_start else { return self.window_len };
        let gap = offset.checked_sub(start + self.scratch.window.len() as u64);
        if gap.is_some_and(|gap| gap <= (self.window_len / WINDOW_STEP) as u64) {
            (self.window_len * WINDOW_STEP).min(WINDOW_LEN)
        } else {
            (self.window_len / WINDOW_STEP).max(SHORTEST_WINDOW)
        }
    }

    /// Unpacked chunk of `rev`.
    fn unpack(&mut self, rev: Rev) -> Result<Buffer> {
        let index = self.revlog.index();
        let (offset, len) = index.chunk_range(rev);
        let is_full = index.delta_base(rev).is_none();
        let len_hint = if is_full { index.text_len_hint(rev) as usize } else { len * 3 };
        // a damaged index may claim any length; the unpacker allocates for the real one
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
