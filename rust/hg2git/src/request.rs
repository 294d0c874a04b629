//! The request and the report of a run.
//!
//! Owns these types alone, as callers of [`crate::export()`] see them. Reads and writes no file.

use std::path::Path;

use gitpack::{Oid, Readers};
use parallel::Directory;
use revlog::{Encoding, MappedIndexes, Node};

use crate::error::Unfit;
use crate::map::content::Access;
use crate::objects::commits::Displaced;
use crate::read::changelog::Selection;

/// What to convert, from where, to where.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The directory `.hg/store`.
    pub store: &'a Path,
    /// Indexes of it that are in memory already.
    pub indexes: MappedIndexes,
    /// How names are encoded in it.
    pub encoding: Encoding,
    /// Whether each directory has a manifest of its own.
    pub tree_manifests: bool,
    /// The directory `objects/pack` of the git repository.
    pub packs: &'a Directory,
    /// Names of packs in it, without suffix, that are removed after the run: it writes their objects again.
    pub replaced_packs: Vec<String>,
    /// The directory of the oid map.
    pub map: &'a Directory,
    /// First part of the names of the map's files.
    pub prefix: &'a str,
    /// Who may read what is written.
    pub readers: Readers,
    /// File names of the map's segments, oldest first.
    pub segments: Vec<String>,
    /// How many of them, the first, belong to a base: built on, and left as they are.
    pub base: usize,
    /// The same of the metadata that the dialect keeps beside its commits; without it, none is kept.
    pub metadata: Option<MetadataFiles>,
    /// File names of segments that must not be mapped, of either map.
    pub unmapped: Vec<String>,
    /// Which changesets.
    pub selection: Selection,
    /// Whether texts are compared with their nodes: each, but of large flat manifests so many that
    /// each is, or one that was made from it.
    pub check_texts: bool,
    /// Whether, if texts are compared, each manifest is, however large.
    pub check_each_manifest: bool,
    /// Threads that work; 0 is one for each core, or fewer where there is little memory.
    pub threads: usize,
    /// Bounds the anonymous memory of a run, in bytes, but for what grows with the history alone.
    pub memory_bytes: u64,
    /// Compression level of objects, 1 to 12.
    pub level: u8,
    /// Commits that were adopted, if there are any.
    pub adopted: Option<AdoptedFile<'a>>,
}

/// The file of commits that other programs have made, and that stay.
#[derive(Clone, Debug)]
pub struct AdoptedFile<'a> {
    /// Where it is.
    pub directory: &'a Directory,
    /// Its name.
    pub name: &'a str,
    /// Whether it is mapped.
    pub access: Access,
    /// Whether each of its commits is compared with what the dialect would have made.
    pub is_judged: bool,
}

/// The files that hold what is known of a dialect's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataFiles {
    /// File names of the segments of its map, oldest first. It leads from a commit to the note of
    /// its changeset, from a manifest to its commit, from a file revision to its metadata.
    pub segments: Vec<String>,
    /// How many of them, the first, belong to a base.
    pub base: usize,
    /// Whether to make the metadata commit at once, if nothing was converted before.
    pub commit_of_first: bool,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Changesets converted.
    pub changesets: u64,
    /// Objects written.
    pub objects: u64,
    /// Bytes of the packs.
    pub pack_bytes: u64,
    /// What was published; `None` if there was nothing to do.
    pub published: Option<PublishedFiles>,
    /// Changesets of the map whose commits earlier changesets should have got, found by this run.
    /// Then nothing was written.
    pub displaced: Vec<Displaced>,
    /// How many of the changesets have adopted commits.
    pub adopted: u64,
    /// The first changeset whose commit is not what the dialect would have made, if that is judged.
    pub foreign: Option<Node>,
    /// The adopted commit that is not one of its changeset, if there is one. Then nothing was written.
    pub unfit: Option<Unfit>,
}

/// Files that a run published, and those that they are added to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFiles {
    /// Name of the pack, without a suffix; `None` if there was nothing to convert.
    pub pack: Option<String>,
    /// Name of the pack of metadata, as notes and manifests; `None` if that is in `pack`.
    pub aside_pack: Option<String>,
    /// File names of all segments that now make the map, oldest first.
    pub segments: Vec<String>,
    /// The same of the metadata, if it is kept.
    pub metadata: Option<PublishedMetadata>,
}

/// Metadata that a run published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedMetadata {
    /// File names of all segments that now make its map, oldest first.
    pub segments: Vec<String>,
    /// The metadata commit, if it was made.
    pub commit: Option<PublishedCommit>,
}

/// A metadata commit that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedCommit {
    /// Its id.
    pub oid: Oid,
    /// Name of the pack of what only it needs, without a suffix.
    pub pack: String,
}
