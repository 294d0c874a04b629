//! Computed deltas, for receivers without the base of the stored delta.
//!
//! Format: `hg help internals.changegroups`, "Delta Format". The crate `imara-diff` searches line
//! by line, as Mercurial does, so hunks begin and end with lines.

use imara_diff::{Algorithm, Diff, InternedInput};

/// Limit of the bytes compared at once: the tables of the search take a multiple of them.
const MOST_COMPARED: usize = 64 << 20;

/// Limit of the lines compared at once: the search is quadratic if few lines are distinct. For
/// 20,000 random lines of two kinds it takes 0.25 seconds (November 2026).
const MOST_LINES: usize = 20_000;
/// [`Window::cost`] of these lines.
const MOST_COST: usize = MOST_LINES.pow(2);

/// Lines of each text that are compared first. Most changes are short, and far from the next.
const FEW_LINES: usize = 32;

/// Equal lines after which two texts are taken to be at the same place.
const ANCHOR_LINES: u32 = 8;

/// Length that most lines exceed: sets how much memory is got at once.
const LINE_BYTES: usize = 24;

/// Appends a delta from `base` to `target`. Both are shorter than 2 GiB.
///
/// Compares some lines at a time: up to the last place in both where many lines are equal, from
/// which the texts are compared without a search up to the next difference.
pub fn line_delta(base: &[u8], target: &[u8], out: &mut Vec<u8>) {
    let front = start_of_line(base, common_prefix(base, target));
    let (mut base_rest, mut target_rest) = (&base[front..], &target[front..]);
    let back = whole_lines(base_rest, target_rest, common_suffix(base_rest, target_rest));
    base_rest = &base_rest[..base_rest.len() - back];
    target_rest = &target_rest[..target_rest.len() - back];
    let (mut at, mut most_lines, mut left) = (front, FEW_LINES, MOST_COST);
    while !(base_rest.is_empty() && target_rest.is_empty()) {
        let window = [most_lines, MOST_LINES].into_iter().find_map(|most_lines| {
            let window = Window::new(base_rest, target_rest, most_lines)?;
            (window.cost() <= if window.is_whole { MOST_COST } else { left }).then_some(window)
        });
        let Some(window) = window else {
            return hunk(at, at + base_rest.len(), target_rest, out);
        };
        left = left.saturating_sub(window.cost());
        let Some([base_len, target_len]) = window.push_hunks(at, out) else {
            most_lines *= 4;
            continue;
        };
        (base_rest, target_rest) = (&base_rest[base_len..], &target_rest[target_len..]);
        let same = start_of_line(base_rest, common_prefix(base_rest, target_rest));
        (base_rest, target_rest) = (&base_rest[same..], &target_rest[same..]);
        at += base_len + same;
        most_lines = FEW_LINES;
    }
}

/// First lines of two texts.
struct Window<'a> {
    base: &'a [u8],
    target: &'a [u8],
    base_starts: Vec<usize>,
    target_starts: Vec<usize>,
    /// Whether these are all lines of both.
    is_whole: bool,
}

impl<'a> Window<'a> {
    /// Takes `most_lines` of each; `None` if one text is empty, or the lines are too long.
    fn new(base: &'a [u8], target: &'a [u8], most_lines: usize) -> Option<Self> {
        let (base_starts, target_starts) = (starts(base, most_lines), starts(target, most_lines));
        let (base_len, target_len) = (*base_starts.last()?, *target_starts.last()?);
        let is_some = !base.is_empty() && !target.is_empty();
        (is_some && base_len + target_len <= MOST_COMPARED).then_some(Self {
            is_whole: base_len == base.len() && target_len == target.len(),
            base,
            target,
            base_starts,
            target_starts,
        })
    }

    /// Time that the search may take: the square of all lines.
    fn cost(&self) -> usize {
        (self.base_starts.len() + self.target_starts.len() - 2).pow(2)
    }

