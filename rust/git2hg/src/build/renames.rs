//! Renames and copies, found as dulwich finds them, and the files that hg-git makes of them.
//!
//! The rules are those of `RenameDetector` in dulwich 0.22.8, and of `get_files_changed()` in hg-git
//! 1.2.0. Files with equal contents are paired first. Then contents are compared by blocks: a
//! block ends with a line feed, or has 64 bytes. Files are in the order of their names, directory
//! by directory. `docs/decisions/hggit-import.rst`.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Write};

use dialect::RenameSettings;
use gitpack::Oid;
use hashbrown::HashMap;
use parallel::Buffer;
use revlog::manifest::MAX_DEPTH;

use crate::error::Result;
use crate::read::diff::join;
use crate::read::trees::{DIRECTORY, GITLINK, GitTrees, TYPE, entries, mode_of};

/// Longest block.
const BLOCK_LEN: usize = 64;
/// Files whose blocks are in memory at a time.
const MOST_AT_ONCE: usize = 500;
/// Memory of their blocks, about.
const MOST_BYTES: usize = 32 << 20;

/// Changes of a commit as hg-git sees them.
#[derive(Debug, Default)]
pub(crate) struct DetectedChanges {
    /// Changed files, and whether the changeset has them.
    pub files: BTreeMap<Box<[u8]>, bool>,
    /// Changed gitlinks; `None` for removed ones.
    pub links: BTreeMap<Box<[u8]>, Option<Oid>>,
    /// Sources of files by their paths.
    pub sources: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Settings and resources of a detection.
pub(crate) struct Detection<'a> {
    pub settings: RenameSettings,
    /// Whether a path can be a file in Mercurial.
    pub accepts: fn(&[u8]) -> bool,
    /// Makes an empty buffer.
    pub room: &'a dyn Fn() -> Buffer,
    /// Length limit of files.
    pub most_bytes: u64,
    pub tick: &'a dyn Fn() -> Result<()>,
}

/// File or gitlink of a tree.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: Box<[u8]>,
    mode: u32,
    oid: Oid,
}

impl Entry {
    fn is_directory(&self) -> bool {
        self.mode & TYPE == DIRECTORY
    }

    fn is_link(&self) -> bool {
        self.mode & TYPE == GITLINK
    }
}

/// Entry of the old tree, from which files may be copied.
#[derive(Debug)]
struct Source {
    old: Entry,
    change: SourceChange,
}

#[derive(Debug, PartialEq, Eq)]
enum SourceChange {
    Deleted,
    Modified(Entry),
    Unchanged,
}

/// Differences of two trees, in the order of names.
#[derive(Debug, Default)]
struct Differences {
    added: Vec<Entry>,
    sources: Vec<Source>,
}

/// A source and an added entry, by their places in [`Differences`].
struct Pair {
    source: usize,
    added: usize,
    /// Whether the source is gone.
    is_rename: bool,
}

/// A change, with the entries that it is of.
struct Row<'a> {
    old: Option<&'a Entry>,
    new: Option<&'a Entry>,
    is_rename: bool,
}

