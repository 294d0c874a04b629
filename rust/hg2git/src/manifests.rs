//! Manifests read once, as changes from one to the next.
//!
//! A manifest's text names every file; what a tree needs is only how it differs from a manifest
//! already converted. The stored delta mostly says just that. Where it does not (a full text, a
//! delta against something old, hidden or not aligned to lines), two texts are compared line by
//! line. Knows no git: file revisions and paths are numbered here, what they become is decided
//! later.

use std::ops::Range;
use std::sync::Arc;

use revlog::Texts;
use revlog::manifest::Malformed;
use revlog::{Buffer, Delta, Flag, Index, Line, Lines, Parents, Rev, Revision, Revlog, Scratch};

use crate::error::Result;
use crate::verify::Check;

/// A manifest may be given as changes from one of the manifests this far before it in the
/// conversion's order; whoever replays changes keeps that many states.
pub(crate) const REACH: usize = 64;
/// Text that one job rebuilds and checks, in bytes, and revisions, at least.
const JOB_TEXT_BYTES: u64 = 32 << 20;
const JOB_REVS: usize = 32;
/// A job that begins in the middle of a delta chain rebuilds the chain first. So one ends where that
/// chain has at most this part of its revisions, or when it has this much text.
const CHAIN_PART: usize = 4;
const LONGEST_JOB_BYTES: u64 = 8 * JOB_TEXT_BYTES;
/// Texts kept while walking, in bytes: those between `REACH` and this are rebuilt.
const KEPT_TEXT_BYTES: usize = 8 << 20;
/// Bytes compared at once.
const BLOCK: usize = 64;
/// Texts hashed together, and how many bytes they may have together, about.
const CHECKED_AT_ONCE: usize = 16;
const CHECKED_BYTES: usize = 24 << 20;

/// What a manifest's changes count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// From no file at all.
    Empty,
    /// From the manifest at this position of the conversion's order.
    Position(usize),
    /// From a manifest that an earlier run converted.
    Known(Rev),
}

/// How one manifest differs from its base.
#[derive(Debug)]
pub(crate) struct Changes {
    pub base: Base,
    lines: Vec<u8>,
}

/// One difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    /// The path is no longer there.
    Remove(&'a [u8]),
    /// The path is new or another revision or flag.
    Set(Line<'a>),
}

impl<'a> Change<'a> {
    /// The path that changes.
    pub const fn path(&self) -> &'a [u8] {
        match self {
            Self::Remove(path) | Self::Set(Line { path, .. }) => path,
        }
    }
}

impl Changes {
    /// None yet, from `base`.
    pub const fn new(base: Base) -> Self {
        Self { base, lines: Vec::new() }
    }

    /// The differences, ascending by path.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        let mut rest = self.lines.as_slice();
        std::iter::from_fn(move || {
            let (&[kind, a, b, c], after) = rest.split_first_chunk()?;
            let (path, after) = after.split_at(u32::from_le_bytes([a, b, c, 0]) as usize);
            let flag = match kind {
                b'x' => Flag::Executable,
                b'l' => Flag::Symlink,
                b'r' => Flag::Regular,
                _ => {
                    rest = after;
                    return Some(Change::Remove(path));
                }
            };
            let (node, after) = after.split_first_chunk()?;
            rest = after;
            Some(Change::Set(Line { path, node: revlog::Node::from_bytes(*node), flag }))
        })
    }

    /// Adds a difference; ascending by path.
    pub fn push(&mut self, change: Change<'_>) -> Result<(), Unusable> {
        let kind = match change {
            Change::Remove(_) => b'-',
            Change::Set(Line { flag: Flag::Regular, .. }) => b'r',
            Change::Set(Line { flag: Flag::Executable, .. }) => b'x',
            Change::Set(Line { flag: Flag::Symlink, .. }) => b'l',
        };
        let path = change.path();
        let len = u32::try_from(path.len()).map_or([u8::MAX; 4], u32::to_le_bytes);
        let [a, b, c, 0] = len else { return Err(Unusable::LongPath(path.len())) };
        self.lines.extend_from_slice(&[kind, a, b, c]);
        self.lines.extend_from_slice(path);
        if let Change::Set(line) = change {
            self.lines.extend_from_slice(line.node.as_bytes());
        }
        Ok(())
    }
}

