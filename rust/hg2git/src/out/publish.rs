//! The publication of a run's files: packs, then maps.
//!
//! All files are written and fsynced under temporary names before the first is renamed. Many
//! threads do that. The order of renames is the crash safety: packs first, then maps. A run that
//! dies in between leaves packs whose names are in the journal (`PREFIX.pending`), and the owner of
//! the docket removes them. Each pack gets a `.keep` file before it is visible: no ref leads to
//! notes and manifest commits, so git would drop them in a repack. Knows nothing of objects and
//! pairs, and writes no refs.

use std::io::Write;

use gitpack::staged::{sync_dir, write_whole};
use gitpack::{Oid, SealedPack};

use crate::error::Result;
use crate::map::oidmap::Extended;
use crate::map::segment::UNFINISHED;
use crate::out::packs::Sealed;
use crate::request::{PublishedCommit, PublishedFiles, PublishedMetadata, Request};

/// Prefix of the names of the metadata's files.
pub(crate) fn metadata_prefix(request: &Request<'_>) -> String {
    format!("{}-metadata", request.prefix)
}

/// The fsynced files of a run, before they get their final names.
pub(crate) struct Publication {
    /// The pack for all readers, and the pack that git clients do not need.
    pub packs: Sealed,
    pub map: Extended,
    pub metadata: Option<MetadataPublication>,
}

/// The files of a dialect's metadata, before they get their final names.
pub(crate) struct MetadataPublication {
    pub map: Extended,
    /// The commit that names all heads, if it was requested.
    pub commit: Option<MetadataCommit>,
}

/// A metadata commit, and the pack with the objects that only it needs.
pub(crate) struct MetadataCommit {
    pub oid: Oid,
    pub pack: SealedPack,
}

impl MetadataCommit {
    /// Publishes the commit alone. No file depends on it yet.
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

    /// Publishes all files, in the safe order.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be renamed, or the journal cannot be written.
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

/// Renames a pack to its final name, and returns the name.
fn place(pack: SealedPack) -> Result<String> {
    pack.keep()?;
    Ok(pack.place()?.name)
}

/// Writes the names of packs to the journal, before they appear.
fn note_pending(request: &Request<'_>, packs: &[String]) -> Result<()> {
    let Request { map, readers, prefix, .. } = *request;
    write_whole(map, UNFINISHED, readers, |out| {
        out.write_all(packs.join("\n").as_bytes())?;
        Ok(format!("{prefix}.pending"))
    })?;
    Ok(())
}