impl Detection<'_> {
    /// Finds the changes between two trees.
    ///
    /// # Errors
    ///
    /// The errors of [`GitTrees::get_some`] and of `tick`.
    pub fn run(
        &self,
        trees: &GitTrees<impl Write, impl Read>,
        old: Oid,
        new: Oid,
    ) -> Result<DetectedChanges> {
        let found = self.differences(trees, old, new)?;
        let mut pairing = Pairing::new(&found);
        pairing.pair_equal();
        let candidates = self.candidates(trees, &pairing)?;
        pairing.pair_similar(candidates);
        Ok(changes_of(&pairing.rows(), self.accepts))
    }

    /// Compares two trees, depth first.
    fn differences(
        &self,
        trees: &GitTrees<impl Write, impl Read>,
        old: Oid,
        new: Oid,
    ) -> Result<Differences> {
        let root = |oid| Some(Entry { path: Box::default(), mode: DIRECTORY, oid });
        let mut found = Differences::default();
        let mut pending = vec![(0, root(old), root(new))];
        while let Some((depth, old, new)) = pending.pop() {
            if old == new && !self.settings.all_sources {
                continue;
            }
            let is_directory =
                |entry: &Option<Entry>| entry.as_ref().is_some_and(Entry::is_directory);
            let directories = [is_directory(&old), is_directory(&new)];
            if directories != [false; 2] && depth <= MAX_DEPTH {
                (self.tick)()?;
                let children = [children(trees, old.as_ref())?, children(trees, new.as_ref())?];
                pending.extend(merged(children).rev().map(|(old, new)| (depth + 1, old, new)));
            }
            found.add(old.filter(|_| !directories[0]), new.filter(|_| !directories[1]));
        }
        Ok(found)
    }

    /// Pairs with similar contents: score, source, added entry.
    fn candidates(
        &self,
        trees: &GitTrees<impl Write, impl Read>,
        pairing: &Pairing<'_>,
    ) -> Result<Vec<(u32, Pair)>> {
        let RenameSettings { similarity, limit, .. } = self.settings;
        let (sources, added) = (pairing.free_sources(), pairing.free_added());
        let pairs = sources.len() as u128 * added.len() as u128;
        if limit != 0 && pairs > u128::from(limit).pow(2) {
            return Ok(Vec::new());
        }
        let Differences { added: all_added, sources: all_sources } = pairing.found;
        let of_sources: BTreeSet<u32> =
            sources.iter().map(|at| all_sources[*at].old.mode & TYPE).collect();
        let of_added: BTreeSet<u32> = added.iter().map(|at| all_added[*at].mode & TYPE).collect();
        let is_read = |(_, entry): &(usize, &Entry)| {
            let kind = entry.mode & TYPE;
            kind != GITLINK && of_sources.contains(&kind) && of_added.contains(&kind)
        };
        let sources = sources.into_iter().map(|at| (at, &all_sources[at].old));
        let sources: Vec<(usize, &Entry)> = sources.filter(is_read).collect();
        let added = added.into_iter().map(|at| (at, &all_added[at]));
        let added: Vec<(usize, &Entry)> = added.filter(is_read).collect();
        let mut found = Vec::new();
        let mut left = &added[..];
        while !left.is_empty() {
            let of_added = self.blocks(trees, &mut left)?;
            let mut left = &sources[..];
            while !left.is_empty() {
                for (source, blocks) in self.blocks(trees, &mut left)? {
                    (self.tick)()?;
                    let Source { old, change } = &all_sources[source];
                    let is_rename = *change == SourceChange::Deleted;
                    for (added, others) in &of_added {
                        let is_like = all_added[*added].mode & TYPE == old.mode & TYPE;
                        let score = if is_like { blocks.score(others, similarity) } else { None };
                        let pair = |score| (score, Pair { source, added: *added, is_rename });
                        found.extend(score.map(pair));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Blocks of the first of `entries`, as many as fit, which are taken from it. Without files that
    /// are too long.
    fn blocks(
        &self,
        trees: &GitTrees<impl Write, impl Read>,
        entries: &mut &[(usize, &Entry)],
    ) -> Result<Vec<(usize, Blocks)>> {
        let asked = &entries[..entries.len().min(MOST_AT_ONCE)];
        let oids: Vec<Oid> = asked.iter().map(|(_, entry)| entry.oid).collect();
        let mut blobs = trees.blobs(&oids)?;
        let (mut found, mut bytes, mut count) = (Vec::new(), 0, 0);
        for (at, _) in asked {
            if let Some(content) = blobs.next((self.room)(), self.most_bytes)? {
                let blocks = Blocks::of(&content);
                bytes += blocks.counts.len() * size_of::<(u64, u64)>();
                found.push((*at, blocks));
            }
            count += 1;
            if bytes > MOST_BYTES {
                break;
            }
        }
        blobs.pass_over()?;
        *entries = &entries[count..];
        Ok(found)
    }
}

impl Differences {
    /// Adds two entries with one path that are no directories.
    fn add(&mut self, old: Option<Entry>, new: Option<Entry>) {
        match (old, new) {
            (Some(old), Some(new)) if old.mode & TYPE == new.mode & TYPE => {
                let is_same = old == new;
                let change =
                    if is_same { SourceChange::Unchanged } else { SourceChange::Modified(new) };
                self.sources.push(Source { old, change });
            }
            (old, new) => {
                let deleted = |old| Source { old, change: SourceChange::Deleted };
                self.sources.extend(old.map(deleted));
                self.added.extend(new);
            }
        }
    }
}

/// Entries of a directory, by name; none of a file.
fn children(
    trees: &GitTrees<impl Write, impl Read>,
    directory: Option<&Entry>,
) -> Result<Vec<Entry>> {
    let Some(Entry { path, oid, .. }) = directory.filter(|it| it.is_directory()) else {
        return Ok(Vec::new());
    };
    let tree = trees.get(*oid)?;
    let entry = |entry: crate::judge::tree::TreeEntry<'_>| Entry {
        path: join(path, entry.name).into(),
        mode: mode_of(entry.mode),
        oid: entry.oid,
    };
    let mut found: Vec<Entry> = entries(&tree.content).map(entry).collect();
    found.sort_by(|one, two| one.path.cmp(&two.path));
    Ok(found)
}

/// Entries of two directories, side by side.
fn merged(
    [old, new]: [Vec<Entry>; 2],
) -> impl DoubleEndedIterator<Item = (Option<Entry>, Option<Entry>)> {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let mut pairs = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return pairs.into_iter(),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(two)) => one.path.cmp(&two.path),
        };
        let before = if order.is_le() { old.next() } else { None };
        pairs.push((before, if order.is_ge() { new.next() } else { None }));
    }
}

