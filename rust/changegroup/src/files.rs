//! File revisions of a changegroup.

use hashbrown::HashMap;
use revlog::{Error, Node, Rev, Revlog, RevlogKind, Store, readable};

use crate::error::Result;
use crate::manifests::Listed;
use crate::plan::{self, PlannedDelta};
use crate::revset::RevSet;

/// Selection of file revisions.
#[derive(Debug)]
pub(crate) enum FileSelection {
    /// Revisions linked to one of the changesets.
    Linked,
    /// Revisions listed in manifests with their changesets, sorted by file, and the start of each
    /// file.
    Listed(Vec<Listed>, Vec<usize>),
}

/// File revisions listed in manifests, with the first changeset of each.
#[derive(Debug, Default)]
pub(crate) struct FirstListed(HashMap<(u32, Node), u32>);

impl FirstListed {
    /// Adds a listed revision.
    pub fn add(&mut self, (file, node, changeset): Listed) {
        let first = self.0.entry((file, node)).or_insert(changeset);
        *first = changeset.min(*first);
    }

    /// Sorts by file. `place` maps the numbers of files to their new ones.
    pub fn selection(self, place: &[u32]) -> FileSelection {
        let listed = self.0.into_iter();
        let mut listed: Vec<_> =
            listed.map(|((file, node), link)| (place[file as usize], node, link)).collect();
        listed.sort_unstable();
        let mut starts = Vec::with_capacity(place.len() + 1);
        for file in 0..=place.len() {
            starts.push(listed.partition_point(|(listed, ..)| (*listed as usize) < file));
        }
        FileSelection::Listed(listed, starts)
    }
}

/// Opens the filelog with this number and plans its revisions; the plan is empty if the receiver
/// has all.
///
/// # Errors
///
/// Errors of the filelog, or its absence.
pub(crate) fn open(
    store: &Store,
    (file, name): (usize, &[u8]),
    selection: &FileSelection,
    changesets: &RevSet,
    common: &RevSet,
) -> Result<(Revlog, Vec<PlannedDelta>)> {
    let revlog = store.open(RevlogKind::Filelog(name))?;
    let index = revlog.index();
    if index.is_empty() {
        return Err(Error::Corrupt {
            revlog: format!("filelog {}", readable(name)),
            path: revlog.path().to_owned(),
            what: "it is empty or missing".to_owned(),
        }
        .into());
    }
    let revs: Vec<(Rev, u32)> = match selection {
        FileSelection::Linked => {
            let links = index.revs().map(|rev| (rev, index.link(rev)));
            links.filter(|(_, link)| changesets.contains(*link)).collect()
        }
        FileSelection::Listed(listed, starts) => {
            let listed = &listed[starts[file]..starts[file + 1]];
            let nodes: Vec<Node> = listed.iter().map(|(_, node, _)| *node).collect();
            let found = revlog.find(&nodes)?;
            let links = found.into_iter().zip(listed.iter().map(|(.., link)| *link));
            let is_new = |(rev, _): &(Rev, u32)| {
                let link = index.link(*rev);
                link != u32::MAX && !common.contains(link)
            };
            let mut revs: Vec<_> = links.filter(is_new).collect();
            revs.sort_unstable();
            revs
        }
    };
    let planned = plan::choose(index, &revs, false);
    Ok((revlog, planned))
}
