//! How what a run made becomes visible.
//!
//! The order is the crash safety: the packs first, then the maps and the state of the metadata. A
//! run that dies between leaves packs that are named in the journal (`PREFIX.pending`), which the
//! owner of the docket removes. Nothing here knows how objects or pairs came about, nor writes
//! refs.

use std::io::Write;

use gitpack::SealedPack;
use gitpack::staged::write_whole;

use crate::error::Result;
use crate::oidmap::OidMap;
use crate::request::{Made, Metadata, Request};
use crate::segment::{Pair, UNFINISHED};
use crate::state::State;

/// What a run adds to the maps, sorted.
pub(crate) struct New {
    pub map: [Vec<Pair>; 3],
    pub metadata: [Vec<Pair>; 3],
}

/// What a run made and nobody sees yet.
pub(crate) struct Unpublished {
    /// The pack, the one of what is only for git-cinnabar, and that of the metadata commit.
    pub packs: [Option<SealedPack>; 3],
    pub new: New,
    pub state: State,
}

impl Unpublished {
    /// Makes it all visible, in the order that is safe.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be written or renamed.
    pub fn publish(
        self,
        request: &Request<'_>,
        map: &OidMap,
        metadata_map: &OidMap,
    ) -> Result<Made> {
        let Self { packs, new, state } = self;
        let Request { map: directory, readers, prefix, base, ref metadata, .. } = *request;
        let names = packs.each_ref().map(|pack| pack.as_ref().map(SealedPack::name));
        note_pending(request, &names.iter().flatten().map(String::as_str).collect::<Vec<_>>())?;
        for pack in packs.into_iter().flatten() {
            pack.publish()?;
        }
        let segments = map.extended(readers, prefix, base, new.map)?.segments;
        let prefix = format!("{prefix}-metadata");
        let metadata = Metadata {
            segments: metadata_map
                .extended(readers, &prefix, metadata.base, new.metadata)?
                .segments,
            base: metadata.base,
            state: Some(state.create(directory, readers, &prefix)?),
            anew: false,
        };
        let [pack, aside_pack, metadata_pack] = names;
        Ok(Made {
            pack,
            aside_pack,
            metadata_pack: metadata_pack.expect("the metadata commit is in it"),
            segments,
            metadata,
            metadata_commit: state.commit,
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
