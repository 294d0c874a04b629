//! Surveys of git repositories: a handle on what was found, and questions to it.

use std::ffi::c_void;
use std::path::Path;

use git2hg::{Error, Finding, Survey, SurveyProgress, survey};
use gitpack::Oid;

use crate::buffers;
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle::{self, Handle};
use crate::report::{Progress, ReportFn, Reporter};

/// Pipes of git processes, whose repository is to be surveyed. All are lent for the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SurveyPipes {
    /// What `git cat-file --batch` writes of the commits, parents before children.
    pub commits: i32,
    /// To a `git cat-file --batch-command --buffer`.
    pub requests: i32,
    /// From that.
    pub answers: i32,
}

/// What a survey has found.
pub struct SurveyHandle(Handle<Survey>);

/// How much a survey has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurveyCounts {
    /// Commits that were surveyed.
    pub commits: u64,
    /// Commits among them that do not come back.
    pub refused: u64,
    /// Different trees that they have.
    pub trees: u64,
    /// Different reasons.
    pub findings: u64,
}

/// The commits that have one reason.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SurveyFinding {
    /// Number of the reason, as `git2hg::Reason` has it.
    pub reason: u32,
    /// How many of `detail` are set.
    pub detail_len: u32,
    /// How many commits have it.
    pub commits: u64,
    /// The first of them.
    pub first: [u8; 20],
    /// What of the first one is the reason.
    pub detail: [u8; 512],
}

/// A commit that does not come back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SurveyRefusal {
    /// Number of its reason.
    pub reason: u32,
    /// Its id.
    pub commit: [u8; 20],
}

/// Surveys the history that git processes are asked for.
///
/// Phases of the report. 0: commits, of an unknown number. 1: trees; the total grows.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `report` may be called with `handle` until the call
/// ends. The survey is given to `amalgam_survey_free` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_survey_run(
    out: *mut *mut SurveyHandle,
    pipes: SurveyPipes,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises, for this and each of the following.
        let commits = unsafe { buffers::file(pipes.commits) }?;
        // SAFETY: likewise.
        let requests = unsafe { buffers::file(pipes.requests) }?;
        // SAFETY: likewise.
        let answers = unsafe { buffers::file(pipes.answers) }?;
        // SAFETY: likewise.
        let reporter = unsafe { Reporter::new(report, handle) };
        let progress = Progress::default();
        let watch = |SurveyProgress { stage, done, total }: SurveyProgress| {
            progress.tell(stage as u32, done, total)
        };
        let job = || survey(&*commits, &*requests, &*answers, &watch).map_err(Failure::from);
        let found = reporter.supervise(&progress, job)?;
        // SAFETY: as the caller promises.
        unsafe { handle::give(out, SurveyHandle(Handle::new(found))) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Frees a survey; null is ignored.
///
/// # Safety
///
/// `survey` came from `amalgam_survey_run` or is null, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_survey_free(survey: *mut SurveyHandle) {
    // SAFETY: as the caller promises.
    unsafe { handle::free(survey) }
}

