//! Manifest of a merge: first the outcome of each path, then the contents of new revisions.
//!
//! So git is asked for all missing contents at once.

use std::cmp::Ordering;
use std::io::{Read, Write};
use std::sync::Arc;

use gitpack::Oid;
use revlog::Node;
use revlog::manifest::Flag;
use revlog::node::node_of;

use crate::build::ancestry::{Contested, Heads, heads};
use crate::build::files::NewText;
use crate::build::manifestlines::{DifferingLine, LineEdit};
use crate::build::manifests::Number;
use crate::build::{Applied, ChangesetBuilder, Converted, MadeManifest, accepted};
use crate::error::Result;
use crate::read::diff::MergedPath;
use crate::read::trees::{FileEntry, tree_files};

/// Paths between two calls of `tick`.
const TICK_INTERVAL: usize = 1000;

/// Path that differs in the manifests, in the trees, or in both.
struct Merged<'a> {
    path: &'a [u8],
    line: Option<&'a DifferingLine<'a>>,
    changed: Option<&'a MergedPath>,
}

/// Path of a merge with its outcome.
struct PathOutcome<'a> {
    path: &'a [u8],
    before: Option<(Node, Flag)>,
    outcome: Outcome,
}

/// Outcome of a path.
enum Outcome {
    /// Removed or missing.
    Gone,
    /// Existing node.
    Kept(Node, Flag),
    /// New revision, whose content may be prefetched.
    New { flag: Flag, blob: Oid, parents: [Node; 2], is_prefetched: bool },
}

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    pub(super) fn apply_merge(
        &mut self,
        tree: Oid,
        parents: [&Converted; 2],
        paths: &[MergedPath],
    ) -> Result<Applied> {
        let merged = parents.map(|parent| parent.manifest);
        let texts = [self.manifests.text(merged[0])?, self.manifests.text(merged[1])?];
        let lines = texts[0].differing(&texts[1]);
        let contested: Vec<Contested<'_>> = lines.iter().filter_map(contested_of).collect();
        let progress = self.progress;
        let tick = || progress.tick();
        let mut heads = self.heads(merged, &contested, tick)?.into_iter();
        let all = in_order(&lines, paths);
        let unchanged = all.iter().filter(|merged| merged.changed.is_none());
        let unchanged: Vec<&[u8]> = unchanged.map(|merged| merged.path).collect();
        let mut there = tree_files(self.trees, tree, &unchanged, tick)?.into_iter();
        let mut outcomes = Vec::with_capacity(all.len());
        for Merged { path, line, changed } in all {
            let entries = match line {
                Some(line) => line.entries,
                None => [texts[0].entry(path); 2],
            };
            let (new, olds) = match changed {
                Some(changed) => (changed.new, changed.olds),
                None => {
                    let there = there.next().flatten();
                    (there, [there; 2])
                }
            };
            let is_contested = line.and_then(contested_of).is_some();
            let heads = if is_contested { heads.next() } else { None };
            let is_prefetched = changed.and_then(MergedPath::own_blob).is_some();
            let outcome = outcome(entries, (new, olds), heads, is_prefetched);
            outcomes.push(PathOutcome { path, before: entries[0], outcome });
        }
        self.make(merged, outcomes, tick)
    }

    /// The heads of each of `contested`.
    fn heads(
        &mut self,
        merged: [Number; 2],
        contested: &[Contested<'_>],
        tick: impl FnMut() -> Result<()>,
    ) -> Result<Vec<Heads>> {
        let known: Vec<Option<Heads>> =
            contested.iter().map(|it| self.files.heads(it.path, it.nodes)).collect();
        let is_open = |known: &Option<Heads>| known.is_none() || cfg!(debug_assertions);
        let open: Vec<Contested<'_>> = contested
            .iter()
            .zip(&known)
            .filter_map(|(contested, known)| is_open(known).then_some(*contested))
            .collect();
        let mut found = heads(&mut self.manifests, merged, &open, tick)?.into_iter();
        let all = known.into_iter().map(|known| {
            let found = if is_open(&known) { found.next() } else { None };
            debug_assert!(known.is_none() || known == found, "{known:?} {found:?}");
            known.or(found).unwrap_or_default()
        });
        Ok(all.collect())
    }

    fn make(
        &mut self,
        merged: [Number; 2],
        outcomes: Vec<PathOutcome<'_>>,
        tick: impl Fn() -> Result<()>,
    ) -> Result<Applied> {
        let late: Vec<Oid> = outcomes.iter().filter_map(|outcome| outcome.outcome.late()).collect();
        let mut late = self.trees.blobs(&late)?;
        let (mut edits, mut files) = (Vec::new(), Vec::new());
        for (at, PathOutcome { path, before, outcome }) in outcomes.into_iter().enumerate() {
            if at % TICK_INTERVAL == TICK_INTERVAL - 1 {
                tick()?;
            }
            let (node, flag, is_new) = match outcome {
                Outcome::Gone => {
                    self.files.lose(path);
                    if before.is_some() {
                        edits.push(LineEdit { path: path.into(), entry: None });
                        files.push(path.into());
                    }
                    continue;
                }
                Outcome::Kept(node, flag) => (node, flag, false),
                Outcome::New { flag, blob, parents, is_prefetched } => {
                    let content = if is_prefetched {
                        self.next_content(blob)?
                    } else {
                        late.next(self.room(), self.most_bytes)?.map(Arc::new)
                    };
                    let content = match accepted(self.rules, path, content) {
                        Ok(content) => content,
                        Err(reason) => {
                            late.pass_over()?;
                            return Ok(Applied::Refused((reason, path.into())));
                        }
                    };
                    let text = self.escaped(content)?;
                    let [p1, p2] = parents;
                    let node = node_of(p1, p2, &text);
                    self.files.add(
                        NewText { path, parents, text, content: None },
                        node,
                        self.link()?,
                    )?;
                    (node, flag, true)
                }
            };
            if before != Some((node, flag)) {
                edits.push(LineEdit { path: path.into(), entry: Some((node, flag)) });
            }
            if is_new || before.is_some_and(|(_, before)| before != flag) {
                files.push(path.into());
            }
        }
        if edits.is_empty() {
            let made = MadeManifest { manifest: merged[0], files: Vec::new() };
            return Ok(Applied::Made(made));
        }
        let manifest = self.manifests.add(merged, &edits, self.link()?)?;
        Ok(Applied::Made(MadeManifest { manifest, files }))
    }
}

