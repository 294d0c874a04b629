//! The changes of all manifests, in compact form, between reading and replaying.

use std::collections::HashSet;

use gitpack::tree::Mode;
use revlog::Rev;

use crate::read::files::FileId;
use crate::read::manifests::Base;
use crate::read::names::{NameId, Names};

/// Bytes of one change: action, path, file revision.
const RECORD_LEN: usize = 9;
const REMOVE: u8 = 0;
const MODES: [Mode; 3] = [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK];

/// Bases of a manifest's changes that are not positions of the plan. Positions have 31 bits.
const EMPTY: u32 = u32::MAX;
const KNOWN_MARK: u32 = 1 << 31;

/// Changes by position in the manifests' plan.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    records: Vec<u8>,
    manifests: Vec<ManifestRecords>,
    /// The position of the manifest begun last.
    begun: usize,
    /// Manifests of earlier runs that serve as bases.
    known: Vec<Rev>,
    paths: Names,
}

/// The changes of one manifest.
#[derive(Clone, Copy, Debug)]
struct ManifestRecords {
    /// Start of its records, in bytes.
    start: usize,
    /// Number of its records.
    count: u32,
    /// Base of its changes: a position, or [`EMPTY`], or a marked index into the known manifests.
    base: u32,
}

impl ChangeLog {
    /// Begins the manifest at `position`. Each is begun once, in any order.
    pub fn begin(&mut self, position: usize, base: Base) {
        let base = match base {
            Base::Empty => EMPTY,
            Base::Known(rev) => {
                self.known.push(rev);
                KNOWN_MARK | number(self.known.len() - 1)
            }
            Base::Position(base) => number(base),
        };
        let none = ManifestRecords { start: 0, count: 0, base: EMPTY };
        self.manifests.resize(self.manifests.len().max(position + 1), none);
        self.manifests[position] = ManifestRecords { start: self.records.len(), count: 0, base };
        self.begun = position;
    }

    /// Approximate memory in use, without the paths.
    pub fn bytes(&self) -> u64 {
        (self.records.capacity() + self.manifests.capacity() * size_of::<ManifestRecords>()) as u64
    }

    /// The number of a path. A new path gets one.
    pub fn number(&mut self, path: &[u8]) -> NameId {
        self.paths.number(path)
    }

    /// All paths, in the order of their numbers.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter()
    }

    /// The path with this number.
    pub fn path(&self, path: NameId) -> &[u8] {
        self.paths.get(path)
    }

    /// Adds a change to the manifest begun last. Changes must ascend by path.
    pub fn push(&mut self, path: NameId, file: Option<(FileId, Mode)>) {
        let (action, file) = match file {
            None => (REMOVE, 0),
            Some((FileId(file), mode)) => {
                let mode = MODES.iter().zip(1..).find(|(known, _)| known.0 == mode.0);
                (mode.expect("a file's mode").1, file)
            }
        };
        self.records.push(action);
        self.records.extend_from_slice(&path.0.to_le_bytes());
        self.records.extend_from_slice(&file.to_le_bytes());
        if let Some(begun) = self.manifests.get_mut(self.begun) {
            begun.count += 1;
        }
    }

    /// The base of the changes of the manifest at `position`.
    pub fn base(&self, position: usize) -> Base {
        match self.manifests[position].base {
            EMPTY => Base::Empty,
            base if base & KNOWN_MARK > 0 => Base::Known(self.known[(base & !KNOWN_MARK) as usize]),
            base => Base::Position(base as usize),
        }
    }

    /// Whether the manifest at `position` sets one of `files` at `path`.
    pub fn has_any(&self, position: usize, path: NameId, files: &[FileId]) -> bool {
        let is_one = |file: Option<(FileId, Mode)>| file.is_some_and(|(id, _)| files.contains(&id));
        self.of(position).any(|(at, file)| at == path && is_one(file))
    }

    /// The manifests of earlier runs that serve as bases.
    pub fn starts(&self) -> impl Iterator<Item = Rev> {
        let mut distinct = HashSet::new();
        self.known.iter().copied().filter(move |rev| distinct.insert(*rev))
    }

    /// The changes of the manifest at `position`, ascending by path.
    pub fn of(&self, position: usize) -> impl Iterator<Item = (NameId, Option<(FileId, Mode)>)> {
        let ManifestRecords { start, count, .. } = self.manifests[position];
        let records = &self.records[start..start + count as usize * RECORD_LEN];
        records.as_chunks::<RECORD_LEN>().0.iter().map(|&[action, a, b, c, d, e, f, g, h]| {
            let file = FileId(u32::from_le_bytes([e, f, g, h]));
            let mode = usize::from(action).checked_sub(1).map(|mode| MODES[mode]);
            (NameId(u32::from_le_bytes([a, b, c, d])), mode.map(|mode| (file, mode)))
        })
    }
}

fn number(position: usize) -> u32 {
    u32::try_from(position).expect("revisions have 31 bits")
}
