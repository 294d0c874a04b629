//! Errors of calls: status, message, path, hint.

use std::fmt;
use std::io;
use std::path::Path;

/// Status of a call. Numbers never change; new ones are added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done; outputs are set.
    Ok = 0,
    /// The request names something that does not exist or is malformed.
    Input = 1,
    /// Data on disk contradicts itself or its format.
    Corrupt = 2,
    /// Well-formed data of a kind that the core does not handle.
    Unsupported = 3,
    /// Error of the operating system, with its `os_error`.
    Io = 4,
    /// Bug in the core or in its caller, usually a panic.
    Bug = 5,
    /// Stopped by the report.
    Cancelled = 6,
    /// The repository has changed since the request was made: make the request again.
    Moved = 7,
}

/// Error of a call. The caller allocates and frees it, the core writes it.
///
/// Texts that are too long are cut; none ends with NUL. After `OK` no field is set.
#[repr(C)]
pub struct ErrorInfo {
    /// The `amalgam_status` of the call.
    pub status: i32,
    /// `errno` of an `IO` status, else 0.
    pub os_error: i32,
    /// Length of `path`; 0 if the error is not about a file.
    pub path_len: u32,
    /// Length of `message`.
    pub message_len: u32,
    /// Length of `hint`; may be 0.
    pub hint_len: u32,
    /// File name, in the encoding of the file system.
    pub path: [u8; 4096],
    /// Message, in UTF-8: lower case, no full stop.
    pub message: [u8; 1024],
    /// Next step for the user, in UTF-8.
    pub hint: [u8; 512],
}

/// Error of a call: status, message, and, if known, path, `errno` and hint.
///
/// ```
/// use capi::failure::Failure;
/// let failure = Failure::corrupt("revision 12 is cut").at("data/a.i".as_ref()).hint("see 'hg verify'");
/// assert_eq!(failure.to_string(), "revision 12 is cut");
/// ```
#[derive(Debug)]
pub struct Failure {
    status: Status,
    os_error: i32,
    path: Vec<u8>,
    message: String,
    hint: String,
}

impl Failure {
    fn new(status: Status, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, os_error: 0, path: Vec::new(), message, hint: String::new() }
    }

    /// Error of [`Status::Input`].
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Status::Input, message)
    }

    /// Error of [`Status::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Status::Corrupt, message)
    }

    /// Error of [`Status::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Status::Unsupported, message)
    }

    /// Error of [`Status::Io`] on the file at `path`.
    #[must_use]
    pub fn io(path: &Path, source: &io::Error) -> Self {
        let os_error = source.raw_os_error().unwrap_or(0);
        Self { os_error, ..Self::new(Status::Io, source.to_string()).at(path) }
    }

    /// Error of [`Status::Bug`].
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Status::Bug, message)
    }

    /// Error of [`Status::Cancelled`].
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(Status::Cancelled, "stopped on request")
    }

    /// Error of [`Status::Moved`].
    #[must_use]
    pub fn moved(message: impl Into<String>) -> Self {
        Self::new(Status::Moved, message)
    }

    /// Adds the file name.
    #[must_use]
    pub fn at(self, path: &Path) -> Self {
        Self { path: path.as_os_str().as_encoded_bytes().to_vec(), ..self }
    }

    /// Adds the next step for the user.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// The status of the call.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Writes all fields of the caller's structure.
    pub(crate) fn write_to(&self, info: &mut ErrorInfo) {
        info.status = self.status as i32;
        info.os_error = self.os_error;
        info.path_len = fill(&mut info.path, &self.path);
        info.message_len = fill_text(&mut info.message, &self.message);
        info.hint_len = fill_text(&mut info.hint, &self.hint);
    }
}

/// Copies the whole characters of `text` that fit; returns the number of bytes.
fn fill_text(buffer: &mut [u8], text: &str) -> u32 {
    let mut end = text.len().min(buffer.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    fill(buffer, &text.as_bytes()[..end])
}

/// Copies the `bytes` that fit; returns their number.
fn fill(buffer: &mut [u8], bytes: &[u8]) -> u32 {
    let len = bytes.len().min(buffer.len());
    buffer[..len].copy_from_slice(&bytes[..len]);
    u32::try_from(len).expect("buffers are a few kilobytes")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    impl Default for ErrorInfo {
        fn default() -> Self {
            Self {
                status: 0,
                os_error: 0,
                path_len: 0,
                message_len: 0,
                hint_len: 0,
                path: [0; 4096],
                message: [0; 1024],
                hint: [0; 512],
            }
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut info = ErrorInfo::default();
        let path = "p".repeat(4096 + 1);
        let message = format!("x{}", "é".repeat(1024)); // two bytes each
        Failure::corrupt(message).at(path.as_ref()).write_to(&mut info);
        assert_eq!((info.status, info.path_len), (2, 4096));
        assert_eq!(info.message_len, 1023);
        assert!(std::str::from_utf8(&info.message[..1023]).is_ok());
    }

    #[test]
    fn an_io_failure_carries_errno_and_file() {
        let mut info = ErrorInfo::default();
        let source = io::Error::from_raw_os_error(28); // ENOSPC
        Failure::io("a/b".as_ref(), &source).write_to(&mut info);
        assert_eq!((info.status, info.os_error, &info.path[..3]), (4, 28, &b"a/b"[..]));
    }
}
