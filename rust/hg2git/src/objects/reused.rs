//! Blobs that the store of another dialect has: copied as they are stored there.
//!
//! Dialects have the same blobs, so a second store needs no hashing and no compression for them. A
//! blob that cannot be copied is made of its file revision.

use gitpack::Oid;
use gitpack::pack::{BlobEntry, StoredBlobs};
use hashbrown::HashMap;

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;
use crate::read::files::{FileId, FileTable};
use crate::request::{OtherStore, Request};

/// The file revisions of a run whose blobs were copied.
#[derive(Debug, Default)]
pub(crate) struct Reused {
    /// By number.
    are: Vec<bool>,
}

impl Reused {
    /// Hands blobs of `new_files` to `add`, bases before their deltas, and notes their ids. `add`
    /// gets the id, the base, the inflated length and the stream, and `report` the number of
    /// revisions that have a blob.
    ///
    /// # Errors
    ///
    /// The errors of `add` and `report`. An unreadable store is none.
    pub fn copy(
        (request, other): (&Request<'_>, &OtherStore<'_>),
        new_files: &[FileId],
        files: &mut FileTable,
        mut add: impl FnMut(Oid, Option<Oid>, usize, &[u8]) -> Result<()>,
        mut report: impl FnMut(u64) -> Result<()>,
    ) -> Result<Self> {
        let mut reused = Self::default();
        let Ok(map) = OidMap::open(request.map, &other.segments, &request.unmapped) else {
            return Ok(reused);
        };
        let mut wanted: HashMap<Oid, Vec<FileId>> = HashMap::new();
        for &file in new_files {
            if let Some(oid) = map.oid(Table::Files, &files.node(file)) {
                wanted.entry(oid).or_default().push(file);
            }
        }
        let mut done = 0;
        for name in &other.packs {
            let opened = StoredBlobs::open(other.directory, name, |oid| wanted.contains_key(oid));
            let Ok(mut blobs) = opened else { continue };
            // the rest of a damaged pack is left out
            while let Ok(Some(BlobEntry { oid, base, inflated_len, stream })) = blobs.next_blob() {
                let Some(of_oid) = wanted.get(&oid) else { continue };
                let has_base = base.is_none_or(|base| reused.has_any(wanted.get(&base)));
                let Some(len) = usize::try_from(inflated_len).ok().filter(|_| has_base) else {
                    continue;
                };
                if !reused.has_any(Some(of_oid)) {
                    add(oid, base, len, stream)?;
                    for &file in of_oid {
                        files.set_oid(file, oid);
                        reused.add(file);
                    }
                    done += of_oid.len() as u64;
                    report(done)?;
                }
            }
        }
        Ok(reused)
    }

    /// Whether the blob of a revision was copied.
    pub fn has(&self, file: FileId) -> bool {
        self.are.get(file.0 as usize).is_some_and(|is_reused| *is_reused)
    }

    fn has_any(&self, files: Option<&Vec<FileId>>) -> bool {
        files.is_some_and(|files| files.iter().any(|file| self.has(*file)))
    }

    fn add(&mut self, file: FileId) {
        let at = file.0 as usize;
        self.are.resize(self.are.len().max(at + 1), false);
        self.are[at] = true;
    }
}
