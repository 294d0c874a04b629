//! Text of a flat manifest, in chunks that it shares with others.
//!
//! Edits, lookups and comparisons cost the differences; only a node costs the whole text.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use revlog::manifest::{Flag, MalformedManifest};
use revlog::{Cursor, Delta, Line, Lines, Node, SharedText, Tally, node, patch};

use crate::build::manifestlines::{DifferingLine, LineEdit, differing, entry, find, push_line};

/// A line, unless it is malformed.
type LineRead<'a> = Result<Line<'a>, MalformedManifest>;

/// Texts in memory, at most.
const MOST_TEXTS: usize = 1024;

/// Text of a manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct ManifestText(Arc<SharedText>);

impl ManifestText {
    /// A copy of `bytes`.
    pub fn new(bytes: &[u8], tally: &Tally) -> Self {
        Self(Arc::new(SharedText::copied(bytes, tally)))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no lines.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces().concat()
    }

    /// Node of a manifest with this text.
    pub fn node(&self, p1: Node, p2: Node) -> Node {
        node::node_of_pieces(p1, p2, &self.pieces())
    }

    /// Its bytes, in pieces.
    pub fn pieces(&self) -> Vec<&[u8]> {
        self.0.pieces().collect()
    }

    /// Entry of a path.
    pub fn entry(&self, path: &[u8]) -> Option<(Node, Flag)> {
        entry(self.lines_at(path).1, path)
    }

    /// The lines around the place of `path`, and their own place.
    fn lines_at(&self, path: &[u8]) -> (usize, &[u8]) {
        let is_later = |lines: &[u8]| {
            let end = memchr::memchr(0, lines).unwrap_or(lines.len());
            lines[..end] > *path
        };
        self.0.last_chunk(is_later).unwrap_or_default()
    }

    /// Applies a delta.
    ///
    /// # Errors
    ///
    /// That it does not fit.
    pub fn patched(&self, delta: &[u8], tally: &Tally) -> Result<Self, patch::Invalid> {
        Ok(self.applied(&Delta::parse(delta, self.len())?, tally))
    }

    /// Applies a delta that fits.
    pub fn applied(&self, delta: &Delta<'_>, tally: &Tally) -> Self {
        Self(Arc::new(self.0.apply(delta, tally)))
    }

    /// The lines at `range`. Lines that begin or end outside are cut.
    pub fn lines_in(&self, range: Range<usize>) -> impl Iterator<Item = LineRead<'_>> {
        let pieces: Vec<&[u8]> = Cursor::new(&self.0).pieces(range).collect();
        pieces.into_iter().flat_map(Lines::new)
    }

    /// The lines at the range, the one before and the one after; `None` if an end of the range is
    /// within a line.
    pub fn lines_around(
        &self,
        Range { start, end }: Range<usize>,
    ) -> Option<impl Iterator<Item = LineRead<'_>>> {
        let mut cursor = Cursor::new(&self.0);
        if !cursor.is_line_start(start) {
            return None;
        }
        let mut pieces: Vec<&[u8]> = cursor.line_before(start).into_iter().collect();
        pieces.extend(cursor.pieces(start..end));
        if !cursor.is_line_start(end) {
            return None;
        }
        let rest = cursor.from(end);
        pieces.push(&rest[..memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1)]);
        Some(pieces.into_iter().flat_map(Lines::new))
    }

    /// The delta for `edits`, which ascend by path.
    pub fn delta_of(&self, edits: &[LineEdit]) -> Vec<u8> {
        let (mut delta, mut kept_from) = (Vec::new(), 0);
        // start of a hunk in the delta that may still grow
        let mut open: Option<usize> = None;
        for LineEdit { path, entry } in edits {
            let (at, lines) = self.lines_at(path);
            let (start, end) = find(lines, path);
            let (start, end) = (at + start, at + end);
            let head = match open {
                Some(head) if start == kept_from => head,
                _ => {
                    let head = delta.len();
                    delta.extend_from_slice(&word(start));
                    delta.extend_from_slice(&[0; 8]);
                    head
                }
            };
            open = Some(head);
            if let Some((node, flag)) = entry {
                push_line(&mut delta, path, *node, *flag);
            }
            kept_from = end;
            let data_len = delta.len() - head - 12;
            delta[head + 4..head + 8].copy_from_slice(&word(end));
            delta[head + 8..head + 12].copy_from_slice(&word(data_len));
        }
        delta
    }

    /// Paths with different lines in this text and `other`, ascending, with both entries.
    pub fn differing<'a>(&'a self, other: &'a Self) -> Vec<DifferingLine<'a>> {
        let (mut ours, mut theirs) = (Cursor::new(&self.0), Cursor::new(&other.0));
        let mut found = Vec::new();
        for (our_lines, their_lines) in self.0.unshared(&other.0) {
            differing(ours.pieces(our_lines), theirs.pieces(their_lines), &mut found);
        }
        found
    }
}

