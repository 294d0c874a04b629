//! Manifests read once, as changes from one to the next.
//!
//! A manifest's text names every file, but a tree needs only the differences from a converted
//! manifest. Mostly the stored delta has exactly these. Otherwise (a full text, a delta against an
//! old or hidden manifest, or one not aligned to lines) two texts are compared line by line. A text
//! shares memory with the text that it was rebuilt from ([`SharedText`]), and only some of the large
//! ones are hashed (`plan`). So the cost of a manifest follows its changes.
//! `docs/decisions/scaling.rst` lists which damage is found and which is missed. Knows no git: file
//! revisions and paths are numbered elsewhere.

mod changes;
mod differences;
mod order;
mod plan;
mod proof;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use revlog::{Delta, Rev, Revlog, Scratch, SharedText, StoredDelta};

pub(crate) use self::changes::{Base, Changes, ManifestChange, Unusable};
pub(crate) use self::plan::{ChangesetTree, ChangesetTrees, ManifestPlan};
use parallel::MemoryPlan;

use self::order::ReadingOrder;
use self::proof::{Proof, blame};
use self::reader::{Reader, Stored};
use crate::error::{Error, Result};

/// Distance, in manifests, up to which the delta base is used as the base of changes. A base that
/// is a parent may be at any distance.
const REACH: usize = 256;

/// The choice of manifests whose texts are compared with their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proving {
    /// None.
    Nothing,
    /// Each manifest, or a manifest that was rebuilt from it.
    Usual,
    /// Each manifest.
    Each,
}

/// The flat manifests of a plan; threads may share them.
pub(crate) struct Manifests<'a> {
    revlog: &'a Revlog,
    plan: &'a ManifestPlan,
    order: ReadingOrder,
    memory_plan: &'a MemoryPlan,
    proving: Proving,
    /// For each position, whether its text is hashed regardless of its changes. Empty without
    /// hashing.
    hashed: Vec<bool>,
}

impl<'a> Manifests<'a> {
    /// The manifests of `plan`, read within `memory_plan`.
    pub fn new(
        revlog: &'a Revlog,
        plan: &'a ManifestPlan,
        proving: Proving,
        memory_plan: &'a MemoryPlan,
    ) -> Self {
        let hashed = match proving {
            Proving::Nothing => Vec::new(),
            Proving::Usual | Proving::Each => plan.hashed(revlog.index(), proving == Proving::Each),
        };
        let order = ReadingOrder::of(plan, revlog.index());
        Self { revlog, plan, order, memory_plan, proving, hashed }
    }

    /// Ranges of the reading order, with the approximate bytes of their changes.
    pub fn jobs(&self) -> Vec<(u64, Range<usize>)> {
        self.order.jobs(self.plan, self.revlog.index(), self.proving == Proving::Each)
    }

    /// Reads the manifests at `range` of the reading order, and verifies their texts if asked.
    /// Returns the position of each manifest in the plan, and its changes.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] with the first revision that cannot be read, does not match its
    /// node, or is no sorted flat manifest. If the text is wrong because of its delta chain, the
    /// error names the first wrong revision of the chain.
    pub fn read(
        &self,
        range: Range<usize>,
        scratch: &mut Scratch,
    ) -> Result<Vec<(usize, Changes)>> {
        let hashed_bytes = self.memory_plan.hashed_bytes + self.memory_plan.pool_bytes;
        let mut walk = Walk {
            manifests: self,
            reader: Reader::new(self.revlog, scratch, self.memory_plan.kept_bytes + hashed_bytes),
            proof: Proof::new(self.revlog, hashed_bytes),
            starts_added: HashSet::new(),
        };
        let last = range.end - 1;
        let changes: Result<Vec<_>> = range.map(|place| walk.step(place, place == last)).collect();
        // manifests read before an error may be wrong, and take precedence
        walk.proof.finish().map_or(changes, |rev| Err(self.mismatch(rev)))
    }

    /// The error of the first wrong revision in the delta chain of `rev`. `None` if the chain is
    /// right, or if no texts are verified.
    pub fn blame(&self, rev: Rev) -> Option<Error> {
        let mut scratch = Scratch::of(self.memory_plan);
        let is_asked = !self.hashed.is_empty();
        is_asked
            .then(|| blame(self.revlog, rev, &mut scratch, self.memory_plan.kept_bytes).err())?
    }

    fn mismatch(&self, rev: Rev) -> Error {
        self.blame(rev)
            .unwrap_or_else(|| crate::read::verify::Check::new(self.revlog).mismatch(rev))
    }
}

