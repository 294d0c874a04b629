//! The file revisions and the manifest of one changeset.
//!
//! A file keeps a revision of its parents, or gets a new one with the parents and the copy source that
//! Mercurial's commit would give it.

use std::cmp::Ordering;
use std::io::{Read, Write};
use std::sync::Arc;

use dialect::{CopySource, ImportedCommit};
use gitpack::Oid;
use parallel::Buffer;
use revlog::manifest::Flag;
use revlog::{Node, copy_source, split_metadata};

use crate::build::changedfiles::{ChangedFile, FileSource, is_special};
use crate::build::commits::{CommitRefused, CommitResult, ImportedTree, no_rules};
use crate::build::filelogs::blob_of;
use crate::build::files::{NewText, RevisionContent};
use crate::build::manifestlines::{DifferingLine, LineEdit};
use crate::build::manifests::Number;
use crate::build::manifesttext::ManifestText;
use crate::build::{ChangesetBuilder, Converted, MOST_HASHED, TextsOfCommit, accepted};
use crate::error::Result;

/// Paths between two calls of `tick`.
const TICK_INTERVAL: usize = 1000;

/// Parents of a changeset with the texts of their manifests.
pub(super) struct ParentManifests<'a> {
    pub both: [Option<&'a Converted>; 2],
    pub above: [Number; 2],
    pub texts: [ManifestText; 2],
}

