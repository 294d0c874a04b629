//! How what a run made becomes visible.
//!
//! All files are written, and on disk, before the first gets its name; that is done by many threads.
//! The order of names is the crash safety: the packs first, then the maps. A run that dies between leaves packs that are named in the journal (`PREFIX.pending`),
//! which the owner of the docket removes. Before a pack can be seen, it has a file `.keep`: no ref
//! leads to notes and manifests' commits, which git would leave out of a repack. Nothing here knows
//! how objects or pairs came about, nor writes refs.

use std::io::Write;

use gitpack::staged::{sync_dir, write_whole};
use gitpack::{Oid, SealedPack};

use crate::error::Result;
use crate::map::oidmap::Extended;
use crate::map::segment::UNFINISHED;
use crate::out::packs::Sealed;
use crate::request::{PublishedCommit, PublishedFiles, PublishedMetadata, Request};

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
    pub map: Extended,
    /// The commit that names all heads, if it was asked for.
    pub commit: Option<MetadataCommit>,
}

/// A metadata commit, and the pack of what only it needs.
pub(crate) struct MetadataCommit {
    pub oid: Oid,
    pub pack: SealedPack,
}

impl MetadataCommit {
    /// Makes it visible: nothing needs it yet.
    ///
    /// # Errors
    ///
    /// As [`Publication::publish`].
    pub fn publish(self, request: &Request<'_>) -> Result<PublishedCommit> {
        note_pending(request, &[self.pack.name()])?;
        let published = self.place()?;
        sync_dir(request.packs)?;
        Ok(published)
    }

    fn place(self) -> Result<PublishedCommit> {
        let Self { oid, pack } = self;
        Ok(PublishedCommit { oid, pack: place(pack)? })
    }
}

impl Publication {
    /// All packs.
    pub fn packs(&self) -> impl Iterator<Item = &SealedPack> {
        let commit = self.metadata.as_ref().and_then(|metadata| metadata.commit.as_ref());
        self.packs.iter().flatten().chain(commit.map(|commit| &commit.pack))
    }

    /// Makes it all visible, in the order that is safe.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be renamed, or the note not be written.
    pub fn publish(self, request: &Request<'_>) -> Result<PublishedFiles> {
        let names: Vec<String> = self.packs().map(SealedPack::name).collect();
        note_pending(request, &names)?;
        let Self { packs: [pack, aside_pack], map, metadata } = self;
        let place = |pack: Option<SealedPack>| pack.map(place).transpose();
        let (pack, aside_pack) = (place(pack)?, place(aside_pack)?);
        let (metadata, commit) = metadata.map_or((None, None), |of| (Some(of.map), of.commit));
        let commit = commit.map(MetadataCommit::place).transpose()?;
        sync_dir(request.packs)?;
        let metadata = metadata.map(Extended::place).transpose()?;
        let metadata = metadata.map(|segments| PublishedMetadata { segments, commit });
        let segments = map.place()?;
        sync_dir(request.map)?;
        Ok(PublishedFiles { pack, aside_pack, segments, metadata })
    }
}

/// Gives a pack its name, which it answers.
fn place(pack: SealedPack) -> Result<String> {
    pack.keep()?;
    Ok(pack.place()?.name)
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
