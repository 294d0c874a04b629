//! A survey: which commits of a history come back, and why the others do not.
//!
//! Commits are read first, then each tree once. A commit whose parent does not come back does not
//! either: its parent would have another id.

use std::io::{Read, Write};

use gitpack::Oid;

use crate::error::{Error, Result};
use crate::judge::history::CommitHistory;
use crate::judge::trees::{Asked, Trees};
use crate::reason::Reason;

/// Objects between two looks at the caller's wish to stop.
const WATCHED: usize = 256;

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
    /// Commits, parents before children.
    commits: Vec<(Oid, Option<Reason>)>,
    /// Different trees.
    trees: usize,
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
        self.commits.len() as u64
    }

    /// How many different trees they have.
    #[must_use]
    pub fn trees(&self) -> u64 {
        self.trees as u64
    }

    /// The reasons that there are, in their order.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The commits that do not come back, parents before children.
    pub fn refused(&self) -> impl Iterator<Item = (Oid, Reason)> + '_ {
        self.commits.iter().filter_map(|(oid, reason)| Some((*oid, (*reason)?)))
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
    let history = CommitHistory::read(commits, |done| told(SurveyStage::Commits, done, 0))?;
    let mut git = Asked::new(requests, answers);
    let mut trees = Trees::default();
    for commit in history.commits() {
        if let Some(tree) = commit.tree {
            trees.add(tree)?;
        }
    }
    trees.read(&mut git, |done, total| told(SurveyStage::Trees, done, total))?;

    let reasons = history.reasons(|tree| trees.reasons(tree).of_root());
    let mut findings = Vec::new();
    for reason in Reason::ALL {
        let mut having =
            history.commits().iter().zip(&reasons).filter(|(_, it)| **it == Some(reason));
        let Some((first, _)) = having.next() else { continue };
        let detail = match first.tree {
            Some(tree) if first.own.is_none() && reason != Reason::Ancestor => {
                trees.path(&mut git, tree, reason)?
            }
            _ => history.detail(reason).to_vec(),
        };
        let commits = 1 + having.count() as u64;
        findings.push(Finding { reason, commits, first: first.oid, detail });
    }
    let oids = history.commits().iter().map(|commit| commit.oid);
    Ok(Survey { commits: oids.zip(reasons).collect(), trees: trees.len(), findings })
}
