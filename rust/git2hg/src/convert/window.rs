//! Commits that are converted together.

use std::io::Read;

use gitpack::Oid;

use crate::answers::Answers;
use crate::commit::{self, CommitParts, judge};
use crate::error::{Error, Result};
use crate::history::MOST_DETAIL;
use crate::reason::Reason;

/// Commits of a window.
const MOST_COMMITS: usize = 256;
/// Bytes after which a window gets no more commits.
const MOST_BYTES: usize = 4 << 20;

/// A new commit.
#[derive(Debug)]
pub(crate) struct WindowCommit {
    pub oid: Oid,
    pub tree: Option<Oid>,
    pub parents: Vec<Oid>,
    /// Why it does not come back, whatever its tree is, and what of it is the reason.
    pub refused: Option<(Reason, Vec<u8>)>,
    content: Vec<u8>,
}

impl WindowCommit {
    /// What its changeset takes of it, if it is not refused.
    pub fn parts(&self) -> Option<CommitParts<'_>> {
        CommitParts::of(&self.content)
    }
}

/// Reads the next commits; none at the end.
///
/// # Errors
///
/// Those of [`Answers::read`], and [`Error::Missing`].
pub(crate) fn read(answers: &mut Answers<impl Read>) -> Result<Vec<WindowCommit>> {
    let mut window = Vec::new();
    let mut bytes = 0;
    while window.len() < MOST_COMMITS && bytes < MOST_BYTES {
        let Some(answer) = answers.read_start(commit::MOST_BYTES + 1)? else { break };
        match answer.kind {
            b"commit" => {}
            b"" => return Err(Error::Missing(answer.oid)),
            kind => return Err(Error::Answer(kind.escape_ascii().to_string())),
        }
        let judged = judge(answer.content);
        let refused = judged
            .refused
            .map(|(reason, detail)| (reason, detail[..detail.len().min(MOST_DETAIL)].to_vec()));
        let (tree, parents) = (judged.tree, judged.parents);
        let content = if refused.is_some() { Vec::new() } else { answer.content.to_vec() };
        bytes += content.len();
        window.push(WindowCommit { oid: answer.oid, tree, parents, refused, content });
    }
    Ok(window)
}
