//! git-cinnabar's metadata: a note per commit, a commit per manifest, blobs of copy metadata, and
//! the metadata commit that names them.
//!
//! `notes` and `manifestcommits` are made during a run. The metadata commit (`assembly`) is made on
//! request; `notestree` and `tables` are its trees, `heads` its heads. The rules are
//! git-cinnabar's; `docs/formats/cinnabar.rst` lists them.

mod assembly;
mod commit;
mod heads;
mod manifestcommits;
mod notes;
mod notestree;
mod tables;

use gitpack::{Oid, PackWriter};
use parallel::{Sequencer, join};
use revlog::{Node, Scratch};

use self::assembly::MetadataAssembly;
use self::heads::heads_of_map;
pub(crate) use self::manifestcommits::MANIFEST_TREES;
use self::manifestcommits::ManifestCommits;
use crate::context::Context;
use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table, pairs, sorted};
use crate::objects::branchheads::BranchHeads;
use crate::objects::commits::Committed;
use crate::objects::history::{Batch, Sources};
use crate::objects::object::Object;
use crate::objects::pipeline::Aside;
use crate::out::publish::{MetadataCommit, MetadataPublication, metadata_prefix};
use crate::progress::ThrottledProgress;
use crate::read::files::FileTable;
use crate::read::manifests::ManifestPlan;
use crate::read::names::Names;
use crate::request::{MetadataFiles, Request};

/// Results of a run, as input of its metadata.
pub(crate) struct Outcome<'a> {
    pub plan: &'a ManifestPlan,
    /// Commits of the changesets, in the order of the changelog.
    pub commits: &'a [Oid],
    /// New pairs of the map, by table, each ascending.
    pub new: &'a [Vec<Pair>; 3],
    /// Notes of the commits, in their order.
    pub notes: Vec<Oid>,
    /// Commits of the plan's manifests, in its order.
    pub manifests: Vec<Oid>,
    /// Copy metadata of file revisions.
    pub files: Vec<Pair>,
    /// Heads of branches, if the metadata commit is wanted at once.
    pub heads: Option<BranchHeads>,
}

/// Metadata of one run, and of earlier runs.
pub(crate) struct Metadata<'a> {
    context: Context<'a>,
    files: &'a MetadataFiles,
    /// Map of the metadata of earlier runs.
    map: OidMap,
}

impl<'a> Metadata<'a> {
    /// Opens the metadata of earlier runs; `None` if no metadata is kept.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a segment cannot be read.
    pub fn open(context: Context<'a>) -> Result<Option<Self>> {
        let request = context.request;
        let open = |files| {
            let map = metadata_map(request, files)?;
            Ok(Self { context, files, map })
        };
        request.metadata.as_ref().map(open).transpose()
    }

    /// Commit of a manifest of an earlier run, whose tree is the manifest's in the form
    /// [`MANIFEST_TREES`].
    pub fn manifest_commit(&self, manifest: &Node) -> Option<Oid> {
        self.map.oid(Table::Manifests, manifest)
    }

    /// Whether the metadata commit is wanted at once, since the map is empty.
    pub fn wants_commit(&self) -> bool {
        self.files.commit_of_first && self.context.map.is_empty()
    }

    /// Writer of the metadata of a run.
    pub fn begin<'b>(
        &'b self,
        sources: &'b Sources<'b>,
        names: &'b Names,
        files: &'b FileTable,
    ) -> MetadataWriter<'b> {
        let manifests = ManifestCommits::new(sources, &self.map, names, files);
        MetadataWriter { sources, manifests: Sequencer::new(manifests) }
    }

    /// Writes the map of the metadata, and the metadata commit if it is wanted. Publishes nothing.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if a file cannot be written.
    pub fn end(self, outcome: Outcome<'_>) -> Result<MetadataPublication> {
        let Self { context, files: MetadataFiles { base, .. }, map: metadata_map } = self;
        let Outcome { plan, commits, new, notes, manifests, files, heads } = outcome;
        let request = context.request;
        let commits_as_keys = commits.iter().map(|oid| Node::from_bytes(*oid.as_bytes()));
        let manifest_nodes = plan.revs.iter().map(|rev| context.manifest.index().node(*rev));
        let new_metadata =
            &sorted([pairs(commits_as_keys, &notes), pairs(manifest_nodes, &manifests), files]);
        drop((notes, manifests));
        context.tidy(plan.revs.len());
        let metadata_map = &metadata_map;
        let prefix = metadata_prefix(request);
        let place = (request.map, request.readers);
        let assembly = MetadataAssembly { context, metadata_map, new, new_metadata };
        let (map, commit) = join(
            context.memory_plan.width,
            || metadata_map.extended(place, &prefix, *base, new_metadata),
            || heads.map(|heads| commit_of(&assembly, &heads)).transpose(),
        );
        Ok(MetadataPublication { map: map?, commit: commit? })
    }
}

fn metadata_map(request: &Request<'_>, files: &MetadataFiles) -> Result<OidMap> {
    OidMap::open(request.map, &files.segments, &request.unmapped)
}

/// Makes the metadata commit of all changesets in the map, in a pack that is not visible yet.
///
/// # Errors
///
/// [`crate::Error`] if a map or a changeset cannot be read, or the pack cannot be written.
pub(crate) fn metadata_commit(
    context: Context<'_>,
    files: &MetadataFiles,
    progress: &mut ThrottledProgress<'_, '_>,
) -> Result<MetadataCommit> {
    let Context { request, changelog, map, memory_plan, .. } = context;
    let metadata_map = &metadata_map(request, files)?;
    let heads = heads_of_map(changelog, map, &mut Scratch::of(memory_plan), progress)?;
    let nothing = &[const { Vec::new() }; 3];
    let assembly = MetadataAssembly { context, metadata_map, new: nothing, new_metadata: nothing };
    commit_of(&assembly, &heads)
}

fn commit_of(assembly: &MetadataAssembly<'_>, heads: &BranchHeads) -> Result<MetadataCommit> {
    let request = assembly.context.request;
    let mut pack = PackWriter::create(request.packs, request.readers)?;
    let oid = assembly.write(&mut pack, heads)?;
    Ok(MetadataCommit { oid, pack: pack.seal()? })
}

/// Writer of manifest commits, which build on earlier ones, and of notes, which need only their
/// commits.
pub(crate) struct MetadataWriter<'a> {
    sources: &'a Sources<'a>,
    manifests: Sequencer<ManifestCommits<'a>>,
}

impl Aside for MetadataWriter<'_> {
    fn of_batch(&self, batch: &Batch) -> Result<Option<Vec<Object>>> {
        self.manifests.take(batch.number, |manifests| manifests.convert(batch))
    }

    fn of_commits(&self, changesets: &[Committed], objects: &[Object]) -> Result<Vec<Object>> {
        let Sources { changelog, collisions, .. } = self.sources;
        notes::notes_of(changelog, changesets, objects, collisions)
    }

    fn into_commits(self) -> Vec<Oid> {
        self.manifests.into_inner().into_commits()
    }
}
