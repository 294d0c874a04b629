//! Deltas as Mercurial stores them: lists of replaced byte ranges.
//!
//! Format: `hg help internals.changegroups`, "Delta Format": start, end and length of the new data
//! (32 bits each, big-endian), then the data. Ranges refer to the base text, ascend and do not
//! overlap; [`Delta::parse`] checks that once.

use parallel::{Buffer, Error};

/// Bytes before the data of each hunk.
const HUNK_HEADER_LEN: usize = 12;

/// Invalid delta.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Truncated.
    #[error("its delta is cut after {0} bytes")]
    Cut(usize),
    /// A range does not ascend, or exceeds the base.
    #[error("its delta replaces bytes {start} to {end} of a text of {base_len} bytes")]
    Range {
        /// First byte replaced.
        start: usize,
        /// First byte kept after it.
        end: usize,
        /// Length of the base text.
        base_len: usize,
    },
    /// The result is too long for a revlog.
    #[error("its delta makes a text of {0} bytes, more than 2 GiB")]
    TooLong(usize),
}

/// Length limit of a text, as of Mercurial's own fields.
const MAX_LEN: usize = i32::MAX as usize;

/// Replaced range of the base text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// First byte replaced, in the base text.
    pub start: usize,
    /// First byte kept after it, in the base text.
    pub end: usize,
    /// Replacement.
    pub data: &'a [u8],
}

/// Delta with ranges that fit a base text of known length.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a> {
    bytes: &'a [u8],
    base_len: usize,
    result_len: usize,
}

impl<'a> Delta<'a> {
    /// Checks `bytes` against the length of the base text.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if the delta is truncated, a range does not ascend or exceeds the base, or the
    /// result is too long.
    pub fn parse(bytes: &'a [u8], base_len: usize) -> Result<Self, Invalid> {
        let mut delta = Self { bytes, base_len, result_len: base_len };
        let mut rest = bytes;
        let mut kept_from = 0;
        while !rest.is_empty() {
            let cut = Invalid::Cut(bytes.len());
            let Some((hunk, after)) = split_hunk(rest) else { return Err(cut) };
            if hunk.start < kept_from || hunk.end < hunk.start || hunk.end > base_len {
                return Err(Invalid::Range { start: hunk.start, end: hunk.end, base_len });
            }
            kept_from = hunk.end;
            delta.result_len = delta.result_len - (hunk.end - hunk.start) + hunk.data.len();
            rest = after;
        }
        if delta.result_len > MAX_LEN {
            return Err(Invalid::TooLong(delta.result_len));
        }
        Ok(delta)
    }

    /// Hunks, ascending.
    pub fn hunks(&self) -> impl Iterator<Item = Hunk<'a>> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (hunk, after) = split_hunk(rest)?;
            rest = after;
            Some(hunk)
        })
    }

    /// Length of the result, in bytes.
    #[must_use]
    pub const fn result_len(&self) -> usize {
        self.result_len
    }

    /// Replaces `out` by the result of applying the delta to `base`.
    ///
    /// # Errors
    ///
    /// The errors of [`Buffer::reserve`].
    ///
    /// # Panics
    ///
    /// If `base` has another length than the delta was checked against.
    pub fn apply(&self, base: &[u8], out: &mut Buffer) -> Result<(), Error> {
        assert_eq!(base.len(), self.base_len, "a delta belongs to one length of base");
        out.clear();
        out.reserve_exact(self.result_len)?;
        let mut kept_from = 0;
        for hunk in self.hunks() {
            out.extend_from_slice(&base[kept_from..hunk.start])?;
            out.extend_from_slice(hunk.data)?;
            kept_from = hunk.end;
        }
        out.extend_from_slice(&base[kept_from..])
    }

    fn pieces(&self) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut kept_from = 0;
        for hunk in self.hunks() {
            push(&mut pieces, Piece::Base { start: kept_from, len: hunk.start - kept_from });
            push(&mut pieces, Piece::Data(hunk.data));
            kept_from = hunk.end;
        }
        push(&mut pieces, Piece::Base { start: kept_from, len: self.base_len - kept_from });
        pieces
    }
}

fn split_hunk(bytes: &[u8]) -> Option<(Hunk<'_>, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HUNK_HEADER_LEN>()?;
    let [start, end, len] = [0, 4, 8]
        .map(|at| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    let (data, rest) = rest.split_at_checked(len as usize)?;
    Some((Hunk { start: start as usize, end: end as usize, data }, rest))
}

/// Part of a text: bytes kept from the base, or new ones.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Base { start: usize, len: usize },
    Data(&'a [u8]),
}

impl Piece<'_> {
    const fn len(&self) -> usize {
        match self {
            Self::Base { len, .. } => *len,
            Self::Data(data) => data.len(),
        }
    }

    const fn part(self, from: usize, len: usize) -> Self {
        match self {
            Self::Base { start, .. } => Self::Base { start: start + from, len },
            Self::Data(data) => Self::Data(data.split_at(from).1.split_at(len).0),
        }
    }
}

fn push<'a>(pieces: &mut Vec<Piece<'a>>, piece: Piece<'a>) {
    if piece.len() > 0 {
        pieces.push(piece);
    }
}

/// Error of applying a chain.
#[derive(Debug)]
pub enum Broken {
    /// The delta at this position does not fit the text before it.
    Delta(usize, Invalid),
    /// The text does not fit into memory.
    Room(Error),
}

