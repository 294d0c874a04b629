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

use crate::error::Result;
use crate::map::oidmap::Extended;
use crate::map::segment::UNFINISHED;
use crate::out::packs::Sealed;
use crate::request::{MetadataFiles, PublishedFiles, PublishedMetadata, Request};

/// How the names of the metadata's files begin.
pub(crate) fn metadata_prefix(request: &Request<'_>) -> String {
    format!("{}-metadata", request.prefix)
}

/// What a run made and nobody sees yet. All of it is on disk, and has to get its names.
pub(crate) struct Publication {
    /// The pack, and that of what git clients do not need.
    pub packs: Sealed,
    pub map: Extended,
    pub metadata: Option<MetadataPublication>,
}

/// The same of a dialect's metadata.
pub(crate) struct MetadataPublication {
    pub pack: SealedPack,
    pub map: Extended,
    pub state: Whole,
    pub commit: Oid,
}

impl Publication {
    /// All packs.
    pub fn packs(&self) -> impl Iterator<Item = &SealedPack> {
        let metadata = self.metadata.as_ref().map(|metadata| &metadata.pack);
        self.packs.iter().flatten().chain(metadata)
    }

    /// Makes it all visible, in the order that is safe.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be renamed, or the note not be written.
    pub fn publish(self, request: &Request<'_>) -> Result<PublishedFiles> {
        let names: Vec<String> = self.packs().map(SealedPack::name).collect();
        note_pending(request, &names)?;
        let Self { packs, map, metadata } = self;
        let [pack, aside_pack] = packs.each_ref().map(|pack| pack.as_ref().map(SealedPack::name));
        for pack in packs.into_iter().flatten() {
            pack.place()?;
        }
        let mut placed = None;
        if let Some(MetadataPublication { pack, map, state, commit }) = metadata {
            placed = Some((pack.name(), map, state, commit));
            pack.place()?;
        }
        sync_dir(request.packs)?;
        let mut metadata = None;
        if let Some((pack, map, state, commit)) = placed {
            let base = request.metadata.as_ref().map_or(0, |metadata| metadata.base);
            let (segments, name) = (map.place()?, state.name().to_owned());
            state.place()?;
            let files = MetadataFiles { segments, base, state: Some(name), anew: false };
            metadata = Some(PublishedMetadata { pack, commit, files });
        }
        let segments = map.place()?;
        sync_dir(request.map)?;
        Ok(PublishedFiles { pack, aside_pack, segments, metadata })
    }
}

/// Notes the names of packs that are about to appear.
fn note_pending(request: &Request<'_>, packs: &[String]) -> Result<()> {
    let Request { map, readers, prefix, .. } = *request;
    write_whole(map, UNFINISHED, readers, |out| {
        out.write_all(packs.join("\n").as_bytes())?;
        Ok(format!("{prefix}.pending"))
    })?;
    Ok(())
}
