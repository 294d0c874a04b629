//! The converting phases: file revisions to blobs, then history to trees and commits.

use std::cell::Cell;

use dialect::Dialect;
use gitpack::ObjectKind;
use parallel::{MemoryPlan, ordered};
use revlog::{Scratch, Texts};

use super::ConvertedHistory;
use super::Run;
use crate::context::Context;
use crate::error::Result;
use crate::map::segment::Pair;
use crate::metadata::Metadata;
use crate::objects::blobs::{Blob, Blobs, Converter, FileMetadata};
use crate::objects::collisions::CollisionCheck;
use crate::objects::commits::Commits;
use crate::objects::compress::Compressor;
use crate::objects::filelogs::Filelogs;
use crate::objects::history::{self, Batch, History, Sources};
use crate::objects::object::ObjectHead;
use crate::objects::pipeline::{ConvertedBatch, Pipeline};
use crate::objects::reused::Reused;
use crate::objects::storeids::StoreIds;
use crate::objects::trees::Purpose;
use crate::out::packs::{Packs, add};
use crate::progress::{Phase, ThrottledProgress};
use crate::read::changelog;
use crate::read::files::{FileId, FileTable};
use crate::read::lookups::Lookup;
use crate::read::names::Names;
use crate::request::Request;

/// Most changesets of a run that searches each object for SHA-1 collision attacks.
pub(super) const SEARCHED_WHOLE: usize = 1000;
/// Changesets after which unused memory is released.
const TIDIED_AFTER: usize = 100_000;

