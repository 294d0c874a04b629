//! Which pack an object goes into.
//!
//! If the first run has much to convert, what only git-cinnabar needs has a pack of its own: then
//! the other is all that a clone by git needs, as it is. Nothing here makes a pack visible, nor
//! knows what the objects are.

use gitpack::{Entry, Kind, Oid, PackWriter, SealedPack};

use crate::error::Result;
use crate::oidmap::OidMap;
use crate::request::Request;
use crate::trees::View;

/// Changesets from which on the first run makes a pack for git clients alone: fewer are not worth
/// a file.
const APART_FROM: usize = 1000;

/// Where objects go.
pub(crate) struct Packs {
    pack: PackWriter,
    /// The pack of what git clients do not need, if there is one.
    aside: Option<PackWriter>,
}

impl Packs {
    /// Makes packs for so many `changesets`, which are added to those of `map`.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be made.
    pub fn create(request: &Request<'_>, map: &OidMap, changesets: usize) -> Result<Self> {
        let apart = map.is_empty() && changesets >= APART_FROM;
        let create = || PackWriter::create(request.packs, request.readers);
        let pack = create()?;
        let aside = apart.then(create).transpose()?;
        Ok(Self { pack, aside })
    }

    /// The pack for objects of this view.
    pub fn of(&mut self, view: View) -> &mut PackWriter {
        match (view, &mut self.aside) {
            (View::Manifest, Some(aside)) => aside,
            _ => &mut self.pack,
        }
    }

    /// Ends each that has an object.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a pack or its indexes cannot be written.
    pub fn seal(self) -> Result<[Option<SealedPack>; 2]> {
        let seal = |pack: Option<PackWriter>| {
            pack.filter(|pack| !pack.is_empty()).map(PackWriter::seal).transpose()
        };
        Ok([seal(Some(self.pack))?, seal(self.aside)?])
    }
}

/// Adds an object unless the pack has it. Its `base` must be in the pack.
///
/// # Errors
///
/// [`crate::Error`] if the pack cannot be written.
pub(crate) fn add(
    pack: &mut PackWriter,
    kind: Kind,
    oid: Oid,
    base: Option<Oid>,
    inflated_len: usize,
    deflated: &[u8],
) -> Result<()> {
    let entry = match base {
        None => Entry::Full(kind),
        Some(base) => {
            Entry::Delta { base: pack.position(&base).expect("bases are handed over first") }
        }
    };
    pack.add_new(oid, entry, inflated_len as u64, deflated)?;
    Ok(())
}