/// Applies a chain of deltas, oldest first, without making the texts in between.
///
/// Replaces `out` by the last text. The cost follows the hunks and one text, not the product of
/// texts and deltas.
///
/// # Errors
///
/// The first delta that does not fit the text before it, with its position; or the errors of
/// [`Buffer::reserve`].
pub fn apply_chain(base: &[u8], deltas: &[Buffer], out: &mut Buffer) -> Result<(), Broken> {
    let mut parsed = Vec::with_capacity(deltas.len());
    let mut len = base.len();
    for (position, bytes) in deltas.iter().enumerate() {
        let delta = Delta::parse(bytes, len).map_err(|problem| Broken::Delta(position, problem))?;
        len = delta.result_len();
        parsed.push(delta);
    }
    out.clear();
    out.reserve_exact(len).map_err(Broken::Room)?;
    match parsed.as_slice() {
        [] => return out.extend_from_slice(base).map_err(Broken::Room),
        // a single delta may be very long, and its pieces longer still
        [delta] => return delta.apply(base, out).map_err(Broken::Room),
        _ => {}
    }
    for piece in fold(&parsed) {
        let bytes = match piece {
            Piece::Base { start, len } => &base[start..start + len],
            Piece::Data(data) => data,
        };
        out.extend_from_slice(bytes).map_err(Broken::Room)?;
    }
    Ok(())
}

/// Pieces of the last text; halves first, so that each piece is copied log(n) times.
fn fold<'a>(deltas: &[Delta<'a>]) -> Vec<Piece<'a>> {
    if let [delta] = deltas {
        return delta.pieces();
    }
    let (older, newer) = deltas.split_at(deltas.len() / 2);
    compose(&fold(older), &fold(newer))
}

/// Composes two lists of pieces: ranges that `second` keeps are looked up in `first`.
fn compose<'a>(first: &[Piece<'a>], second: &[Piece<'a>]) -> Vec<Piece<'a>> {
    let mut composed = Vec::with_capacity(first.len() + second.len());
    let mut at = 0; // index in `first` of the piece that starts at `begin` of its text
    let mut begin = 0;
    for piece in second {
        let Piece::Base { mut start, mut len } = *piece else {
            push(&mut composed, *piece);
            continue;
        };
        while len > 0 {
            while begin + first[at].len() <= start {
                begin += first[at].len();
                at += 1;
            }
            let from = start - begin;
            let taken = len.min(first[at].len() - from);
            push(&mut composed, first[at].part(from, taken));
            start += taken;
            len -= taken;
        }
    }
    composed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hunk(start: u32, end: u32, data: &[u8]) -> Vec<u8> {
        let len = u32::try_from(data.len()).expect("short");
        [&start.to_be_bytes(), &end.to_be_bytes(), &len.to_be_bytes(), data].concat()
    }

    fn apply(base: &[u8], bytes: &[u8]) -> Result<Vec<u8>, Invalid> {
        let mut out = Buffer::default();
        Delta::parse(bytes, base.len())?.apply(base, &mut out).expect("is memory");
        Ok(out.to_vec())
    }

    #[test]
    fn hunks_replace_ranges() {
        let delta = [hunk(0, 1, b"AB"), hunk(3, 3, b"+"), hunk(4, 6, b"")].concat();
        assert_eq!(apply(b"abcdef", &delta), Ok(b"ABbc+d".to_vec()));
        assert_eq!(apply(b"abc", b""), Ok(b"abc".to_vec()));
    }

    #[test]
    fn a_cut_delta_is_refused() {
        let delta = hunk(0, 1, b"AB");
        for cut in 1..delta.len() {
            assert_eq!(apply(b"abc", &delta[..cut]), Err(Invalid::Cut(cut)));
        }
    }

    #[test]
    fn ranges_outside_the_base_or_backwards_are_refused() {
        for delta in [
            hunk(2, 1, b""),
            hunk(0, 4, b""),
            [hunk(1, 2, b""), hunk(0, 1, b"")].concat(),
            hunk(u32::MAX, u32::MAX, b""),
        ] {
            assert!(matches!(apply(b"abc", &delta), Err(Invalid::Range { .. })));
        }
    }

    #[test]
    fn a_text_beyond_two_gigabytes_is_refused() {
        let longest = Delta::parse(b"", MAX_LEN).map(|delta| delta.result_len());
        assert_eq!(longest, Ok(MAX_LEN));
        let problem = Delta::parse(&hunk(0, 0, b"+"), MAX_LEN).err();
        assert_eq!(problem, Some(Invalid::TooLong(MAX_LEN + 1)));
    }

    /// Edits of a text: position in thousandths of its length, removed length, inserted bytes.
    fn edits() -> impl Strategy<Value = Vec<Vec<(usize, usize, Vec<u8>)>>> {
        let edit = (0..1000usize, 0..20usize, proptest::collection::vec(any::<u8>(), 0..12));
        proptest::collection::vec(proptest::collection::vec(edit, 0..6), 1..20)
    }

    proptest! {
        #[test]
        fn a_chain_equals_its_deltas_one_by_one(
            base in proptest::collection::vec(any::<u8>(), 0..200),
            revisions in edits(),
        ) {
            let mut text = base.clone();
            let mut deltas = Vec::new();
            for mut edits in revisions {
                edits.sort();
                let mut delta = Vec::new();
                let mut from = 0;
                for (place, gone, data) in edits {
                    let start = (place * (text.len() + 1) / 1000).max(from);
                    let end = (start + gone).min(text.len()).max(start);
                    delta.extend(hunk(u32::try_from(start)?, u32::try_from(end)?, &data));
                    from = end;
                }
                text = apply(&text, &delta)?;
                deltas.push(delta.into());
            }
            let mut out = Buffer::default();
            apply_chain(&base, &deltas, &mut out).expect("each fits");
            prop_assert_eq!(out.as_slice(), text);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, base: Vec<u8>) {
            let _outcome = apply(&base, &bytes);
        }
    }
}
