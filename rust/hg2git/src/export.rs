//! One run: everything selected and not yet in the map becomes a pack, and a segment of each map.
//!
//! Owns the phases and their order. The metadata commit and what only it needs go into a pack of
//! their own, since the next run replaces them. Nothing here decides what may be converted, nor
//! writes refs.

use gitpack::{Kind, Oid, PackWriter, SealedPack};
use revlog::{Kind as RevlogKind, Node, Parents, Rev, Revlog, Scratch, Store, Texts};
use workshop::{Shares, both, ordered};

use crate::dialect::cinnabar::commits::{self, Commits};
use crate::dialect::cinnabar::heads::{ChangesetHeads, ManifestHeads};
use crate::dialect::cinnabar::manifestcommits;
use crate::dialect::cinnabar::sides::{Objects, Sides};
use crate::dialect::cinnabar::tip::Tip;
use crate::error::{Error, Result};
use crate::map::oidmap::OidMap;
use crate::map::segment::{Pair, Table, sorted};
use crate::objects::blobs::{self, Blob, Blobs, Converter};
use crate::objects::collisions::CollisionCheck;
use crate::objects::compress::Compressor;
use crate::objects::filelogs::Filelogs;
use crate::objects::history::{self, Batch, History, Sources, Tree, mode_of};
use crate::objects::object::Head;
use crate::objects::storeids::StoreIds;
use crate::objects::trees::View;
use crate::out::packs::{Packs, add};
use crate::out::publish::{Kept, New, Unpublished};
use crate::progress::{Phase, Progress, Reporter};
use crate::read::changes::ChangeLog;
use crate::read::files::{FileId, FileTable};
use crate::read::lookups::{Lookup, Lookups};
use crate::read::manifests::{Change, Manifests, Plan, Proving};
use crate::read::names::Names;
use crate::read::treemanifests::Directories;
use crate::read::{changelog, limits};
use crate::request::{Report, Request};

/// Each object is searched for SHA-1 collision attacks if a run converts at most so many changesets.
const SEARCHED_WHOLE: usize = 1000;

/// Converts what is selected and not yet in the map.
///
/// `progress` is called from the calling thread, at most ten times a second.
///
/// # Errors
///
/// [`crate::Error`] says what is wrong and where; then no pack and no segment has become visible,
/// except that a failure after the pack's last rename leaves it, named in the journal.
pub fn export(request: &Request<'_>, progress: &mut Progress<'_>) -> Result<Report> {
    let store = Store::new(request.store, request.encoding);
    let map = OidMap::open(request.map, &request.segments, &request.unmapped)?;
    let changelog = store.open(RevlogKind::Changelog)?;
    let store = store.bounded(limits::longest_index(request.memory_bytes, changelog.index().len()));
    let revs = request.selection.unconverted(&changelog, &map)?;
    if revs.is_empty() && (map.is_empty() || !request.metadata.anew) {
        return Ok(Report::default());
    }
    let metadata_map = OidMap::open(request.map, &request.metadata.segments, &request.unmapped)?;
    let shares = Shares::new(request.memory_bytes, 0, request.threads, request.packs);
    let run =
        Run { request, store: &store, map: &map, metadata_map: &metadata_map, shares: &shares };
    let done = run.convert(&changelog, &revs, &mut Reporter::new(progress));
    drop((shares, map, metadata_map));
    workshop::trim();
    done
}

/// What does not change during a run.
struct Run<'a> {
    request: &'a Request<'a>,
    store: &'a Store,
    map: &'a OidMap,
    metadata_map: &'a OidMap,
    shares: &'a Shares,
}

