//! Commits of other git repositories that changesets stand for.
//!
//! A pull notes the commit of each changeset that it makes, and whether the changeset gives it
//! back. Objects of the commits are in the packs that were fetched. Does not decide which commit a
//! changeset gets.

use std::io;
use std::sync::OnceLock;

use gitpack::pack::Objects;
use gitpack::{ObjectKind, Oid};
use parallel::Directory;
use revlog::Node;

use crate::error::{Error, Result};
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;
use crate::request::ImportedStore;

/// Longest object that is read, with its deltas, in bytes.
const MOST_BYTES: usize = 1 << 30;

/// The imported commits of a repository.
#[derive(Debug)]
pub(crate) struct ImportedCommits<'a> {
    /// From commits, in the place of nodes, to changesets. The table of manifests leads from
    /// changesets to commits, for those that do not give their commit back.
    map: OidMap,
    directory: &'a Directory,
    packs: Option<&'a Directory>,
    objects: OnceLock<Objects>,
}

impl<'a> ImportedCommits<'a> {
    /// Opens the map.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if it cannot be read, [`Error::Imported`] if it is damaged.
    pub fn open(store: &ImportedStore<'a>) -> Result<Self> {
        let &ImportedStore { map: directory, ref segments, ref unmapped, packs } = store;
        let map = OidMap::open(directory, segments, unmapped).map_err(|error| match error {
            Error::Map { path, what } => Error::Imported { path, what },
            other => other,
        })?;
        Ok(Self { map, directory, packs, objects: OnceLock::new() })
    }

    /// The changeset that a commit became.
    pub fn changeset(&self, commit: Oid) -> Option<Node> {
        let made = self.map.oid(Table::Changesets, &Node::from_bytes(*commit.as_bytes()))?;
        Some(Node::from_bytes(*made.as_bytes()))
    }

    /// The commit of a changeset that does not give it back.
    pub fn kept(&self, node: &Node) -> Option<Oid> {
        self.map.oid(Table::Manifests, node)
    }

    /// A commit that became this changeset.
    pub fn commit(&self, node: &Node) -> Option<Oid> {
        let made = Oid::from_bytes(*node.as_bytes());
        let commit = self.map.changeset(&made)?;
        Some(Oid::from_bytes(*commit.as_bytes()))
    }

    /// Reads an object of a commit.
    ///
    /// # Errors
    ///
    /// [`Error::Imported`] if it is missing or damaged.
    pub fn read(&self, kind: ObjectKind, oid: Oid) -> Result<Vec<u8>> {
        let problem = match self.found(kind, oid) {
            Ok(Some(content)) => return Ok(content),
            Ok(None) => "is missing".to_owned(),
            Err(problem) => format!("cannot be read: {problem}"),
        };
        let what = format!("object {oid} {problem}");
        let path = self.packs.unwrap_or(self.directory).path().to_owned();
        Err(Error::Imported { path, what })
    }

    fn found(&self, kind: ObjectKind, oid: Oid) -> io::Result<Option<Vec<u8>>> {
        let Some(packs) = self.packs else { return Ok(None) };
        let open = || Objects::open(packs, MOST_BYTES);
        let objects = match self.objects.get() {
            Some(objects) => objects,
            None => {
                let opened = open()?;
                self.objects.get_or_init(|| opened)
            }
        };
        match objects.read(kind, &oid) {
            Ok(Some(content)) => Ok(Some(content)),
            // a pull may have put it into another pack
            _ => open()?.read(kind, &oid),
        }
    }
}
