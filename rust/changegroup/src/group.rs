//! Writer of chunks for the revisions of a revlog.

use std::sync::Arc;

use parallel::Buffer;
use revlog::{Delta, FLAG_CENSORED, FLAG_EXTERNAL, Index, Node, Parents, Revlog, Texts, node};

use crate::chunk::{RevisionChunk, set_len};
use crate::delta::{line_delta, whole_text};
use crate::error::Result;
use crate::outgoing::GroupVersion;
use crate::plan::{Form, PlannedDelta};

/// Text that does not match its node.
#[derive(Debug, thiserror::Error)]
#[error("its text does not match its node {0}")]
struct Mismatch(Node);

/// Delta whose result has another length than the index entry.
#[derive(Debug, thiserror::Error)]
#[error("its delta makes a text of {0} bytes, its index entry says {1}")]
struct WrongLen(usize, usize);

/// Written revision.
pub(crate) struct WrittenChunk {
    /// Offset of its delta.
    pub delta_at: usize,
    /// Its text, if it was rebuilt.
    pub text: Option<Arc<Buffer>>,
}

/// Writer of revisions of one revlog.
pub(crate) struct ChunkWriter<'a> {
    /// Revlog of the revisions.
    pub revlog: &'a Revlog,
    /// Index of the changelog, which links refer to.
    pub changelog: &'a Index,
    /// Version of the format.
    pub version: GroupVersion,
    /// Whether a null first parent is kept. In a filelog it marks a copy.
    pub keeps_null_parent: bool,
}

impl ChunkWriter<'_> {
    /// Appends the chunk of a revision.
    ///
    /// # Errors
    ///
    /// Errors of the revision, or of a base.
    pub fn write(
        &self,
        planned: PlannedDelta,
        texts: &mut Texts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<WrittenChunk> {
        let index = self.revlog.index();
        let PlannedDelta { rev, link, form } = planned;
        let Parents(mut p1, mut p2) = index.parents(rev);
        if p1.is_none() && !self.keeps_null_parent {
            // as Mercurial reads them (canonical_parent_order in mercurial/revlog.py)
            (p1, p2) = (p2, p1);
        }
        let base = match form {
            Form::Whole => None,
            Form::Stored(base) | Form::Computed(base) => Some(base),
        };
        let start = out.len();
        let chunk = RevisionChunk {
            node: index.node(rev),
            parents: [index.node_or_null(p1), index.node_or_null(p2)],
            base: index.node_or_null(base),
            link: self.changelog.node_or_null(self.changelog.rev(link)),
            flags: index.flags(rev),
        };
        chunk.push_fields(self.version, out);
        let delta_at = out.len();
        let mut rebuilt = None;
        match form {
            Form::Stored(base) => {
                let bytes = texts.stored(rev)?;
                self.check_delta(rev, base, &bytes)?;
                out.extend_from_slice(&bytes);
                texts.recycle(Arc::new(bytes));
            }
            Form::Whole => {
                let text = self.text(rev, texts)?;
                whole_text(&text, out);
                rebuilt = Some(text);
            }
            Form::Computed(base) => {
                let base_text = self.text(base, texts)?;
                let text = self.text(rev, texts)?;
                line_delta(&base_text, &text, out);
                texts.recycle(base_text);
                rebuilt = Some(text);
            }
        }
        set_len(&mut out[start..]).map_err(|problem| self.revlog.corrupt(rev, problem))?;
        Ok(WrittenChunk { delta_at, text: rebuilt })
    }

    /// Text of a revision, verified against its node unless a flag exempts it.
    fn text(&self, rev: revlog::Rev, texts: &mut Texts<'_>) -> Result<Arc<Buffer>> {
        let index = self.revlog.index();
        let revlog::Revision { text, delta } = texts.get(rev)?;
        texts.recycle_delta(delta);
        let flags = index.unusual_flags(rev);
        if flags == 0 {
            let Parents(p1, p2) = index.parents(rev);
            let (p1, p2) = (index.node_or_null(p1), index.node_or_null(p2));
            let own = index.node(rev);
            if node::node_of(p1, p2, &text) != own {
                return Err(self.revlog.corrupt(rev, Mismatch(own)).into());
            }
        } else if flags & !(FLAG_CENSORED | FLAG_EXTERNAL) != 0 {
            let unknown = format!("it has the flags {flags:#06x}, which are not known");
            return Err(self.revlog.unsupported(rev, unknown).into());
        }
        Ok(text)
    }

    /// Checks a stored delta against the text lengths in the index, as far as these are known.
    fn check_delta(&self, rev: revlog::Rev, base: revlog::Rev, bytes: &[u8]) -> Result<()> {
        let [base_len, len] =
            [base, rev].map(|rev| self.revlog.index().text_len_hint(rev) as usize);
        if base_len == 0 || len == 0 {
            return Ok(()); // unknown
        }
        let made = Delta::parse(bytes, base_len)
            .map_err(|problem| self.revlog.corrupt(rev, problem))?
            .result_len();
        if made != len {
            return Err(self.revlog.corrupt(rev, WrongLen(made, len)).into());
        }
        Ok(())
    }
}
