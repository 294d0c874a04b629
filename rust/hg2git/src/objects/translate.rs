//! Deltas as Mercurial stores them, in git's form. Knows nothing of what they are deltas of.

use gitpack::delta::{Op, Out, encode};
use parallel::Buffer;
use revlog::{Delta, StoredDelta};

use crate::error::Result;

/// A buffer that has room for the delta that is written to it.
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

/// Sets `out` to a stored delta in git's form. `false` if it cannot have that form.
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

/// Bytes that a stored delta of `stored_len` can have in git's form: no more than 7 for each
/// copy of 64 KiB at most, and one more for each 127 that are inserted. A hunk has a header of 12, and
/// is one copy and one insertion.
const fn most_bytes(stored_len: usize, base_len: usize) -> usize {
    const LENGTHS: usize = 2 * 10;
    stored_len + stored_len / 127 + (base_len / 0x1_0000 + 1) * 7 + LENGTHS
}