/// Recently used texts by keys.
#[derive(Debug)]
pub(crate) struct RecentTexts<K> {
    /// Least recently used first.
    texts: VecDeque<(K, ManifestText)>,
    /// Memory of these, and of all others that were made with it.
    pub tally: Tally,
    most_bytes: usize,
    /// Whether texts that are used elsewhere take more than may be cached.
    pub is_exceeded: bool,
}

impl<K: PartialEq> RecentTexts<K> {
    /// Starts empty, with a limit of `most_bytes`.
    pub fn new(most_bytes: usize) -> Self {
        Self { texts: VecDeque::new(), tally: Tally::default(), most_bytes, is_exceeded: false }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// A text, if it is there.
    pub fn get(&mut self, key: &K) -> Option<ManifestText> {
        let place = self.texts.iter().rposition(|(kept, _)| kept == key)?;
        let entry = self.texts.remove(place)?;
        let text = entry.1.clone();
        self.texts.push_back(entry);
        Some(text)
    }

    /// Adds a text, and returns it. Two stay whatever they take, and all that take no more.
    pub fn put(&mut self, key: K, text: ManifestText) -> ManifestText {
        let most_bytes = self.most_bytes.max(2 * text.len());
        if self.texts.back().is_none_or(|(last, _)| *last != key) {
            self.texts.push_back((key, text.clone()));
        }
        while self.texts.len() > MOST_TEXTS
            || self.texts.len() > 2 && self.tally.bytes() > most_bytes
        {
            self.texts.pop_front();
        }
        // two that share nothing, and their groups
        self.is_exceeded = self.tally.bytes() > most_bytes + text.len();
        text
    }
}

/// Big-endian offset in a text shorter than 4 GiB.
fn word(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("manifests are shorter than 4 GiB").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::btree_map;
    use proptest::prelude::*;

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

    /// Entries whose text has many chunks, and edits of some.
    fn many() -> impl Strategy<Value = (Entries, Entries)> {
        let name = |number: &u16| format!("{:02}/{number:05}", number % 50);
        let base = (0..4000_u16, 1..9_u16).prop_map(move |(count, step)| {
            (0..count).map(|number| (name(&(number * step)), (0, 0))).collect::<Entries>()
        });
        let edit = ("[0-4][0-9]/0[0-9]{4}", (0..3_u8, 0..3_u8), any::<bool>());
        let edits = proptest::collection::vec(edit, 0..30);
        (base, edits).prop_map(|(base, edits)| {
            let mut target = base.clone();
            for (path, value, is_there) in edits {
                if is_there {
                    target.insert(path, value);
                } else {
                    // one that is there, rather
                    let near = target.range(path..).next().map(|(path, _)| path.clone());
                    near.map(|path| target.remove(&path));
                }
            }
            (base, target)
        })
    }

    fn check(base: &Entries, target: &Entries) -> Result<(), TestCaseError> {
        let tally = Tally::default();
        let [base_text, target_text] =
            [base, target].map(|it| ManifestText::new(&text(it), &tally));
        let lines = base_text.differing(&target_text);
        let edits: Vec<LineEdit> = lines
            .iter()
            .map(|line| LineEdit { path: line.path.into(), entry: line.entries[1] })
            .collect();
        let made = base_text.patched(&base_text.delta_of(&edits), &tally).expect("fits");
        prop_assert!(made.to_vec() == text(target));
        prop_assert_eq!(made.len(), text(target).len());
        prop_assert_eq!(&base_text.differing(&made), &lines);
        prop_assert_eq!(
            made.node(Node::NULL, Node::NULL),
            target_text.node(Node::NULL, Node::NULL)
        );
        let both = base.keys().chain(target.keys());
        let differ = both.filter(|path| base.get(*path) != target.get(*path));
        let differ: std::collections::BTreeSet<&[u8]> = differ.map(String::as_bytes).collect();
        prop_assert!(lines.iter().map(|line| line.path).eq(differ));
        for line in lines {
            let path = std::str::from_utf8(line.path).expect("ascii");
            prop_assert_eq!(line.entries[0], base.get(path).copied().map(entry_of));
            prop_assert_eq!(line.entries[1], target.get(path).copied().map(entry_of));
            prop_assert_eq!(base_text.entry(line.path), line.entries[0]);
            prop_assert_eq!(made.entry(line.path), line.entries[1]);
        }
        Ok(())
    }

    /// As [`ManifestText::lines_around`], of the whole text.
    fn around(text: &[u8], Range { start, end }: Range<usize>) -> Option<Vec<&[u8]>> {
        let is_start = |at: usize| at == 0 || text[at - 1] == b'\n';
        let before = text[..start]
            .strip_suffix(b"\n")
            .map_or(0, |before| memchr::memrchr(b'\n', before).map_or(0, |at| at + 1));
        let after = memchr::memchr(b'\n', &text[end..]).map_or(text.len(), |at| end + at + 1);
        let lines = Lines::new(&text[before..after]).map(|line| line.expect("whole").path);
        (is_start(start) && is_start(end)).then(|| lines.collect())
    }

    #[test]
    fn texts_in_use_elsewhere_count() {
        let mut recent = RecentTexts::new(10_000);
        let bytes = vec![b'a'; 6_000];
        let mut held = Vec::new();
        for key in 0..9 {
            let text = ManifestText::new(&bytes, &recent.tally);
            held.push(recent.put(key, text));
            assert_eq!(recent.is_exceeded, key > 1, "{key}");
        }
        assert!(recent.get(&6).is_none() && recent.get(&7).is_some());
        held.clear();
        let text = recent.get(&8).expect("is cached");
        recent.put(8, text);
        assert!(!recent.is_exceeded);
    }

    #[test]
    fn lines_have_neighbours() {
        let entries = (0..1000).map(|number| (format!("{number:05}"), (0, 0)));
        let bytes = text(&entries.collect());
        let made = ManifestText::new(&bytes, &Tally::default());
        let len = bytes.len() / 1000;
        let places: Vec<usize> = (0..=1000)
            .filter(|line| line % 89 < 3 || *line > 997)
            .flat_map(|line| [line * len, line * len + 7])
            .filter(|at| *at <= bytes.len())
            .collect();
        for (at, start) in places.iter().enumerate() {
            for end in &places[at..] {
                let found = made.lines_around(*start..*end);
                let found = found.map(|it| it.map(|line| line.expect("whole").path).collect());
                assert_eq!(found, around(&bytes, *start..*end), "{start} to {end}");
                let inside = Lines::new(&bytes[*start..*end]).map_while(Result::ok);
                assert!(made.lines_in(*start..*end).map_while(Result::ok).eq(inside));
            }
        }
    }

    proptest! {
        #[test]
        fn edits_make_any_manifest_of_any_other(base in entries(), target in entries()) {
            check(&base, &target)?;
        }

        #[test]
        fn edits_make_long_manifests((base, target) in many()) {
            check(&base, &target)?;
        }
    }
}