    /// Appends the hunks before the last place where many lines are equal, or all if the window is
    /// whole. `at` is its start in the base. Returns the bytes of both texts that are done;
    /// `None` if there is no such place.
    fn push_hunks(&self, at: usize, out: &mut Vec<u8>) -> Option<[usize; 2]> {
        let Self { base, target, base_starts, target_starts, .. } = self;
        let input = numbered(lines(base, base_starts), lines(target, target_starts));
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let hunks: Vec<_> = diff.hunks().collect();
        let done = if self.is_whole {
            hunks.len()
        } else {
            let end = u32::try_from(input.before.len()).unwrap_or(u32::MAX);
            let next = |number: usize| hunks.get(number).map_or(end, |next| next.before.start);
            let is_anchor = |number: &usize| {
                next(*number).saturating_sub(hunks[*number - 1].before.end) >= ANCHOR_LINES
            };
            (1..=hunks.len()).rev().find(is_anchor)?
        };
        for found in &hunks[..done] {
            let [start, end] =
                [found.before.start, found.before.end].map(|line| at + base_starts[line as usize]);
            let [from, to] =
                [found.after.start, found.after.end].map(|line| target_starts[line as usize]);
            hunk(start, end, &target[from..to], out);
        }
        if self.is_whole {
            return Some([base.len(), target.len()]);
        }
        let last = &hunks[done - 1];
        Some([base_starts[last.before.end as usize], target_starts[last.after.end as usize]])
    }
}

/// Appends a delta that makes `text` from nothing.
pub(crate) fn whole_text(text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() {
        hunk(0, 0, text, out);
    }
}

fn hunk(start: usize, end: usize, data: &[u8], out: &mut Vec<u8>) {
    hunk_head(start, end, data.len(), out);
    out.extend_from_slice(data);
}

/// Appends the header of a hunk, which replaces a range of the base by `len` bytes.
///
/// # Panics
///
/// If a number is 4 GiB or more; texts are shorter than 2 GiB.
pub fn hunk_head(start: usize, end: usize, len: usize, out: &mut Vec<u8>) {
    for number in [start, end, len] {
        out.extend_from_slice(&word(number));
    }
}

/// Big-endian offset in a text shorter than 2 GiB.
fn word(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("texts are shorter than 2 GiB").to_be_bytes()
}

/// Starts of the first lines, and the end of the last one.
fn starts(text: &[u8], most_lines: usize) -> Vec<usize> {
    let mut starts = Vec::with_capacity(2 + most_lines.min(text.len() / LINE_BYTES));
    starts.push(0);
    starts.extend(memchr::memchr_iter(b'\n', text).take(most_lines).map(|at| at + 1));
    if starts.len() <= most_lines && starts.last() != Some(&text.len()) {
        starts.push(text.len());
    }
    starts
}

/// Lines of a text, by its [`starts`].
fn lines<'a>(text: &'a [u8], starts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    starts.windows(2).map(|ends| &text[ends[0]..ends[1]])
}

/// Lines of two texts as numbers: equal lines have the same.
///
/// Most lines of `target` follow the same line as in `base`, so they need no search.
fn numbered<'a>(
    base: impl Iterator<Item = &'a [u8]>,
    target: impl Iterator<Item = &'a [u8]>,
) -> InternedInput<&'a [u8]> {
    let mut input = InternedInput::default();
    input.update_before(base);
    let InternedInput { before, after, interner } = &mut input;
    let mut last_at = vec![0; interner.num_tokens() as usize];
    for (at, token) in before.iter().enumerate() {
        last_at[token.0 as usize] = at;
    }
    let mut next = 0;
    after.extend(target.map(|line| {
        let expected = before.get(next).copied();
        let token = match expected {
            Some(token) if interner[token] == line => token,
            _ => {
                let token = interner.intern(line);
                next = last_at.get(token.0 as usize).copied().unwrap_or(next);
                token
            }
        };
        next += 1;
        token
    }));
    input
}

/// Bytes that are compared at once, longest first: most of two versions of a file is equal.
const STEPS: [usize; 3] = [4096, 64, 1];

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    STEPS.into_iter().fold(0, |len, step| {
        let pairs = a[len..].chunks_exact(step).zip(b[len..].chunks_exact(step));
        len + step * pairs.take_while(|(a, b)| a == b).count()
    })
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    STEPS.into_iter().fold(0, |len, step| {
        let (a, b) = (&a[..a.len() - len], &b[..b.len() - len]);
        let pairs = a.rchunks_exact(step).zip(b.rchunks_exact(step));
        len + step * pairs.take_while(|(a, b)| a == b).count()
    })
}

/// Start of the line at `at`.
fn start_of_line(text: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1)
}

