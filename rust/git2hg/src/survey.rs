//! A survey: which commits of a history come back, and why the others do not.
//!
//! Commits are read first, then each tree once. A commit whose parent does not come back does not
//! either: its parent would have another id.

use std::io::{Read, Write};

use gitpack::Oid;

use crate::error::{Error, Result};
use crate::judge::{Judge, Verdicts, commit};
use crate::read::answers::Answers;
use crate::read::commits;
use crate::read::trees::GitTrees;
use crate::reason::{Reason, TreeReasons};

/// Objects between two looks at the caller's wish to stop.
const WATCHED: usize = 256;
/// Bytes of trees that are kept while the paths of findings are looked up.
const KEPT_BYTES: usize = 1 << 20;

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SurveyStage {
    /// Commits; how many there are is not known.
    Commits = 0,
    /// Trees; more of them may be found.
    Trees = 1,
}

/// How far a survey is.
#[derive(Clone, Copy, Debug)]
pub struct SurveyProgress {
    /// What is being read.
    pub stage: SurveyStage,
    /// How many of them are.
    pub done: u64,
    /// How many there are; 0 if that is not known.
    pub total: u64,
}

/// What a survey has found.
#[derive(Debug)]
pub struct Survey {
    verdicts: Verdicts,
    findings: Vec<Finding>,
}

/// The commits that have one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The reason.
    pub reason: Reason,
    /// How many commits have it.
    pub commits: u64,
    /// The first of them: its parents do not have it.
    pub first: Oid,
    /// What of it is the reason: a header, an author, a path. Cut if it is long; may be empty.
    pub detail: Vec<u8>,
}

impl Survey {
    /// How many commits were surveyed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.verdicts.commits() as u64
    }

    /// How many different trees they have.
    #[must_use]
    pub fn trees(&self) -> u64 {
        self.verdicts.trees() as u64
    }

    /// The reasons that there are, in their order.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The commits that do not come back, parents before children.
    pub fn refused(&self) -> impl Iterator<Item = (Oid, Reason)> + '_ {
        self.verdicts.refused().map(|(_, oid, reason)| (oid, reason))
    }
}

/// Surveys a history.
///
/// `commits` is what `git cat-file --batch` writes of the commits, parents before children. `requests`
/// and `answers` belong to a `git cat-file --batch-command --buffer`, which is asked for trees. When
/// `watch` answers true, the survey stops. A parent that is not among the commits is taken to be
/// in Mercurial already.
///
/// # Errors
///
/// [`Error::Missing`] if git has not an object, [`Error::Cancelled`], or what is wrong with git's
/// answers.
pub fn survey(
    commits: impl Read,
    requests: impl Write,
    answers: impl Read,
    watch: &dyn Fn(SurveyProgress) -> bool,
) -> Result<Survey> {
    let told = |stage, done: usize, total: usize| {
        let reached = SurveyProgress { stage, done: done as u64, total: total as u64 };
        if done.is_multiple_of(WATCHED) && watch(reached) { Err(Error::Cancelled) } else { Ok(()) }
    };
    let (mut judge, mut commits, mut count) = (Judge::default(), Answers::new(commits), 0);
    let mut seen = TreeReasons::default();
    while let Some((oid, content)) = commits::next(&mut commits)? {
        let mut judged = commit::judge(content);
        if let Some((reason, detail)) = &mut judged.refused {
            // only the first commit with a reason is shown with its detail
            if seen.has(*reason) {
                *detail = b"";
            }
            seen.add(*reason);
        }
        judge.add(oid, &judged, |_| true)?;
        count += 1;
        told(SurveyStage::Commits, count, 0)?;
    }
    let git = GitTrees::new(requests, answers, KEPT_BYTES);
    let tick = |done, total| told(SurveyStage::Trees, done, total);
    let verdicts = judge.verdicts(&git, usize::MAX, tick)?;
    let mut findings: Vec<Finding> = Vec::new();
    for (number, first, reason) in verdicts.refused() {
        match findings.iter_mut().find(|finding| finding.reason == reason) {
            Some(finding) => finding.commits += 1,
            None => {
                let detail = verdicts.detail(number, &git)?;
                findings.push(Finding { reason, commits: 1, first, detail });
            }
        }
    }
    findings.sort_by_key(|finding| finding.reason);
    Ok(Survey { verdicts, findings })
}
