//! The chunks of revisions that a store has.

use std::sync::Arc;

use parallel::Buffer;
use revlog::{Delta, FLAG_CENSORED, FLAG_EXTERNAL, Index, Node, Parents, Revlog, Texts, node};

use crate::chunk::{RevisionChunk, set_len};
use crate::delta::{line_delta, whole_text};
use crate::error::Result;
use crate::outgoing::GroupVersion;
use crate::plan::{Form, PlannedDelta};

/// A text that its node was not made from.
#[derive(Debug, thiserror::Error)]
#[error("its text does not match its node {0}")]
struct Mismatch(Node);

/// A delta that makes something of another length than the index says.
#[derive(Debug, thiserror::Error)]
#[error("its delta makes a text of {0} bytes, its index entry says {1}")]
struct WrongLen(usize, usize);

/// A revision that was written.
pub(crate) struct Written {
    /// Where its delta begins.
    pub delta_at: usize,
    /// Its text, if that was rebuilt.
    pub text: Option<Arc<Buffer>>,
}

/// Writes revisions of one revlog.
pub(crate) struct Writer<'a> {
    /// The revlog.
    pub revlog: &'a Revlog,
    /// Where links lead to.
    pub changelog: &'a Index,
    /// The format.
    pub version: GroupVersion,
    /// Whether a first parent that is null says something, as it does of a copy in a filelog.
    pub keeps_null_parent: bool,
}

impl Writer<'_> {
    /// Appends the chunk of a revision.
    ///
    /// # Errors
    ///
    /// What is wrong with the revision, or with one that it is made from.
    pub fn write(
        &self,
        planned: PlannedDelta,
        texts: &mut Texts<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Written> {
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
        Ok(Written { delta_at, text: rebuilt })
    }

    /// The text of a revision, compared with its node unless a flag says that it is another's.
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

    /// Whether a stored delta fits its base, as far as the index knows lengths.
    fn check_delta(&self, rev: revlog::Rev, base: revlog::Rev, bytes: &[u8]) -> Result<()> {
        let [base_len, len] =
            [base, rev].map(|rev| self.revlog.index().text_len_hint(rev) as usize);
        if base_len == 0 || len == 0 {
            return Ok(()); // not known
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
