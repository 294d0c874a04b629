//! Translation of Mercurial's deltas to git's form. Knows nothing of the content.

use gitpack::delta::{Op, Out, encode};
use parallel::Buffer;
use revlog::{Delta, StoredDelta};

use crate::error::Result;

/// A buffer with enough room for the delta.
struct Roomy<'a>(&'a mut Buffer);

impl std::ops::Deref for Roomy<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl std::ops::DerefMut for Roomy<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0
    }
}

impl Out for Roomy<'_> {
    fn clear(&mut self) {
        self.0.clear();
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes).expect("room was made");
    }
}

/// Writes a stored delta in git's form to `out`. Returns `false` if that is not possible.
pub(crate) fn translate(
    stored: &StoredDelta,
    base_len: usize,
    result_len: usize,
    out: &mut Buffer,
) -> Result<bool> {
    let Ok(parsed) = Delta::parse(&stored.bytes, base_len) else { return Ok(false) };
    let copy = |from: usize, to: usize| Op::Copy { offset: from as u64, len: (to - from) as u64 };
    let mut kept_from = 0;
    let ops = parsed.hunks().flat_map(|hunk| {
        let kept = copy(std::mem::replace(&mut kept_from, hunk.end), hunk.start);
        [kept, Op::Insert(hunk.data)]
    });
    let last_end = parsed.hunks().last().map_or(0, |hunk| hunk.end);
    let ops = ops.chain([copy(last_end, base_len)]);
    out.clear();
    out.reserve(most_bytes(stored.bytes.len(), base_len))?;
    Ok(encode(base_len as u64, result_len as u64, ops, &mut Roomy(out)).is_ok())
}

/// Most bytes of a stored delta in git's form: 7 for each copy of at most 64 KiB, and one more for
/// each 127 inserted bytes. A stored hunk has a header of 12 bytes, and becomes one copy and one
/// insertion.
const fn most_bytes(stored_len: usize, base_len: usize) -> usize {
    const LENGTHS: usize = 2 * 10;
    stored_len + stored_len / 127 + (base_len / 0x1_0000 + 1) * 7 + LENGTHS
}
