//! What is left of a conversion when a commit is refused: judging the others.
//!
//! Each commit is compared with a tree that comes back: that of its first ancestor that is converted. So
//! what is found is what its whole tree has.

use std::io::{Read, Write};

use gitpack::Oid;

use crate::convert::{ChangesetBuilder, Judged, Refusal};
use crate::error::Result;
use crate::read::commits::WindowCommit;
use crate::read::comparing::compare_window;
use crate::read::diff::TreeComparison;
use crate::reason::Reason;

impl<W: Write, R: Read> ChangesetBuilder<'_, W, R> {
    /// Judges what follows a commit that was refused.
    pub(super) fn judge_after(
        &mut self,
        refusal: Refusal,
        commit: &WindowCommit,
        rest: &[WindowCommit],
    ) -> Result<()> {
        let base = commit.parents.first().and_then(|oid| self.known.get(oid)).map(|it| it.tree);
        self.judged.insert(commit.oid, Judged { base, is_refused: true });
        self.refused.push(refusal);
        self.judge(rest)
    }

    /// Only judges commits.
    pub(super) fn judge(&mut self, window: &[WindowCommit]) -> Result<()> {
        let mut comparisons = Vec::with_capacity(window.len());
        let mut strangers = Vec::with_capacity(window.len());
        for commit in window {
            let known = |oid: &Oid| {
                let judged = self.judged.get(oid).copied();
                let converted = || self.known.get(oid).map(|it| it.tree);
                judged.or_else(|| Some(Judged { base: Some(converted()?), is_refused: false }))
            };
            strangers.push(commit.parents.iter().find(|oid| known(oid).is_none()).copied());
            let base = commit.parents.first().and_then(known).and_then(|it| it.base);
            // whether it is refused is told below
            self.judged.insert(commit.oid, Judged { base, is_refused: false });
            let new = if commit.refused.is_some() { base } else { commit.tree };
            comparisons.push(TreeComparison { old: base, new, ..TreeComparison::default() });
        }
        let memory = (self.memory_bytes, self.watching);
        if compare_window(self.trees, window, &mut comparisons, memory)?.is_none() {
            let (first, rest) = window.split_at(window.len() / 2);
            self.judge(first)?;
            return self.judge(rest);
        }
        for ((commit, comparison), stranger) in window.iter().zip(comparisons).zip(strangers) {
            let inherited = || {
                let is_refused = |oid: &Oid| self.judged.get(oid).is_some_and(|it| it.is_refused);
                commit.parents.iter().any(is_refused).then(|| (Reason::Ancestor, Vec::new()))
            };
            let unknown = stranger.map(|oid| (Reason::Ancestor, oid.to_string().into_bytes()));
            let found =
                commit.refused.clone().or(comparison.refused).or(unknown).or_else(inherited);
            if let Some((reason, detail)) = found {
                self.refused.push(Refusal { oid: commit.oid, reason, detail });
                if let Some(judged) = self.judged.get_mut(&commit.oid) {
                    judged.is_refused = true;
                }
            }
        }
        Ok(())
    }
}
