//! The conversion of Mercurial history to git objects.
//!
//! Owns the order of work and the oid map. A [`dialect::Dialect`] has the rules, and [`export()`]
//! is generic over it. Reads stores through `revlog`, and writes packs through `gitpack`. The
//! caller selects the changesets.
//!
//! By stage, each module built on those before it:
//!
//! - `map`: the oid map on disk;
//! - `read`: history as changes, from changesets (`changelog`) and manifests (`manifests` or
//!   `treemanifests`, kept in `changes`);
//! - `objects`: git's objects, from file revisions (`filelogs`, `blobs`) and changes (`history`,
//!   `directory`, `trees`, `commits`);
//! - `out`: packs, and the order in which files become visible;
//! - `metadata`: git-cinnabar's metadata.
//!
//! [`export()`] does one run, in four phases. [`metadata_commit()`] makes the metadata commit of
//! earlier runs. Each phase uses [`parallel::ordered`]: work is parallel, results are in order. So
//! the same history gives the same bytes on any number of threads. Steps that build on earlier
//! results have a [`parallel::Sequencer`].

mod context;
mod error;
mod export;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod map;
mod metadata;
mod objects;
mod out;
mod progress;
mod read;
mod request;

pub use error::{Error, Misfit, Result, Unfit};
pub use export::{export, metadata_commit};
pub use map::compare::{Comparison, Difference};
pub use map::content::Access;
pub use map::oidmap::{Matches, OidMap, Side};
pub use map::segment::{NO_COMMIT, Pair, Segment, TABLES, Table};
pub use objects::commits::Displaced;
pub use progress::{Phase, ProgressFn};
pub use read::changelog::Selection;
pub use request::{
    AdoptedFile, EarlierTrees, ImportedStore, MetadataFiles, OtherStore, PublishedCommit,
    PublishedFiles, PublishedMetadata, Report, Request,
};
pub use revlog::Prefix;