/// Why a manifest cannot be converted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error(transparent)]
    Line(#[from] Malformed),
    #[error("its lines are not sorted at '{0}'")]
    Order(String),
    #[error("it has a path of {0} bytes")]
    LongPath(usize),
}

/// Which manifests are converted, in which order.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Ascending.
    pub revs: Vec<Rev>,
    /// A manifest that an earlier run converted, near the first one.
    pub start: Option<Rev>,
}

impl Plan {
    /// Where `rev` stands in the order.
    pub fn position(&self, rev: Rev) -> Option<usize> {
        self.revs.binary_search(&rev).ok()
    }

    /// Ranges of positions that make jobs of about equal work, with the bytes that their changes
    /// about take.
    pub fn jobs(&self, index: &Index) -> Vec<(u64, Range<usize>)> {
        let mut jobs = Vec::new();
        let mut chains = Chains { index, lens: Vec::new() };
        let (mut start, mut text_bytes, mut bytes) = (0, 0, 0);
        for (position, rev) in self.revs.iter().enumerate() {
            text_bytes += u64::from(index.text_len_hint(*rev));
            bytes += u64::from(index.stored_len(*rev)) * 2;
            let count = position + 1 - start;
            let is_enough = text_bytes >= JOB_TEXT_BYTES && count >= JOB_REVS;
            let is_end = self.revs.get(position + 1).is_none_or(|next| {
                is_enough
                    && (text_bytes >= LONGEST_JOB_BYTES
                        || chains.len(*next) as usize <= count / CHAIN_PART)
            });
            if is_end {
                jobs.push((bytes, start..position + 1));
                (start, text_bytes, bytes) = (position + 1, 0, 0);
            }
        }
        jobs
    }
}

/// Lengths of delta chains, counted as far as they were asked for.
struct Chains<'a> {
    index: &'a Index,
    lens: Vec<u32>,
}

impl Chains<'_> {
    /// How many revisions have to be read to rebuild `rev`, without itself.
    fn len(&mut self, rev: Rev) -> u32 {
        let start = u32::try_from(self.lens.len()).expect("revisions have 32 bits");
        for number in start..=rev.number() {
            let base = self.index.rev(number).and_then(|rev| self.index.delta_base(rev));
            self.lens.push(base.map_or(0, |base| self.lens[base.number() as usize] + 1));
        }
        self.lens[rev.number() as usize]
    }
}

/// Reads the manifests at `range` of the plan, checks their texts if asked, and answers their
/// changes in order.
///
/// # Errors
///
/// [`crate::Error::Store`] that names the first revision which cannot be read, is not its node's
/// text, or is no sorted flat manifest.
pub(crate) fn read(
    revlog: &Revlog,
    plan: &Plan,
    range: Range<usize>,
    check_texts: bool,
    scratch: &mut Scratch,
) -> Result<Vec<Changes>> {
    let mut texts = Texts::new(revlog, scratch, KEPT_TEXT_BYTES);
    let mut changes = Vec::with_capacity(range.len());
    let mut unchecked: Vec<(Rev, Arc<Buffer>)> = Vec::new();
    let mut unchecked_bytes = 0;
    for position in range {
        let rev = plan.revs[position];
        if revlog.index().unusual_flags(rev) != 0 {
            return Err(revlog.unsupported(rev, "it has flags that are not known").into());
        }
        let (text, one) = read_one(revlog, plan, position, &mut texts)?;
        changes.push(one);
        if check_texts {
            unchecked_bytes += text.len();
            unchecked.push((rev, text));
            if unchecked.len() == CHECKED_AT_ONCE || unchecked_bytes > CHECKED_BYTES {
                unchecked_bytes = 0;
                check(revlog, &mut unchecked, &mut texts)?;
            }
        } else {
            texts.recycle(text);
        }
    }
    check(revlog, &mut unchecked, &mut texts)?;
    Ok(changes)
}

fn check(
    revlog: &Revlog,
    unchecked: &mut Vec<(Rev, Arc<Buffer>)>,
    texts: &mut Texts<'_>,
) -> Result<()> {
    let revisions: Vec<_> = unchecked.iter().map(|(rev, text)| (*rev, text.as_slice())).collect();
    Check::new(revlog).texts(&revisions)?;
    unchecked.drain(..).for_each(|(_, text)| texts.recycle(text));
    Ok(())
}

