//! The replay of the manifests' changes, in the order of the changesets.
//!
//! Owns the directories in memory: the trees of manifests that later changes need as a base. Makes
//! batches of directories and changesets. [`super::pipeline`] converts them to git objects.

mod start;
mod states;

use std::sync::Arc;

use gitpack::tree::Mode;
use parallel::Buffer;
use revlog::{Flag, Rev, Revlog, Store, Texts};

pub(crate) use self::start::{StoredStart, StoredStarts, starts};
use self::states::{RootDirectory, StartTrees, States};
use crate::error::Result;
use crate::map::adopted::AdoptedCommits;
use crate::map::oidmap::OidMap;
use crate::objects::collisions::CollisionCheck;
use crate::objects::commits::ExactSources;
use crate::objects::directory::{
    EntryTarget, LARGE, NewDirectory, Parts, Replay, TrackedDirectory, TreeChange,
};
use crate::objects::imported::ImportedCommits;
use crate::objects::inherited::Inherited;
use crate::objects::treeedits::TreeEdits;
use crate::objects::trees::{LANES, TreeForm};
use crate::read::changes::ChangeLog;
use crate::read::manifests::{Base, ChangesetTree, ChangesetTrees, ManifestPlan};
use crate::read::names::Names;
use crate::read::treemanifests::Directories;

/// Size of a batch, in bytes of new trees and texts. It may be twice as large, so that large roots
/// are hashed side by side.
const BATCH_BYTES: u64 = 1 << 20;
const LONGEST_BATCH_BYTES: u64 = 2 * BATCH_BYTES;
/// Shortest large root, in bytes.
const LARGE_ROOT_LEN: usize = 32 << 10;

/// Limits of the kept base trees: as many as have manifests of [`STATES_TEXT_BYTES`] together. The
/// trees share memory and take a third of that, or less. The limit does not depend on the memory
/// budget, since trees that are made again change the packs.
const STATES_TEXT_BYTES: usize = 128 << 20;
const LEAST_STATES: usize = 256;
const MOST_STATES: usize = 4096;

/// The sources of a history.
pub(crate) struct Sources<'a> {
    pub store: &'a Store,
    pub changelog: &'a Revlog,
    pub manifest: &'a Revlog,
    /// The directories, if each has a manifest of its own.
    pub directories: Option<&'a Directories<'a>>,
    pub map: &'a OidMap,
    /// Changesets to convert, ascending, and their trees.
    pub revs: &'a [Rev],
    pub trees: &'a ChangesetTrees,
    pub plan: &'a ManifestPlan,
    pub changes: &'a ChangeLog,
    pub edits: &'a TreeEdits,
    pub inherited: Option<&'a Inherited<'a>>,
    pub collisions: &'a CollisionCheck,
    /// Form of the metadata's trees, if metadata is kept.
    pub aside_trees: Option<&'static TreeForm>,
    /// The trees of start manifests, as earlier runs stored them.
    pub stored_starts: StoredStarts<'a>,
    /// Adopted commits, and whether each is compared with the dialect's commit.
    pub adopted: Option<&'a AdoptedCommits>,
    pub is_judging: bool,
    /// Imported commits, if changesets stand for any.
    pub imported: Option<&'a ImportedCommits<'a>>,
    /// For trees with entries that manifests do not have, if any.
    pub exact_trees: Option<ExactSources<'a>>,
}

/// The next part of the history, small enough to be converted at once.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Number of batches before this one.
    pub number: u64,
    /// New directories, in the order of their manifests.
    pub made: Vec<NewDirectory>,
    /// Position of the first manifest in the plan; the others follow it.
    pub first_manifest: usize,
    pub manifests: Vec<Manifest>,
    /// Changesets, with manifests of this batch or of earlier ones.
    pub changesets: Vec<Drawn>,
}

/// A manifest as directories.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// `None` if it has no files.
    pub root: Option<Arc<TrackedDirectory>>,
    /// End of its new directories in the batch.
    pub made_end: usize,
}

/// A changeset to convert.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub rev: Rev,
    pub tree: ChangesetTree,
    pub text: Arc<Buffer>,
}

impl Batch {
    /// The position of the manifest whose new directory has this index.
    pub fn position_of(&self, made: usize) -> usize {
        self.first_manifest + self.manifests.partition_point(|manifest| manifest.made_end <= made)
    }

    /// The directory of a changeset's files, if its manifest is in this batch.
    pub fn root_of(&self, tree: ChangesetTree) -> Option<&TrackedDirectory> {
        let ChangesetTree::Position(position) = tree else { return None };
        self.manifests.get(position.checked_sub(self.first_manifest)?)?.root.as_deref()
    }

    /// Whether the batch's large roots would leave lanes empty.
    fn leaves_lanes_empty(&self) -> bool {
        let roots = self.manifests.iter().filter_map(|manifest| manifest.root.as_ref());
        let is_large = |root: &&Arc<TrackedDirectory>| {
            root.entries.content_len(&TreeForm::GIT) >= LARGE_ROOT_LEN
        };
        !roots.filter(is_large).count().is_multiple_of(LANES)
    }

    /// Approximate memory for the conversion of the directories and changesets from these indexes
    /// on.
    fn bytes_from(&self, made: usize, changesets: usize) -> u64 {
        let trees = self.made[made..].iter().map(|made| 2 * made.new_len);
        // a text, its note and the commit
        let texts = self.changesets[changesets..].iter().map(|drawn| 3 * drawn.text.len());
        trees.chain(texts).sum::<usize>() as u64
    }
}

