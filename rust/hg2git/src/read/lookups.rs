//! File revisions that are not converted, but must exist in the filelogs of their paths.
//!
//! A node names a content, not a path. A manifest that was not hashed may name a revision that
//! exists elsewhere, for a path that never had it.

use revlog::{Node, Rev, Revlog, RevlogKind, Store};

use crate::error::{Error, Result};
use crate::read::changes::ChangeLog;
use crate::read::files::{FileId, FileTable};
use crate::read::names::NameId;

/// Where filelogs are, and who is asked if they have not what they should.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'a> {
    pub store: &'a Store,
    pub changes: &'a ChangeLog,
    /// Tells what is wrong with the first manifest that names one of these revisions for this path,
    /// if something is.
    pub suspect: &'a (dyn Fn(NameId, &[FileId]) -> Option<Error> + Sync),
}

/// Why not all revisions were found.
struct Unfound {
    problem: revlog::Error,
    /// What is wrong with a manifest that names one of them.
    suspected: Option<Error>,
}

impl Lookup<'_> {
    /// The filelog of `path`, and its revisions with these nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if it cannot be read, or has not all of them.
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

/// Revisions to look up: path and revision.
#[derive(Debug, Default)]
pub(crate) struct Lookups(Vec<(NameId, FileId)>);

impl Lookups {
    /// Adds one, as often as it is named.
    pub fn add(&mut self, path: NameId, file: FileId) {
        self.0.push((path, file));
    }

    /// Looks them up. `tick` is called for each filelog.
    ///
    /// # Errors
    ///
    /// What is wrong with a manifest that names one which is not there; none if it is right, since
    /// content is known by its node. Or that of `tick`, or of a file that cannot be read.
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