fn read_one(
    revlog: &Revlog,
    plan: &Plan,
    position: usize,
    texts: &mut Texts<'_>,
) -> Result<(Arc<Buffer>, Changes)> {
    let rev = plan.revs[position];
    let revision = texts.get(rev)?;
    let blame = |problem: Unusable| revlog.corrupt(rev, problem);
    if let Some(delta) = &revision.delta
        && let Some(base) = plan.position(delta.base)
        && base + REACH >= position
    {
        let base_text = texts.get(delta.base)?.text;
        let parsed = Delta::parse(&delta.bytes, base_text.len());
        let parsed = parsed.map_err(|problem| revlog.corrupt(rev, problem))?;
        let mut changes = Changes::new(Base::Position(base));
        if is_aligned(&base_text, &parsed) {
            changes_of_delta(&base_text, &parsed, &mut changes).map_err(blame)?;
        } else {
            changes_between(&base_text, &revision.text, &mut changes).map_err(blame)?;
        }
        let Revision { text, delta } = revision;
        texts.recycle_delta(delta);
        return Ok((text, changes));
    }
    let near = near_base(revlog, plan, position);
    let mut changes = Changes::new(near);
    let base_rev = match near {
        Base::Empty => None,
        Base::Position(base) => Some(plan.revs[base]),
        Base::Known(base) => Some(base),
    };
    let base_text = match base_rev {
        Some(base) => texts.get(base)?.text,
        None => Arc::new(Buffer::default()),
    };
    changes_between(&base_text, &revision.text, &mut changes).map_err(blame)?;
    Ok((revision.text, changes))
}

/// A parent within reach, else the manifest before, else one of an earlier run.
pub(crate) fn near_base(revlog: &Revlog, plan: &Plan, position: usize) -> Base {
    let Parents(p1, p2) = revlog.index().parents(plan.revs[position]);
    let within_reach =
        |parent: Option<Rev>| plan.position(parent?).filter(|parent| parent + REACH >= position);
    match within_reach(p1).or_else(|| within_reach(p2)).or_else(|| position.checked_sub(1)) {
        Some(base) => Base::Position(base),
        None => plan.start.map_or(Base::Empty, Base::Known),
    }
}

/// Whether each hunk replaces whole lines by whole lines.
fn is_aligned(base: &[u8], delta: &Delta<'_>) -> bool {
    let at_line = |position: usize| position == 0 || base[position - 1] == b'\n';
    delta.hunks().all(|hunk| {
        at_line(hunk.start)
            && at_line(hunk.end)
            && hunk.data.last().is_none_or(|&last| last == b'\n')
    })
}

fn changes_of_delta(base: &[u8], delta: &Delta<'_>, changes: &mut Changes) -> Result<(), Unusable> {
    // a path may leave by one hunk and come by the next: the hunks are one run of lines each side
    let mut gone = Vec::new();
    let mut new = Vec::new();
    for hunk in delta.hunks() {
        for line in Lines::new(&base[hunk.start..hunk.end]) {
            gone.push(line?);
        }
        for line in Lines::new(hunk.data) {
            new.push(line?);
        }
    }
    merge(gone.into_iter().map(Ok), new.into_iter().map(Ok), changes)
}

fn changes_between(base: &[u8], text: &[u8], changes: &mut Changes) -> Result<(), Unusable> {
    let same = common_len(base, text);
    let start = base[..same].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let (base, text) = (&base[start..], &text[start..]);
    let same = common_end_len(base, text);
    // the lines in common at the end begin after the first line feed of the common bytes
    let tail = &base[base.len() - same..];
    let kept = memchr::memchr(b'\n', tail).map_or(0, |at| same - at - 1);
    let (base, text) = (&base[..base.len() - kept], &text[..text.len() - kept]);
    merge(Lines::new(base), Lines::new(text), changes)
}

/// Bytes that both begin with.
fn common_len(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK));
    let same = BLOCK * blocks.take_while(|(a, b)| a == b).count();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// Bytes that both end with.
