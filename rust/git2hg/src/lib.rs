//! git commits as Mercurial history.
//!
//! Owns the rules that decide whether a commit comes back: it is made a changeset by the rules of the
//! dialect cinnabar, and that changeset is exported as the same commit. [`survey()`] reads a history from
//! git and gives each commit that does not come back its [`Reason`]. [`convert()`] makes a changegroup
//! of new commits, and converts it back.
//!
//! By part: [`commit`] judges the commit object, [`tree`] its trees, `names` what Mercurial allows as
//! a file name, `answers` reads what `git cat-file` writes, `convert` has the rules of changesets, manifests
//! and file revisions, and `check` goes the way back. Starts no process: the caller runs git.

mod build;
mod cache;
mod convert;
mod error;
#[cfg(test)]
mod fakegit;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod judge;
mod read;
mod reason;
mod survey;
mod verify;

pub use convert::{
    Conversion, ConversionPipes, ConversionRequest, ConversionStage, ConversionWatch,
    KnownChangeset, Refusal, convert,
};
pub use error::{Error, Result};
pub use read::answers::{Answer, Answers};
pub use reason::Reason;
pub use survey::{Finding, Survey, SurveyProgress, SurveyStage, survey};
