//! The C ABI of amalgam's native core, with the checks that make calls safe.
//!
//! An entry point converts its arguments ([`buffers`], [`handle`]), runs inside [`entry::entry`],
//! and returns a [`Status`](failure::Status). Errors are written to the caller's
//! [`ErrorInfo`](failure::ErrorInfo). Long calls report through [`report::Reporter`]. Does not know
//! formats and rules: the other crates own those.
//!
//! The header is generated from this crate, and `docs/boundary.rst` shows how to add a job.

#![expect(unsafe_code, reason = "pointers from C become references in this crate only")]

pub mod buffers;
pub mod changegroup;
pub mod entry;
pub mod failure;
pub mod handle;
pub mod jobs;
pub mod message;
pub mod nodemap;
pub mod oidmap;
pub mod report;
pub mod snapshot;