/// Pairs of sources and added entries, as they are found.
struct Pairing<'a> {
    found: &'a Differences,
    pairs: Vec<Pair>,
    /// Added entries that have a source.
    is_paired: Vec<bool>,
    /// Deleted entries that were renamed.
    is_renamed: Vec<bool>,
}

impl<'a> Pairing<'a> {
    fn new(found: &'a Differences) -> Self {
        let (added, sources) = (found.added.len(), found.sources.len());
        Self {
            found,
            pairs: Vec::new(),
            is_paired: vec![false; added],
            is_renamed: vec![false; sources],
        }
    }

    fn free_sources(&self) -> Vec<usize> {
        (0..self.is_renamed.len()).filter(|at| !self.is_renamed[*at]).collect()
    }

    fn free_added(&self) -> Vec<usize> {
        (0..self.is_paired.len()).filter(|at| !self.is_paired[*at]).collect()
    }

    /// Pairs entries with one blob, in order; the rest goes to the first source.
    fn pair_equal(&mut self) {
        let Differences { added, sources } = self.found;
        let mut added_of: HashMap<Oid, Vec<usize>> = HashMap::new();
        for (at, entry) in added.iter().enumerate() {
            added_of.entry(entry.oid).or_default().push(at);
        }
        let mut sources_of: HashMap<Oid, Vec<usize>> = HashMap::new();
        for (at, Source { old, .. }) in sources.iter().enumerate() {
            if added_of.contains_key(&old.oid) {
                sources_of.entry(old.oid).or_default().push(at);
            }
        }
        for (oid, of_sources) in sources_of {
            let of_added = &added_of[&oid];
            for (source, new) in of_sources.iter().zip(of_added) {
                let Source { old, change } = &sources[*source];
                // a pair of a link and a file is used up
                if old.mode & TYPE == added[*new].mode & TYPE {
                    let is_rename = *change == SourceChange::Deleted;
                    self.is_renamed[*source] |= is_rename;
                    self.is_paired[*new] = true;
                    self.pairs.push(Pair { source: *source, added: *new, is_rename });
                }
            }
            for new in of_added.iter().skip(of_sources.len()) {
                self.is_paired[*new] = true;
                let source = of_sources[0];
                self.pairs.push(Pair { source, added: *new, is_rename: false });
            }
        }
    }

    /// Chooses among pairs with similar contents, the most similar first.
    fn pair_similar(&mut self, mut candidates: Vec<(u32, Pair)>) {
        let Differences { added, sources } = self.found;
        candidates.sort_by_key(|(score, Pair { source, added: new, is_rename })| {
            (Reverse(*score), *is_rename, &sources[*source].old.path, &added[*new].path)
        });
        for (_, Pair { source, added: new, is_rename }) in candidates {
            if !std::mem::replace(&mut self.is_paired[new], true) {
                let was_renamed = self.is_renamed[source];
                self.is_renamed[source] |= is_rename;
                let is_rename = is_rename && !was_renamed;
                self.pairs.push(Pair { source, added: new, is_rename });
            }
        }
    }

    /// All changes, in dulwich's order.
    fn rows(&self) -> Vec<Row<'a>> {
        let Differences { added, sources } = self.found;
        let row = |old, new| Row { old, new, is_rename: false };
        let mut rows: Vec<Row<'a>> =
            self.free_added().into_iter().map(|at| row(None, Some(&added[at]))).collect();
        for at in self.free_sources() {
            let Source { old, change } = &sources[at];
            match change {
                SourceChange::Deleted => rows.push(row(Some(old), None)),
                SourceChange::Modified(new) => rows.push(row(Some(old), Some(new))),
                SourceChange::Unchanged => {}
            }
        }
        rows.extend(self.pairs.iter().map(|pair| Row {
            old: Some(&sources[pair.source].old),
            new: Some(&added[pair.added]),
            is_rename: pair.is_rename,
        }));
        rows.sort_by_key(|Row { old, new, .. }| {
            let path = |entry: Option<&'a Entry>| entry.map(|entry| &*entry.path);
            (path(old.or(*new)), path(new.or(*old)))
        });
        rows
    }
}

