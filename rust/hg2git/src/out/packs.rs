//! The choice of a pack for each object.
//!
//! If the first run has much to convert, the objects that only git-cinnabar needs have a pack of
//! their own. The other pack is then exactly what a clone by git needs. Does not make packs
//! visible, and does not know what the objects are.

use gitpack::{Entry, ObjectKind, Oid, PackWriter, SealedPack};
use parallel::{Width, join};

use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::objects::trees::Purpose;
use crate::request::Request;

/// Changesets from which on the first run makes a pack for git clients alone: fewer are not worth
/// a file.
const APART_FROM: usize = 1000;
/// Bytes that a pack keeps of each object until it is sealed, and to seal it.
const BYTES_PER_OBJECT: u64 = 15;

/// The packs, as far as they have objects: that for all, and that of what git clients do not need.
pub(crate) type Sealed = [Option<SealedPack>; 2];

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

    /// The pack for objects for this purpose.
    pub fn of(&mut self, purpose: Purpose) -> &mut PackWriter {
        match (purpose, &mut self.aside) {
            (Purpose::Aside, Some(aside)) => aside,
            _ => &mut self.pack,
        }
    }

    /// Ends each that has an object, and does `other`: all at once, or one after the other if there is
    /// one thread, or if what packs keep of their objects takes so much memory that it has to go first.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a pack or its indexes cannot be written, else that of `other`.
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

/// Adds an object unless the pack has it. Its `base` must be in the pack.
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
