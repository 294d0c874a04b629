//! The request and the report of a run.
//!
//! Owns only these types, which callers of [`crate::export()`] use. Reads and writes no file.

use std::path::Path;

use dialect::Authors;
use gitpack::{Oid, Readers};
use parallel::Directory;
use revlog::{Encoding, MappedIndexes, Node};

use crate::error::Unfit;
use crate::map::content::Access;
use crate::objects::commits::Displaced;
use crate::read::changelog::Selection;

/// Input, output and options of a run.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The directory `.hg/store`.
    pub store: &'a Path,
    /// Indexes of the store that are in memory already.
    pub indexes: MappedIndexes,
    /// Encoding of file names in the store.
    pub encoding: Encoding,
    /// Whether each directory has a manifest of its own.
    pub tree_manifests: bool,
    /// The directory `objects/pack` of the git repository.
    pub packs: &'a Directory,
    /// Names of packs that are removed after the run, without suffix. The run writes their objects
    /// again.
    pub replaced_packs: Vec<String>,
    /// The directory of the oid map.
    pub map: &'a Directory,
    /// Prefix of the names of the map's files.
    pub prefix: &'a str,
    /// Readers of the written files.
    pub readers: Readers,
    /// File names of the map's segments, oldest first.
    pub segments: Vec<String>,
    /// Number of segments at the beginning that belong to the base. They are read, but not merged.
    pub base: usize,
    /// Metadata that the dialect keeps beside its commits; `None` if no metadata is kept.
    pub metadata: Option<MetadataFiles>,
    /// File names of segments of either map that must not be mapped.
    pub unmapped: Vec<String>,
    /// The changesets to convert.
    pub selection: Selection,
    /// Whether texts are verified by their nodes. Large flat manifests are sampled: each is covered
    /// by its own hash, or by the hash of a manifest rebuilt from it.
    pub check_texts: bool,
    /// Whether every manifest is verified, if texts are verified.
    pub check_each_manifest: bool,
    /// Number of threads. 0 is one for each core, or fewer if memory is small.
    pub threads: usize,
    /// Limit for the anonymous memory of a run, in bytes. Tables that grow with the history are not
    /// counted.
    pub memory_bytes: u64,
    /// Compression level of objects, 1 to 12.
    pub level: u8,
    /// Users that have other names in commits, see [`dialect::Dialect::set_authors`].
    pub authors: Authors,
    /// Adopted commits, or `None`.
    pub adopted: Option<AdoptedFile<'a>>,
    /// Trees that earlier runs wrote.
    pub earlier: EarlierTrees,
    /// Commits of other repositories, which changesets stand for. Not for a dialect with
    /// [`dialect::Dialect::HAS_UNIQUE_COMMITS`].
    pub imported: Option<ImportedStore<'a>>,
    /// The store of another dialect, whose blobs are copied if they are wanted. A dialect with
    /// [`dialect::Dialect::METADATA`] copies none.
    pub other: Option<OtherStore<'a>>,
}

/// Imported commits.
#[derive(Clone, Debug)]
pub struct ImportedStore<'a> {
    /// The directory of the map from commits to changesets.
    pub map: &'a Directory,
    /// File names of its segments, oldest first.
    pub segments: Vec<String>,
    /// Those of them that must not be mapped.
    pub unmapped: Vec<String>,
    /// The directory of the packs that have their objects, if it is there.
    pub packs: Option<&'a Directory>,
}

/// The store of another dialect. Nobody changes it during the run.
#[derive(Clone, Debug)]
pub struct OtherStore<'a> {
    /// The directory `objects/pack` of its git repository.
    pub directory: &'a Directory,
    /// Names of its packs, without suffix.
    pub packs: Vec<String>,
    /// File names of the segments of its map, which are in [`Request::map`].
    pub segments: Vec<String>,
}

/// Trees of earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierTrees {
    /// Those of manifests.
    OfManifests,
    /// Some have entries of extras (`dialect::exact`).
    Exact,
}

/// The file of adopted commits.
#[derive(Clone, Debug)]
pub struct AdoptedFile<'a> {
    /// Its directory.
    pub directory: &'a Directory,
    /// Its name.
    pub name: &'a str,
    /// The way to read it.
    pub access: Access,
    /// Whether each of its commits is compared with the dialect's commit.
    pub is_judged: bool,
}

/// The files of a dialect's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataFiles {
    /// File names of its map's segments, oldest first. The map leads from commits to notes, from
    /// manifests to their commits, and from file revisions to their metadata.
    pub segments: Vec<String>,
    /// Number of segments at the beginning that belong to the base.
    pub base: usize,
    /// Whether to make the metadata commit at once, if nothing was converted before.
    pub commit_of_first: bool,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Changesets converted.
    pub changesets: u64,
    /// Objects written.
    pub objects: u64,
    /// Bytes of the packs.
    pub pack_bytes: u64,
    /// Published files; `None` if nothing was published.
    pub published: Option<PublishedFiles>,
    /// Changesets of the map whose commits belong to earlier changesets, which this run found. Then
    /// nothing was written.
    pub displaced: Vec<Displaced>,
    /// Number of changesets with adopted commits.
    pub adopted: u64,
    /// Number of commits that extras of changesets name (`dialect::exact`).
    pub exact: u64,
    /// The first changeset whose commit differs from the dialect's, if commits are judged.
    pub foreign: Option<Node>,
    /// The first adopted commit that does not fit its changeset, or `None`. If it is set, nothing
    /// was written.
    pub unfit: Option<Unfit>,
}

/// Published files, and the earlier files that they extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFiles {
    /// Name of the pack, without a suffix; `None` if there was nothing to convert.
    pub pack: Option<String>,
    /// Name of the pack of metadata, such as notes and manifests; `None` if these are in `pack`.
    pub aside_pack: Option<String>,
    /// File names of all segments of the map, oldest first.
    pub segments: Vec<String>,
    /// Published metadata, if metadata is kept.
    pub metadata: Option<PublishedMetadata>,
}

/// Published metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedMetadata {
    /// File names of all segments of its map, oldest first.
    pub segments: Vec<String>,
    /// The metadata commit, if it was made.
    pub commit: Option<PublishedCommit>,
}

/// A published metadata commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCommit {
    /// Its id.
    pub oid: Oid,
    /// Name of the pack with the objects that only it needs, without a suffix.
    pub pack: String,
}