impl Outcome {
    /// Blob that was not prefetched.
    fn late(&self) -> Option<Oid> {
        match self {
            Self::New { blob, is_prefetched: false, .. } => Some(*blob),
            _ => None,
        }
    }
}

/// Outcome of a path with these `entries` in the manifests, these files in the new and the old
/// trees, and these heads if it is contested.
fn outcome(
    entries: [Option<(Node, Flag)>; 2],
    (new, olds): (Option<FileEntry>, [Option<FileEntry>; 2]),
    heads: Option<Heads>,
    is_prefetched: bool,
) -> Outcome {
    let Some((flag, blob)) = new else { return Outcome::Gone };
    let nodes = entries.map(|entry| entry.map(|(node, _)| node));
    let heads = heads.unwrap_or([nodes[0].or(nodes[1]), None]);
    let is_first = nodes[0] == heads[0];
    match heads {
        [Some(node), None] if olds[usize::from(!is_first)].is_some_and(|(_, old)| old == blob) => {
            Outcome::Kept(node, flag)
        }
        _ => {
            let parents = heads.map(|head| head.unwrap_or(Node::NULL));
            Outcome::New { flag, blob, parents, is_prefetched }
        }
    }
}

/// Merges both lists, ascending by path.
fn in_order<'a>(lines: &'a [DifferingLine<'a>], paths: &'a [MergedPath]) -> Vec<Merged<'a>> {
    let mut all = Vec::with_capacity(lines.len().max(paths.len()));
    let (mut lines, mut paths) = (lines.iter().peekable(), paths.iter().peekable());
    loop {
        let order = match (lines.peek(), paths.peek()) {
            (None, None) => return all,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(line), Some(path)) => line.path.cmp(&path.path),
        };
        let line = if order.is_le() { lines.next() } else { None };
        let changed = if order.is_ge() { paths.next() } else { None };
        let path =
            line.map(|line| line.path).or(changed.map(|path| &*path.path)).unwrap_or_default();
        all.push(Merged { path, line, changed });
    }
}

/// Path with different nodes in both manifests.
fn contested_of<'a>(line: &DifferingLine<'a>) -> Option<Contested<'a>> {
    let [Some((one, _)), Some((two, _))] = line.entries else { return None };
    (one != two).then_some(Contested { path: line.path, nodes: [one, two] })
}
