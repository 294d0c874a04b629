//! The dialect of git-cinnabar: its commits, and the metadata that it keeps beside them.
//!
//! A commit id that another changeset has already is made different by line feeds at its end
//! ([`duplicates`]). Metadata are a note for each commit ([`note`]), a commit for each manifest
//! ([`manifestcommits`]), blobs of what files were copied from, and a commit that names all of it
//! ([`tip`]). An export may do without.
//!
//! The rules are git-cinnabar's; `docs/formats/cinnabar.rst` lists them.

mod assembly;
pub(crate) mod commit;
mod duplicates;
mod heads;
mod identity;
mod linediff;
mod manifestcommits;
mod metadata;
pub(crate) mod note;
mod notes;
mod recovery;
pub(crate) mod state;
mod tables;

use gitpack::{Oid, PackWriter};
use revlog::{Changeset, Node, Parents, Rev};
use workshop::{Turns, join};

use self::assembly::MetadataAssembly;
use self::duplicates::Duplicates;
use self::heads::{ChangesetHeads, branch_of};
pub(crate) use self::manifestcommits::MANIFEST_TREES;
use self::manifestcommits::{ConvertedManifests, ManifestCommits};
use self::state::MetadataState;
use crate::dialect::{Context, Dialect, Outcome};
use crate::error::{Error, Result};
use crate::map::oidmap::OidMap;
use crate::map::segment::{Table, pairs, sorted};
use crate::objects::commits::{CommitForm, Committed};
use crate::objects::history::{Batch, Sources};
use crate::objects::object::Object;
use crate::objects::pipeline::Aside;
use crate::objects::trees::TreeForm;
use crate::out::publish::{MetadataPublication, metadata_prefix};
use crate::read::files::FileTable;
use crate::read::names::Names;
use crate::request::MetadataFiles;

/// The dialect, for one run.
pub(crate) struct Cinnabar<'a> {
    context: Context<'a>,
    /// Metadata of the runs before; `None` if none is kept.
    metadata: Option<EarlierMetadata<'a>>,
}

struct EarlierMetadata<'a> {
    files: &'a MetadataFiles,
    map: OidMap,
    state: MetadataState,
    heads: ChangesetHeads,
}

impl<'a> Cinnabar<'a> {
    /// Reads what is known of the metadata of earlier runs.
    ///
    /// # Errors
    ///
    /// [`crate::Error`] if that cannot be read.
    pub fn open(context: Context<'a>) -> Result<Self> {
        let request = context.request;
        let open = |files: &'a MetadataFiles| {
            let map = OidMap::open(request.map, &files.segments, &request.unmapped)?;
            let (state, heads) = assembly::state(&context, files, &map)?;
            Ok::<_, Error>(EarlierMetadata { files, map, state, heads })
        };
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
    type Converted = ConvertedManifests;

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
        let Some(EarlierMetadata { map, state, heads, .. }) = &self.metadata else {
            return (CinnabarForm::default(), None);
        };
        let manifest_heads = state.manifest_heads.clone();
        let manifests = ManifestCommits::new(sources, map, names, files, manifest_heads);
        let form = CinnabarForm { heads: heads.clone(), duplicates: Duplicates::default() };
        (form, Some(CinnabarAside { sources, manifests: Turns::new(manifests) }))
    }

    fn end(
        self,
        CinnabarForm { heads, .. }: CinnabarForm,
        converted: Option<ConvertedManifests>,
        Outcome { plan, commits, new, notes, files }: Outcome<'_>,
    ) -> Result<Option<MetadataPublication>> {
        let Self { context, metadata } = self;
        let (Some(earlier), Some(manifests)) = (metadata, converted) else { return Ok(None) };
        let request = context.request;
        let commits_as_keys = commits.iter().map(|oid| Node::from_bytes(*oid.as_bytes()));
        let manifest_nodes = plan.revs.iter().map(|rev| context.manifest.index().node(*rev));
        let new_metadata = sorted([
            pairs(commits_as_keys, &notes),
            pairs(manifest_nodes, &manifests.commits),
            files,
        ]);
        drop((notes, manifests.commits));
        let EarlierMetadata { files, map, state, .. } = earlier;
        let prefix = metadata_prefix(request);
        let place = (request.map, request.readers);
        let (new_map, of_tip) = join(
            context.shares.width,
            || map.extended(place, &prefix, files.base, &new_metadata),
            || {
                let tip = MetadataAssembly {
                    context,
                    files,
                    metadata_map: &map,
                    new,
                    new_metadata: &new_metadata,
                };
                let mut pack = PackWriter::create(request.packs, request.readers)?;
                let state = tip.write(&mut pack, state, (&heads, manifests.heads))?;
                let file = state.create(request.map, request.readers, &prefix)?;
                Ok::<_, Error>((pack.seal()?, file, state.commit))
            },
        );
        let (pack, state, commit) = of_tip?;
        Ok(Some(MetadataPublication { pack, map: new_map?, state, commit }))
    }
}

/// How commits are written: heads of branches are counted on the way.
#[derive(Debug, Default)]
pub(crate) struct CinnabarForm {
    heads: ChangesetHeads,
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
        let parents = [p1, p2].into_iter().flatten().map(Rev::number);
        self.heads.add(rev.number(), parents, branch_of(changeset));
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
    manifests: Turns<ManifestCommits<'a>>,
}

impl Aside for CinnabarAside<'_> {
    type Converted = ConvertedManifests;

    fn of_batch(&self, batch: &Batch) -> Result<Option<Vec<Object>>> {
        self.manifests.take(batch.number, |manifests| manifests.convert(batch))
    }

    fn of_commits(&self, changesets: &[Committed], objects: &[Object]) -> Result<Vec<Object>> {
        let Sources { changelog, collisions, .. } = self.sources;
        note::notes_of(changelog, changesets, objects, collisions)
    }

    fn into_converted(self) -> ConvertedManifests {
        self.manifests.into_inner().into_converted()
    }
}
