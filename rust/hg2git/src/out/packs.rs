//! The choice of a pack for each object.
//!
//! If the first run is large, the objects that only git-cinnabar needs have a pack of their own.
//! The other pack is then exactly the content of a clone by git. Does not publish packs, and does
//! not know the content of objects.

use gitpack::{Entry, ObjectKind, Oid, PackWriter, SealedPack};
use parallel::{Width, join};

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::objects::trees::Purpose;
use crate::request::Request;

/// Fewest changesets of a first run that has a pack for git clients alone.
const APART_FROM: usize = 1000;
/// Memory that a pack needs for each object, until and during sealing, in bytes.
const BYTES_PER_OBJECT: u64 = 15;

/// The pack for all readers, and the pack that git clients do not need. Empty packs are `None`.
pub(crate) type Sealed = [Option<SealedPack>; 2];

/// The packs of a run, while they are written.
pub(crate) struct Packs {
    pack: PackWriter,
    /// The pack that git clients do not need, or `None`.
    aside: Option<PackWriter>,
}

impl Packs {
    /// Creates packs for a run that adds this number of changesets to `map`.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be created.
    pub fn create(request: &Request<'_>, map: &OidMap, changesets: usize) -> Result<Self> {
        let apart = map.is_empty() && changesets >= APART_FROM;
        let create = || PackWriter::create(request.packs, request.readers);
        let pack = create()?;
        let aside = apart.then(create).transpose()?;
        Ok(Self { pack, aside })
    }

    /// The pack for objects with this purpose.
    pub fn of(&mut self, purpose: Purpose) -> &mut PackWriter {
        match (purpose, &mut self.aside) {
            (Purpose::Aside, Some(aside)) => aside,
            _ => &mut self.pack,
        }
    }

    /// Seals each pack that has an object, and does `other` at the same time. With one thread, or
    /// if sealing takes much memory, `other` comes after it.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a pack or its indexes cannot be written, or else the error of `other`.
    pub fn seal_and<R: Send>(
        self,
        width: Width,
        other: impl FnOnce() -> Result<R> + Send,
    ) -> Result<(Sealed, R)> {
        let Self { pack, aside } = self;
        let objects = pack.len() + aside.as_ref().map_or(0, PackWriter::len);
        let is_little = objects as u64 * BYTES_PER_OBJECT <= width.window_bytes;
        let width = Width { threads: if is_little { width.threads } else { 1 }, ..width };
        let seal = |pack: PackWriter| (!pack.is_empty()).then(|| pack.seal()).transpose();
        let seal_all = || match aside {
            None => (seal(pack), Ok(None)),
            Some(aside) => join(width, || seal(pack), || seal(aside)),
        };
        let ((pack, aside), other) = join(width, seal_all, other);
        Ok(([pack?, aside?], other?))
    }
}

/// Adds an object, unless the pack has it. Its `base` must be in the pack.
///
/// # Errors
///
/// [`crate::Error`] if the pack cannot be written.
pub(crate) fn add(
    pack: &mut PackWriter,
    kind: ObjectKind,
    oid: Oid,
    base: Option<Oid>,
    inflated_len: usize,
    deflated: &[u8],
) -> Result<()> {
    let entry = match base {
        None => Entry::Full(kind),
        Some(base) => {
            Entry::Delta { base: pack.position(&base)?.expect("bases are handed over first") }
        }
    };
    pack.add_new(oid, entry, inflated_len as u64, deflated)?;
    Ok(())
}