/// Manifest and listed files of a changeset.
pub(super) struct CommittedFiles {
    pub manifest: Number,
    pub listed: Vec<Box<[u8]>>,
    pub copies: Vec<CopySource>,
}

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    /// Makes the file revisions and the manifest of one changeset.
    pub(super) fn commit_files(
        &mut self,
        of: &ImportedTree<'_>,
        parents: &ParentManifests<'_>,
    ) -> CommitResult<CommittedFiles> {
        let texts = &parents.texts;
        let is_merge = parents.both[1].is_some();
        let lines = if is_merge { texts[0].differing(&texts[1]) } else { Vec::new() };
        let kept: Vec<(&[u8], FileSource)> = lines.iter().filter_map(kept_of).collect();
        let mut edits: Vec<LineEdit> = Vec::new();
        let mut listed: Vec<Box<[u8]>> = Vec::new();
        let mut waiting = TextsOfCommit::default();
        let mut bases = None;
        let mut copied_here: Vec<(usize, Vec<u8>, [Node; 2])> = Vec::new();
        for (at, file) in all_files(of.files, &kept).into_iter().enumerate() {
            if at % TICK_INTERVAL == TICK_INTERVAL - 1 {
                self.progress.tick()?;
            }
            let ListedFile { path, prefetched, file } = file;
            // read even if the changeset has another content, or none
            let prefetched = prefetched.map(|blob| self.next_content(blob)).transpose()?;
            let is_of_tree = matches!(file, FileSource::Tree { .. });
            let prefetched = prefetched.filter(|_| is_of_tree);
            let entries = [texts[0].entry(path), texts[1].entry(path)];
            let flag = match file {
                FileSource::Unchanged => continue,
                FileSource::Removed => {
                    if entries[0].is_some() {
                        edits.push(LineEdit { path: path.into(), entry: None });
                    }
                    if self.lists_removed(path, entries, parents, &mut bases)? {
                        listed.push(path.into());
                    }
                    continue;
                }
                FileSource::Tree { flag, .. } | FileSource::First { flag, .. } => *flag,
                FileSource::Made(_) => Flag::Regular,
            };
            let made = self.file_revision((path, file), of.texts, entries, parents)?;
            let node = match made {
                FileOutcome::Kept(node) => {
                    if entries[0].is_some_and(|(_, before)| before != flag) {
                        listed.push(path.into());
                    } else if entries[0] == Some((node, flag)) {
                        continue;
                    }
                    node
                }
                FileOutcome::New { parents, blob, copied } => {
                    let content = match prefetched {
                        Some(content) => content,
                        None => self.content((path, file), entries[0])?,
                    };
                    let content = match accepted(self.rules, path, content) {
                        Ok(content) => content,
                        Err(reason) => return Ok(Err(CommitRefused((reason, path.into())))),
                    };
                    let is_copy = copied.is_some();
                    let text = match copied {
                        Some((source, node)) => {
                            let text = self.copied(&source, node, &content)?;
                            let olds = entries.map(|it| it.map_or(Node::NULL, |(node, _)| node));
                            copied_here.push((edits.len(), source, olds));
                            text
                        }
                        None => self.escaped(content)?,
                    };
                    let content = Some(RevisionContent { blob, is_copy });
                    waiting.add(edits.len(), NewText { path, parents, text, content });
                    listed.push(path.into());
                    Node::NULL // until it is hashed
                }
            };
            edits.push(LineEdit { path: path.into(), entry: Some((node, flag)) });
            if waiting.bytes > MOST_HASHED {
                self.add_texts(&mut waiting, &mut edits)?;
            }
        }
        self.add_texts(&mut waiting, &mut edits)?;
        let copy = |(at, source, olds): (usize, Vec<u8>, [Node; 2])| {
            let LineEdit { path, entry } = &edits[at];
            let is_new = entry.is_some_and(|(node, _)| !olds.contains(&node));
            is_new.then(|| CopySource { path: path.to_vec(), source })
        };
        let copies = copied_here.into_iter().filter_map(copy).collect();
        let manifest = if listed.is_empty() && edits.is_empty() {
            parents.above[0]
        } else {
            self.manifests.add(parents.above, &edits, self.link()?)?
        };
        Ok(Ok(CommittedFiles { manifest, listed, copies }))
    }

    /// Whether a changeset lists a file that it removes. `bases` is a cache for one changeset.
    fn lists_removed(
        &mut self,
        path: &[u8],
        entries: [Option<(Node, Flag)>; 2],
        parents: &ParentManifests<'_>,
        bases: &mut Option<Vec<Number>>,
    ) -> Result<bool> {
        let kept = match (entries, parents.both) {
            ([None, None], _) => return Ok(false),
            (_, [_, None]) | ([Some(_), Some(_)], _) => return Ok(true),
            ([one, two], _) => one.or(two),
        };
        let bases = match bases {
            Some(bases) => bases,
            None => bases.insert(self.bases(parents)?),
        };
        for base in bases {
            if self.manifests.text(*base)?.entry(path) != kept {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Manifests of the heads of the common ancestors; without any, the null manifest.
    fn bases(&mut self, parents: &ParentManifests<'_>) -> Result<Vec<Number>> {
        let imports = self.imports.as_mut().ok_or_else(no_rules)?;
        let [Some(one), Some(two)] =
            parents.both.map(|parent| Some(parent?.imported.as_ref()?.number))
        else {
            return Ok(vec![None]);
        };
        let mut bases = Vec::new();
        for head in imports.graph.common_heads(one, two) {
            bases.push(imports.graph.manifest(head, &mut self.manifests)?);
        }
        if bases.is_empty() {
            bases.push(None);
        }
        Ok(bases)
    }

    /// Decides whether a file has a new revision, and its parents.
    fn file_revision(
        &mut self,
        (path, file): (&[u8], &FileSource),
        commit: &ImportedCommit,
        entries: [Option<(Node, Flag)>; 2],
        parents: &ParentManifests<'_>,
    ) -> Result<FileOutcome> {
        let [one, two] = entries.map(|entry| entry.map_or(Node::NULL, |(node, _)| node));
        let source = match file {
            FileSource::Tree { .. } => commit.sources.get(path).cloned(),
            FileSource::First { node, .. } => self.copied_here(parents.both[0], path, *node)?,
            _ => None,
        };
        let blob = match file {
            FileSource::Tree { blob, .. } => *blob,
            FileSource::Made(content) => blob_of(content),
            FileSource::First { node, .. } => {
                // most are kept: their content need not be known
                if source.is_none() {
                    let both = self.file_parents(path, [one, two])?;
                    if both == [one, Node::NULL] {
                        return Ok(FileOutcome::Kept(one));
                    }
                }
                self.history()?.content(path, *node)?.blob
            }
            FileSource::Unchanged | FileSource::Removed => Oid::EMPTY_BLOB,
        };
        let mut copy = None;
        let mut both = None;
        if let Some(source) = source.filter(|source| **source != *path) {
            let there = [&parents.texts[0], &parents.texts[1]]
                .map(|text| text.entry(&source).map(|(node, _)| node));
            let is_second = !parents.texts[1].is_empty()
                && (two == Node::NULL || there[0].is_none())
                && there[1].is_some();
            let (copied, other) = if is_second { (there[1], one) } else { (there[0], two) };
            both = Some(if copied.is_some() { [Node::NULL, other] } else { [one, two] });
            copy = copied.map(|node| (source, node));
        }
        let both = match both {
            Some(both) => both,
            None => self.file_parents(path, [one, two])?,
        };
        let is_kept = both[0] != Node::NULL && both[1] == Node::NULL && {
            let before = match file {
                // without a merge, the revision of the first parent has the content of its tree
                FileSource::Tree { old: Some(old), .. }
                    if parents.both[1].is_none() && !is_special(path) =>
                {
                    *old
                }
                _ => self.history()?.content(path, both[0])?.blob,
            };
            before == blob
        };
        Ok(if is_kept {
            FileOutcome::Kept(both[0])
        } else {
            FileOutcome::New { parents: both, blob, copied: copy }
        })
    }

    /// Parents of a file revision without copies, given the revisions in both manifests.
    fn file_parents(&mut self, path: &[u8], [one, two]: [Node; 2]) -> Result<[Node; 2]> {
        if one == Node::NULL {
            return Ok([two, Node::NULL]);
        }
        if two == Node::NULL {
            return Ok([one, Node::NULL]);
        }
        let mut history = self.history()?;
        Ok(if history.is_ancestor(path, one, two)? {
            [two, Node::NULL]
        } else if history.is_ancestor(path, two, one)? {
            [one, Node::NULL]
        } else {
            [one, two]
        })
    }

    /// Source of a copy, if the changeset made this revision of the copy.
    fn copied_here(
        &mut self,
        changeset: Option<&Converted>,
        path: &[u8],
        node: Node,
    ) -> Result<Option<Vec<u8>>> {
        let number = self.files.number_of(path, node);
        let is_copy = |number| self.files.facts(number).is_some_and(|facts| facts.content.is_copy);
        if number.is_some_and(|number| !is_copy(number)) {
            return Ok(None);
        }
        let Some(facts) = changeset.and_then(|changeset| changeset.imported.clone()) else {
            return Ok(None);
        };
        for above in facts.above.into_iter().flatten() {
            if self.manifests.nodes_at(above, &[path])? == [Some(node)] {
                return Ok(None);
            }
        }
        let text = self.history()?.text(path, node)?;
        let metadata = split_metadata(&text).metadata.unwrap_or_default();
        Ok(copy_source(metadata).map(<[u8]>::to_vec))
    }

    /// Content of a new revision that was not prefetched; `None` if it is too long.
    fn content(
        &mut self,
        (path, file): (&[u8], &FileSource),
        first: Option<(Node, Flag)>,
    ) -> Result<Option<Arc<Buffer>>> {
        let same = match (file, first) {
            (FileSource::Made(content), _) => {
                let mut room = self.room();
                room.extend_from_slice(content)?;
                return Ok(Some(Arc::new(room)));
            }
            (FileSource::Tree { blob, .. }, first) => {
                let first = first.map(|(node, _)| node);
                let is_same = match first {
                    Some(node) => self.history()?.content(path, node)?.blob == *blob,
                    None => false,
                };
                if !is_same {
                    let oids = [*blob];
                    let late = self.trees.blobs(&oids)?.next(self.room(), self.most_bytes)?;
                    return Ok(late.map(Arc::new));
                }
                first
            }
            (FileSource::First { node, .. }, _) => Some(*node),
            _ => None,
        };
        let Some(node) = same else { return Ok(None) };
        let text = self.history()?.text(path, node)?;
        let content = split_metadata(&text).content;
        let mut room = self.room();
        room.reserve_exact(content.len())?;
        room.extend_from_slice(content)?;
        Ok(Some(Arc::new(room)))
    }
}

/// Outcome of a file.
enum FileOutcome {
    /// Existing revision.
    Kept(Node),
    /// New revision, with the source of a copy.
    New { parents: [Node; 2], blob: Oid, copied: Option<(Vec<u8>, Node)> },
}

/// File that a changeset may list.
struct ListedFile<'a> {
    path: &'a [u8],
    prefetched: Option<Oid>,
    file: &'a FileSource,
}

/// File that both manifests have with other revisions: a merge takes the revision of the first parent.
fn kept_of<'a>(line: &DifferingLine<'a>) -> Option<(&'a [u8], FileSource)> {
    let [Some((node, flag)), Some((other, _))] = line.entries else { return None };
    (node != other).then_some((line.path, FileSource::First { node, flag }))
}

/// Changed and kept files, ascending by path.
fn all_files<'a>(
    files: &'a [ChangedFile],
    kept: &'a [(&'a [u8], FileSource)],
) -> Vec<ListedFile<'a>> {
    let mut all = Vec::with_capacity(files.len() + kept.len());
    let (mut files, mut kept) = (files.iter().peekable(), kept.iter().peekable());
    loop {
        let order = match (files.peek(), kept.peek()) {
            (None, None) => return all,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(file), Some((path, _))) => (*file.path).cmp(path),
        };
        let changed = if order.is_le() { files.next() } else { None };
        let same = if order.is_ge() { kept.next() } else { None };
        let prefetched = changed.and_then(|file| file.prefetched);
        let is_change = |file: &&ChangedFile| !matches!(file.file, FileSource::Unchanged);
        match (changed.filter(is_change), same) {
            (Some(ChangedFile { path, file, .. }), _) => {
                all.push(ListedFile { path, prefetched, file });
            }
            (None, Some((path, file))) => all.push(ListedFile { path, prefetched, file }),
            // the content is read all the same
            (None, None) => all.extend(changed.map(|ChangedFile { path, file, .. }| ListedFile {
                path,
                prefetched,
                file,
            })),
        }
    }
}
