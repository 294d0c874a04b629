//! One run: everything selected and not yet in the map becomes a pack, and a segment of each map.
//!
//! The metadata commit and what only it needs go into a pack of their own, since the next run replaces
//! them. If the first run has much to convert, what else only git-cinnabar needs has one, too: then
//! the first pack is all that a clone by git needs, as it is. The order of what becomes visible is the crash safety: the packs first, then the maps and
//! the state of the metadata. A run that dies between leaves packs that are named in the journal
//! (`PREFIX.pending`), which the owner of the docket removes. Nothing here decides what may be
//! converted, nor writes refs.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use gitpack::staged::write_whole;
use gitpack::{Entry, Kind, Oid, PackWriter, Readers, SealedPack};
use revlog::{Encoding, Kind as RevlogKind, Node, Parents, Rev, Revlog, Scratch, Store, Texts};

use crate::blobs::{self, Blob, Blobs, Converter};
use crate::changelog::{self, Selection};
use crate::changes::ChangeLog;
use crate::compress::Compressor;
use crate::duplicates::Met;
use crate::error::{Error, Result};
use crate::filelogs::Filelogs;
use crate::files::{FileId, FileTable};
use crate::history::{Batch, Converted, Displaced, History, Sources, Tree, mode_of};
use crate::manifests::{self, Change, Plan};
use crate::memory::Shares;
use crate::names::Names;
use crate::note::notes_of;
use crate::object::Object;
use crate::oidmap::OidMap;
use crate::ordered;
use crate::segment::{Pair, Table, UNFINISHED};
use crate::state::State;
use crate::tip::Tip;
use crate::treemanifests::Directories;
use crate::trees::View;

/// Shortest time between two calls of the progress callback.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Changesets from which on the first run makes a pack for git clients alone: fewer are not worth a file.
const APART_FROM: usize = 1000;

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Reading changesets.
    Changesets = 0,
    /// Reading manifests.
    Manifests = 1,
    /// Converting file revisions.
    Files = 2,
    /// Making trees and commits.
    Commits = 3,
}

/// What to convert, from where, to where.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The directory `.hg/store`.
    pub store: &'a Path,
    /// How names are encoded in it.
    pub encoding: Encoding,
    /// Whether each directory has a manifest of its own.
    pub tree_manifests: bool,
    /// The directory `objects/pack` of the git repository.
    pub packs: &'a Path,
    /// The directory of the oid map.
    pub map: &'a Path,
    /// First part of the names of the map's files.
    pub prefix: &'a str,
    /// Who may read what is written.
    pub readers: Readers,
    /// File names of the map's segments, oldest first.
    pub segments: Vec<String>,
    /// How many of them, the first, belong to a base: built on, and left as they are.
    pub base: usize,
    /// The same of what git-cinnabar needs.
    pub metadata: Metadata,
    /// Which changesets.
    pub selection: Selection,
    /// Whether every text is compared with its node.
    pub check_texts: bool,
    /// Threads that work; 0 is one for each core, or fewer where there is little memory.
    pub threads: usize,
    /// Bounds the anonymous memory of a run, in bytes, but for what grows with the history alone.
    pub memory_bytes: u64,
    /// Compression level of objects, 1 to 12.
    pub level: u8,
}

/// The files that hold what is known of git-cinnabar's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// File names of the segments of its map, oldest first. It leads from a commit to the note of
    /// its changeset, from a manifest to its commit, from a file revision to its metadata.
    pub segments: Vec<String>,
    /// How many of them, the first, belong to a base.
    pub base: usize,
    /// File name of the state; without one, it is made again from maps and store.
    pub state: Option<String>,
    /// Whether to write all of the metadata commit's pack, even if nothing is converted, so that
    /// none of those before is needed.
    pub anew: bool,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Changesets converted.
    pub changesets: u64,
    /// Objects written.
    pub objects: u64,
    /// Bytes of the packs.
    pub pack_bytes: u64,
    /// What was made; `None` if there was nothing to do.
    pub made: Option<Made>,
    /// Changesets of the map whose commits earlier changesets should have got, found by this run.
    /// Then nothing was written.
    pub displaced: Vec<Displaced>,
}

