//! Conversion of new commits to a changegroup.
//!
//! Commits come parents first, in windows. While a window is converted, the trees of the next one
//! are compared and its blobs are read (`prefetch`). New revisions wait in temporary files; at the
//! end they are written in the order of a changegroup, and verified by a round trip. From the first
//! refused commit on, commits are only judged, and nothing is written. If all commits need too much
//! memory, the first ones may be enough.

#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dialect::{Dialect, JudgedCommit, Reason};
use gitpack::Oid;
use gitpack::pack::{PackReader, PackTables};
use parallel::Budget;
use parallel::ordered::{self, Width};
use revlog::RevlogKind;

use crate::build::{ChangesetBuilder, LINK, Written};
use crate::error::{Error, Result};
use crate::judge::Judge;
use crate::judge::reasons::MOST_DETAIL;
use crate::progress::{ConversionProgress, ConversionStage, ConversionWatch};
use crate::read::blobs::{GitBlobs, most_bytes};
use crate::read::packed::{PackedObjects, Proofs};
use crate::read::prefetch::{Prefetch, PrefetchedWindow, limit_bytes};
use crate::read::trees::GitTrees;
use crate::request::{AtLimit, Conversion, ConversionPipes, ConversionRequest, Refusal};
use crate::rules::CommitRules;
use crate::verify::{Fault, verify};

/// Converts the commits that git writes by the rules of a dialect, and writes a changegroup to
/// `out`.
///
/// # Errors
///
/// [`Error::Missing`] if git lacks an object, [`Error::Store`] if the store cannot be read,
/// [`Error::Cancelled`], and errors of pipes and files.
pub fn convert<D: Dialect, W: Write + Send, R: Read + Send>(
    pipes: ConversionPipes<impl Read + Send, W, R>,
    request: &ConversionRequest<'_>,
    out: &File,
    watch: ConversionWatch<'_>,
) -> Result<Conversion> {
    let rules = CommitRules::of::<D>(request.is_exact, request.round_trip);
    let revlog = request.store.open(RevlogKind::Manifest)?;
    let eighth = request.memory_bytes / 8;
    let packs = request.packs.map(|dir| Arc::new(PackTables::open(dir, eighth as u64)));
    let proofs = packs.as_ref().filter(|_| request.verifies);
    let proofs = proofs.map(|packs| Arc::new(Proofs::new(Arc::clone(packs), !request.round_trip)));
    let reader = |bytes, keeps_all| {
        let packs = packs.as_ref()?;
        let reader = PackReader::new(Arc::clone(packs), bytes, keeps_all);
        Some(PackedObjects::new(reader, Arc::clone(packs), proofs.clone()))
    };
    let tree_bytes = if packs.is_some() { eighth / 2 } else { eighth };
    let mut trees = GitTrees::new(pipes.trees.0, pipes.trees.1, tree_bytes)
        .with_rules(rules.trees())
        .with_packs(reader(eighth / 4, true));
    if rules.is_lenient {
        trees = trees.lenient();
    }
    let budget = Budget::new(eighth * 3, request.dir);
    let most_bytes = most_bytes(request.most_file_bytes);
    let blobs = GitBlobs::new(pipes.blobs, request.dir, Arc::clone(&budget), most_bytes)
        .with_packs(reader(eighth, false), eighth as u64 / 2);
    let progress = ConversionProgress::new(watch);
    let mut builder = ChangesetBuilder::new(rules, request, &revlog, &trees, budget, &progress)?;
    let parents = builder.add_known(request.known)?;
    let roots = parents.iter().map(|parent| (parent.oid, parent.tree)).collect();
    let memory = (request.memory_bytes, &progress);
    let mut prefetch = Prefetch::new(rules, pipes.commits, &trees, blobs, roots, memory);
    let is_full = AtomicBool::new(false);
    let windows = std::iter::from_fn(|| {
        if is_full.load(Ordering::Relaxed) { None } else { prefetch.next().transpose() }
    });
    let limit_bytes = limit_bytes(request.memory_bytes);
    let mut converter = Converter {
        builder,
        judge: None,
        refused: None,
        limit_bytes,
        is_full: (request.at_limit == AtLimit::Stop).then_some(&is_full),
        progress: &progress,
    };
    ordered::run(
        // most windows take half of the memory at most, as they are counted
        Width { threads: 1, window_bytes: request.memory_bytes as u64 },
        windows.map(|read| read.map(|window| (window.bytes, window))),
        || (),
        |(), window| Ok(window),
        |window| converter.convert(window),
        || progress.tick(),
    )?;
    let Converter { builder, judge, refused, .. } = converter;
    if let Some(refused) = refused {
        return Ok(Conversion { refused: vec![refused], ..Conversion::default() });
    }
    if let Some(judge) = judge {
        let refused = refusals(judge, &trees, limit_bytes, &progress)?;
        return Ok(Conversion { refused, ..Conversion::default() });
    }
    if watch(ConversionStage::Write, builder.len() as u64) {
        return Err(Error::Cancelled);
    }
    let start = (&*out).stream_position().map_err(Error::Output)?;
    let Written { changesets, foreign } = builder.write(out)?;
    let fault = if request.round_trip {
        parallel::trim(); // the round trip has the same memory
        verify::<D>((out, start), (request, &revlog), &parents, &trees, &changesets, watch)?
    } else {
        None
    };
    Ok(match fault {
        None => {
            let changesets: Vec<_> =
                changesets.into_iter().filter(|(oid, _)| *oid != LINK).collect();
            let mut is_verified = false;
            if let (Some(packs), Some(proofs)) = (&packs, &proofs) {
                if request.round_trip {
                    for (oid, _) in &changesets {
                        proofs.add(oid);
                    }
                }
                let mut reader = PackReader::new(Arc::clone(packs), eighth, false);
                let late = proofs.verify_rest(&mut reader, || progress.tick())?;
                trees.verify(&late, || progress.tick())?;
                is_verified = packs.is_whole();
            }
            Conversion { changesets, foreign, refused: Vec::new(), is_verified }
        }
        Some(Fault { oid, message }) => {
            let first = changesets.first().map_or(Oid::EMPTY_TREE, |(oid, _)| *oid);
            let (oid, reason) = (oid.unwrap_or(first), Reason::Differs);
            let refusal = Refusal { oid, reason, detail: message.into_bytes() };
            Conversion { refused: vec![refusal], ..Conversion::default() }
        }
    })
}

