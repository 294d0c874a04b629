//! The dialect of git-cinnabar: its commits, and the metadata that it keeps beside them.
//!
//! A commit id that another changeset has already is made different by line feeds at its end
//! ([`duplicates`]). Metadata are a note for each commit ([`note`]), a commit for each manifest
//! ([`manifestcommits`]), blobs of what files were copied from, and a commit that names all of it
//! ([`metadata`]), which is made when somebody asks for it. An export may do without.
//!
//! The rules are git-cinnabar's; `docs/formats/cinnabar.rst` lists them.

mod assembly;
pub(crate) mod commit;
mod duplicates;
mod heads;
pub(crate) mod identity;
mod linediff;
mod manifestcommits;
mod metadata;
pub(crate) mod note;
mod notes;
mod tables;

use gitpack::{Oid, PackWriter};
use parallel::{Sequencer, join};
use revlog::{Changeset, Node, Parents, Rev, Scratch};

use self::assembly::MetadataAssembly;
use self::duplicates::Duplicates;
use self::heads::{ChangesetHeads, branch_of};
pub(crate) use self::manifestcommits::MANIFEST_TREES;
use self::manifestcommits::ManifestCommits;
use crate::dialect::{Context, Dialect, Outcome};
use crate::error::Result;
use crate::map::oidmap::OidMap;
use crate::map::segment::{Table, pairs, sorted};
use crate::objects::commits::{CommitForm, Committed};
use crate::objects::history::{Batch, Sources};
use crate::objects::object::Object;
use crate::objects::pipeline::Aside;
use crate::objects::trees::TreeForm;
use crate::out::publish::{MetadataCommit, MetadataPublication, metadata_prefix};
use crate::progress::ThrottledProgress;
use crate::read::files::FileTable;
use crate::read::names::Names;
use crate::request::{MetadataFiles, Request};

/// The dialect, for one run.
pub(crate) struct Cinnabar<'a> {
    context: Context<'a>,
    /// Metadata of the runs before; `None` if none is kept.
    metadata: Option<EarlierMetadata<'a>>,
}

struct EarlierMetadata<'a> {
    files: &'a MetadataFiles,
    map: OidMap,
}

impl<'a> EarlierMetadata<'a> {
    fn open(request: &'a Request<'_>, files: &'a MetadataFiles) -> Result<Self> {
        let map = OidMap::open(request.map, &files.segments, &request.unmapped)?;
        Ok(Self { files, map })
    }
}

/// Makes the metadata commit of all that is in the maps, in a pack that is not visible yet.
///
/// # Errors
///
/// [`crate::Error`] if a map, or a changeset of it, cannot be read, or the pack not be written.
pub(crate) fn metadata_commit(
    context: Context<'_>,
    files: &MetadataFiles,
    progress: &mut ThrottledProgress<'_, '_>,
) -> Result<MetadataCommit> {
    let Context { request, changelog, map, memory_plan, .. } = context;
    let metadata_map = &EarlierMetadata::open(request, files)?.map;
    let heads = ChangesetHeads::of_map(changelog, map, &mut Scratch::of(memory_plan), progress)?;
    let nothing = &[const { Vec::new() }; 3];
    let assembly = MetadataAssembly { context, metadata_map, new: nothing, new_metadata: nothing };
    commit_of(&assembly, &heads)
}

fn commit_of(assembly: &MetadataAssembly<'_>, heads: &ChangesetHeads) -> Result<MetadataCommit> {
    let request = assembly.context.request;
    let mut pack = PackWriter::create(request.packs, request.readers)?;
    let oid = assembly.write(&mut pack, heads)?;
    Ok(MetadataCommit { oid, pack: pack.seal()? })
}

impl<'a> Cinnabar<'a> {
    /// Reads what is known of the metadata of earlier runs.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if that cannot be read.
    pub fn open(context: Context<'a>) -> Result<Self> {
        let request = context.request;
        let open = |files| EarlierMetadata::open(request, files);
        let metadata = request.metadata.as_ref().map(open).transpose()?;
        Ok(Self { context, metadata })
    }
}

