//! The changesets of a conversion: their selection, their manifests, and checks of their texts.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use dialect::exact;
use parallel::Buffer;
use revlog::changeset::MalformedChangeset;
use revlog::{Changeset, Node, Rev, Revlog, Scratch, Texts};

use crate::error::{Error, Result};
use crate::map::oidmap::OidMap;
use crate::map::segment::Table;
use crate::read::verify::Check;

/// Changesets that one job reads.
const JOB_REVS: usize = 2048;
/// Texts kept while walking, in bytes. Changesets are rarely deltas, and every read searches all
/// kept texts.
pub(crate) const KEPT_TEXT_BYTES: usize = 16 << 10;
/// Texts hashed together.
const CHECKED_AT_ONCE: usize = 16;

/// The part of a changelog that may be converted.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Number of changesets in the changelog that the caller saw.
    pub len: u32,
    /// The node of the last of them; the null node if the changelog was empty.
    pub tip: Node,
    /// Changesets among them that must not be converted. Closed under descendants.
    pub excluded: Vec<Node>,
    /// All selected changesets before this revision number are in the map already.
    pub known_below: u32,
}

impl Selection {
    /// The selected changesets that are not in the map, ascending.
    ///
    /// # Errors
    ///
    /// [`Error::Moved`] if the changelog no longer begins with the changesets that the caller saw,
    /// or lacks an excluded one.
    pub(crate) fn unconverted(&self, changelog: &Revlog, map: &OidMap) -> Result<Vec<Rev>> {
        let index = changelog.index();
        let Some(last) = self.len.checked_sub(1) else { return Ok(Vec::new()) };
        if index.rev(last).map(|rev| index.node(rev)) != Some(self.tip) {
            return Err(Error::Moved);
        }
        let excluded: HashSet<Rev> =
            changelog.find(&self.excluded).map_err(|_| Error::Moved)?.into_iter().collect();
        let candidates = (self.known_below..self.len).filter_map(|number| index.rev(number));
        let is_new = |rev: &Rev| {
            !excluded.contains(rev) && map.oid(Table::Changesets, &index.node(*rev)).is_none()
        };
        Ok(candidates.filter(is_new).collect())
    }
}

/// Ranges of positions in the list of new changesets, one for each job.
pub(crate) fn jobs(count: usize) -> impl Iterator<Item = Range<usize>> + Send {
    (0..count).step_by(JOB_REVS).map(move |start| start..(start + JOB_REVS).min(count))
}

/// Bytes of the result of one job.
pub(crate) const JOB_BYTES: u64 = (JOB_REVS * size_of::<Node>()) as u64;

/// A changeset too long for its commit and its note to be made in memory.
#[derive(Debug, thiserror::Error)]
#[error("its text has {0} bytes, more than {1}; a larger amalgam.git.memory has room for it")]
struct TooLong(usize, u64);

/// Reads changesets, checks their texts if asked, and returns their manifests in order, and whether
/// any has an extra for its tree.
///
/// # Errors
///
/// [`Error::Store`] with the first revision that cannot be read, is longer than `longest` bytes, or
/// does not match its node.
pub(crate) fn read_manifest_nodes(
    changelog: &Revlog,
    revs: &[Rev],
    check_texts: bool,
    longest: u64,
    scratch: &mut Scratch,
) -> Result<(Vec<Node>, bool)> {
    let mut texts = Texts::new(changelog, scratch, KEPT_TEXT_BYTES);
    let (mut manifests, mut has_extras) = (Vec::with_capacity(revs.len()), false);
    let mut unchecked: Vec<(Rev, Arc<Buffer>)> = Vec::new();
    for revs in revs.chunks(CHECKED_AT_ONCE) {
        for &rev in revs {
            if changelog.index().unusual_flags(rev) != 0 {
                return Err(changelog.unsupported(rev, "it has unknown flags").into());
            }
            let text = texts.get(rev)?.text;
            if text.len() as u64 > longest {
                return Err(changelog.corrupt(rev, TooLong(text.len(), longest)).into());
            }
            let changeset = parse(changelog, rev, &text)?;
            has_extras |= exact::tree::TreeValue::is_in(&changeset);
            manifests.push(changeset.manifest);
            unchecked.push((rev, text));
        }
        if check_texts {
            let revisions: Vec<_> =
                unchecked.iter().map(|(rev, text)| (*rev, text.as_slice())).collect();
            Check::new(changelog).texts(&revisions)?;
        }
        unchecked.clear();
    }
    Ok((manifests, has_extras))
}

/// Parses the text of a changeset.
pub(crate) fn parse<'a>(changelog: &Revlog, rev: Rev, text: &'a [u8]) -> Result<Changeset<'a>> {
    Changeset::parse(text)
        .map_err(|problem: MalformedChangeset| changelog.corrupt(rev, problem).into())
}
