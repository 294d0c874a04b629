//! A check of file revisions that this run does not read: they must be in the filelogs of their
//! paths.
//!
//! A node names a content, not a path. A manifest that was not hashed may name a revision of
//! another path, for a path that never had it.

use revlog::{Node, Rev, Revlog, RevlogKind, Store};

use crate::error::{Error, Result};
use crate::read::changes::ChangeLog;
use crate::read::files::{FileId, FileTable};
use crate::read::names::NameId;

/// Filelogs, and the diagnosis of revisions that they lack.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub store: &'a Store,
    pub changes: &'a ChangeLog,
    /// Returns the defect of the first manifest that names one of these revisions for this path, if
    /// it has one.
    pub suspect: &'a (dyn Fn(NameId, &[FileId]) -> Option<Error> + Sync),
}

/// An unsuccessful lookup.
struct Unfound {
    problem: revlog::Error,
    /// The defect of a manifest that names a missing revision, if one was found.
    suspected: Option<Error>,
}

impl Lookup<'_> {
    /// The filelog of `path`, and its revisions with these nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the filelog cannot be read or lacks a revision.
    pub fn find(&self, path: NameId, wanted: &[(FileId, Node)]) -> Result<(Revlog, Vec<Rev>)> {
        self.search(path, wanted).map_err(|unfound| {
            let Unfound { problem, suspected } = *unfound;
            suspected.unwrap_or_else(|| problem.into())
        })
    }

    fn search(
        &self,
        path: NameId,
        wanted: &[(FileId, Node)],
    ) -> Result<(Revlog, Vec<Rev>), Box<Unfound>> {
        let nodes: Vec<Node> = wanted.iter().map(|(_, node)| *node).collect();
        let (problem, revlog) = match self.store.open(RevlogKind::Filelog(self.changes.path(path)))
        {
            Ok(revlog) => match revlog.find(&nodes) {
                Ok(revs) => return Ok((revlog, revs)),
                Err(problem) => (problem, Some(revlog)),
            },
            Err(problem) => (problem, None),
        };
        let is_missing = |node: Node| revlog.as_ref().is_none_or(|log| log.find(&[node]).is_err());
        let missing = wanted.iter().filter(|(_, node)| is_missing(*node));
        let missing: Vec<_> = missing.map(|(file, _)| *file).collect();
        let is_damage = matches!(problem, revlog::Error::Corrupt { .. });
        let suspected = is_damage.then(|| (self.suspect)(path, &missing)).flatten();
        Err(Box::new(Unfound { problem, suspected }))
    }
}

/// Revisions to look up, by path.
#[derive(Debug, Default)]
pub(crate) struct Lookups(Vec<(NameId, FileId)>);

impl Lookups {
    /// Adds a revision. Duplicates are allowed.
    pub fn add(&mut self, path: NameId, file: FileId) {
        self.0.push((path, file));
    }

    /// Looks up all revisions. `tick` is called after each filelog.
    ///
    /// # Errors
    ///
    /// The defect of a manifest that names a missing revision. A missing revision alone is no
    /// error: its content is known by its node. Also errors of `tick`, and of files that cannot be
    /// read.
    pub fn run(
        mut self,
        lookup: Lookup<'_>,
        files: &FileTable,
        mut tick: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        self.0.sort_unstable();
        self.0.dedup();
        for group in self.0.chunk_by(|(a, _), (b, _)| a == b) {
            let wanted: Vec<_> = group.iter().map(|(_, file)| (*file, files.node(*file))).collect();
            if let Err(unfound) = lookup.search(group[0].0, &wanted) {
                match *unfound {
                    Unfound { suspected: Some(suspected), .. } => return Err(suspected),
                    Unfound { problem: problem @ revlog::Error::Io { .. }, .. } => {
                        return Err(problem.into());
                    }
                    Unfound { .. } => {}
                }
            }
            tick()?;
        }
        Ok(())
    }
}
