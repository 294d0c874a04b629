//! The conversion of Mercurial history to git objects.
//!
//! Owns the rules of the dialects (which commit stands for which changeset), the order of work and
//! the oid map. Reads stores through `revlog`, writes packs through `gitpack`, and is the only crate
//! that knows both. Decides nothing about who may see what: the caller selects.
//!
//! A run, [`export`], has four phases: changesets are read for their manifests (`changelog`),
//! manifests for what they change (`manifests`, kept in `changes`), file revisions become blobs
//! (`filelogs`, `blobs`), then trees and commits follow in order (`history`, `directory`, `trees`,
//! `commit`). Every phase runs on `ordered`: parallel work, results in order, so that the same
//! history gives the same bytes on any number of threads.

mod blobs;
mod changelog;
mod changes;
mod commit;
mod compare;
mod compress;
mod directory;
mod duplicates;
mod error;
mod export;
mod filelogs;
mod files;
mod history;
mod identity;
#[allow(dead_code)] // until the metadata is written
mod linediff;
mod manifests;
mod names;
#[allow(dead_code)] // until the metadata is written
mod notes;
mod object;
mod oidmap;
mod ordered;
mod prefix;
mod segment;
mod trees;
mod verify;

pub use changelog::Selection;
pub use compare::{Comparison, Difference};
pub use error::{Error, Result};
pub use export::{Phase, Progress, Report, Request, export};
pub use oidmap::{Extended, Matches, OidMap, Side};
pub use prefix::Prefix;
pub use segment::{Pair, Segment, TABLES, Table};
