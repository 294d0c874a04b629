//! The reading phases: changesets, and the changes of their manifests.

use std::cell::Cell;

use parallel::ordered;
use revlog::{Node, Rev, Scratch};

use super::Run;
use crate::context::Context;
use crate::error::Result;
use crate::map::segment::Table;
use crate::objects::history::mode_of;
use crate::progress::{Phase, ThrottledProgress};
use crate::read::changes::ChangeLog;
use crate::read::files::FileTable;
use crate::read::lookups::Lookups;
use crate::read::manifests::{ManifestChange, ManifestPlan, Manifests};
use crate::read::treemanifests::Directories;
use crate::read::{changelog, limits};
use crate::request::Request;

impl Run<'_> {
    /// The manifests of the changesets, in order, and whether a changeset has an extra for its tree.
    pub(super) fn read_changesets(
        &self,
        revs: &[Rev],
        reporter: &mut ThrottledProgress<'_, '_>,
    ) -> Result<(Vec<Node>, bool)> {
        let (mut nodes, mut has_extras) = (Vec::with_capacity(revs.len()), false);
        let Context { request, changelog, memory_plan, .. } = self.context;
        let Request { check_texts, memory_bytes, .. } = *request;
        let longest = limits::longest_changeset(memory_bytes);
        let done = Cell::new(0);
        ordered::run(
            memory_plan.width,
            changelog::jobs(revs.len()).map(|range| Ok((changelog::JOB_BYTES, range))),
            || Scratch::of(memory_plan),
            |scratch, range| {
                changelog::read_manifest_nodes(
                    changelog,
                    &revs[range],
                    check_texts,
                    longest,
                    scratch,
                )
            },
            |(mut read, has)| {
                nodes.append(&mut read);
                has_extras |= has;
                done.set(nodes.len() as u64);
                Ok(())
            },
            || reporter.report(Phase::Changesets, done.get(), revs.len() as u64),
        )?;
        Ok((nodes, has_extras))
    }

    /// Reads the changes of the manifests of `plan`. Returns also the revisions to look up in
    /// filelogs.
    pub(super) fn read_manifests(
        &self,
        manifests: &Manifests<'_>,
        directories: Option<&Directories<'_>>,
        plan: &ManifestPlan,
        files: &mut FileTable,
        reporter: &mut ThrottledProgress<'_, '_>,
    ) -> Result<(ChangeLog, Lookups)> {
        let Context { map, memory_plan, .. } = self.context;
        let mut log = ChangeLog::default();
        let mut lookups = Lookups::default();
        let jobs = match directories {
            Some(_) => Directories::jobs(plan),
            None => manifests.jobs(),
        };
        let done = Cell::new(0);
        ordered::run(
            memory_plan.width,
            jobs.into_iter().map(Ok),
            || Scratch::of(memory_plan),
            |scratch, range| match directories {
                Some(directories) => directories.read(plan, range, scratch),
                None => manifests.read(range, scratch),
            },
            |read| {
                for (position, changes) in &read {
                    log.begin(*position, changes.base);
                    for change in changes.iter() {
                        let path = log.number(change.path());
                        let file = match change {
                            ManifestChange::Remove(_) => None,
                            ManifestChange::Set(line) => {
                                let known = |node: &Node| map.oid(Table::Files, node);
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
}
