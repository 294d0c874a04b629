//! Manifests read once, as changes from one to the next.
//!
//! A manifest's text names every file; what a tree needs is only how it differs from a manifest
//! already converted. The stored delta mostly says just that. Where it does not (a full text, a
//! delta against something old, hidden or not aligned to lines), two texts are compared line by
//! line. A text shares what it has in common with the one it is made from (`shared`), and a large one
//! is hashed only so often (`plan`), so that a manifest costs what changed: what that sees and what
//! not is in `docs/decisions/scaling.rst`. Knows no git: file revisions and paths are numbered
//! elsewhere, what they become is decided later.

mod changes;
mod differences;
mod order;
mod plan;
mod proof;
mod reader;
mod shared;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::rc::Rc;

use revlog::{Delta, Rev, Revlog, Scratch, StoredDelta};

pub(crate) use self::changes::{Base, Changes, ManifestChange, Unusable};
pub(crate) use self::plan::{ChangesetTree, ChangesetTrees, ManifestPlan};
use parallel::MemoryPlan;

use self::order::ReadingOrder;
use self::proof::{Proof, blame};
use self::reader::{Reader, Stored};
use self::shared::SharedText;
use crate::error::{Error, Result};

/// A manifest is told as its stored delta says if what that counts from is a parent, or at most so many
/// manifests before.
const REACH: usize = 256;

/// Which texts of manifests are compared with their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proving {
    /// None.
    Nothing,
    /// Each, or one that was made from it.
    Usual,
    /// Each.
    Each,
}

/// The flat manifests of a plan; threads may share them.
pub(crate) struct Manifests<'a> {
    revlog: &'a Revlog,
    plan: &'a ManifestPlan,
    order: ReadingOrder,
    memory_plan: &'a MemoryPlan,
    proving: Proving,
    /// For each position, whether its text is hashed whatever its changes are; empty if none is.
    hashed: Vec<bool>,
}

impl<'a> Manifests<'a> {
    /// Those of `plan`, read within `shares`.
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

    /// Ranges of the order in which they are read, with the bytes that their changes about take.
    pub fn jobs(&self) -> Vec<(u64, Range<usize>)> {
        self.order.jobs(self.plan, self.revlog.index(), self.proving == Proving::Each)
    }

    /// Reads the manifests at `range` of the order, proves their texts if asked, and answers the
    /// position of each in the plan, and its changes.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`] that names the first revision which cannot be read, is not its node's
    /// text, or is no sorted flat manifest; where a text is wrong because of one that it was made
    /// from, that one.
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
            is_start_added: false,
        };
        let last = range.end - 1;
        let changes: Result<Vec<_>> = range.map(|place| walk.step(place, place == last)).collect();
        // what was read before an error may be wrong, and then comes first
        walk.proof.finish().map_or(changes, |rev| Err(self.mismatch(rev)))
    }

    /// Who is to blame if the text of `rev` is wrong, or seems to be; nobody if it is right, or if
    /// no text is to be looked at.
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
    /// Whether the manifest to start from is among the texts to hash.
    is_start_added: bool,
}

impl Walk<'_> {
    fn step(&mut self, place: usize, is_last: bool) -> Result<(usize, Changes)> {
        let Manifests { revlog, plan, order, hashed, .. } = self.manifests;
        let position = order.position(place);
        let rev = plan.revs[position];
        if revlog.index().unusual_flags(rev) != 0 {
            return Err(revlog.unsupported(rev, "it has flags that are not known").into());
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
            && !std::mem::replace(&mut self.is_start_added, true)
        {
            // no changeset of this run has it, and each of them builds on it
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

    /// The text of one manifest, its changes, and whether both are as good as those of the manifest
    /// that they count from: lines of it were replaced by lines.
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
        let told_from = plan.told_from(revlog.index(), position);
        let mut changes = Changes::new(told_from);
        let mut is_vetted = false;
        if let Some(delta) = delta
            && let Some(base) = plan.position(delta.base)
        {
            let base_text = self.reader.get(delta.base)?.text;
            let parsed = Delta::parse(&delta.bytes, base_text.len());
            let parsed = parsed.map_err(|problem| revlog.corrupt(rev, problem))?;
            is_vetted = differences::is_aligned(&base_text, &parsed);
            if is_vetted && told_from == Base::Position(base) {
                differences::of_delta(&base_text, &parsed, &mut changes).map_err(blame)?;
                return Ok((changes, is_vetted));
            }
        }
        let base_rev = match told_from {
            Base::Empty => None,
            Base::Position(base) => Some(plan.revs[base]),
            Base::Known(base) => Some(base),
        };
        let base_text = match base_rev {
            Some(base) => self.reader.get(base)?.text,
            None => Rc::default(),
        };
        differences::between(&base_text, text, &mut changes).map_err(blame)?;
        Ok((changes, is_vetted))
    }
}
