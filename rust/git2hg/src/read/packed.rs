//! Objects of packs, with a record of those that are proved.
//!
//! Packs that git has received are verified. Those that were copied from a repository of this
//! machine are not: somebody else may have written other contents under known ids. Each of their
//! objects is proved once, before anything of the conversion counts. With a round trip, it proves
//! the objects that a conversion reads; else readers compare contents with ids, and look for
//! collision attacks as git does. At the end, the objects that nobody has read are verified.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gitpack::pack::{ObjectPlace, PackReader, PackTables};
use gitpack::{ObjectKind, Oid, object_header};
use parallel::Buffer;
use sha1lanes::{Message, digest_checked};

use crate::error::{Error, Result};

/// Reader of objects, for one thread.
#[derive(Debug)]
pub(crate) struct PackedObjects {
    reader: PackReader,
    tables: Arc<PackTables>,
    proofs: Option<Arc<Proofs>>,
}

/// Objects that are proved.
#[derive(Debug)]
pub(crate) struct Proofs {
    tables: Arc<PackTables>,
    /// Whether contents are compared with ids when they are read.
    hashes: bool,
    /// By the numbers of places.
    proved: Vec<AtomicBool>,
}

impl PackedObjects {
    /// Reads by `reader`, which has the packs of `tables`.
    pub const fn new(
        reader: PackReader,
        tables: Arc<PackTables>,
        proofs: Option<Arc<Proofs>>,
    ) -> Self {
        Self { reader, tables, proofs }
    }

    /// Place of an object, if a pack has it.
    pub fn find(&self, oid: &Oid) -> Option<ObjectPlace> {
        self.tables.find(oid)
    }

    /// Content of the object at a place; `None` if git has to read it.
    ///
    /// # Errors
    ///
    /// [`Error::Differs`].
    pub fn read(
        &mut self,
        (kind, oid): (ObjectKind, &Oid),
        place: ObjectPlace,
    ) -> Result<Option<Arc<Buffer>>> {
        let content = self.reader.read_at(kind, place);
        if let (Some(proofs), Some(content)) = (&self.proofs, &content) {
            proofs.prove((kind, oid), place, content)?;
        }
        Ok(content)
    }
}

impl Proofs {
    /// No object is proved. With `hashes`, reading proves objects; else a round trip does.
    pub fn new(tables: Arc<PackTables>, hashes: bool) -> Self {
        let proved = (0..tables.len()).map(|_| AtomicBool::new(false)).collect();
        Self { tables, hashes, proved }
    }

    fn prove(
        &self,
        (kind, oid): (ObjectKind, &Oid),
        place: ObjectPlace,
        content: &[u8],
    ) -> Result<()> {
        let Some(proved) = self.proved.get(self.tables.number(place)) else { return Ok(()) };
        if self.hashes && !proved.load(Ordering::Relaxed) {
            let head = object_header(kind, content.len() as u64);
            let digest = digest_checked(Message { head: &head, body: content });
            if digest != Ok(*oid.as_bytes()) {
                return Err(Error::Differs(*oid));
            }
        }
        proved.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Notes that a commit is proved.
    pub fn add(&self, oid: &Oid) {
        let place = self.tables.find(oid).map(|place| self.tables.number(place));
        if let Some(proved) = place.and_then(|number| self.proved.get(number)) {
            proved.store(true, Ordering::Relaxed);
        }
    }

    /// Verifies the objects that are not proved, and returns those that git has to read.
    ///
    /// # Errors
    ///
    /// [`Error::Differs`], and the errors of `tick`.
    pub fn verify_rest(
        &self,
        reader: &mut PackReader,
        mut tick: impl FnMut() -> Result<()>,
    ) -> Result<Vec<Oid>> {
        let mut late = Vec::new();
        for (place, proved) in self.tables.places().zip(&self.proved) {
            if proved.load(Ordering::Relaxed) {
                continue;
            }
            tick()?;
            let kinds = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob];
            let found = reader.read_any(place).and_then(|(number, content)| {
                Some((kinds.into_iter().find(|kind| *kind as u8 == number)?, content))
            });
            let Some((kind, content)) = found else {
                late.push(place);
                continue;
            };
            let head = object_header(kind, content.len() as u64);
            let digest = digest_checked(Message { head: &head, body: &content });
            let id = digest.ok().map(Oid::from_bytes);
            if !id.is_some_and(|id| self.tables.is_at(&id, place)) {
                // an index may have an id twice
                let ids = self.tables.ids(&[place])?;
                let is_there = id.is_some_and(|id| ids.contains(&id));
                if let Some(named) = ids.into_iter().next().filter(|_| !is_there) {
                    return Err(Error::Differs(named));
                }
            }
        }
        if late.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.tables.ids(&late)?)
    }
}
