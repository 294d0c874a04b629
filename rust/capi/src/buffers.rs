//! Arguments of a call: bytes, files and directories that Python lends, outputs, answers.
//!
//! Every function here trusts a pointer from C. Each is `unsafe` for the same reason: **the pointer
//! is null, or aligned and valid for the given length until the call ends**. Null with a length of
//! 0 is empty. Null with another length is refused.

use std::ffi::OsStr;
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use parallel::Directory;

use crate::failure::Failure;

/// Bytes of an answer of the core. Inputs are passed as pointer and length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AnswerBytes {
    /// The first byte.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// Borrows `len` values from C.
///
/// # Safety
///
/// See the module. Nobody writes to the values meanwhile.
///
/// # Errors
///
/// A bug if `data` is null and `len` is not 0.
pub unsafe fn slice<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Failure> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(len)),
        // SAFETY: the caller vouches for `len` values at `data`.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, len) }),
    }
}

/// Borrows an initialized output buffer of `len` bytes from C.
///
/// # Safety
///
/// See the module. Nobody else uses the bytes meanwhile.
///
/// # Errors
///
/// A bug if `data` is null and `len` is not 0.
pub unsafe fn buffer<'a>(data: *mut u8, len: usize) -> Result<&'a mut [u8], Failure> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null(len)),
        // SAFETY: the caller vouches for `len` bytes at `data`.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts_mut(data, len) }),
    }
}

/// Borrows a file name, in the encoding of the file system.
///
/// # Safety
///
/// As [`slice`].
///
/// # Errors
///
/// As [`slice`].
pub unsafe fn path<'a>(data: *const u8, len: usize) -> Result<&'a Path, Failure> {
    // SAFETY: as the caller vouches.
    Ok(Path::new(OsStr::from_bytes(unsafe { slice(data, len) }?)))
}

/// Borrows an open file from its descriptor.
///
/// # Safety
///
/// `descriptor` is open until the call ends.
///
/// # Errors
///
/// A bug if it is negative.
pub unsafe fn file(descriptor: i32) -> Result<ManuallyDrop<File>, Failure> {
    if descriptor < 0 {
        return Err(Failure::bug("no descriptor"));
    }
    // SAFETY: as the caller vouches; it is never closed here.
    Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) }))
}

/// Duplicates the descriptor of a directory. Errors name it `path`.
///
/// # Safety
///
/// `fd` is not closed before this function ends.
///
/// # Errors
///
/// A bug if `fd` is no descriptor, or an I/O error.
pub unsafe fn directory(fd: i32, path: &Path) -> Result<Directory, Failure> {
    if fd < 0 {
        return Err(Failure::bug("no descriptor of a directory"));
    }
    // SAFETY: as the caller vouches.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let own = borrowed.try_clone_to_owned().map_err(|error| Failure::io(path, &error))?;
    Ok(Directory::new(own, path.to_owned()))
}

/// Writes an output.
///
/// # Safety
///
/// `out` is null or writable.
///
/// # Errors
///
/// A bug if `out` is null.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::bug("null output pointer"));
    }
    // SAFETY: the caller vouches for `out`; `write` drops nothing that was there.
    unsafe { out.write(value) };
    Ok(())
}

/// Gives bytes to C, which passes them to `amalgam_answer_free` once.
///
/// # Safety
///
/// As [`put`].
///
/// # Errors
///
/// As [`put`].
pub unsafe fn give(out: *mut AnswerBytes, bytes: Vec<u8>) -> Result<(), Failure> {
    let bytes = bytes.into_boxed_slice();
    let len = bytes.len();
    // SAFETY: as the caller vouches.
    unsafe { put(out, AnswerBytes { data: Box::into_raw(bytes).cast_const().cast(), len }) }
}

fn null(len: usize) -> Failure {
    Failure::bug(format!("null pointer to {len} values"))
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;
    use crate::failure::Status;

    #[test]
    fn null_is_empty_or_refused() {
        // SAFETY: null is allowed.
        unsafe {
            assert!(slice::<u8>(null(), 0).expect("is empty").is_empty());
            assert!(buffer(null_mut(), 0).expect("is empty").is_empty());
            let refused = [
                slice::<u8>(null(), 2).map(|_| ()),
                buffer(null_mut(), 2).map(|_| ()),
                put(null_mut(), 7),
                file(-1).map(|_| ()),
                directory(-1, Path::new("")).map(|_| ()),
            ];
            let statuses = refused.map(|refused| refused.expect_err("null").status());
            assert_eq!(statuses, [Status::Bug; 5]);
        }
    }
}
