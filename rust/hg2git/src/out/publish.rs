//! How what a run made becomes visible.
//!
//! All files are written, and on disk, before the first gets its name; that is done by many threads.
//! The order of names is the crash safety: the packs first, then the maps and the state of the
//! metadata. A run that dies between leaves packs that are named in the journal (`PREFIX.pending`),
//! which the owner of the docket removes. Nothing here knows how objects or pairs came about, nor
//! writes refs.

use std::io::Write;

use gitpack::staged::{Whole, sync_dir, write_whole};
use gitpack::{Oid, SealedPack};

use crate::dialect::cinnabar::state::State;
use crate::error::Result;
use crate::map::oidmap::{Extended, OidMap};
use crate::map::segment::{Pair, UNFINISHED};
use crate::request::{Made, Metadata, Request};

/// What a run adds to the maps, sorted.
pub(crate) struct New {
    pub map: [Vec<Pair>; 3],
    pub metadata: [Vec<Pair>; 3],
}

impl New {
    /// Writes both maps, each with its new segment.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be written.
    pub fn extend(
        &self,
        request: &Request<'_>,
        map: &OidMap,
        metadata_map: &OidMap,
    ) -> Result<[Extended; 2]> {
        let Request { prefix, base, ref metadata, .. } = *request;
        let place = (request.map, request.readers);
        let map = map.extended(place, prefix, base, &self.map)?;
        let prefix = metadata_prefix(request);
        Ok([map, metadata_map.extended(place, &prefix, metadata.base, &self.metadata)?])
    }
}

/// The state of the metadata, on disk without a name, and its commit.
pub(crate) struct Kept {
    state: Whole,
    commit: Oid,
}

impl Kept {
    /// Writes `state`.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if the file cannot be written.
    pub fn create(request: &Request<'_>, state: &State) -> Result<Self> {
        let file = state.create(request.map, request.readers, &metadata_prefix(request))?;
        Ok(Self { state: file, commit: state.commit })
    }
}

/// How the names of the metadata's files begin.
fn metadata_prefix(request: &Request<'_>) -> String {
    format!("{}-metadata", request.prefix)
}

/// What a run made and nobody sees yet. All of it is on disk, and has to get its names.
pub(crate) struct Unpublished {
    /// The pack, the one of what is only for git-cinnabar, and that of the metadata commit.
    pub packs: [Option<SealedPack>; 3],
    /// The map, and that of the metadata.
    pub maps: [Extended; 2],
    pub kept: Kept,
}

impl Unpublished {
    /// Makes it all visible, in the order that is safe.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be renamed, or the note not be written.
    pub fn publish(self, request: &Request<'_>) -> Result<Made> {
        let Self { packs, maps: [map, metadata_map], kept: Kept { state, commit } } = self;
        let names = packs.each_ref().map(|pack| pack.as_ref().map(SealedPack::name));
        note_pending(request, &names.iter().flatten().map(String::as_str).collect::<Vec<_>>())?;
        for pack in packs.into_iter().flatten() {
            pack.place()?;
        }
        sync_dir(request.packs)?;
        let metadata = Metadata {
            segments: metadata_map.place()?,
            base: request.metadata.base,
            state: Some(state.name().to_owned()),
            anew: false,
        };
        state.place()?;
        let segments = map.place()?;
        sync_dir(request.map)?;
        let [pack, aside_pack, metadata_pack] = names;
        Ok(Made {
            pack,
            aside_pack,
            metadata_pack: metadata_pack.expect("the metadata commit is in it"),
            segments,
            metadata,
            metadata_commit: commit,
        })
    }
}

/// Notes the names of packs that are about to appear.
fn note_pending(request: &Request<'_>, packs: &[&str]) -> Result<()> {
    let Request { map, readers, prefix, .. } = *request;
    write_whole(map, UNFINISHED, readers, |out| {
        out.write_all(packs.join("\n").as_bytes())?;
        Ok(format!("{prefix}.pending"))
    })?;
    Ok(())
}