impl Run<'_> {
    fn convert(
        &self,
        changelog: &Revlog,
        revs: &[Rev],
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<Report> {
        let manifest = self.store.open(RevlogKind::Manifest)?;
        let tip = Tip {
            request: self.request,
            map: self.map,
            metadata_map: self.metadata_map,
            changelog,
            shares: self.shares,
        };
        let (state, heads) = tip.state(&manifest)?;
        let nodes = self.read_changesets(changelog, revs, reporter)?;
        let (plan, trees) = self.plan_manifests(&manifest, &nodes)?;
        drop(nodes);
        let mut files = FileTable::default();
        let Request { check_texts, memory_bytes, .. } = *self.request;
        let directories = (self.request.tree_manifests)
            .then(|| Directories::new(self.store, &manifest, check_texts, memory_bytes));
        let directories = directories.as_ref();
        let manifests = Manifests::new(&manifest, &plan, self.proving(), self.shares);
        let (changes, lookups) =
            self.read_manifests(&manifests, directories, &plan, &mut files, reporter)?;
        workshop::trim(); // of texts, nothing is kept from phase to phase

        let mut packs = Packs::create(self.request, self.map, revs.len())?;
        let new_files: Vec<FileId> = files.unknown().collect();
        let suspect = |path, missing: &[FileId]| {
            let position = (0..plan.revs.len()).find(|&at| changes.has_any(at, path, missing))?;
            manifests.blame(plan.revs[position])
        };
        let lookup = Lookup { store: self.store, changes: &changes, suspect: &suspect };
        lookups.run(lookup, &files, || reporter.report(Phase::Files, 0, new_files.len() as u64))?;
        let collisions = &self.collision_check(revs.len(), &mut files)?;
        let files_metadata =
            self.convert_files(lookup, &new_files, &mut files, collisions, &mut packs, reporter)?;
        workshop::trim();

        let plan = &plan;
        let sources = Sources {
            changelog,
            manifest: &manifest,
            directories,
            map: self.map,
            metadata_map: self.metadata_map,
            revs,
            trees: &trees,
            plan,
            changes: &changes,
            collisions,
            check_texts: self.request.check_texts,
        };
        let manifest_heads = state.manifest_heads.clone();
        let start_heads = (heads, manifest_heads);
        let (converted, of_manifests, note_oids) =
            self.convert_history(&sources, start_heads, &mut files, &mut packs, reporter)?;
        drop((trees, changes));

        if !converted.displaced.is_empty() {
            return Ok(Report { displaced: converted.displaced, ..Report::default() });
        }
        let manifest_nodes = || plan.revs.iter().map(|rev| manifest.index().node(*rev));
        let ([pack, aside], (metadata_pack, maps, kept)) =
            packs.seal_and(self.shares.width, || {
                let commits = &converted.commits;
                let commits_as_keys = commits.iter().map(|oid| Node::from_bytes(*oid.as_bytes()));
                let new_files = new_files.iter().filter_map(|&file| {
                    Some(Pair { node: files.node(file), oid: files.oid(file)? })
                });
                let new = New {
                    map: sorted([
                        pairs(revs.iter().map(|rev| changelog.index().node(*rev)), commits),
                        pairs(manifest_nodes(), &converted.roots),
                        new_files.collect(),
                    ]),
                    metadata: sorted([
                        pairs(commits_as_keys, &note_oids),
                        pairs(manifest_nodes(), &of_manifests.commits),
                        files_metadata,
                    ]),
                };
                drop((files, note_oids));
                let heads = (&converted.heads, of_manifests.heads);
                let (maps, of_tip) = both(
                    self.shares.width,
                    || new.extend(self.request, self.map, self.metadata_map),
                    || {
                        let (packs, readers) = (self.request.packs, self.request.readers);
                        let mut pack = PackWriter::create(packs, readers)?;
                        let state = tip.write(&mut pack, state, heads, &new)?;
                        Ok::<_, Error>((pack.seal()?, Kept::create(self.request, &state)?))
                    },
                );
                let (pack, kept) = of_tip?;
                Ok((pack, maps?, kept))
            })?;

        let packs = [pack, aside, Some(metadata_pack)];
        let all = || packs.iter().flatten();
        let objects = all().map(|pack| u64::from(pack.objects())).sum();
        let pack_bytes = all().map(SealedPack::bytes).sum();
        let made = Some(Unpublished { packs, maps, kept }.publish(self.request)?);
        let changesets = revs.len() as u64;
        Ok(Report { changesets, objects, pack_bytes, made, displaced: Vec::new() })
    }

    fn read_changesets(
        &self,
        changelog: &Revlog,
        revs: &[Rev],
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<Vec<Node>> {
        let mut nodes = Vec::with_capacity(revs.len());
        let Request { check_texts, memory_bytes, .. } = *self.request;
        let longest = limits::longest_changeset(memory_bytes);
        let done = std::cell::Cell::new(0);
        ordered::run(
            self.shares.width,
            changelog::jobs(revs.len()).map(|range| Ok((changelog::JOB_BYTES, range))),
            || Scratch::of(self.shares),
            |scratch, range| {
                changelog::read_manifest_nodes(
                    changelog,
                    &revs[range],
                    check_texts,
                    longest,
                    scratch,
                )
            },
            |mut read| {
                nodes.append(&mut read);
                done.set(nodes.len() as u64);
                Ok(())
            },
            || reporter.report(Phase::Changesets, done.get(), revs.len() as u64),
        )?;
        Ok(nodes)
    }

    /// Which manifests have to be read, and what tree each changeset has.
    fn plan_manifests(&self, manifest: &Revlog, nodes: &[Node]) -> Result<(Plan, Vec<Tree>)> {
        let known = |node: &Node| match *node {
            Node::NULL => Some(Tree::Empty),
            _ => self.map.oid(Table::Manifests, node).map(Tree::Known),
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
            candidates.find(|rev| self.map.oid(Table::Manifests, &index.node(*rev)).is_some())
        });
        let plan = Plan { revs, start };
        let mut found = found.into_iter();
        let trees = nodes.iter().map(|node| {
            known(node).unwrap_or_else(|| {
                let rev = found.next().expect("one for each unknown node");
                Tree::Position(plan.position(rev).expect("it was planned"))
            })
        });
        let trees = trees.collect();
        Ok((plan, trees))
    }

    /// What is hashed of flat manifests.
    const fn proving(&self) -> Proving {
        let Request { check_texts, check_each_manifest, tree_manifests, .. } = *self.request;
        match (check_texts && !tree_manifests, check_each_manifest) {
            (false, _) => Proving::Nothing,
            (true, false) => Proving::Usual,
            (true, true) => Proving::Each,
        }
    }

    fn read_manifests(
        &self,
        manifests: &Manifests<'_>,
        directories: Option<&Directories<'_>>,
        plan: &Plan,
        files: &mut FileTable,
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<(ChangeLog, Lookups)> {
        let mut log = ChangeLog::default();
        let mut lookups = Lookups::default();
        let jobs = match directories {
            Some(_) => Directories::jobs(plan),
            None => manifests.jobs(),
        };
        let done = std::cell::Cell::new(0);
        ordered::run(
            self.shares.width,
            jobs.into_iter().map(Ok),
            || Scratch::of(self.shares),
            |scratch, range| match directories {
                Some(directories) => directories.read(plan, range, scratch),
                None => manifests.read(range, scratch),
            },
            |read| {
                for changes in &read {
                    log.begin(changes.base);
                    for change in changes.iter() {
                        let path = log.number(change.path());
                        let file = match change {
                            Change::Remove(_) => None,
                            Change::Set(line) => {
                                let known = |node: &Node| self.map.oid(Table::Files, node);
                                let file = files.number(line.node, path, known);
                                let is_new = files.oid(file).is_none();
                                let is_read = is_new && files.path(file) == path;
                                if is_new && !is_read {
                                    files.share(file);
                                }
                                if changes.is_unproven && !is_read {
                                    lookups.add(path, file);
                                }
                                Some((file, mode_of(line.flag)))
                            }
                        };
                        log.push(path, file);
                    }
                }
                done.set(done.get() + read.len() as u64);
                Ok(())
            },
            || reporter.report(Phase::Manifests, done.get(), plan.revs.len() as u64),
        )?;
        Ok((log, lookups))
    }

    /// What is searched for collision attacks in a run of so many `changesets`.
    fn collision_check(&self, changesets: usize, files: &mut FileTable) -> Result<CollisionCheck> {
        let shared = files.take_shared();
        if changesets <= SEARCHED_WHOLE {
            return Ok(CollisionCheck::Each);
        }
        let is_first = self.map.is_empty();
        let store =
            if is_first { StoreIds::default() } else { StoreIds::of_packs(self.request.packs)? };
        Ok(CollisionCheck::of_known(store, shared))
    }

    fn convert_files(
        &self,
        lookup: Lookup<'_>,
        new_files: &[FileId],
        files: &mut FileTable,
        collisions: &CollisionCheck,
        packs: &mut Packs,
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<Vec<Pair>> {
        let mut files_metadata = Vec::new();
        let filelogs = Filelogs::new(lookup, files, new_files);
        let (level, check_texts) = (self.request.level, self.request.check_texts);
        let tables = lookup.changes.bytes() + files.bytes();
        let Request { memory_bytes, threads, packs: directory, .. } = *self.request;
        let shares = Shares::new(memory_bytes, tables, threads, directory);
        let done = std::cell::Cell::new(0);
        ordered::run(
            shares.width,
            filelogs,
            || Converter::new(level, check_texts, collisions, &shares),
            |converter, pieces| converter.convert(&pieces),
            |Blobs { blobs, streams }| {
                done.set(done.get() + blobs.len() as u64);
                let mut streams = streams.iter();
                let mut stream = || streams.next().expect("each blob has its streams");
                for Blob { file, oid, base, inflated_len, metadata } in blobs {
                    files.set_oid(file, oid);
                    if let Some(blobs::Metadata { oid, inflated_len }) = metadata {
                        files_metadata.push(Pair { node: files.node(file), oid });
                        let pack = packs.of(View::Manifest);
                        add(pack, Kind::Blob, oid, None, inflated_len, stream())?;
                    }
                    let base = base.and_then(|base| files.oid(base));
                    add(packs.of(View::Git), Kind::Blob, oid, base, inflated_len, stream())?;
                }
                Ok(())
            },
            || reporter.report(Phase::Files, done.get(), new_files.len() as u64),
        )?;
        Ok(files_metadata)
    }

    fn convert_history(
        &self,
        sources: &Sources<'_>,
        (heads, manifest_heads): (ChangesetHeads, ManifestHeads),
        files: &mut FileTable,
        packs: &mut Packs,
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<(commits::Converted, manifestcommits::Converted, Vec<Oid>)> {
        let mut names = Names::default();
        let mut scratch = Scratch::within(&self.shares.budget, 0);
        let start = history::start(sources, &mut scratch, &mut names, files)?;
        history::number_components(sources.changes, &mut names);
        let mut scratch = Scratch::of(self.shares);
        let texts = Texts::new(sources.changelog, &mut scratch, changelog::KEPT_TEXT_BYTES);
        let history = History::new(sources, texts, &names, start);
        let sides = Sides::new(
            sources.changelog,
            sources.collisions,
            Commits::new(sources, &names, files, heads),
            manifestcommits::Manifests::new(sources, &names, files, manifest_heads),
        );
        let mut note_oids = Vec::with_capacity(sources.revs.len());
        let done = std::cell::Cell::new(0);
        ordered::run(
            self.shares.width,
            history,
            || Compressor::new(self.request.level, &self.shares.budget),
            |compressor, batch: Batch| {
                let Objects { objects, notes } = sides.convert(batch)?;
                let streams = compressor.deflate_all(&objects)?;
                let heads: Vec<Head> = objects.into_iter().map(Head::from).collect();
                Ok((streams, heads, notes))
            },
            |(streams, heads, mut notes)| {
                done.set(done.get() + notes.len() as u64);
                note_oids.append(&mut notes);
                for (deflated, head) in streams.iter().zip(heads) {
                    let Head { kind, oid, base, inflated_len, view } = head;
                    add(packs.of(view), kind, oid, base, inflated_len, deflated)?;
                }
                Ok(())
            },
            || reporter.report(Phase::Commits, done.get(), sources.revs.len() as u64),
        )?;
        let (commits, manifests) = sides.into_converted();
        Ok((commits, manifests, note_oids))
    }
}

fn pairs(nodes: impl Iterator<Item = Node>, oids: &[Oid]) -> Vec<Pair> {
    nodes.zip(oids).map(|(node, oid)| Pair { node, oid: *oid }).collect()
}

#[cfg(test)]
mod tests;