fn common_end_len(a: &[u8], b: &[u8]) -> usize {
    let blocks = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK));
    let same = BLOCK * blocks.take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - same], &b[..b.len() - same]);
    same + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// Adds what leads from the lines `gone` to the lines `new`, both ascending by path.
fn merge<'a>(
    gone: impl Iterator<Item = Result<Line<'a>, Malformed>>,
    new: impl Iterator<Item = Result<Line<'a>, Malformed>>,
    changes: &mut Changes,
) -> Result<(), Unusable> {
    let mut gone = gone.peekable();
    let mut last: &[u8] = b"";
    for line in new {
        let line = line?;
        if line.path <= last {
            return Err(Unusable::Order(revlog::readable(line.path)));
        }
        last = line.path;
        let mut is_same = false;
        while let Some(old) =
            gone.next_if(|old| old.as_ref().is_ok_and(|old| old.path <= line.path))
        {
            let old = old?;
            if old.path < line.path {
                changes.push(Change::Remove(old.path))?;
            } else {
                is_same = old == line;
            }
        }
        if !is_same {
            changes.push(Change::Set(line))?;
        }
    }
    for old in gone {
        changes.push(Change::Remove(old?.path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEX: [&str; 2] =
        ["7cf5203a514b008b1e2996986ea9627b44d287c1", "56e4157d4de849ae1ffe6c009efc6c84b28667cb"];

    fn manifest(files: &std::collections::BTreeMap<String, (usize, &str)>) -> Vec<u8> {
        let lines =
            files.iter().map(|(path, (node, flag))| format!("{path}\0{}{flag}\n", HEX[*node]));
        lines.collect::<String>().into_bytes()
    }

    fn between(base: &[u8], text: &[u8]) -> Vec<String> {
        let mut changes = Changes::new(Base::Empty);
        changes_between(base, text, &mut changes).expect("sorted");
        let named = changes.iter().map(|change| {
            let sign = if matches!(change, Change::Remove(_)) { '-' } else { '+' };
            format!("{sign}{}", String::from_utf8_lossy(change.path()))
        });
        named.collect()
    }

    #[test]
    fn only_different_lines_are_changes() {
        let base =
            manifest(&[("a", 0), ("b", 0), ("c", 0)].map(|(p, n)| (p.to_owned(), (n, ""))).into());
        let text =
            manifest(&[("a", 0), ("aa", 0), ("c", 1)].map(|(p, n)| (p.to_owned(), (n, ""))).into());
        assert_eq!(between(&base, &text), ["+aa", "-b", "+c"]);
        assert_eq!(between(&base, &base), Vec::<String>::new());
        assert_eq!(between(&base, b""), ["-a", "-b", "-c"]);
    }

    #[test]
    fn unsorted_lines_are_refused() {
        let text = format!("b\0{}\na\0{}\n", HEX[0], HEX[0]);
        let mut changes = Changes::new(Base::Empty);
        let problem = changes_between(b"", text.as_bytes(), &mut changes);
        assert!(matches!(problem, Err(Unusable::Order(path)) if path == "a"));
    }

    fn files() -> impl Strategy<Value = std::collections::BTreeMap<String, (usize, &'static str)>> {
        let flag = prop_oneof![Just(""), Just("x"), Just("l")];
        proptest::collection::btree_map("[a-c]{1,3}(/[a-c]{1,2})?", (0..2usize, flag), 0..30)
    }

    proptest! {
        #[test]
        fn changes_lead_from_base_to_text(base in files(), text in files()) {
            let mut changes = Changes::new(Base::Empty);
            changes_between(&manifest(&base), &manifest(&text), &mut changes).expect("sorted");
            let mut reached = base.clone();
            for change in changes.iter() {
                let path = String::from_utf8_lossy(change.path()).into_owned();
                match change {
                    Change::Remove(_) => prop_assert!(reached.remove(&path).is_some()),
                    Change::Set(line) => {
                        let node = HEX.iter().position(|hex| line.node.to_string() == *hex);
                        let flag = match line.flag {
                            Flag::Regular => "",
                            Flag::Executable => "x",
                            Flag::Symlink => "l",
                        };
                        let value = (node.expect("one of two"), flag);
                        prop_assert_ne!(reached.insert(path, value), Some(value));
                    }
                }
            }
            prop_assert_eq!(reached, text);
        }
    }
}