impl Run<'_> {
    /// The check for collision attacks in a run over this number of changesets.
    pub(super) fn collision_check(
        &self,
        changesets: usize,
        files: &mut FileTable,
    ) -> Result<CollisionCheck> {
        let shared = files.take_shared();
        if changesets <= SEARCHED_WHOLE {
            return Ok(CollisionCheck::Each);
        }
        let is_first = self.context.map.is_empty();
        let store = if is_first {
            StoreIds::default()
        } else {
            let Request { packs, replaced_packs, .. } = self.context.request;
            StoreIds::of_packs(packs, replaced_packs)?
        };
        Ok(CollisionCheck::of_known(store, shared))
    }

    /// Copies blobs of new file revisions that the store of another dialect has.
    pub(super) fn reused<D: Dialect>(
        &self,
        new_files: &[FileId],
        files: &mut FileTable,
        packs: &mut Packs,
        reporter: &mut ThrottledProgress<'_, '_>,
    ) -> Result<Reused> {
        let request = self.context.request;
        let other = request.other.as_ref().filter(|_| D::METADATA.is_none());
        let Some(other) = other else { return Ok(Reused::default()) };
        let total = new_files.len() as u64;
        let report = |done| reporter.report(Phase::Files, done, total);
        let pack = packs.of(Purpose::Git);
        let add = |oid, base, inflated_len, stream: &[u8]| {
            add(pack, ObjectKind::Blob, oid, base, inflated_len, stream)
        };
        Reused::copy((request, other), new_files, files, add, report)
    }

    /// Makes blobs of new file revisions. Returns their copy metadata, if metadata is kept. Notes
    /// their copy sources, if copies are read.
    pub(super) fn convert_files(
        &self,
        lookup: Lookup<'_>,
        new_files: &[FileId],
        files: &mut FileTable,
        (known, keeps_metadata, reads_copies): ((&CollisionCheck, &Reused), bool, bool),
        packs: &mut Packs,
        reporter: &mut ThrottledProgress<'_, '_>,
    ) -> Result<Vec<Pair>> {
        let mut files_metadata = Vec::new();
        let filelogs = Filelogs::new(lookup, files, new_files);
        let tables = lookup.changes.bytes() + files.bytes();
        let Request { memory_bytes, threads, packs: directory, .. } = *self.context.request;
        let how = (self.context.request.level, self.context.request.check_texts);
        let memory_plan = MemoryPlan::new(memory_bytes, tables, threads, directory);
        let done = Cell::new(0);
        ordered::run(
            memory_plan.width,
            filelogs,
            || Converter::new(how, (keeps_metadata, reads_copies), known, &memory_plan),
            |converter, pieces| converter.convert(&pieces),
            |Blobs { made, streams, copies }| {
                done.set(done.get() + (made.len() + copies.len()) as u64);
                for (file, copy) in copies.into_iter().filter(|_| reads_copies) {
                    files.set_copy(file, copy);
                }
                let mut streams = streams.iter();
                let mut stream = || streams.next().expect("each blob has its streams");
                for Blob { file, oid, base, inflated_len, metadata, copy } in made {
                    files.set_oid(file, oid);
                    if reads_copies {
                        files.set_copy(file, copy);
                    }
                    if let Some(FileMetadata { oid, inflated_len }) = metadata {
                        files_metadata.push(Pair { node: files.node(file), oid });
                        let pack = packs.of(Purpose::Aside);
                        add(pack, ObjectKind::Blob, oid, None, inflated_len, stream())?;
                    }
                    let base = base.and_then(|base| files.oid(base));
                    let pack = packs.of(Purpose::Git);
                    add(pack, ObjectKind::Blob, oid, base, inflated_len, stream())?;
                }
                Ok(())
            },
            || reporter.report(Phase::Files, done.get(), new_files.len() as u64),
        )?;
        Ok(files_metadata)
    }

    /// Makes trees and commits, and metadata beside them.
    pub(super) fn convert_history<D: Dialect>(
        &self,
        mut dialect: D,
        metadata: Option<&Metadata<'_>>,
        sources: &Sources<'_>,
        files: &mut FileTable,
        packs: &mut Packs,
        reporter: &mut ThrottledProgress<'_, '_>,
    ) -> Result<ConvertedHistory> {
        let Context { request, memory_plan, .. } = self.context;
        let mut names = Names::default();
        let mut scratch = Scratch::within(&memory_plan.budget, 0);
        let starts = history::starts(sources, &mut dialect, &mut scratch, &mut names, files)?;
        files.forget_numbers();
        let inherited = sources.inherited.map(|inherited| inherited.name);
        let paths = sources.changes.paths().chain(sources.edits.paths()).chain(inherited);
        history::number_components(paths, &mut names);
        let mut scratch = Scratch::of(memory_plan);
        let texts = Texts::new(sources.changelog, &mut scratch, changelog::KEPT_TEXT_BYTES);
        let history = History::new(sources, texts, &names, starts);
        let writer = metadata.map(|metadata| metadata.begin(sources, &names, files));
        let counts_heads = metadata.is_some_and(Metadata::wants_commit);
        let commits = Commits::new(sources, &names, files, dialect, counts_heads);
        let sides = Pipeline::new(commits, writer);
        let mut all_notes = Vec::new();
        let mut untidied = 0;
        let done = Cell::new(0);
        ordered::run(
            memory_plan.width,
            history,
            || Compressor::new(request.level, &memory_plan.budget),
            |compressor, batch: Batch| {
                let ConvertedBatch { changesets, objects, notes } = sides.convert(batch)?;
                let streams = compressor.deflate_all(&objects)?;
                let heads: Vec<_> = objects.into_iter().map(ObjectHead::from).collect();
                Ok((changesets, streams, heads, notes))
            },
            |(changesets, streams, heads, mut notes)| {
                done.set(done.get() + changesets as u64);
                untidied += changesets;
                if untidied >= TIDIED_AFTER {
                    self.context.tidy(std::mem::take(&mut untidied));
                }
                all_notes.append(&mut notes);
                for (deflated, head) in streams.iter().zip(heads) {
                    let ObjectHead { kind, oid, base, inflated_len, purpose } = head;
                    add(packs.of(purpose), kind, oid, base, inflated_len, deflated)?;
                }
                Ok(())
            },
            || reporter.report(Phase::Commits, done.get(), sources.revs.len() as u64),
        )?;
        let (changesets, manifests) = sides.into_converted();
        Ok(ConvertedHistory { changesets, manifests, notes: all_notes })
    }
}
