//! The planned storage of each revision of a filelog, and the jobs for it.
//!
//! All of it follows from the index alone.

use std::ops::Range;

use revlog::{Index, Parents, Rev};

use crate::objects::trees::{MAX_DEPTH, MAX_LANDMARK_DEPTH};
use crate::read::files::FileId;

/// Approximate text rebuilt by one job, in bytes. A job that begins in the middle of a delta chain
/// rebuilds the chain first, so it must be long in comparison.
const JOB_TEXT_BYTES: u64 = 96 << 20;
/// Approximate stored bytes read by one job. Its output has about the same length.
const JOB_STORED_BYTES: u64 = 4 << 20;

/// The planned storage of a revision. Bases are positions in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannedStorage {
    Full,
    /// The delta stored in the filelog.
    Stored(usize),
    /// A delta to search for.
    Searched(usize),
}

/// One revision of the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub rev: Rev,
    pub file: FileId,
    pub storage: PlannedStorage,
    pub depth: u8,
    /// Whether later revisions may have it as base across a distance.
    pub is_landmark: bool,
}

/// The planned revisions of a filelog.
#[derive(Debug)]
pub(crate) struct BlobPlan(pub(super) Vec<Planned>);

/// Plans the revisions in `wanted`, ascending by revision.
pub(crate) fn plan(index: &Index, wanted: &[(Rev, FileId)]) -> BlobPlan {
    let mut plan = BlobPlan(Vec::with_capacity(wanted.len()));
    // positions of the last landmark, and of the first landmark of the last series
    let (mut landmark, mut milestone) = (None, None);
    for &(rev, file) in wanted {
        let position = plan.0.len();
        let natural_base = plan.natural_base(index, rev);
        let storage = match natural_base {
            Some(base) if plan.base_depth(base) < MAX_DEPTH => base,
            Some(_) if plan.landmark_depth(landmark).is_some() => {
                PlannedStorage::Searched(landmark.expect("it has a depth"))
            }
            Some(_) if plan.landmark_depth(milestone).is_some() => {
                let base = milestone.expect("it has a depth");
                milestone = Some(position);
                PlannedStorage::Searched(base)
            }
            _ => PlannedStorage::Full,
        };
        let depth = match storage {
            PlannedStorage::Full => 0,
            PlannedStorage::Stored(base) | PlannedStorage::Searched(base) => plan.0[base].depth + 1,
        };
        let is_landmark = natural_base != Some(storage);
        plan.0.push(Planned { rev, file, storage, depth, is_landmark });
        if is_landmark {
            landmark = Some(position);
            if storage == PlannedStorage::Full {
                milestone = Some(position);
            }
        }
    }
    plan
}

impl BlobPlan {
    /// The storage that the index alone suggests: the stored delta if its base is a parent, or else
    /// a new delta from a parent, or else the stored delta, or else a new delta from the revision
    /// before.
    fn natural_base(&self, index: &Index, rev: Rev) -> Option<PlannedStorage> {
        let Parents(p1, p2) = index.parents(rev);
        let stored = index.delta_base(rev).and_then(|base| self.position(base));
        let parent = [p1, p2].into_iter().flatten().find_map(|parent| self.position(parent));
        match (stored, parent) {
            (Some(stored), _) if [p1, p2].contains(&Some(self.0[stored].rev)) => {
                Some(PlannedStorage::Stored(stored))
            }
            (_, Some(parent)) => Some(PlannedStorage::Searched(parent)),
            (Some(stored), None) => Some(PlannedStorage::Stored(stored)),
            (None, None) => {
                let last = self.0.iter().rposition(|planned| planned.rev < rev)?;
                Some(PlannedStorage::Searched(last))
            }
        }
    }

    fn position(&self, rev: Rev) -> Option<usize> {
        self.0.binary_search_by_key(&rev, |planned| planned.rev).ok()
    }

    fn base_depth(&self, storage: PlannedStorage) -> u8 {
        match storage {
            PlannedStorage::Full => 0,
            PlannedStorage::Stored(base) | PlannedStorage::Searched(base) => self.0[base].depth,
        }
    }

    /// The depth of a landmark, if another landmark may build on it.
    fn landmark_depth(&self, landmark: Option<usize>) -> Option<u8> {
        let depth = self.0[landmark?].depth;
        (depth < MAX_LANDMARK_DEPTH).then_some(depth)
    }

    /// Ranges of positions for jobs of about equal work.
    pub fn jobs(&self, index: &Index) -> Vec<(Range<usize>, Load)> {
        let mut jobs = Vec::new();
        let mut start = 0;
        let mut load = Load::default();
        for (position, planned) in self.0.iter().enumerate() {
            load.text_bytes += u64::from(index.text_len_hint(planned.rev));
            load.stored_bytes += u64::from(index.stored_len(planned.rev)) + 64;
            let is_enough =
                load.text_bytes >= JOB_TEXT_BYTES || load.stored_bytes >= JOB_STORED_BYTES;
            if is_enough || position + 1 == self.0.len() {
                jobs.push((start..position + 1, load));
                (start, load) = (position + 1, Load::default());
            }
        }
        jobs
    }
}

/// The work of a part of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Bytes to rebuild and hash.
    pub text_bytes: u64,
    /// Bytes to read. About the same number is written.
    pub stored_bytes: u64,
}
