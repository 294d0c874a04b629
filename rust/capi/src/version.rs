//! Which core this is.

use crate::buffers::Bytes;

static VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the core, as `X.Y.Z`. The bytes live as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn amalgam_version() -> Bytes {
    Bytes { data: VERSION.as_ptr(), len: VERSION.len() }
}