/// Files that a run made, and what they are added to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Name of the pack, without a suffix; `None` if there was nothing to convert.
    pub pack: Option<String>,
    /// Name of the pack of what is only for git-cinnabar, as notes and manifests; `None` if it is
    /// in `pack`.
    pub aside_pack: Option<String>,
    /// Name of the pack of the metadata commit, without a suffix.
    pub metadata_pack: String,
    /// File names of all segments that now make the map, oldest first.
    pub segments: Vec<String>,
    /// The same of the metadata.
    pub metadata: Metadata,
    /// The metadata commit.
    pub metadata_commit: Oid,
}

/// Told of the phase, how much of it is done and how much there is; answers whether to stop.
pub type Progress<'a> = dyn FnMut(Phase, u64, u64) -> bool + 'a;

/// Converts what is selected and not yet in the map.
///
/// `progress` is called from the calling thread, at most ten times a second.
///
/// # Errors
///
/// [`Error`] says what is wrong and where; then no pack and no segment has become visible, except
/// that a failure after the pack's last rename leaves it, named in the journal.
pub fn export(request: &Request<'_>, progress: &mut Progress<'_>) -> Result<Report> {
    let store = Store::new(request.store, request.encoding);
    let names = request.segments.iter().map(String::as_str);
    let map = OidMap::open(request.map, names)?;
    let changelog = store.open(RevlogKind::Changelog)?;
    let revs = request.selection.unconverted(&changelog, &map)?;
    if revs.is_empty() && (map.is_empty() || !request.metadata.anew) {
        return Ok(Report::default());
    }
    let names = request.metadata.segments.iter().map(String::as_str);
    let metadata_map = OidMap::open(request.map, names)?;
    let shares = Shares::new(request.memory_bytes, 0, request.threads, request.packs);
    let run =
        Run { request, store: &store, map: &map, metadata_map: &metadata_map, shares: &shares };
    let done = run.convert(&changelog, &revs, &mut Reporter { progress, last: None });
    drop((shares, map, metadata_map));
    revlog::trim();
    done
}

/// Limits how often progress is reported.
struct Reporter<'a, 'b> {
    progress: &'a mut Progress<'b>,
    last: Option<Instant>,
}

impl Reporter<'_, '_> {
    fn report(&mut self, phase: Phase, done: u64, total: u64) -> Result<()> {
        if self.last.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        if (self.progress)(phase, done, total) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// What a run adds to the maps, sorted.
pub(crate) struct New {
    pub map: [Vec<Pair>; 3],
    pub metadata: [Vec<Pair>; 3],
}

/// Where objects go.
struct Packs {
    pack: PackWriter,
    /// The pack of what git clients do not need, if there is one.
    aside: Option<PackWriter>,
}

impl Packs {
    fn create(request: &Request<'_>, apart: bool) -> Result<Self> {
        let create = || PackWriter::create(request.packs, request.readers);
        let pack = create()?;
        let aside = apart.then(create).transpose()?;
        Ok(Self { pack, aside })
    }

    fn of(&mut self, view: View) -> &mut PackWriter {
        match (view, &mut self.aside) {
            (View::Manifest, Some(aside)) => aside,
            _ => &mut self.pack,
        }
    }

    /// Ends each that has an object.
    fn seal(self) -> Result<[Option<SealedPack>; 2]> {
        let seal = |pack: Option<PackWriter>| {
            pack.filter(|pack| !pack.is_empty()).map(PackWriter::seal).transpose()
        };
        Ok([seal(Some(self.pack))?, seal(self.aside)?])
    }
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
        let directories = (self.request.tree_manifests)
            .then(|| Directories::new(self.store, &manifest, self.request.check_texts));
        let directories = directories.as_ref();
        let changes = self.read_manifests(&manifest, directories, &plan, &mut files, reporter)?;
        revlog::trim(); // of texts, nothing is kept from phase to phase

        let apart = self.map.is_empty() && revs.len() >= APART_FROM;
        let mut packs = Packs::create(self.request, apart)?;
        let new_files: Vec<FileId> = files.unknown().collect();
        let files_metadata =
            self.convert_files(&changes, &new_files, &mut files, &mut packs, reporter)?;
        revlog::trim();

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
            check_texts: self.request.check_texts,
        };
        let converted = Converted {
            heads,
            manifest_heads: state.manifest_heads.clone(),
            ..Converted::default()
        };
        let (converted, note_oids) =
            self.convert_history(&sources, converted, &mut files, &mut packs, reporter)?;
        drop((trees, changes));

        if !converted.displaced.is_empty() {
            return Ok(Report { displaced: converted.displaced, ..Report::default() });
        }
        // what they keep of their objects is not needed any more, and new pairs need as much
        let [pack, aside] = packs.seal()?;
        let manifests = || plan.revs.iter().map(|rev| manifest.index().node(*rev));
        let commits_as_keys = converted.commits.iter().map(|oid| Node::from_bytes(*oid.as_bytes()));
        let new = New {
            map: sorted([
                pairs(revs.iter().map(|rev| changelog.index().node(*rev)), &converted.commits),
                pairs(manifests(), &converted.roots),
                new_files
                    .iter()
                    .filter_map(|&file| {
                        Some(Pair { node: files.node(file), oid: files.oid(file)? })
                    })
                    .collect(),
            ]),
            metadata: sorted([
                pairs(commits_as_keys, &note_oids),
                pairs(manifests(), &converted.manifest_commits),
                files_metadata,
            ]),
        };
        drop((files, new_files, note_oids));
        let Converted { heads, manifest_heads, .. } = converted;
        let mut metadata_pack = PackWriter::create(self.request.packs, self.request.readers)?;
        let state = tip.write(&mut metadata_pack, state, &heads, manifest_heads, &new)?;

        let packs = [pack, aside, Some(metadata_pack.seal()?)];
        let all = || packs.iter().flatten();
        let objects = all().map(|pack| u64::from(pack.objects())).sum();
        let pack_bytes = all().map(SealedPack::bytes).sum();
        let made = Some(self.publish(packs, new, &state)?);
        let changesets = revs.len() as u64;
        Ok(Report { changesets, objects, pack_bytes, made, displaced: Vec::new() })
    }

