//! What can go wrong. A refusal is never an error.

use std::{fmt, io};

/// An error of the rules' database.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something is set that cannot be.
    Config,
    /// The database cannot be had right now. Whether a change was made is not known: sent again by its id, it is made
    /// once.
    Unavailable,
    /// There is no room for what is to be written. Nothing was; reads go on.
    Full,
    /// What is to be imported cannot be read. Nothing was written.
    Unreadable,
    /// The database has something in it that was not written here.
    Corrupt,
    /// A bug.
    Internal,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// What a file that is being written has ended with: `what` is to be in it.
    pub(crate) fn unwritable(what: &str, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull => ErrorKind::Full,
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, format!("{what} cannot be written: {error}"))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same for another who waits for it.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.kind, self.message.clone())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