/// A walk through some of the manifests.
struct Walk<'a> {
    manifests: &'a Manifests<'a>,
    reader: Reader<'a>,
    proof: Proof<'a>,
    /// The start manifests among the texts to hash.
    starts_added: HashSet<Rev>,
}

impl Walk<'_> {
    fn step(&mut self, place: usize, is_last: bool) -> Result<(usize, Changes)> {
        let Manifests { revlog, plan, order, hashed, .. } = self.manifests;
        let position = order.position(place);
        let rev = plan.revs[position];
        if revlog.index().unusual_flags(rev) != 0 {
            return Err(revlog.unsupported(rev, "it has unknown flags").into());
        }
        let (text, mut changes, is_vetted) = self.read_one(position).map_err(|problem| {
            let is_damage = matches!(problem, Error::Store(revlog::Error::Corrupt { .. }));
            let earlier = is_damage.then(|| self.manifests.blame(rev)).flatten();
            earlier.unwrap_or(problem)
        })?;
        let used = plan.read_with(revlog.index(), position).chain([position]);
        let done = used.filter(|&position| order.is_done(position, place));
        done.for_each(|position| self.reader.forget(plan.revs[position]));
        let Some(&is_hashed) = hashed.get(position) else { return Ok((position, changes)) };
        if let Base::Known(start) = changes.base
            && self.starts_added.insert(start)
        {
            // no changeset of this run has a start manifest, and its line builds on it
            let text = self.reader.get(start)?.text;
            if let Some(wrong) = self.proof.add(start, &text, &self.reader) {
                return Err(self.manifests.mismatch(wrong));
            }
        }
        let is_length_right = text.len() == revlog.index().text_len_hint(rev) as usize;
        if is_hashed || is_last || !is_vetted || !is_length_right || changes.has_new_flags {
            if let Some(wrong) = self.proof.add(rev, &text, &self.reader) {
                return Err(self.manifests.mismatch(wrong));
            }
        } else {
            changes.is_unproven = true;
        }
        Ok((position, changes))
    }

    /// Reads the text and the changes of one manifest. The flag is set if its delta replaces whole
    /// lines, so that the manifest is as trustworthy as its base.
    fn read_one(&mut self, position: usize) -> Result<(Rc<SharedText>, Changes, bool)> {
        let Stored { text, delta } = self.reader.get(self.manifests.plan.revs[position])?;
        let (changes, is_vetted) = self.changes_of(position, &text, delta.as_ref())?;
        self.reader.recycle(delta);
        Ok((text, changes, is_vetted))
    }

    fn changes_of(
        &mut self,
        position: usize,
        text: &SharedText,
        delta: Option<&StoredDelta>,
    ) -> Result<(Changes, bool)> {
        let Manifests { revlog, plan, .. } = *self.manifests;
        let rev = plan.revs[position];
        let blame = |problem: Unusable| revlog.corrupt(rev, problem);
        let change_base = plan.change_base(revlog.index(), position);
        let mut is_vetted = false;
        if let Some(delta) = delta
            && let Some(base) = plan.position(delta.base)
        {
            let base_text = self.reader.get(delta.base)?.text;
            let parsed = Delta::parse(&delta.bytes, base_text.len());
            let parsed = parsed.map_err(|problem| revlog.corrupt(rev, problem))?;
            is_vetted = differences::is_aligned(&base_text, &parsed);
            if is_vetted && change_base == Base::Position(base) {
                let mut changes = Changes::new(change_base);
                differences::of_delta(&base_text, &parsed, &mut changes).map_err(blame)?;
                return Ok((changes, is_vetted));
            }
        }
        let mut changes = self.compared(change_base, text)?.map_err(blame)?;
        if let Some(base) = plan.better_base(position, &changes) {
            changes = self.compared(base, text)?.map_err(blame)?;
        }
        Ok((changes, is_vetted))
    }

    /// The changes from `base` to `text`, or the reason that makes the text unusable.
    fn compared(
        &mut self,
        base: Base,
        text: &SharedText,
    ) -> Result<std::result::Result<Changes, Unusable>> {
        let base_text = match base {
            Base::Empty => Rc::default(),
            Base::Position(base) => self.reader.get(self.manifests.plan.revs[base])?.text,
            Base::Known(base) => self.reader.get(base)?.text,
        };
        let mut changes = Changes::new(base);
        Ok(differences::between(&base_text, text, &mut changes).map(|()| changes))
    }
}
