//! Survey of a history: commits that a push would refuse, with their reasons.
//!
//! Commits are read first, then each of their trees once.

use std::io::{Read, Write};

use gitpack::Oid;
use hashbrown::HashSet;

use crate::error::{Error, Result};
use crate::judge::reasons::TreeReasons;
use crate::judge::{Judge, Verdicts};
use crate::read::answers::Answers;
use crate::read::commits;
use crate::read::trees::GitTrees;
use crate::rules::CommitRules;
use dialect::{Dialect, Reason};

/// Objects between two progress reports.
const TICK_INTERVAL: usize = 256;
/// Memory for trees while the paths of findings are looked up.
const KEPT_BYTES: usize = 1 << 20;

/// Stage of a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SurveyStage {
    /// Reading commits; their number is unknown.
    Commits = 0,
    /// Reading trees; the total grows.
    Trees = 1,
}

/// Progress of a survey.
#[derive(Clone, Copy, Debug)]
pub struct SurveyProgress {
    /// Stage reached.
    pub stage: SurveyStage,
    /// Objects read.
    pub done: u64,
    /// Objects known so far; 0 if unknown.
    pub total: u64,
}

/// Result of a survey.
#[derive(Debug)]
pub struct Survey {
    verdicts: Verdicts,
    findings: Vec<Finding>,
    extras: [u64; 2],
}

/// Commits refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The reason.
    pub reason: Reason,
    /// Number of commits.
    pub commits: u64,
    /// First of them: none of its parents has this reason.
    pub first: Oid,
    /// Part of the first commit that is the reason: a header, an author, a path. At most 512 bytes;
    /// may be empty.
    pub detail: Vec<u8>,
}

impl Survey {
    /// Number of commits.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.verdicts.commits() as u64
    }

    /// Number of different trees.
    #[must_use]
    pub fn trees(&self) -> u64 {
        self.verdicts.trees() as u64
    }

    /// Numbers of accepted commits that need the extra for a commit, and for a tree.
    #[must_use]
    pub const fn extras(&self) -> [u64; 2] {
        self.extras
    }

    /// Findings, in the order of their reasons.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Refused commits, parents before children.
    pub fn refused(&self) -> impl Iterator<Item = (Oid, Reason)> + '_ {
        self.verdicts.refused().map(|(_, oid, reason)| (oid, reason))
    }
}

/// Surveys a history, by the rules of a dialect. `is_exact`: extras keep the parts that
/// changesets cannot express.
///
/// `commits` is the output of `git cat-file --batch`: the commits, parents before children.
/// `requests` and `answers` are the pipes of a `git cat-file --batch-command --buffer` for trees.
/// The survey stops if `watch` returns true. Parents outside the history count as changesets.
///
/// # Errors
///
/// [`Error::Missing`] if git lacks an object, [`Error::Cancelled`], and errors of the pipes.
pub fn survey<D: Dialect>(
    is_exact: bool,
    commits: impl Read,
    requests: impl Write,
    answers: impl Read,
    watch: &dyn Fn(SurveyProgress) -> bool,
) -> Result<Survey> {
    let told = |stage, done: usize, total: usize| {
        let reached = SurveyProgress { stage, done: done as u64, total: total as u64 };
        if done.is_multiple_of(TICK_INTERVAL) && watch(reached) {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    };
    let rules = CommitRules::of::<D>(is_exact, true);
    let (mut judge, mut commits, mut count) = (Judge::default(), Answers::new(commits), 0);
    let mut seen = TreeReasons::default();
    let mut kept: HashSet<Oid> = HashSet::new();
    while let Some((oid, content)) = commits::next(&mut commits)? {
        let mut judged = (rules.judge)(content);
        if let Some((reason, detail)) = &mut judged.refused {
            // a finding shows the detail of its first commit only
            if seen.has(*reason) {
                *detail = b"";
            }
            seen.add(*reason);
        }
        if is_exact && judged.refused.is_none() && D::judge(content).refused.is_some() {
            kept.insert(oid);
        }
        judge.add(oid, &judged, |_| true)?;
        count += 1;
        told(SurveyStage::Commits, count, 0)?;
    }
    let git = GitTrees::new(requests, answers, KEPT_BYTES).with_rules(rules.trees());
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
    for (_, oid, _) in verdicts.refused() {
        kept.remove(&oid);
    }
    let tree_extras = if is_exact { verdicts.tree_extras(rules, &git)? } else { 0 };
    let extras = [kept.len() as u64, tree_extras];
    Ok(Survey { verdicts, findings, extras })
}
