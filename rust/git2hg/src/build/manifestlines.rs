//! Lines of flat manifests: edits, lookups and differences.
//!
//! Lines are found by bisection, so an edit costs its own size and one copy of the text.

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

/// Applies `edits`, ascending by path, to the text `base`. Appends the hunks to `delta`.
pub(crate) fn apply(base: &[u8], edits: &[LineEdit], delta: &mut Vec<u8>) -> Vec<u8> {
    let mut text = Vec::with_capacity(base.len() + edits.len() * 100);
    let mut kept_from = 0;
    // start of a hunk in the delta that may still grow
    let mut open: Option<usize> = None;
    for LineEdit { path, entry } in edits {
        let (start, end) = find(base, kept_from, path);
        if open.is_none() || start != kept_from {
            text.extend_from_slice(&base[kept_from..start]);
            open = Some(delta.len());
            push_word(delta, start);
            delta.extend_from_slice(&[0; 8]);
        }
        if let Some((node, flag)) = entry {
            let from = text.len();
            push_line(&mut text, path, *node, *flag);
            delta.extend_from_slice(&text[from..]);
        }
        kept_from = end;
        if let Some(head) = open {
            let data_len = delta.len() - head - 12;
            delta[head + 4..head + 8].copy_from_slice(&word(end));
            delta[head + 8..head + 12].copy_from_slice(&word(data_len));
        }
    }
    text.extend_from_slice(&base[kept_from..]);
    text
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
    let (start, end) = find(text, 0, path);
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

/// Start and end of the line of `path`, searched from `from` on. Both are the place of insertion if
/// the path is missing.
fn find(text: &[u8], from: usize, path: &[u8]) -> (usize, usize) {
    let (mut low, mut high) = (from, text.len());
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

/// Paths with different lines in two manifests, ascending, with both entries.
pub(crate) fn differing<'a>(one: &'a [u8], two: &'a [u8]) -> Vec<DifferingLine<'a>> {
    let mut found = Vec::new();
    let (mut one, mut two) = (one, two);
    while !(one.is_empty() && two.is_empty()) {
        let same = same_lines(one, two);
        (one, two) = (&one[same..], &two[same..]);
        let (first, second) = (Head::of(one), Head::of(two));
        match (first, second) {
            (None, None) => break,
            (Some(first), second)
                if second.as_ref().is_none_or(|second| first.path < second.path) =>
            {
                found.push(DifferingLine { path: first.path, entries: [first.entry, None] });
                one = &one[first.len..];
            }
            (first, Some(second))
                if first.as_ref().is_none_or(|first| second.path < first.path) =>
            {
                found.push(DifferingLine { path: second.path, entries: [None, second.entry] });
                two = &two[second.len..];
            }
            (Some(first), Some(second)) => {
                if first.entry != second.entry {
                    let entries = [first.entry, second.entry];
                    found.push(DifferingLine { path: first.path, entries });
                }
                (one, two) = (&one[first.len..], &two[second.len..]);
            }
            (Some(_), None) | (None, Some(_)) => unreachable!("less than nothing"),
        }
    }
    found
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

fn push_word(out: &mut Vec<u8>, number: usize) {
    out.extend_from_slice(&word(number));
}

/// Big-endian offset in a text shorter than 4 GiB.
fn word(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("manifests are shorter than 4 GiB").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use parallel::Buffer;
    use proptest::collection::btree_map;
    use proptest::prelude::*;
    use revlog::Delta;

    use super::*;

    type Entries = BTreeMap<String, (u8, u8)>;

    fn entry_of((node, flag): (u8, u8)) -> (Node, Flag) {
        let flag = [Flag::Regular, Flag::Executable, Flag::Symlink][usize::from(flag % 3)];
        (Node::from_bytes([node; 20]), flag)
    }

    fn text(entries: &Entries) -> Vec<u8> {
        let mut out = Vec::new();
        for (path, value) in entries {
            let (node, flag) = entry_of(*value);
            push_line(&mut out, path.as_bytes(), node, flag);
        }
        out
    }

    fn entries() -> impl Strategy<Value = Entries> {
        btree_map("[a-c/.]{1,3}", (0..3_u8, 0..3_u8), 0..20)
    }

    proptest! {
        #[test]
        fn edits_make_any_manifest_of_any_other(base in entries(), target in entries()) {
            let (base_text, target_text) = (text(&base), text(&target));
            let lines = differing(&base_text, &target_text);
            let edits: Vec<LineEdit> = lines
                .iter()
                .map(|line| LineEdit { path: line.path.into(), entry: line.entries[1] })
                .collect();
            let mut delta = Vec::new();
            prop_assert_eq!(&apply(&base_text, &edits, &mut delta), &target_text);
            let mut made = Buffer::default();
            let parsed = Delta::parse(&delta, base_text.len()).expect("is a delta");
            parsed.apply(&base_text, &mut made).expect("is memory");
            prop_assert_eq!(made.as_slice(), &target_text[..]);
            for line in lines {
                let path = std::str::from_utf8(line.path).expect("ascii");
                prop_assert_eq!(line.entries[0], base.get(path).copied().map(entry_of));
                prop_assert_eq!(entry(&target_text, line.path), line.entries[1]);
            }
        }
    }
}
