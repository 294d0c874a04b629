//! Jobs: rare calls whose request and answer are messages.
//!
//! Owns the entry point and the table of jobs. A job is a function from its [`Fields`] and the
//! [`Call`] to the bytes of its answer. [`message`](crate::message) has the encoding.

/// Takes the field `dialect` of a message, and evaluates an expression with the type of that name.
/// The only place that lists the dialects.
macro_rules! with_dialect {
    ($message:expr, $dialect:ident => $job:expr) => {
        match $message.take("dialect")? {
            <dialect::Cinnabar as dialect::Dialect>::NAME => {
                type $dialect = dialect::Cinnabar;
                $job
            }
            <dialect::HgGit as dialect::Dialect>::NAME => {
                type $dialect = dialect::HgGit;
                $job
            }
            unknown => Err(Failure::bug(format!("unknown dialect '{unknown}'"))),
        }
    };
}

mod export;
mod push;

use std::ffi::c_void;
use std::fs::File;
use std::mem::ManuallyDrop;

use changegroup::GroupVersion;
use parallel::Directory;
use revlog::{Encoding, MappedIndexes, Node};

use crate::buffers::{self, AnswerBytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Failure, Status};
use crate::handle;
use crate::message::Fields;
use crate::report::{Progress, ReportFn, Reporter};
use crate::snapshot::Mapped;

/// Runs the job named by the field `job` of `message`.
///
/// The answer is a message, too; it is given to `amalgam_answer_free` once. A field that is
/// missing, unknown or of the wrong type is a `BUG` that names it. Descriptors in the message stay
/// open until the call ends.
///
/// `changelog` and `manifest` are the mapped indexes of the repository, for jobs that read it; null
/// if they are not mapped. Each job documents the phases of its report.
///
/// # Safety
///
/// `error` as everywhere; `answer` is writable; `message` is lent for the call; `changelog` and
/// `manifest` are not freed before it ends; `report` may be called with `handle` until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_job_run(
    answer: *mut AnswerBytes,
    message: *const u8,
    message_len: usize,
    changelog: *const Mapped,
    manifest: *const Mapped,
    report: ReportFn,
    handle: *mut c_void,
    error: *mut ErrorInfo,
) -> Status {
    let body = || {
        // SAFETY: as the caller promises.
        let message = Fields::decode(unsafe { buffers::slice(message, message_len) }?)?;
        // SAFETY: as the caller promises.
        let call = unsafe { Call::new(changelog, manifest, report, handle) }?;
        let answered = run(message, &call)?;
        // SAFETY: as the caller promises.
        unsafe { buffers::give(answer, answered) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

/// Frees an answer; null is ignored.
///
/// # Safety
///
/// `answer` came from a call or is null, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_answer_free(answer: AnswerBytes) {
    let bytes = std::ptr::slice_from_raw_parts_mut(answer.data.cast_mut(), answer.len);
    // SAFETY: as the caller promises, it is from `buffers::give`.
    unsafe { handle::free(bytes) }
}

/// Runs the job named by `message`.
fn run(mut message: Fields<'_>, call: &Call) -> Result<Vec<u8>, Failure> {
    let job = match message.take("job")? {
        "core" => core,
        "export" => export::export,
        "metadata" => export::metadata_commit,
        "convert" => push::convert,
        "stream" => push::stream,
        "survey" => push::survey,
        unknown => return Err(Failure::bug(format!("unknown job '{unknown}'"))),
    };
    job(message, call)
}

/// Describes the core: its version, as `X.Y.Z`, and the SHA-1 kernels that give wrong answers on
/// this CPU and are not used.
fn core(message: Fields<'_>, _call: &Call) -> Result<Vec<u8>, Failure> {
    message.end()?;
    let refused: Vec<_> = sha1lanes::refused().iter().map(|name| (*name).to_owned()).collect();
    let answer = Fields::default()
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("refused_kernels", &refused[..]);
    Ok(answer.encode())
}

/// Resources of a call, beside its message.
struct Call {
    indexes: MappedIndexes,
    reporter: Reporter,
}

impl Call {
    /// Converts the arguments of C.
    ///
    /// # Safety
    ///
    /// As for [`amalgam_job_run`], until the call ends.
    unsafe fn new(
        changelog: *const Mapped,
        manifest: *const Mapped,
        report: ReportFn,
        handle: *mut c_void,
    ) -> Result<Self, Failure> {
        // SAFETY: as the caller promises.
        let indexes = unsafe { Mapped::indexes(changelog, manifest) }?;
        // SAFETY: as the caller promises.
        Ok(Self { indexes, reporter: unsafe { Reporter::new(report, handle) } })
    }

    /// A call without indexes and report.
    #[cfg(test)]
    fn of_test() -> Self {
        // SAFETY: nothing is lent.
        unsafe { Self::new(std::ptr::null(), std::ptr::null(), None, std::ptr::null_mut()) }
            .expect("null is allowed")
    }

    /// Runs `job` in a thread, with progress and Ctrl-C.
    fn supervise<T: Send>(
        &self,
        job: impl FnOnce(&Progress) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let progress = Progress::default();
        self.reporter.supervise(&progress, || job(&progress))
    }
}

/// Borrows an open file: the field is its descriptor.
fn file(fields: &mut Fields<'_>, name: &str) -> Result<ManuallyDrop<File>, Failure> {
    // SAFETY: the caller of `amalgam_job_run` promised that descriptors stay open.
    unsafe { buffers::file(fields.take(name)?) }
}

/// Duplicates a directory: the field has its descriptor `fd` and, for errors, its `path`.
pub(crate) fn directory(fields: &mut Fields<'_>, name: &str) -> Result<Directory, Failure> {
    opened(fields.take(name)?)
}

/// [`directory`], if the field has one.
pub(crate) fn optional_directory(
    fields: &mut Fields<'_>,
    name: &str,
) -> Result<Option<Directory>, Failure> {
    fields.take::<Option<Fields<'_>>>(name)?.map(opened).transpose()
}

fn opened(mut directory: Fields<'_>) -> Result<Directory, Failure> {
    let (fd, path) = (directory.take("fd")?, directory.take("path")?);
    directory.end()?;
    // SAFETY: the caller of `amalgam_job_run` promised that descriptors stay open.
    unsafe { buffers::directory(fd, path) }
}

/// Copies nodes from a byte string.
pub(crate) fn nodes(nodes: &[[u8; 20]]) -> Vec<Node> {
    nodes.iter().map(|node| Node::from_bytes(*node)).collect()
}

/// Encoding of file names in a store, by its number: 0 escaped, 1 with long names hashed, 2 with
/// leading dots escaped as well, 3 plain.
pub(crate) fn encoding(number: u32) -> Result<Encoding, Failure> {
    match number {
        0 => Ok(Encoding::Escaped),
        1 => Ok(Encoding::Hybrid),
        2 => Ok(Encoding::DotEncode),
        3 => Ok(Encoding::Plain),
        unknown => Err(Failure::bug(format!("unknown store encoding {unknown}"))),
    }
}

/// Format of a changegroup, by its number.
pub(crate) fn version(number: u32) -> Result<GroupVersion, Failure> {
    match number {
        2 => Ok(GroupVersion::V02),
        3 => Ok(GroupVersion::V03),
        unknown => Err(Failure::bug(format!("unknown changegroup version {unknown}"))),
    }
}