impl Dialect for Cinnabar<'_> {
    type Form = CinnabarForm;
    type Aside<'a>
        = CinnabarAside<'a>
    where
        Self: 'a;
    type Converted = Vec<Oid>;

    fn keeps_metadata(&self) -> bool {
        self.metadata.is_some()
    }

    fn aside_trees(&self) -> Option<&'static TreeForm> {
        self.metadata.as_ref().map(|_| &MANIFEST_TREES)
    }

    fn aside_commit(&self, manifest: &Node) -> Option<Oid> {
        self.metadata.as_ref()?.map.oid(Table::Manifests, manifest)
    }

    fn begin<'a>(
        &'a self,
        sources: &'a Sources<'a>,
        names: &'a Names,
        files: &'a FileTable,
    ) -> (CinnabarForm, Option<CinnabarAside<'a>>) {
        let Some(EarlierMetadata { map, files: metadata }) = &self.metadata else {
            return (CinnabarForm::default(), None);
        };
        let manifests = ManifestCommits::new(sources, map, names, files);
        let is_asked = metadata.commit_of_first && self.context.map.is_empty();
        let heads = is_asked.then(ChangesetHeads::default);
        let form = CinnabarForm { heads, duplicates: Duplicates::default() };
        (form, Some(CinnabarAside { sources, manifests: Sequencer::new(manifests) }))
    }

    fn end(
        self,
        CinnabarForm { heads, .. }: CinnabarForm,
        converted: Option<Vec<Oid>>,
        Outcome { plan, commits, new, notes, files }: Outcome<'_>,
    ) -> Result<Option<MetadataPublication>> {
        let Self { context, metadata } = self;
        let (Some(earlier), Some(manifests)) = (metadata, converted) else { return Ok(None) };
        let request = context.request;
        let commits_as_keys = commits.iter().map(|oid| Node::from_bytes(*oid.as_bytes()));
        let manifest_nodes = plan.revs.iter().map(|rev| context.manifest.index().node(*rev));
        let new_metadata =
            &sorted([pairs(commits_as_keys, &notes), pairs(manifest_nodes, &manifests), files]);
        drop((notes, manifests));
        context.tidy(plan.revs.len());
        let metadata_map = &earlier.map;
        let (prefix, base) = (metadata_prefix(request), earlier.files.base);
        let place = (request.map, request.readers);
        let assembly = MetadataAssembly { context, metadata_map, new, new_metadata };
        let (map, commit) = join(
            context.memory_plan.width,
            || metadata_map.extended(place, &prefix, base, new_metadata),
            || heads.map(|heads| commit_of(&assembly, &heads)).transpose(),
        );
        Ok(Some(MetadataPublication { map: map?, commit: commit? }))
    }
}

/// How commits are written.
#[derive(Debug, Default)]
pub(crate) struct CinnabarForm {
    /// The heads of branches, counted on the way if a metadata commit is to name them.
    heads: Option<ChangesetHeads>,
    duplicates: Duplicates,
}

impl CommitForm for CinnabarForm {
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        tree: Oid,
        parents: &[Oid],
        changeset: &Changeset<'_>,
        (rev, Parents(p1, p2)): (Rev, Parents),
    ) {
        commit::write(out, tree, parents, changeset);
        if let Some(heads) = &mut self.heads {
            let parents = [p1, p2].into_iter().flatten().map(Rev::number);
            heads.add(rev.number(), parents, branch_of(changeset));
        }
    }

    fn settle(
        &mut self,
        content: &mut Vec<u8>,
        oid_of: impl FnMut(&[u8]) -> Oid,
        is_taken: impl FnMut(Oid) -> bool,
    ) -> Oid {
        self.duplicates.place(content, oid_of, is_taken)
    }
}

/// Makes commits of manifests, which build on those before, and notes, which need their commits only.
pub(crate) struct CinnabarAside<'a> {
    sources: &'a Sources<'a>,
    manifests: Sequencer<ManifestCommits<'a>>,
}

impl Aside for CinnabarAside<'_> {
    /// The commits of the plan's manifests, in its order.
    type Converted = Vec<Oid>;

    fn of_batch(&self, batch: &Batch) -> Result<Option<Vec<Object>>> {
        self.manifests.take(batch.number, |manifests| manifests.convert(batch))
    }

    fn of_commits(&self, changesets: &[Committed], objects: &[Object]) -> Result<Vec<Object>> {
        let Sources { changelog, collisions, .. } = self.sources;
        note::notes_of(changelog, changesets, objects, collisions)
    }

    fn into_converted(self) -> Vec<Oid> {
        self.manifests.into_inner().into_commits()
    }
}
