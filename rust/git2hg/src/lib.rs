//! git commits as Mercurial history.
//!
//! Owns the rules of pushes: a commit is accepted if it becomes a changeset by the rules of a
//! [`dialect::Dialect`], and that changeset is exported as the same commit. [`survey()`] judges the
//! commits of a git repository and gives each refused one its [`dialect::Reason`]. [`convert()`]
//! makes a changegroup of new commits, and verifies it by exporting it again.
//!
//! `read` parses the output of `git cat-file` and compares trees. [`judge`] has the rules for
//! trees. `build` makes changesets, manifests and file revisions, `convert` has the order of work,
//! and `verify` the round trip. [`stream()`] writes
//! the revlogs of an empty repository. Starts no process: the caller runs git.

mod build;
mod chain;
mod convert;
mod error;
#[cfg(test)]
mod fakegit;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod judge;
mod progress;
mod read;
mod request;
mod rules;
mod stream;
mod survey;
mod verify;

pub use convert::convert;
pub use error::{Error, Result};
pub use progress::{ConversionStage, ConversionWatch};
pub use read::answers::{Answer, Answers};
pub use read::decoder::PipedDecoder;
pub use request::{
    AtLimit, Conversion, ConversionPipes, ConversionRequest, KnownChangeset, Refusal,
};
pub use stream::{StreamSettings, Streamed, stream};
pub use survey::{Finding, Survey, SurveyProgress, SurveyStage, survey};
