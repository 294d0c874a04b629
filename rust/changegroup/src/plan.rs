//! Delta choice for the revisions of a group.
//!
//! The rules are those of `revlog.emitrevisions` in Mercurial 7.2. A possible base is a revision
//! sent before in the same group, or one of the receiver: an ancestor of a parent that is not sent.
//! The stored delta is sent if its base is possible; otherwise a delta is computed.

use revlog::{FLAG_CENSORED, FLAG_EXTERNAL, Index, Parents, Rev};

use crate::revset::RevSet;

/// Flags of revisions whose raw text may differ for other readers: no deltas.
const NO_DELTA: u16 = FLAG_CENSORED | FLAG_EXTERNAL;

/// Length of a delta header, about.
const HEADER_LEN: u64 = 100;
/// Ratio of a delta to its compressed form, about.
const USUAL_RATIO: u64 = 4;

/// Form of a revision in a changegroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Whole text.
    Whole,
    /// Stored delta against this base.
    Stored(Rev),
    /// Delta to be computed against this base.
    Computed(Rev),
}

/// Revision of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedDelta {
    /// The revision.
    pub rev: Rev,
    /// Number of the changeset that the chunk names.
    pub link: u32,
    /// Form in the changegroup.
    pub form: Form,
}

impl PlannedDelta {
    /// Length of the chunk, about.
    pub fn guessed_len(&self, index: &Index) -> u64 {
        HEADER_LEN
            + match self.form {
                Form::Stored(_) => u64::from(index.stored_len(self.rev)) * USUAL_RATIO,
                Form::Whole | Form::Computed(_) => u64::from(index.text_len_hint(self.rev)),
            }
    }
}

/// Plans changesets: whole texts, as Mercurial stores and sends them.
pub(crate) fn of_changesets(revs: impl Iterator<Item = Rev>) -> Vec<PlannedDelta> {
    revs.map(|rev| PlannedDelta { rev, link: rev.number(), form: Form::Whole }).collect()
}

/// Plans `revs`, revisions in ascending order with their links. With `with_null` the null revision
/// is requested, too; it comes first and is not sent.
pub(crate) fn choose(index: &Index, revs: &[(Rev, u32)], with_null: bool) -> Vec<PlannedDelta> {
    let Some(&(first, _)) = revs.first() else { return Vec::new() };
    let there = Receiver::new(index, revs);
    let mut previous = if with_null { None } else { index.parents(first).0 };
    let mut sent = RevSet::new(index.len());
    let mut planned = Vec::with_capacity(revs.len());
    for &(rev, link) in revs {
        let stored = index.delta_base(rev);
        let Parents(p1, p2) = index.parents(rev);
        let is_usable = |base: &Rev| sent.contains(base.number()) || there.has(*base);
        let base = match stored {
            None => None,
            Some(base) if is_usable(&base) => Some(base),
            Some(_) => p1.filter(is_usable).or_else(|| p2.filter(is_usable)).or(previous),
        };
        let can_delta = |rev: Rev| index.flags(rev) & NO_DELTA == 0;
        let base = base.filter(|base| can_delta(*base) && can_delta(rev));
        let form = match base {
            None => Form::Whole,
            Some(base) if stored == Some(base) => Form::Stored(base),
            Some(base) => Form::Computed(base),
        };
        planned.push(PlannedDelta { rev, link, form });
        if index.flags(rev) & FLAG_CENSORED == 0 {
            sent.insert(rev.number());
        }
        previous = Some(rev);
    }
    planned
}

/// Revisions of the receiver: ancestors of the parents that are not sent.
struct Receiver(RevSet);

impl Receiver {
    fn new(index: &Index, revs: &[(Rev, u32)]) -> Self {
        let parents = |rev: Rev| {
            let Parents(p1, p2) = index.parents(rev);
            [p1, p2].into_iter().flatten()
        };
        let mut asked = RevSet::new(index.len());
        for (rev, _) in revs {
            asked.insert(rev.number());
        }
        let heads = || {
            let parents = revs.iter().flat_map(|(rev, _)| parents(*rev));
            parents.filter(|parent| !asked.contains(parent.number()))
        };
        let Some(newest) = heads().max() else { return Self(RevSet::default()) };
        let mut has = RevSet::new(index.len());
        for rev in heads() {
            has.insert(rev.number());
        }
        has.close(index, Some(newest));
        Self(has)
    }

    fn has(&self, rev: Rev) -> bool {
        self.0.contains(rev.number())
    }
}