/// The directories of all manifests, as an iterator of batches.
pub(crate) struct History<'a> {
    sources: &'a Sources<'a>,
    texts: Texts<'a>,
    replay: Replay<'a>,
    /// Numbers of batches, manifests and changesets so far.
    batches: u64,
    manifests: usize,
    changesets: usize,
    states: States<'a>,
    /// The next tree, while it is made in parts.
    parts: Option<Parts<'a>>,
    /// Reused buffer for the changes of a manifest.
    room: Vec<TreeChange<'a>>,
}

impl<'a> History<'a> {
    /// A history before its first batch. `names` has all components of paths.
    pub fn new(
        sources: &'a Sources<'a>,
        texts: Texts<'a>,
        names: &'a Names,
        starts: StartTrees,
    ) -> Self {
        Self {
            sources,
            texts,
            replay: Replay::new(names),
            batches: 0,
            manifests: 0,
            changesets: 0,
            states: States::new(
                (sources.changes, sources.edits),
                sources.plan.revs.len(),
                starts,
                most_states(sources),
            ),
            parts: None,
            room: Vec::new(),
        }
    }

    /// The next batch, and its bytes.
    fn batch(&mut self) -> Result<(u64, Batch)> {
        let mut batch = Batch {
            number: self.batches,
            made: Vec::new(),
            first_manifest: self.manifests,
            manifests: Vec::new(),
            changesets: Vec::new(),
        };
        self.batches += 1;
        let mut bytes = 0;
        while self.changesets < self.sources.revs.len()
            && (bytes < BATCH_BYTES || bytes < LONGEST_BATCH_BYTES && batch.leaves_lanes_empty())
        {
            let before = (batch.made.len(), batch.changesets.len());
            let tree = self.sources.trees.get(self.changesets);
            if self.make(tree, &mut batch) {
                let rev = self.sources.revs[self.changesets];
                let text = self.texts.get(rev)?.text;
                batch.changesets.push(Drawn { rev, tree, text });
                self.changesets += 1;
            }
            bytes += batch.bytes_from(before.0, before.1);
        }
        Ok((bytes, batch))
    }

    /// Makes the directories of all manifests up to this tree. Returns `false` after a part of a
    /// large tree: the caller must call again.
    fn make(&mut self, tree: ChangesetTree, batch: &mut Batch) -> bool {
        let ChangesetTree::Position(position) = tree else { return true };
        while self.manifests <= position {
            let is_part = self.next_part();
            if !is_part {
                let root = self.next_root();
                let made_end = batch.made.len() + self.replay.made.len();
                batch.manifests.push(Manifest { root, made_end });
            }
            batch.made.append(&mut self.replay.made);
            if is_part {
                return false;
            }
        }
        true
    }

    /// Makes the next part of a large root. Returns `false` if the root is not large, or all parts
    /// are made.
    fn next_part(&mut self) -> bool {
        let position = self.manifests;
        let changes = self.sources.changes;
        if self.parts.is_none() {
            if changes.base(position) != Base::Empty || changes.of(position).count() < LARGE {
                return false;
            }
            let changes = changes_at(changes, self.sources.edits, position);
            self.parts = Some(Parts::new(changes.collect()));
        }
        self.parts.as_mut().is_some_and(|parts| parts.advance(&mut self.replay))
    }

    fn next_root(&mut self) -> RootDirectory {
        let position = self.manifests;
        let before = self.states.before(position, &mut self.replay);
        let after = match self.parts.take() {
            Some(parts) => parts.finish(&mut self.replay),
            None => {
                self.room.extend(changes_at(self.sources.changes, self.sources.edits, position));
                let root = self.replay.apply(before.as_ref(), &self.room);
                self.room.clear();
                root
            }
        };
        self.manifests += 1;
        self.states.keep(position, &after);
        after
    }
}

impl Iterator for History<'_> {
    type Item = Result<(u64, Batch)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.changesets == self.sources.revs.len() {
            return None;
        }
        let batch = self.batch();
        if batch.is_err() {
            // the numbers of batches have no gaps
            self.changesets = self.sources.revs.len();
        }
        Some(batch)
    }
}

/// The largest number of base trees to keep.
fn most_states(sources: &Sources<'_>) -> usize {
    let Sources { manifest, directories, plan, .. } = *sources;
    let lens = plan.revs.iter().map(|rev| manifest.index().text_len_hint(*rev) as usize);
    let longest = lens.max().filter(|_| directories.is_none());
    let most = longest.map_or(0, |longest| STATES_TEXT_BYTES / longest.max(1));
    most.clamp(LEAST_STATES, MOST_STATES)
}

/// Numbers each component of each path, so that many threads can read paths.
pub(crate) fn number_components<'p>(paths: impl Iterator<Item = &'p [u8]>, names: &mut Names) {
    for path in paths {
        for component in path.split(|&byte| byte == b'/') {
            names.number(component);
        }
    }
}

/// The changes of the manifest at `position`.
fn changes_at<'a>(
    changes: &'a ChangeLog,
    edits: &'a TreeEdits,
    position: usize,
) -> impl Iterator<Item = TreeChange<'a>> {
    let of_log = changes.of(position).map(|(path, file)| {
        let target = file.map(|(file, mode)| EntryTarget::File(file, mode));
        TreeChange { path: changes.path(path), target }
    });
    edits.applied(of_log, position)
}

/// The mode of a file in git.
pub(crate) const fn mode_of(flag: Flag) -> Mode {
    match flag {
        Flag::Regular => Mode::FILE,
        Flag::Executable => Mode::EXECUTABLE,
        Flag::Symlink => Mode::SYMLINK,
    }
}
