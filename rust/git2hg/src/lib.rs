//! git commits as Mercurial history.
//!
//! Owns the rules that decide whether a commit comes back: it is made a changeset by the rules of the
//! dialect cinnabar, and that changeset is exported as the same commit. So far it only judges:
//! [`survey()`] reads a history from git and gives each commit that does not come back its
//! [`Reason`].
//!
//! By part: [`commit`] judges the commit object, [`tree`] its trees, `names` what Mercurial allows as
//! a file name, `answers` reads what `git cat-file` writes. Knows no Mercurial store, and starts no
//! process: the caller runs git.

mod answers;
pub mod commit;
mod error;
mod history;
mod names;
mod reason;
mod survey;
pub mod tree;
mod trees;

pub use answers::{Answer, Answers};
pub use error::{Error, Result};
pub use reason::Reason;
pub use survey::{Finding, Survey, SurveyProgress, SurveyStage, survey};
