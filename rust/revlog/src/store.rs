//! Store of a repository: the files of its revlogs.

pub(crate) mod path;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result, readable};
use crate::index::docket::{Docket, Version};
use crate::index::{self, Index, MalformedIndex};
use crate::mapping::Mapping;
use crate::node::Node;
use crate::revlog::{Revlog, open_file};
use crate::store::path::Encoding;

/// Bytes of an index read at once.
const READ_AT_ONCE: usize = 64 << 10;

/// Revlog of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevlogKind<'a> {
    /// Changesets.
    Changelog,
    /// Manifests of the whole tree, or of its root in a store with tree manifests.
    Manifest,
    /// Manifests of a directory; its path has no slashes at the ends.
    DirectoryManifest(&'a [u8]),
    /// Revisions of one tracked path.
    Filelog(&'a [u8]),
}

impl RevlogKind<'_> {
    /// Name in messages, as in Mercurial's: `filelog src/main.c`.
    fn name(self) -> String {
        match self {
            Self::Changelog => "changelog".to_owned(),
            Self::Manifest => "manifest".to_owned(),
            Self::DirectoryManifest(path) => format!("manifest of {}", readable(path)),
            Self::Filelog(path) => format!("filelog {}", readable(path)),
        }
    }
}

/// Indexes in memory, of version 1 and without inline data.
#[derive(Clone, Debug, Default)]
pub struct MappedIndexes {
    /// Index of the changelog.
    pub changelog: Option<Arc<Mapping>>,
    /// Index of the manifest of the whole tree, or of its root.
    pub manifest: Option<Arc<Mapping>>,
}

/// Directory `.hg/store` with its encoding of names.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    encoding: Encoding,
    /// Length limit of an index that is read, except for the changelog's.
    most_index_bytes: u64,
    mapped: MappedIndexes,
}

impl Store {
    /// Store at `root`. Nothing is read yet.
    #[must_use]
    pub fn new(root: &Path, encoding: Encoding) -> Self {
        let mapped = MappedIndexes::default();
        Self { root: root.to_owned(), encoding, most_index_bytes: u64::MAX, mapped }
    }

    /// The same store with indexes that are in memory.
    #[must_use]
    pub fn with_mapped(self, mapped: MappedIndexes) -> Self {
        Self { mapped, ..self }
    }

