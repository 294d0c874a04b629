//! Results of a verification: a fault of the round trip, or an error.

use gitpack::Oid;
use revlog::patch::Broken;

use crate::error::Error;

/// Difference between a pushed commit and its round trip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The commit, if known.
    pub oid: Option<Oid>,
    /// Description for a message.
    pub message: String,
}

/// Fault, or error that prevents the verification.
#[derive(Debug)]
pub(crate) enum Problem {
    Fault(Fault),
    Error(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<parallel::Error> for Problem {
    fn from(error: parallel::Error) -> Self {
        Self::Error(error.into())
    }
}

impl From<Broken> for Problem {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Delta(_, problem) => fault(problem.to_string()),
            Broken::Room(problem) => problem.into(),
        }
    }
}

impl From<revlog::Error> for Problem {
    fn from(error: revlog::Error) -> Self {
        Self::Error(error.into())
    }
}

/// Result of a step.
pub(crate) type VerifyResult<T> = std::result::Result<T, Problem>;

/// Fault without a commit.
pub(crate) fn fault(message: impl Into<String>) -> Problem {
    Problem::Fault(Fault { oid: None, message: message.into() })
}
