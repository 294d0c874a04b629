//! The dialect of git-cinnabar: its commits, and the metadata that it keeps beside them.
//!
//! The rules are git-cinnabar's; `docs/formats/cinnabar.rst` lists them.

pub(crate) mod commit;
pub(crate) mod commits;
pub(crate) mod heads;
pub(crate) mod identity;
pub(crate) mod leaves;
pub(crate) mod linediff;
pub(crate) mod manifestcommits;
pub(crate) mod metadata;
pub(crate) mod note;
pub(crate) mod notes;
pub(crate) mod recovery;
pub(crate) mod sides;
pub(crate) mod state;
pub(crate) mod tip;
pub(crate) mod twins;