    /// Whether the index of the changelog is in memory.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        self.mapped.changelog.is_some()
    }

    /// The same store with a length limit for indexes, except for the changelog's: a sparse file
    /// may have any length, and an index is read into memory as a whole.
    #[must_use]
    pub fn bounded(self, most: u64) -> Self {
        Self { most_index_bytes: most, ..self }
    }

    /// Opens a revlog and reads its index, unless that is in memory. A revlog without a file is
    /// empty.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the file cannot be read; [`Error::Corrupt`] if its fields are out of range,
    /// it is too long, or its path is outside the store; [`Error::Unsupported`] for an unknown
    /// version or unknown flags.
    pub fn open(&self, kind: RevlogKind<'_>) -> Result<Revlog> {
        let index_path = self.path(kind, b".i");
        let blame = |path: &Path, problem: MalformedIndex| {
            let (revlog, path, what) = (kind.name(), path.to_owned(), problem.to_string());
            match problem {
                MalformedIndex::Version(_) | MalformedIndex::Flags(_) => {
                    Error::Unsupported { revlog, what }
                }
                _ => Error::Corrupt { revlog, path, what },
            }
        };
        if !self.contains(kind) {
            return Err(blame(&index_path, MalformedIndex::Elsewhere));
        }
        let mapped = match kind {
            RevlogKind::Changelog => &self.mapped.changelog,
            RevlogKind::Manifest => &self.mapped.manifest,
            _ => &None,
        };
        if let Some(mapping) = mapped {
            let index = Index::mapped(Arc::clone(mapping));
            let index = index.map_err(|problem| blame(&index_path, problem))?;
            return Ok(Revlog::new(index, kind.name(), index_path, self.path(kind, b".d")));
        }
        let most = match kind {
            RevlogKind::Changelog => u64::MAX,
            _ => self.most_index_bytes,
        };
        let read = |path: &Path, len: u64| {
            read(path, len.min(most.saturating_add(1)))
                .map_err(|source| Error::Io { path: path.to_owned(), source })
                .and_then(|bytes| match bytes {
                    bytes if bytes.len() as u64 > most => {
                        Err(blame(path, MalformedIndex::TooManyBytes(most)))
                    }
                    bytes => Ok(bytes),
                })
        };
        let bytes = read(&index_path, u64::MAX)?;
        let Some(version) = bytes.first_chunk().and_then(|header| version_of(*header)) else {
            let index = Index::parse(bytes).map_err(|problem| blame(&index_path, problem))?;
            return Ok(Revlog::new(index, kind.name(), index_path, self.path(kind, b".d")));
        };
        let Some(docket) = Docket::parse(version, &bytes) else {
            return Err(blame(&index_path, MalformedIndex::Docket));
        };
        let named = |uid: &[u8], suffix: &[u8]| self.path(kind, &[b"-", uid, suffix].concat());
        let index_path = named(docket.index_uid, b".idx");
        let bytes = read(&index_path, docket.index_len)?;
        let len = bytes.len() as u64;
        let index = if len < docket.index_len {
            Err(MalformedIndex::Short(len, docket.index_len))
        } else {
            Index::parse_version_2(version, &bytes)
        };
        let index = index.map_err(|problem| blame(&index_path, problem))?;
        Ok(Revlog::new(index, kind.name(), index_path, named(docket.data_uid, b".dat")))
    }

    /// Whether the changelog file, not its mapped copy, has changesets with these nodes at these
    /// ascending numbers.
    ///
    /// A file of version 1 without inline data is read in pieces; others take the memory of an
    /// index.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::open`].
    pub fn has_changesets(&self, expected: impl Iterator<Item = (u32, Node)>) -> Result<bool> {
        let path = self.path(RevlogKind::Changelog, b".i");
        let failed = |source| Error::Io { path: path.clone(), source };
        let mut entries = match open_file(&path).and_then(EntryReader::new) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed(source)),
            Ok(Some(entries)) => entries,
            _ => {
                let store = self.clone().with_mapped(MappedIndexes::default());
                let changelog = store.open(RevlogKind::Changelog)?;
                let index = changelog.index();
                let mut expected = expected;
                return Ok(expected.all(|(number, node)| {
                    index.rev(number).is_some_and(|rev| index.node(rev) == node)
                }));
            }
        };
        for (number, node) in expected {
            if entries.node(number).map_err(failed)? != Some(node) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the path of a revlog is below the root.
    fn contains(&self, kind: RevlogKind<'_>) -> bool {
        let (RevlogKind::Filelog(path) | RevlogKind::DirectoryManifest(path)) = kind else {
            return true;
        };
        // the other encodings escape a dot at the end of a name
        !matches!(self.encoding, Encoding::Escaped | Encoding::Plain)
            || path.split(|&byte| byte == b'/').all(|name| name != b"..")
    }

    fn path(&self, kind: RevlogKind<'_>, suffix: &[u8]) -> PathBuf {
        let encoded = match kind {
            RevlogKind::Changelog => [b"00changelog", suffix].concat(),
            RevlogKind::Manifest => [b"00manifest", suffix].concat(),
            RevlogKind::DirectoryManifest(path) => {
                self.encoding.encode(&[b"meta/", path, b"/00manifest", suffix].concat())
            }
            RevlogKind::Filelog(path) => self.encoding.encode(&[b"data/", path, suffix].concat()),
        };
        self.root.join(OsStr::from_bytes(&encoded))
    }
}

/// Reader of an index of version 1 without inline data, forward only.
struct EntryReader {
    file: BufReader<File>,
    next: u32,
}

impl EntryReader {
    /// `None` for a file of another kind.
    fn new(file: File) -> io::Result<Option<Self>> {
        let mut header = [0; 4];
        let is_long = file.read_at(&mut header, 0)? == header.len();
        let is_plain = is_long && index::is_plain(u32::from_be_bytes(header));
        let file = BufReader::with_capacity(READ_AT_ONCE, file);
        Ok(is_plain.then_some(Self { file, next: 0 }))
    }

    /// Node of a revision. Numbers have to ascend from call to call.
    fn node(&mut self, number: u32) -> io::Result<Option<Node>> {
        let skipped = i64::from(number) - i64::from(self.next);
        let len = i64::try_from(index::ENTRY_LEN).unwrap_or(i64::MAX);
        self.file.seek_relative(skipped * len)?;
        let mut entry = [0; index::ENTRY_LEN];
        match self.file.read_exact(&mut entry) {
            Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            done => done?,
        }
        self.next = number + 1;
        Ok(entry[index::NODE_AT..].first_chunk().map(|node| Node::from_bytes(*node)))
    }
}

/// Version in the header of a file `*.i`, if it is a docket.
const fn version_of(header: [u8; 4]) -> Option<Version> {
    Version::from_number(u32::from_be_bytes(header) & 0xffff)
}

/// Reads at most `most` bytes of a file; none if it is missing.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match open_file(path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(source),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests;