    /// Makes it all visible, in the order that is safe.
    fn publish(&self, packs: [Option<SealedPack>; 3], new: New, state: &State) -> Result<Made> {
        let Request { map: directory, readers, prefix, base, ref metadata, .. } = *self.request;
        let names = packs.each_ref().map(|pack| pack.as_ref().map(SealedPack::name));
        self.note_pending(&names.iter().flatten().map(String::as_str).collect::<Vec<_>>())?;
        for pack in packs.into_iter().flatten() {
            pack.publish()?;
        }
        let segments = self.map.extended(readers, prefix, base, new.map)?.segments;
        let prefix = format!("{prefix}-metadata");
        let metadata = Metadata {
            segments: (self.metadata_map)
                .extended(readers, &prefix, metadata.base, new.metadata)?
                .segments,
            base: metadata.base,
            state: Some(state.create(directory, readers, &prefix)?),
            anew: false,
        };
        let [pack, aside_pack, metadata_pack] = names;
        Ok(Made {
            pack,
            aside_pack,
            metadata_pack: metadata_pack.expect("the metadata commit is in it"),
            segments,
            metadata,
            metadata_commit: state.commit,
        })
    }

    fn read_changesets(
        &self,
        changelog: &Revlog,
        revs: &[Rev],
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<Vec<Node>> {
        let mut nodes = Vec::with_capacity(revs.len());
        let check_texts = self.request.check_texts;
        let done = std::cell::Cell::new(0);
        ordered::run(
            self.shares.width,
            changelog::jobs(revs.len()).map(|range| Ok((changelog::JOB_BYTES, range))),
            || self.shares.scratch(),
            |scratch, range| {
                changelog::read_manifest_nodes(changelog, &revs[range], check_texts, scratch)
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

    fn read_manifests(
        &self,
        manifest: &Revlog,
        directories: Option<&Directories<'_>>,
        plan: &Plan,
        files: &mut FileTable,
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<ChangeLog> {
        let mut log = ChangeLog::default();
        let check_texts = self.request.check_texts;
        let jobs = match directories {
            Some(_) => Directories::jobs(plan),
            None => plan.jobs(manifest.index()),
        };
        let done = std::cell::Cell::new(0);
        ordered::run(
            self.shares.width,
            jobs.into_iter().map(Ok),
            || self.shares.scratch(),
            |scratch, range| match directories {
                Some(directories) => directories.read(plan, range, scratch),
                None => manifests::read(manifest, plan, range, check_texts, scratch),
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
        Ok(log)
    }

    fn convert_files(
        &self,
        changes: &ChangeLog,
        new_files: &[FileId],
        files: &mut FileTable,
        packs: &mut Packs,
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<Vec<Pair>> {
        let mut files_metadata = Vec::new();
        let filelogs = Filelogs::new(self.store, changes, files, new_files);
        let (level, check_texts) = (self.request.level, self.request.check_texts);
        let met = Met::default();
        let tables = changes.bytes() + files.bytes();
        let Request { memory_bytes, threads, packs: directory, .. } = *self.request;
        let shares = Shares::new(memory_bytes, tables, threads, directory);
        let done = std::cell::Cell::new(0);
        ordered::run(
            shares.width,
            filelogs,
            || Converter::new(level, check_texts, &met, &shares),
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
        mut converted: Converted,
        files: &mut FileTable,
        packs: &mut Packs,
        reporter: &mut Reporter<'_, '_>,
    ) -> Result<(Converted, Vec<Oid>)> {
        let mut names = Names::default();
        let mut note_oids = Vec::with_capacity(sources.revs.len());
        let mut scratch = self.shares.scratch();
        let mut manifest_scratch = Scratch::within(&self.shares.budget, 0);
        let texts = Texts::new(sources.changelog, &mut scratch, changelog::KEPT_TEXT_BYTES);
        let mut manifest_texts = Texts::new(sources.manifest, &mut manifest_scratch, 0);
        let history =
            History::new(sources, texts, &mut manifest_texts, &mut names, files, &mut converted)?;
        let done = std::cell::Cell::new(0);
        ordered::run(
            self.shares.width,
            history,
            || Compressor::new(self.request.level, &self.shares.budget),
            |compressor, mut batch: Batch| {
                let mut made = notes_of(sources.changelog, &batch)?;
                let notes: Vec<Oid> = made.iter().map(|note| note.oid).collect();
                batch.objects.append(&mut made);
                let streams = compressor.deflate_all(&batch.objects)?;
                Ok((streams, batch.objects, notes))
            },
            |(streams, objects, mut new_notes)| {
                done.set(done.get() + new_notes.len() as u64);
                note_oids.append(&mut new_notes);
                for (deflated, object) in streams.iter().zip(objects) {
                    let Object { kind, oid, base, payload, view } = object;
                    add(packs.of(view), kind, oid, base, payload.len(), deflated)?;
                }
                Ok(())
            },
            || reporter.report(Phase::Commits, done.get(), sources.revs.len() as u64),
        )?;
        Ok((converted, note_oids))
    }

    /// Notes the names of packs that are about to appear.
    fn note_pending(&self, packs: &[&str]) -> Result<()> {
        let Request { map, readers, prefix, .. } = *self.request;
        write_whole(map, UNFINISHED, readers, |out| {
            out.write_all(packs.join("\n").as_bytes())?;
            Ok(format!("{prefix}.pending"))
        })?;
        Ok(())
    }
}

fn pairs(nodes: impl Iterator<Item = Node>, oids: &[Oid]) -> Vec<Pair> {
    nodes.zip(oids).map(|(node, oid)| Pair { node, oid: *oid }).collect()
}

/// Tables ascending by node, each node once.
fn sorted(mut tables: [Vec<Pair>; 3]) -> [Vec<Pair>; 3] {
    for table in &mut tables {
        table.sort_unstable();
        table.dedup_by_key(|pair| pair.node);
    }
    tables
}

/// Adds an object unless the pack has it.
pub(crate) fn add(
    pack: &mut PackWriter,
    kind: Kind,
    oid: Oid,
    base: Option<Oid>,
    inflated_len: usize,
    deflated: &[u8],
) -> Result<()> {
    if pack.position(&oid).is_some() {
        return Ok(());
    }
    let entry = match base {
        None => Entry::Full(kind),
        Some(base) => {
            Entry::Delta { base: pack.position(&base).expect("bases are handed over first") }
        }
    };
    pack.add(oid, entry, inflated_len as u64, deflated)?;
    Ok(())
}