/// A conversion: builds changesets until a commit is refused, then judges.
struct Converter<'a, W, R> {
    builder: ChangesetBuilder<'a, W, R>,
    /// Commits from the first window on that may have a refused one.
    judge: Option<Judge>,
    /// First refused commit, if the dialect does not judge the others.
    refused: Option<Refusal>,
    /// Memory limit of all file revisions.
    limit_bytes: usize,
    /// Set at that limit, if the commits before it are enough.
    is_full: Option<&'a AtomicBool>,
    progress: &'a ConversionProgress<'a>,
}

impl<W: Write, R: Read> Converter<'_, W, R> {
    /// Converts the commits of a window, or keeps them for the judge.
    fn convert(&mut self, window: PrefetchedWindow) -> Result<()> {
        let is_full = self.is_full.is_some_and(|is_full| is_full.load(Ordering::Relaxed));
        if is_full || self.refused.is_some() {
            return Ok(());
        }
        let PrefetchedWindow { commits, changes, .. } = window;
        let mut rest = &*commits;
        if let Some((changes, contents)) = changes.filter(|_| self.judge.is_none()) {
            self.builder.start_window(contents);
            for changes in changes {
                let Some((commit, after)) = rest.split_first() else { break };
                rest = after;
                if let Some((reason, path)) = self.builder.add(commit, &changes)? {
                    let refused = Some((reason, &*path));
                    self.judge(commit.oid, &JudgedCommit { refused, ..JudgedCommit::default() })?;
                    break;
                }
                let is_long = self.builder.file_bytes() > self.limit_bytes;
                match self.is_full {
                    None if is_long => return Err(Error::TooManyRevisions(commit.oid)),
                    Some(is_full) if is_long => {
                        is_full.store(true, Ordering::Relaxed);
                        return Ok(());
                    }
                    _ => {}
                }
                self.progress.advance();
                self.progress.tick()?;
            }
        }
        rest.iter().try_for_each(|commit| self.judge(commit.oid, &commit.verdict()))
    }

    fn judge(&mut self, oid: Oid, judged: &JudgedCommit<'_>) -> Result<()> {
        if self.builder.is_lenient() {
            let refusal = |(reason, detail): (Reason, &[u8])| Refusal {
                oid,
                reason,
                detail: detail[..detail.len().min(MOST_DETAIL)].to_vec(),
            };
            self.refused = self.refused.take().or(judged.refused.map(refusal));
            return Ok(());
        }
        let judge = self.judge.get_or_insert_default();
        judge.add(oid, judged, |parent| self.builder.is_known(parent))
    }
}

/// Refused commits, parents before children.
fn refusals(
    judge: Judge,
    trees: &GitTrees<impl Write, impl Read>,
    limit_bytes: usize,
    progress: &ConversionProgress<'_>,
) -> Result<Vec<Refusal>> {
    let verdicts = judge.verdicts(trees, limit_bytes, |_, _| progress.tick())?;
    let refused = verdicts.refused().map(|(number, oid, reason)| {
        progress.tick()?;
        Ok(Refusal { oid, reason, detail: verdicts.detail(number, trees)? })
    });
    let refused = refused.collect::<Result<Vec<Refusal>>>()?;
    if refused.is_empty() {
        return Err(Error::Wrong(
            "the judge accepts all commits, but a window had a refused one".into(),
        ));
    }
    Ok(refused)
}
