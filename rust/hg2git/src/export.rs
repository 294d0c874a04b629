//! One run: selected changesets that are not in the map become a pack, and a segment of each map.
//!
//! Owns the phases and their order. [`metadata_commit()`] covers the changesets of all runs. The
//! caller selects changesets and writes refs.

mod converting;
mod reading;

use dialect::Dialect;
use gitpack::{Oid, SealedPack};
use parallel::{Budget, MemoryPlan, join, trim};
use revlog::{Rev, RevlogKind, Store};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::map::adopted::AdoptedCommits;
use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table, pairs, sorted};
use crate::metadata::{self, MANIFEST_TREES, Metadata, Outcome};
use crate::objects::commits::{ConvertedChangesets, ExactSources};
use crate::objects::history::{Sources, StoredStart, StoredStarts};
use crate::objects::imported::ImportedCommits;
use crate::objects::inherited::{inherited_file, inherited_files};
use crate::objects::storefiles::StoreFiles;
use crate::objects::treeedits::TreeEdits;
use crate::out::packs::Packs;
use crate::out::publish::Publication;
use crate::progress::{Phase, ProgressFn, ThrottledProgress};
use crate::read::files::{FileId, FileTable};
use crate::read::limits;
use crate::read::lookups::Lookup;
use crate::read::manifests::{ManifestPlan, Manifests, Proving};
use crate::read::treemanifests::Directories;
use crate::request::{AdoptedFile, EarlierTrees, PublishedCommit, Report, Request};

/// Converts selected changesets that are not yet in the map, by the rules of a dialect.
///
/// `progress` is called from the calling thread, at most ten times a second.
///
/// # Errors
///
/// [`crate::Error`] with the defect and its place. No pack and no segment is visible then. If the
/// failure comes after the pack's last rename, the pack stays, named in the journal.
pub fn export<D: Dialect>(request: &Request<'_>, progress: &mut ProgressFn<'_>) -> Result<Report> {
    let store = Store::new(request.store, request.encoding).with_mapped(request.indexes.clone());
    let map = OidMap::open(request.map, &request.segments, &request.unmapped)?;
    let changelog = store.open(RevlogKind::Changelog)?;
    let store = store.bounded(limits::longest_index(request.memory_bytes, changelog.index().len()));
    let revs = request.selection.unconverted(&changelog, &map);
    // a damaged index entry may be the cause, and is the better error
    let revs = revs.or_else(|problem| Ok::<_, Error>(changelog.check_used()?).and(Err(problem)))?;
    if revs.is_empty() {
        return Ok(Report::default());
    }
    let memory_plan = MemoryPlan::new(request.memory_bytes, 0, request.threads, request.packs);
    let manifest = store.open(RevlogKind::Manifest)?;
    let context = Context {
        request,
        changelog: &changelog,
        manifest: &manifest,
        map: &map,
        memory_plan: &memory_plan,
    };
    let adopted = request.adopted.as_ref().map(|file| open_adopted(file, &map, revs.len()));
    let adopted = adopted.transpose()?;
    let imported = request.imported.as_ref().filter(|_| !D::HAS_UNIQUE_COMMITS);
    let imported = imported.map(ImportedCommits::open).transpose()?;
    let (adopted, imported) = (adopted.as_ref(), imported.as_ref());
    let run = Run { context, store: &store, adopted, imported };
    let reporter = &mut ThrottledProgress::new(progress);
    let done = run.convert::<D>(&revs, reporter);
    let done = match done {
        Err(Error::Unfit(unfit)) => Ok(Report { unfit: Some(unfit), ..Report::default() }),
        done => done,
    };
    let done = done.or_else(|problem| context.check_used().and(Err(problem)));
    drop((memory_plan, map));
    trim();
    done
}

/// Makes the metadata commit of all changesets in the map. Returns it with the number of
/// changesets; `None` if the map has no changeset, or no metadata is kept. Converts nothing.
///
/// `progress` is called from the calling thread, at most ten times a second.
///
/// # Errors
///
/// As [`export`].
pub fn metadata_commit<D: Dialect>(
    request: &Request<'_>,
    progress: &mut ProgressFn<'_>,
) -> Result<Option<(PublishedCommit, u64)>> {
    let store = Store::new(request.store, request.encoding).with_mapped(request.indexes.clone());
    let map = &OidMap::open(request.map, &request.segments, &request.unmapped)?;
    let covered = map.len(Table::Changesets) as u64;
    let files = request.metadata.as_ref().filter(|_| covered > 0 && D::METADATA.is_some());
    let Some(files) = files else { return Ok(None) };
    let changelog = &store.open(RevlogKind::Changelog)?;
    let store = store.bounded(limits::longest_index(request.memory_bytes, changelog.index().len()));
    let manifest = &store.open(RevlogKind::Manifest)?;
    let memory_plan = &MemoryPlan::new(request.memory_bytes, 0, request.threads, request.packs);
    let context = Context { request, changelog, manifest, map, memory_plan };
    let reporter = &mut ThrottledProgress::new(progress);
    let made = metadata::metadata_commit(context, files, reporter);
    context.check_used()?;
    let published = made?.publish(request)?;
    trim();
    Ok(Some((published, covered)))
}

