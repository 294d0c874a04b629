//! The manifest of a merge: first what each path gets, then the contents that this needs.
//!
//! So what the trees do not tell is asked of git for all paths at once.

use std::cmp::Ordering;
use std::io::{Read, Write};

use gitpack::Oid;
use revlog::Node;
use revlog::manifest::Flag;
use revlog::node::node_of;

use crate::build::ancestry::{Contested, heads};
use crate::build::files::NewText;
use crate::build::manifestlines::{DifferingLine, LineEdit, differing, entry};
use crate::build::manifests::Number;
use crate::build::{Applied, ChangesetBuilder, Converted, MadeManifest};
use crate::error::Result;
use crate::read::diff::MergedPath;
use crate::read::treefiles::tree_files;
use crate::read::trees::FileEntry;

/// Paths after which the caller is asked whether to stop.
const WATCHED: usize = 1000;

/// A path that differs in the manifests, in the trees, or in both.
struct Merged<'a> {
    path: &'a [u8],
    line: Option<&'a DifferingLine<'a>>,
    changed: Option<&'a MergedPath>,
}

/// What a path gets.
struct Outcome<'a> {
    path: &'a [u8],
    before: Option<(Node, Flag)>,
    what: What,
}

enum What {
    /// Nothing: it is removed, or is not there.
    Gone,
    /// A node that there is.
    Kept(Node, Flag),
    /// A new revision, whose content is asked for ahead or not.
    New { flag: Flag, blob: Oid, parents: [Node; 2], is_ahead: bool },
}

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    pub(super) fn apply_to_two(
        &mut self,
        tree: Oid,
        parents: [&Converted; 2],
        paths: &[MergedPath],
    ) -> Result<Applied> {
        let merged = parents.map(|parent| parent.manifest);
        let texts = [self.manifests.text(merged[0])?, self.manifests.text(merged[1])?];
        let lines = differing(&texts[0], &texts[1]);
        let contested: Vec<Contested<'_>> = lines.iter().filter_map(contested_of).collect();
        let progress = self.progress;
        let tick = || progress.tick();
        let mut heads = heads(&mut self.manifests, merged, &contested, tick)?.into_iter();
        let all = in_order(&lines, paths);
        let unchanged = all.iter().filter(|it| it.changed.is_none());
        let unchanged: Vec<&[u8]> = unchanged.map(|it| it.path).collect();
        let mut there = tree_files(self.trees, tree, &unchanged, tick)?.into_iter();
        let mut outcomes = Vec::with_capacity(all.len());
        for Merged { path, line, changed } in all {
            let entries = match line {
                Some(line) => line.entries,
                None => [entry(&texts[0], path); 2],
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
            let is_ahead = changed.and_then(MergedPath::own_blob).is_some();
            let what = outcome(entries, (new, olds), heads, is_ahead);
            outcomes.push(Outcome { path, before: entries[0], what });
        }
        self.make(merged, outcomes, tick)
    }

    fn make(
        &mut self,
        merged: [Number; 2],
        outcomes: Vec<Outcome<'_>>,
        tick: impl Fn() -> Result<()>,
    ) -> Result<Applied> {
        let late: Vec<Oid> = outcomes.iter().filter_map(|it| it.what.late()).collect();
        let mut late = self.trees.blobs(&late)?;
        let (mut edits, mut files) = (Vec::new(), Vec::new());
        for (at, Outcome { path, before, what }) in outcomes.into_iter().enumerate() {
            if at % WATCHED == WATCHED - 1 {
                tick()?;
            }
            let (node, flag, is_new) = match what {
                What::Gone => {
                    if before.is_some() {
                        edits.push(LineEdit { path: path.into(), entry: None });
                        files.push(path.into());
                    }
                    continue;
                }
                What::Kept(node, flag) => (node, flag, false),
                What::New { flag, blob, parents, is_ahead } => {
                    let content = if is_ahead {
                        self.next_content(blob)?
                    } else {
                        late.next(self.room(), self.most_bytes)?
                    };
                    let Some(content) = content else {
                        late.pass_over()?;
                        return Ok(Applied::TooLong(path.into()));
                    };
                    let text = self.escaped(content)?;
                    let [p1, p2] = parents;
                    let node = node_of(p1, p2, &text);
                    self.files.add(NewText { path, parents, text }, node, self.link()?)?;
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

impl What {
    /// The blob that was not asked for ahead.
    fn late(&self) -> Option<Oid> {
        match self {
            Self::New { blob, is_ahead: false, .. } => Some(*blob),
            _ => None,
        }
    }
}

/// What a path gets, which has `entries` in the manifests, these files in the new tree and in the old ones,
/// and these heads if it is contested.
fn outcome(
    entries: [Option<(Node, Flag)>; 2],
    (new, olds): (Option<FileEntry>, [Option<FileEntry>; 2]),
    heads: Option<Vec<Node>>,
    is_ahead: bool,
) -> What {
    let Some((flag, blob)) = new else { return What::Gone };
    let nodes = entries.map(|entry| entry.map(|(node, _)| node));
    let heads = heads.unwrap_or_else(|| nodes[0].or(nodes[1]).into_iter().collect());
    let is_first = nodes[0] == heads.first().copied();
    match *heads {
        [node] if olds[usize::from(!is_first)].is_some_and(|(_, old)| old == blob) => {
            What::Kept(node, flag)
        }
        _ => {
            let parent = |at: usize| heads.get(at).copied().unwrap_or(Node::NULL);
            What::New { flag, blob, parents: [parent(0), parent(1)], is_ahead }
        }
    }
}

/// Both lists as one, ascending by path.
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
        let path = line.map(|it| it.path).or(changed.map(|it| &*it.path)).unwrap_or_default();
        all.push(Merged { path, line, changed });
    }
}

/// A path that both manifests have, with different nodes.
fn contested_of<'a>(line: &DifferingLine<'a>) -> Option<Contested<'a>> {
    let [Some((one, _)), Some((two, _))] = line.entries else { return None };
    (one != two).then_some(Contested { path: line.path, nodes: [one, two] })
}