/// Counts what a survey has.
///
/// # Safety
///
/// `error` as everywhere; `out` is writable; `survey` came from `amalgam_survey_run`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_survey_count(
    out: *mut SurveyCounts,
    survey: *const SurveyHandle,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let survey = unsafe { handle::borrow(survey) }?;
        let size = survey.0.call(|found| {
            Ok(SurveyCounts {
                commits: found.commits(),
                refused: found.findings().iter().map(|finding| finding.commits).sum(),
                trees: found.trees(),
                findings: found.findings().len() as u64,
            })
        })?;
        // SAFETY: as the caller promises.
        unsafe { buffers::put(out, size) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes all findings to `out`, in the order of their reasons.
///
/// # Safety
///
/// `error` as everywhere; `out` has room for as many as `amalgam_survey_count` tells; `survey` came from
/// `amalgam_survey_run`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_survey_findings(
    out: *mut SurveyFinding,
    survey: *const SurveyHandle,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let survey = unsafe { handle::borrow(survey) }?;
        survey.0.call(|found| {
            for (number, finding) in found.findings().iter().enumerate() {
                // SAFETY: as the caller promises, there is room.
                unsafe { buffers::put(out.wrapping_add(number), SurveyFinding::from(finding)) }?;
            }
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Writes all commits that do not come back to `out`, parents before children.
///
/// # Safety
///
/// As `amalgam_survey_findings`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_survey_refused(
    out: *mut SurveyRefusal,
    survey: *const SurveyHandle,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let survey = unsafe { handle::borrow(survey) }?;
        survey.0.call(|found| {
            for (number, (oid, reason)) in found.refused().enumerate() {
                let refusal = SurveyRefusal { reason: reason as u32, commit: *oid.as_bytes() };
                // SAFETY: as the caller promises, there is room.
                unsafe { buffers::put(out.wrapping_add(number), refusal) }?;
            }
            Ok(())
        })
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

impl From<&Finding> for SurveyFinding {
    fn from(finding: &Finding) -> Self {
        let mut detail = [0; 512];
        let len = finding.detail.len().min(detail.len());
        detail[..len].copy_from_slice(&finding.detail[..len]);
        Self {
            reason: finding.reason as u32,
            detail_len: u32::try_from(len).unwrap_or(0),
            commits: finding.commits,
            first: *Oid::as_bytes(&finding.first),
            detail,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Cancelled => Self::cancelled(),
            Error::Io(_) | Error::Ended | Error::Answer(_) => {
                Self::corrupt(message).hint("run 'git fsck' there")
            }
            Error::Missing(_) => Self::input(message).hint(
                "make a full clone; alternates are not followed: 'git repack -a -d' copies what \
                 they have",
            ),
            Error::TooManyFiles(_) | Error::TooManyRevisions(_) => Self::input(message)
                .hint("push it in parts, or ask the server's operator for more memory"),
            Error::TooLarge { .. } | Error::TooMany => Self::unsupported(message),
            Error::Store(problem) => changegroup::Error::Store(problem).into(),
            Error::Scratch(source) | Error::Output(source) => Self::io(Path::new(""), &source),
            Error::Wrong(_) => Self::bug(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    fn file(name: &str, content: &str) -> File {
        let path = std::env::temp_dir().join(format!("{}-{name}", std::process::id()));
        let mut file = File::options().create_new(true).read(true).write(true).open(&path);
        let file = file.as_mut().expect("is made");
        std::fs::remove_file(path).expect("is ours");
        file.write_all(content.as_bytes()).expect("has room");
        file.seek(SeekFrom::Start(0)).expect("is a file");
        file.try_clone().expect("is open")
    }

    fn run(name: &str, commits: &str, answers: &str) -> (Status, *mut SurveyHandle, ErrorInfo) {
        let files = [
            file(&format!("{name}-commits"), commits),
            file(&format!("{name}-requests"), ""),
            file(&format!("{name}-answers"), answers),
        ];
        let [commits, requests, answers] = files.each_ref().map(AsRawFd::as_raw_fd);
        let (mut out, mut error) = (std::ptr::null_mut(), ErrorInfo::default());
        let pipes = SurveyPipes { commits, requests, answers };
        // SAFETY: all of it is the test's.
        let status = unsafe {
            amalgam_survey_run(&raw mut out, pipes, None, std::ptr::null_mut(), &raw mut error)
        };
        (status, out, error)
    }

    fn commit(id: &str, header: &str) -> String {
        let ident = "A <a@x> 1 +0000";
        let text = format!("tree {TREE}\nauthor {ident}\ncommitter {ident}\n{header}\nm\n");
        format!("{} commit {}\n{text}\n", id.repeat(20), text.len())
    }

    #[test]
    fn findings_and_refusals_are_told() {
        let commits = [commit("11", ""), commit("22", "encoding x\n")].concat();
        let (status, survey, mut error) = run("told", &commits, &format!("{TREE} tree 0\n\n"));
        assert_eq!(status, Status::Ok);
        let mut size = SurveyCounts::default();
        let mut findings = [SurveyFinding {
            reason: 0,
            detail_len: 0,
            commits: 0,
            first: [0; 20],
            detail: [0; 512],
        }];
        let mut refused = [SurveyRefusal { reason: 0, commit: [0; 20] }];
        // SAFETY: all of it is the test's.
        unsafe {
            amalgam_survey_count(&raw mut size, survey, &raw mut error);
            amalgam_survey_findings(findings.as_mut_ptr(), survey, &raw mut error);
            amalgam_survey_refused(refused.as_mut_ptr(), survey, &raw mut error);
            amalgam_survey_free(survey);
        }
        assert_eq!(size, SurveyCounts { commits: 2, refused: 1, trees: 1, findings: 1 });
        let [SurveyFinding { reason, commits, first, detail, detail_len }] = findings;
        assert_eq!((reason, commits, first), (3, 1, [0x22; 20]));
        assert_eq!(&detail[..detail_len as usize], b"encoding x");
        assert_eq!((refused[0].reason, refused[0].commit), (3, [0x22; 20]));
    }

    #[test]
    fn a_missing_tree_is_an_error() {
        let (status, survey, error) = run("lost", &commit("11", ""), &format!("{TREE} missing\n"));
        assert_eq!((status, survey.is_null()), (Status::Input, true));
        let message = String::from_utf8_lossy(&error.message[..error.message_len as usize]);
        assert_eq!(message, format!("object {TREE} is missing"));
    }

    #[test]
    fn a_missing_pipe_is_a_bug() {
        let (mut out, mut error) = (std::ptr::null_mut(), ErrorInfo::default());
        let pipes = SurveyPipes { commits: -1, requests: -1, answers: -1 };
        // SAFETY: all of it is the test's.
        let status = unsafe {
            amalgam_survey_run(&raw mut out, pipes, None, std::ptr::null_mut(), &raw mut error)
        };
        assert_eq!(status, Status::Bug);
    }
}
