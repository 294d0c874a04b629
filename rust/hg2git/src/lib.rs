//! The conversion of Mercurial history to git objects.
//!
//! Owns the rules of the dialects (which commit stands for which changeset), the order of work and
//! the oid map. Reads stores through `revlog`, writes packs through `gitpack`, and is the only crate
//! that knows both. Decides nothing about who may see what: the caller selects.
//!
//! A run, [`export()`], has four phases: changesets are read for their manifests (`changelog`),
//! manifests for what they change (`manifests` or `treemanifests`, kept in `changes`), file
//! revisions become blobs (`filelogs`, `blobs`), then trees and commits follow in order (`history`,
//! `directory`, `trees`, `commits`). What git-cinnabar needs besides is made with them
//! (`manifestcommits`, `note`), and at the end what names all of it (`tip`, `metadata`, `notes`).
//! Objects go into `packs`, and `publish` makes visible what a run made. Every phase runs on
//! `ordered`: parallel work, results in order, so that the same history gives the same bytes on any
//! number of threads; what builds on results before it has its `turns`.

mod blobs;
mod changelog;
mod changes;
mod collisions;
mod commit;
mod commits;
mod compare;
mod compress;
mod directory;
mod error;
mod export;
mod filelogs;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod heads;
mod history;
mod identity;
mod leaves;
mod limits;
mod linediff;
mod lookups;
mod manifestcommits;
mod manifests;
mod metadata;
mod names;
mod note;
mod notes;
mod object;
mod oidmap;
mod packs;
mod progress;
mod publish;
mod recovery;
mod request;
mod segment;
mod sides;
mod state;
mod storeids;
mod tip;
mod translate;
mod treemanifests;
mod trees;
mod twins;
mod verify;

pub use changelog::Selection;
pub use commits::Displaced;
pub use compare::{Comparison, Difference};
pub use error::{Error, Result};
pub use export::export;
pub use oidmap::{Matches, OidMap, Side};
pub use progress::{Phase, Progress};
pub use request::{Made, Metadata, Report, Request};
pub use revlog::Prefix;
pub use segment::{Access, Pair, Segment, TABLES, Table};