/// Opens the adopted commits for a run over this number of changesets. A large run, or one with an
/// empty map, checks the whole file.
fn open_adopted(
    AdoptedFile { directory, name, access, .. }: &AdoptedFile<'_>,
    map: &OidMap,
    changesets: usize,
) -> Result<AdoptedCommits> {
    let adopted = AdoptedCommits::open(directory, name, *access)?;
    if map.is_empty() || changesets > converting::SEARCHED_WHOLE {
        adopted.check()?;
    }
    Ok(adopted)
}

/// Constants of a run.
struct Run<'a> {
    context: Context<'a>,
    store: &'a Store,
    adopted: Option<&'a AdoptedCommits>,
    imported: Option<&'a ImportedCommits<'a>>,
}

impl Run<'_> {
    fn convert<D: Dialect>(
        &self,
        revs: &[Rev],
        reporter: &mut ThrottledProgress<'_, '_>,
    ) -> Result<Report> {
        let Context { request, changelog, manifest, map, memory_plan } = self.context;
        let Request { check_texts, memory_bytes, .. } = *request;
        let mut dialect = D::default();
        dialect.set_authors(request.authors.clone());
        let metadata = if D::METADATA.is_some() { Metadata::open(self.context)? } else { None };
        let (nodes, has_extras) = self.read_changesets(revs, reporter)?;
        self.context.tidy(revs.len());
        let (plan, trees) = ManifestPlan::of(&nodes, manifest, map)?;
        drop(nodes);
        let mut files = FileTable::default();
        let directories = (request.tree_manifests)
            .then(|| Directories::new(self.store, manifest, check_texts, memory_bytes));
        let directories = directories.as_ref();
        let manifests = Manifests::new(manifest, &plan, self.proving(), memory_plan);
        let (changes, lookups) =
            self.read_manifests(&manifests, directories, &plan, &mut files, reporter)?;
        trim(); // no texts are kept between phases
        self.context.tidy(revs.len());

        let mut packs = Packs::create(request, map, revs.len())?;
        let new_files: Vec<FileId> = files.unknown().collect();
        let suspect = |path, missing: &[FileId]| {
            let position = (0..plan.revs.len()).find(|&at| changes.has_any(at, path, missing))?;
            manifests.blame(plan.revs[position])
        };
        let lookup = Lookup { store: self.store, changes: &changes, suspect: &suspect };
        lookups.run(lookup, &files, || reporter.report(Phase::Files, 0, new_files.len() as u64))?;
        let collisions = &self.collision_check(revs.len(), &mut files)?;
        let reused = &self.reused::<D>(&new_files, &mut files, &mut packs, reporter)?;
        let converter = ((collisions, reused), metadata.is_some(), D::READS_COPIES);
        let of_files =
            self.convert_files(lookup, &new_files, &mut files, converter, &mut packs, reporter)?;
        drop(manifests);
        trim();

        let of_manifests = (manifest, directories);
        let inherited_file = inherited_file::<D>(self.store)?;
        let files_of = |rev| StoreFiles::new(self.store, manifest, directories, rev);
        let start_files =
            changes.starts().next().filter(|_| inherited_file.is_some()).map(files_of);
        let start = start_files.as_ref();
        let mut tick = || reporter.report(Phase::Commits, 0, revs.len() as u64);
        let read = (&plan, &changes);
        let edits = &TreeEdits::of(&mut dialect, self.store, of_manifests, read, start, &mut tick)?;
        let inherited;
        let needs_exact =
            has_extras || request.earlier == EarlierTrees::Exact || self.imported.is_some();
        let stored_start = |rev| {
            let node = manifest.index().node(rev);
            let root = map.oid(Table::Manifests, &node)?;
            let aside_commit = match &metadata {
                Some(metadata) => Some(metadata.manifest_commit(&node)?),
                None => None,
            };
            Some((rev, StoredStart { root, aside_commit }))
        };
        let mut sources = Sources {
            store: self.store,
            changelog,
            manifest,
            directories,
            map,
            revs,
            trees: &trees,
            plan: &plan,
            changes: &changes,
            edits,
            inherited: None,
            collisions,
            aside_trees: metadata.as_ref().map(|_| &MANIFEST_TREES),
            stored_starts: StoredStarts {
                packs: request.packs,
                trees: changes.starts().filter_map(stored_start).collect(),
            },
            adopted: self.adopted,
            is_judging: request.adopted.as_ref().is_some_and(|file| file.is_judged),
            imported: self.imported,
            exact_trees: needs_exact.then(|| ExactSources {
                packs: request.packs,
                has_earlier: request.earlier == EarlierTrees::Exact,
                budget: Budget::new(memory_plan.kept_bytes, request.packs),
            }),
        };
        let of_run =
            |file| inherited_files(file, &sources, request.packs, &files, start, &mut tick);
        inherited = inherited_file.map(of_run).transpose()?;
        sources.inherited = inherited.as_ref();
        drop(start_files);
        let history = self.convert_history(
            dialect,
            metadata.as_ref(),
            &sources,
            &mut files,
            &mut packs,
            reporter,
        )?;
        drop((trees, changes));
        self.publish(metadata, history, (revs, &plan), (files, &new_files, of_files), packs)
    }

    /// Writes maps and metadata while packs are sealed, and publishes all files.
    fn publish(
        &self,
        metadata: Option<Metadata<'_>>,
        ConvertedHistory { changesets, manifests, notes }: ConvertedHistory,
        (revs, plan): (&[Rev], &ManifestPlan),
        (files, new_files, metadata_of_files): (FileTable, &[FileId], Vec<Pair>),
        packs: Packs,
    ) -> Result<Report> {
        let Context { request, changelog, manifest, map, memory_plan } = self.context;
        if !changesets.displaced.is_empty() {
            return Ok(Report { displaced: changesets.displaced, ..Report::default() });
        }
        self.context.tidy(revs.len());
        let (packs, (map, metadata)) = packs.seal_and(memory_plan.width, || {
            self.context.tidy(revs.len());
            let ConvertedChangesets { commits, roots, heads, .. } = changesets;
            let commits = &commits;
            let of_new = |&file| Some(Pair { node: files.node(file), oid: files.oid(file)? });
            let of_changesets = pairs(revs.iter().map(|rev| changelog.index().node(*rev)), commits);
            let of_manifests =
                pairs(plan.revs.iter().map(|rev| manifest.index().node(*rev)), &roots);
            drop(roots);
            self.context.tidy(revs.len());
            let of_files = new_files.iter().filter_map(of_new).collect();
            let new = &sorted([of_changesets, of_manifests, of_files]);
            drop(files);
            self.context.tidy(revs.len());
            let manifests = manifests.unwrap_or_default();
            let outcome =
                Outcome { plan, commits, new, notes, manifests, files: metadata_of_files, heads };
            let (map, metadata) = join(
                memory_plan.width,
                || map.extended((request.map, request.readers), request.prefix, request.base, new),
                || metadata.map(|metadata| metadata.end(outcome)).transpose(),
            );
            Ok((map?, metadata?))
        })?;
        self.context.check_used()?;
        let publication = Publication { packs, map, metadata };
        let objects = publication.packs().map(|pack| u64::from(pack.objects())).sum();
        let pack_bytes = publication.packs().map(SealedPack::bytes).sum();
        let published = Some(publication.publish(request)?);
        Ok(Report {
            changesets: revs.len() as u64,
            objects,
            pack_bytes,
            published,
            adopted: changesets.adopted,
            exact: changesets.exact,
            foreign: changesets.foreign,
            ..Report::default()
        })
    }

    /// The flat manifests to hash.
    fn proving(&self) -> Proving {
        let Request { check_texts, check_each_manifest, tree_manifests, .. } =
            *self.context.request;
        match (check_texts && !tree_manifests, check_each_manifest) {
            (false, _) => Proving::Nothing,
            (true, false) => Proving::Usual,
            (true, true) => Proving::Each,
        }
    }
}

/// Results of the last phase.
struct ConvertedHistory {
    changesets: ConvertedChangesets,
    /// Commits of manifests, if metadata is kept.
    manifests: Option<Vec<Oid>>,
    /// Notes of the commits, in the same order.
    notes: Vec<Oid>,
}

#[cfg(test)]
mod testdialect;
#[cfg(test)]
mod tests;
