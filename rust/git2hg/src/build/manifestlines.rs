//! Lines of flat manifests: lookups by bisection, and differences.

use parallel::hex::hex;
use revlog::Node;
use revlog::manifest::Flag;

/// Edit of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineEdit {
    pub path: Box<[u8]>,
    /// New entry; `None` removes the path.
    pub entry: Option<(Node, Flag)>,
}

/// Appends a line.
pub(crate) fn push_line(out: &mut Vec<u8>, path: &[u8], node: Node, flag: Flag) {
    out.extend_from_slice(path);
    out.push(0);
    out.extend_from_slice(&hex(node.as_bytes()));
    match flag {
        Flag::Regular => {}
        Flag::Executable => out.push(b'x'),
        Flag::Symlink => out.push(b'l'),
    }
    out.push(b'\n');
}

/// Entry of a path.
pub(crate) fn entry(text: &[u8], path: &[u8]) -> Option<(Node, Flag)> {
    let (start, end) = find(text, path);
    parse(text.get(start + path.len()..end)?)
}

/// Parses a line after its path.
fn parse(rest: &[u8]) -> Option<(Node, Flag)> {
    let (digits, flag) = rest.get(1..)?.split_at_checked(40)?;
    let flag = match flag {
        b"\n" => Flag::Regular,
        b"x\n" => Flag::Executable,
        b"l\n" => Flag::Symlink,
        _ => return None,
    };
    Some((Node::from_hex(digits)?, flag))
}

/// Start and end of the line of `path`. Both are the place of insertion if the path is missing.
pub(crate) fn find(text: &[u8], path: &[u8]) -> (usize, usize) {
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        let start = memchr::memrchr(b'\n', &text[low..middle]).map_or(low, |at| low + at + 1);
        let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at + 1);
        let line = &text[start..end];
        let name = &line[..memchr::memchr(0, line).unwrap_or(line.len())];
        match name.cmp(path) {
            std::cmp::Ordering::Less => low = end,
            std::cmp::Ordering::Greater => high = start,
            std::cmp::Ordering::Equal => return (start, end),
        }
    }
    (low, low)
}

/// Appends the paths with different lines in two manifests, ascending, with both entries. Both are
/// in pieces of whole lines.
pub(crate) fn differing<'a>(
    one: impl Iterator<Item = &'a [u8]>,
    two: impl Iterator<Item = &'a [u8]>,
    found: &mut Vec<DifferingLine<'a>>,
) {
    let (mut one, mut two) = (Rest::of(one), Rest::of(two));
    loop {
        let same = same_lines(one.piece, two.piece);
        one.pass(same);
        two.pass(same);
        if same > 0 {
            continue;
        }
        match (Head::of(one.piece), Head::of(two.piece)) {
            (None, None) => return,
            (Some(first), second)
                if second.as_ref().is_none_or(|second| first.path < second.path) =>
            {
                found.push(DifferingLine { path: first.path, entries: [first.entry, None] });
                one.pass(first.len);
            }
            (first, Some(second))
                if first.as_ref().is_none_or(|first| second.path < first.path) =>
            {
                found.push(DifferingLine { path: second.path, entries: [None, second.entry] });
                two.pass(second.len);
            }
            (Some(first), Some(second)) => {
                if first.entry != second.entry {
                    let entries = [first.entry, second.entry];
                    found.push(DifferingLine { path: first.path, entries });
                }
                one.pass(first.len);
                two.pass(second.len);
            }
            (Some(_), None) | (None, Some(_)) => unreachable!("less than nothing"),
        }
    }
}

/// Lines that are not compared yet.
struct Rest<'a, P> {
    /// Empty only at the end.
    piece: &'a [u8],
    pieces: P,
}

impl<'a, P: Iterator<Item = &'a [u8]>> Rest<'a, P> {
    fn of(pieces: P) -> Self {
        let mut rest = Self { piece: &[], pieces };
        rest.pass(0);
        rest
    }

    /// Passes bytes of the piece.
    fn pass(&mut self, len: usize) {
        self.piece = &self.piece[len..];
        while self.piece.is_empty()
            && let Some(next) = self.pieces.next()
        {
            self.piece = next;
        }
    }
}

/// Path with its entries in two manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DifferingLine<'a> {
    pub path: &'a [u8],
    pub entries: [Option<(Node, Flag)>; 2],
}

struct Head<'a> {
    path: &'a [u8],
    entry: Option<(Node, Flag)>,
    len: usize,
}

impl<'a> Head<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let len = memchr::memchr(b'\n', text).map_or(text.len(), |at| at + 1);
        let line = &text[..len];
        let end = memchr::memchr(0, line).unwrap_or(len);
        Some(Self { path: &line[..end], entry: parse(&line[end..]), len })
    }
}

/// Length of the common beginning of two texts, in whole lines.
fn same_lines(one: &[u8], two: &[u8]) -> usize {
    const STEP: usize = 64;
    let steps = one.chunks_exact(STEP).zip(two.chunks_exact(STEP));
    let from = steps.take_while(|(one, two)| one == two).count() * STEP;
    let rest = one[from..].iter().zip(&two[from..]).take_while(|(one, two)| one == two);
    let same = from + rest.count();
    memchr::memrchr(b'\n', &one[..same]).map_or(0, |at| at + 1)
}
