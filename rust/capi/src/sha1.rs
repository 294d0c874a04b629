//! Which SHA-1 kernels this machine runs wrongly.

use std::sync::OnceLock;

use crate::buffers::{self, Bytes};
use crate::entry::entry;
use crate::failure::{ErrorInfo, Status};

/// Writes the names of the SHA-1 kernels that this CPU offers and that give wrong answers, with a
/// comma between two of them. They are not used. The bytes live as long as the process.
///
/// # Safety
///
/// `error` as everywhere; `names` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn amalgam_sha1_refused(names: *mut Bytes, error: *mut ErrorInfo) -> Status {
    static NAMES: OnceLock<String> = OnceLock::new();
    let body = || {
        let joined = NAMES.get_or_init(|| sha1lanes::refused().join(","));
        // SAFETY: as the caller promises.
        unsafe { buffers::put(names, Bytes { data: joined.as_ptr(), len: joined.len() }) }
    };
    // SAFETY: as the caller promises.
    unsafe { entry(error, body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_is_right_has_none() {
        let mut names = Bytes { data: std::ptr::null(), len: 7 };
        // SAFETY: a place of ours, and no error.
        let status = unsafe { amalgam_sha1_refused(&raw mut names, std::ptr::null_mut()) };
        assert!(matches!(status, Status::Ok));
        assert_eq!((names.len, names.data.is_null()), (0, false));
    }
}
