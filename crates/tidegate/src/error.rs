//! One error for the whole library.
//!
//! A refusal is not an error: it is a value of the part that refused. An error
//! says that the question could not be answered.

use std::borrow::Cow;
use std::fmt;

use crate::outage::OutageReason;

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's input is outside what is allowed; the message says what is.
    Invalid,
    /// The input is allowed, and at odds with what an earlier call left: the same id
    /// for something else.
    Conflict,
    /// The store cannot be used as configured: a wrong URL, wrong credentials,
    /// another number of partitions than the data was written with.
    Config,
    /// The store did not answer in time, or is not reachable.
    Unavailable,
    /// What the store has under a key of ours is of another type, or cannot be read. Somebody
    /// else writes there, or did. A reset, or deleting what it is about, repairs it.
    Corrupt,
    /// The store answered with something that only a bug explains.
    Internal,
}

/// An error with a message for people.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    is_in_doubt: bool,
    reason: Option<OutageReason>,
    message: Cow<'static, str>,
}

/// A result with the library's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, reason: None, is_in_doubt: false, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    pub(crate) fn config(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// The same of a call that the store was sent, or may have been.
    pub(crate) fn in_doubt(self) -> Self {
        Self { is_in_doubt: true, ..self }
    }

    /// The same of a call that was not made because of it.
    pub(crate) fn undone(self) -> Self {
        Self { is_in_doubt: false, ..self }
    }

    /// The store is away.
    pub(crate) fn away(reason: OutageReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self::unavailable(message).because(reason)
    }

    pub(crate) fn because(self, reason: OutageReason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The same for somebody to whom whatever is wrong with the store is an outage.
    pub(crate) fn into_unavailable(self) -> Self {
        let reason = self.reason.or(Some(OutageReason::Config));
        match self.kind {
            ErrorKind::Unavailable => self.undone(),
            _ => Self { kind: ErrorKind::Unavailable, reason, is_in_doubt: false, ..self },
        }
    }

    pub(crate) fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    pub(crate) fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Why the store could not answer, where it is the store.
    pub fn reason(&self) -> Option<OutageReason> {
        self.reason
    }

    /// Whether the same call may succeed later. It may also have taken effect:
    /// a call that timed out can have been carried out.
    pub fn is_transient(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }

    /// Whether the call may have taken effect: the store was sent it, or may have been, and
    /// has not answered. Otherwise it did nothing.
    pub fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
