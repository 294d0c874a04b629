//! The changes of all manifests, kept small between reading them and replaying them.

use gitpack::tree::Mode;

use crate::read::files::FileId;
use crate::read::manifests::Base;
use crate::read::names::{NameId, Names};

/// Bytes of one change: what it does, its path, its file revision.
const RECORD_LEN: usize = 9;
const REMOVE: u8 = 0;
const MODES: [Mode; 3] = [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK];

/// Changes by position in the manifests' plan.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    records: Vec<u8>,
    /// For each manifest, what its changes count from and where its records end.
    manifests: Vec<(Base, usize)>,
    paths: Names,
}

impl ChangeLog {
    /// Begins the next manifest.
    pub fn begin(&mut self, base: Base) {
        self.manifests.push((base, self.records.len()));
    }

    /// Memory that it takes, about, without the paths.
    pub fn bytes(&self) -> u64 {
        (self.records.capacity() + self.manifests.capacity() * size_of::<(Base, usize)>()) as u64
    }

    /// The number of a path.
    pub fn number(&mut self, path: &[u8]) -> NameId {
        self.paths.number(path)
    }

    /// All paths, as they were numbered.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter()
    }

    /// The path with this number.
    pub fn path(&self, path: NameId) -> &[u8] {
        self.paths.get(path)
    }

    /// Adds a change to the manifest that was begun last; ascending by path.
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
        if let Some((_, end)) = self.manifests.last_mut() {
            *end = self.records.len();
        }
    }

    /// What the changes of the manifest at `position` count from.
    pub fn base(&self, position: usize) -> Base {
        self.manifests[position].0
    }

    /// Whether the manifest at `position` sets one of `files` at `path`.
    pub fn has_any(&self, position: usize, path: NameId, files: &[FileId]) -> bool {
        let is_one = |file: Option<(FileId, Mode)>| file.is_some_and(|(id, _)| files.contains(&id));
        self.of(position).any(|(at, file)| at == path && is_one(file))
    }

    /// The changes of the manifest at `position`, ascending by path.
    pub fn of(&self, position: usize) -> impl Iterator<Item = (NameId, Option<(FileId, Mode)>)> {
        let start = if position == 0 { 0 } else { self.manifests[position - 1].1 };
        let records = &self.records[start..self.manifests[position].1];
        records.as_chunks::<RECORD_LEN>().0.iter().map(|&[action, a, b, c, d, e, f, g, h]| {
            let file = FileId(u32::from_le_bytes([e, f, g, h]));
            let mode = usize::from(action).checked_sub(1).map(|mode| MODES[mode]);
            (NameId(u32::from_le_bytes([a, b, c, d])), mode.map(|mode| (file, mode)))
        })
    }
}