/// Length of the common end of two texts, in lines that are whole in both.
fn whole_lines(a: &[u8], b: &[u8], len: usize) -> usize {
    let is_start = |text: &[u8]| text.len() == len || text[text.len() - len - 1] == b'\n';
    if is_start(a) && is_start(b) {
        return len;
    }
    let end = &a[a.len() - len..];
    memchr::memchr(b'\n', end).map_or(0, |newline| len - newline - 1)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use parallel::Buffer;
    use proptest::prelude::*;
    use revlog::Delta;

    use super::*;

    fn delta(base: &[u8], target: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        line_delta(base, target, &mut out);
        let delta = Delta::parse(&out, base.len()).expect("is a delta");
        let mut made = Buffer::default();
        delta.apply(base, &mut made).expect("is memory");
        assert_eq!(made.as_slice(), target);
        out
    }

    #[test]
    fn only_lines_that_differ_are_sent() {
        let base = b"a\nb\nc\nd\n".repeat(50);
        let mut target = base.clone();
        target.splice(100..102, b"x\ny\n".iter().copied());
        target.extend_from_slice(b"end");
        let found = delta(&base, &target);
        assert_eq!(found.len(), 2 * 12 + 4 + 3);
        assert!(delta(&base, &base).is_empty());
        assert_eq!(delta(b"", &target).len(), 12 + target.len());
        assert_eq!(delta(&target, b"").len(), 12);
    }

    #[test]
    fn many_lines_that_differ_are_sent_as_they_are() {
        // every second line is the same, so that a search finds thousands of ranges
        let text = |lines: usize, word: &str| -> Vec<u8> {
            let line = |number| format!("{number}\n{word}{number}\n");
            (0..lines / 2).map(line).collect::<String>().into_bytes()
        };
        let hunks = |lines| {
            let (base, target) = (text(lines, "a"), text(lines, "b"));
            let found = delta(&base, &target);
            Delta::parse(&found, base.len()).expect("is a delta").hunks().count()
        };
        assert_eq!(hunks(MOST_LINES / 2), MOST_LINES / 4);
        assert_eq!(hunks(MOST_LINES / 2 + 2), 1);
        // equal lines around the difference do not count
        let (same, end) = (text(2 * MOST_LINES, "a"), text(100, "c"));
        let [base, target] = ["x", "y"].map(|byte| [&same, byte.as_bytes(), &end].concat());
        assert!(delta(&base, &target).len() < 40);
    }

    #[test]
    fn few_changes_of_a_text_with_many_lines_are_few_hunks() {
        let lines = |range: Range<usize>| range.map(|number| format!("{number}\n").into_bytes());
        let base: Vec<_> = lines(0..3 * MOST_LINES).collect();
        let mut target = base.clone();
        for at in [5, 20_000, 20_010, 41_000] {
            target[at] = b"another\n".to_vec();
        }
        target.splice(50_000..50_200, []);
        target.splice(30_000..30_000, lines(100_000..105_000));
        let (base, target) = (base.concat(), target.concat());
        let found = delta(&base, &target);
        assert_eq!(Delta::parse(&found, base.len()).expect("is a delta").hunks().count(), 6);
        let inserted = 4 * "another\n".len() + 5000 * "100000\n".len();
        assert_eq!(found.len(), 6 * 12 + inserted);
    }

    #[test]
    fn ranges_begin_and_end_with_lines() {
        let found = delta(b"one\ntwo\nthree\n", b"one\ntwenty\nthree\n");
        let hunks: Vec<_> = Delta::parse(&found, 14).expect("is a delta").hunks().collect();
        assert_eq!((hunks[0].start, hunks[0].end, hunks[0].data), (4, 8, &b"twenty\n"[..]));
        assert_eq!(hunks.len(), 1);
    }

    proptest! {
        #[test]
        fn any_text_is_made_from_any_other(
            base in "[ab\n]{0,200}", target in "[ab\n]{0,200}", tail in "[ab\n]{0,90}",
        ) {
            delta(base.as_bytes(), target.as_bytes());
            let [base, target] = [base, target].map(|text| format!("{tail}{text}{tail}"));
            delta(base.as_bytes(), target.as_bytes());
        }

        #[test]
        fn any_changes_of_a_long_text_are_made(
            base in "([abcd]{0,2}\n){0,900}",
            changes in prop::collection::vec((0..1800_usize, 0..40_usize, "([ax]{0,2}\n){0,30}"), 0..8),
        ) {
            let mut target = base.clone().into_bytes();
            for (at, len, new) in changes {
                let at = at.min(target.len());
                target.splice(at..(at + len).min(target.len()), new.into_bytes());
            }
            delta(base.as_bytes(), &target);
        }

        #[test]
        fn equal_lines_have_the_same_number(base in "([ab]?\n){0,40}", target in "([abc]?\n){0,40}") {
            let lines = [&base, &target].map(|text| text.as_bytes().split_inclusive(|&it| it == b'\n'));
            let [base, target] = lines;
            let mut plain = InternedInput::default();
            plain.update_before(base.clone());
            plain.update_after(target.clone());
            let found = numbered(base, target);
            prop_assert_eq!((found.before, found.after), (plain.before, plain.after));
        }
    }
}