/// Files and gitlinks that hg-git makes of changes.
fn changes_of(rows: &[Row<'_>], accepts: fn(&[u8]) -> bool) -> DetectedChanges {
    let mut found = DetectedChanges::default();
    let DetectedChanges { files, links, sources } = &mut found;
    let mut copied: BTreeSet<&[u8]> = BTreeSet::new();
    for Row { old, new, is_rename } in rows {
        let is_old_link = old.is_some_and(Entry::is_link);
        let is_left_out = |new: &Entry| !accepts(&new.path) && (new.is_link() || !is_old_link);
        if new.is_some_and(is_left_out) {
            continue; // and the source stays
        }
        match (old, new) {
            (old, Some(new)) if new.is_link() => {
                links.insert(new.path.clone(), Some(new.oid));
                if let Some(old) = old {
                    if *is_rename {
                        links.insert(old.path.clone(), None);
                    }
                    if !old.is_link() {
                        files.insert(old.path.clone(), false);
                    }
                }
            }
            (Some(old), _) if old.is_link() => {
                links.insert(old.path.clone(), None);
            }
            (old, Some(new)) => {
                files.insert(new.path.clone(), true);
                if let Some(old) = old.filter(|old| old.path != new.path) {
                    sources.insert(new.path.to_vec(), old.path.to_vec());
                    copied.insert(&old.path);
                    if *is_rename {
                        files.entry(old.path.clone()).or_insert(false);
                    }
                }
            }
            (Some(old), None) => {
                if !files.contains_key(&old.path) || copied.contains(&*old.path) {
                    files.insert(old.path.clone(), false);
                }
            }
            (None, None) => {}
        }
    }
    found
}

/// Blocks of a content.
struct Blocks {
    len: u64,
    /// Bytes in blocks of one hash, sorted by it.
    counts: Vec<(u64, u64)>,
}

impl Blocks {
    fn of(content: &[u8]) -> Self {
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut rest = content;
        while !rest.is_empty() {
            let most = &rest[..rest.len().min(BLOCK_LEN)];
            let end = memchr::memchr(b'\n', most).map_or(most.len(), |at| at + 1);
            let mut hasher = DefaultHasher::new(); // the same in each run
            hasher.write(&rest[..end]);
            all.push((hasher.finish(), end as u64));
            rest = &rest[end..];
        }
        all.sort_unstable();
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for (hash, bytes) in all {
            match counts.last_mut() {
                Some((last, sum)) if *last == hash => *sum += bytes,
                _ => counts.push((hash, bytes)),
            }
        }
        counts.shrink_to_fit();
        Self { len: content.len() as u64, counts }
    }

    /// Percentage of common bytes, if it is above `threshold`.
    fn score(&self, other: &Self, threshold: u32) -> Option<u32> {
        let longest = self.len.max(other.len);
        let above = |common: u64| Some(percentage(common, longest)).filter(|it| *it > threshold);
        above(self.len.min(other.len))?; // the most that can be
        let (mut one, mut two) = (&self.counts[..], &other.counts[..]);
        let mut common = 0;
        while let ([(first, bytes), rest @ ..], [(second, others), after @ ..]) = (one, two) {
            match first.cmp(second) {
                Ordering::Less => one = rest,
                Ordering::Greater => two = after,
                Ordering::Equal => {
                    common += bytes.min(others);
                    (one, two) = (rest, after);
                }
            }
        }
        above(common)
    }
}

/// As dulwich computes it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Python's float, cut to an int"
)]
fn percentage(part: u64, whole: u64) -> u32 {
    if whole == 0 { 100 } else { (part as f64 * 100.0 / whole as f64) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_with_lines_or_after_64_bytes() {
        let score = |one: &[u8], two: &[u8]| Blocks::of(one).score(&Blocks::of(two), 0);
        assert_eq!(score(b"", b""), Some(100));
        assert_eq!(score(b"a\nb\na\n", b"a\na\na\n"), Some(66));
        assert_eq!(score(b"a\nb", b"a\nb\n"), Some(50));
        let long = [b'x'; 130];
        assert_eq!(score(&long, &long[..64]), Some(49));
        assert_eq!(score(&long, &long[..63]), None);
    }
}
