//! Which manifests are read, in which jobs, from where each is told, and which are hashed.
//!
//! All of it follows from the index alone, so it is the same whatever the threads and the memory.

use std::ops::Range;

use gitpack::Oid;
use revlog::{Index, Node, Parents, Rev, Revlog};

use super::REACH;
use super::changes::Base;
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;

/// What it may cost to hash manifests, in bytes for each. Smaller ones are hashed all.
const HASHED_BYTES: u64 = 64 << 10;
/// So many manifests are hashed all, however large: those of a push, mostly.
const FEW: usize = 64;
/// A manifest is as good as hashed if a child that is hashed was made from it, by a delta which leaves
/// most of it as it is: one of at most so many stored bytes.
const LONGEST_LINK: u32 = 32 << 10;
/// What one job hashes, about, in bytes, and revisions, at least.
const JOB_WORK_BYTES: u64 = 32 << 20;
const JOB_REVS: usize = 32;
/// A job that begins in the middle of a delta chain rebuilds the chain first. So one ends where that
/// chain has at most this part of its revisions, or when it has so much to hash.
const CHAIN_PART: usize = 4;
const LONGEST_JOB_BYTES: u64 = 8 * JOB_WORK_BYTES;
/// Longer texts make jobs no longer, in bytes: an index may claim any length.
const MOST_WEIGHED: u64 = LONGEST_JOB_BYTES / 4;

/// Which manifests are converted, in which order.
#[derive(Debug)]
pub(crate) struct ManifestPlan {
    /// Ascending.
    pub revs: Vec<Rev>,
    /// A manifest that an earlier run converted, near the first one.
    pub start: Option<Rev>,
}

/// The tree of a changeset to convert, by its manifest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangesetTree {
    /// The null manifest: no file.
    Empty,
    /// Converted by an earlier run.
    Known(Oid),
    /// At this position of the manifests' plan.
    Position(usize),
}

impl ManifestPlan {
    /// What is converted for changesets with these manifests, of which `map` has some, and what tree each
    /// of them has.
    ///
    /// # Errors
    ///
    /// [`revlog::Error`] if a manifest is not there.
    pub fn of(
        nodes: &[Node],
        manifest: &Revlog,
        map: &OidMap,
    ) -> revlog::Result<(Self, Vec<ChangesetTree>)> {
        let known = |node: &Node| match *node {
            Node::NULL => Some(ChangesetTree::Empty),
            _ => map.oid(Table::Manifests, node).map(ChangesetTree::Known),
        };
        let unknown: Vec<Node> =
            nodes.iter().filter(|node| known(node).is_none()).copied().collect();
        let found = manifest.find(&unknown)?;
        let mut revs = found.clone();
        revs.sort_unstable();
        revs.dedup();
        let index = manifest.index();
        let start = revs.first().and_then(|&first| {
            let Parents(p1, p2) = index.parents(first);
            let mut candidates = [p1, p2, index.delta_base(first)].into_iter().flatten();
            candidates.find(|rev| map.oid(Table::Manifests, &index.node(*rev)).is_some())
        });
        let plan = Self { revs, start };
        let mut found = found.into_iter();
        let trees = nodes.iter().map(|node| {
            known(node).unwrap_or_else(|| {
                let rev = found.next().expect("one for each unknown node");
                ChangesetTree::Position(plan.position(rev).expect("it was planned"))
            })
        });
        let trees = trees.collect();
        Ok((plan, trees))
    }

    /// Where `rev` stands in the order.
    pub fn position(&self, rev: Rev) -> Option<usize> {
        self.revs.binary_search(&rev).ok()
    }

    /// Which manifests are hashed, whatever their changes are: small ones, of the larger ones so many
    /// that it costs [`HASHED_BYTES`] for each manifest, and those that no child is made from.
    /// `each`: all. If they are few, all.
    pub fn hashed(&self, index: &Index, each: bool) -> Vec<bool> {
        let mut hashed = vec![true; self.revs.len()];
        if each || self.revs.len() <= FEW {
            return hashed;
        }
        for rev in &self.revs {
            let Parents(p1, p2) = index.parents(*rev);
            if let Some(base) = index.delta_base(*rev)
                && [p1, p2].contains(&Some(base))
                && index.stored_len(*rev) <= LONGEST_LINK
                && let Some(base) = self.position(base)
            {
                hashed[base] = false;
            }
        }
        let mut saved_bytes = 0;
        for (rev, is_hashed) in self.revs.iter().zip(&mut hashed) {
            saved_bytes += HASHED_BYTES;
            if saved_bytes >= u64::from(index.text_len_hint(*rev)) {
                *is_hashed = true;
                saved_bytes = 0;
            }
        }
        hashed
    }

    /// Ranges of positions that make jobs of about equal work, with the bytes that their changes
    /// about take. `each`: all are hashed.
    pub fn jobs(&self, index: &Index, each: bool) -> Vec<(u64, Range<usize>)> {
        let mut jobs = Vec::new();
        let mut chains = Chains { index, lens: Vec::new() };
        let is_each = each || self.revs.len() <= FEW;
        let most_hashed = if is_each { u64::MAX } else { HASHED_BYTES };
        let (mut start, mut work_bytes, mut bytes) = (0, 0, 0);
        for (position, rev) in self.revs.iter().enumerate() {
            let text_len = u64::from(index.text_len_hint(*rev));
            work_bytes += text_len.min(most_hashed);
            bytes += u64::from(index.stored_len(*rev)) * 2;
            let count = position + 1 - start;
            // the next begins with a whole text, and hashes one at its end
            let least_bytes = JOB_WORK_BYTES.max(4 * text_len.min(MOST_WEIGHED));
            let is_enough = work_bytes >= least_bytes && count >= JOB_REVS;
            let is_end = self.revs.get(position + 1).is_none_or(|next| {
                is_enough
                    && (work_bytes >= LONGEST_JOB_BYTES
                        || chains.len(*next) as usize <= count / CHAIN_PART)
            });
            if is_end {
                jobs.push((bytes, start..position + 1));
                (start, work_bytes, bytes) = (position + 1, 0, 0);
            }
        }
        jobs
    }
}

/// Lengths of delta chains, counted as far as they were asked for.
struct Chains<'a> {
    index: &'a Index,
    lens: Vec<u32>,
}

impl Chains<'_> {
    /// How many revisions have to be read to rebuild `rev`, without itself.
    fn len(&mut self, rev: Rev) -> u32 {
        let start = u32::try_from(self.lens.len()).expect("revisions have 32 bits");
        for number in start..=rev.number() {
            let base = self.index.rev(number).and_then(|rev| self.index.delta_base(rev));
            self.lens.push(base.map_or(0, |base| self.lens[base.number() as usize] + 1));
        }
        self.lens[rev.number() as usize]
    }
}

/// A parent within reach, else the manifest before, else one of an earlier run.
pub(crate) fn near_base(revlog: &Revlog, plan: &ManifestPlan, position: usize) -> Base {
    let Parents(p1, p2) = revlog.index().parents(plan.revs[position]);
    let within_reach =
        |parent: Option<Rev>| plan.position(parent?).filter(|parent| parent + REACH >= position);
    match within_reach(p1).or_else(|| within_reach(p2)).or_else(|| position.checked_sub(1)) {
        Some(base) => Base::Position(base),
        None => plan.start.map_or(Base::Empty, Base::Known),
    }
}
