//! What can go wrong with PostgreSQL, and what it means.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{DbError, SqlState};

use crate::error::{Error, ErrorKind};

/// What went wrong, and whether it is worth another try.
#[derive(Debug)]
pub(super) enum Failure {
    /// Others were in the way, and nothing was done: once more, it may be done.
    Passing(Error),
    /// The connection is gone.
    Lost(Error),
    /// Anything else.
    Final(Error),
}

/// A result of whatever talks to the database.
pub(super) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// That of a connection on which a commit was under way: whether it was made is not known.
    pub(super) fn of_commit(self) -> Self {
        match self {
            Self::Lost(error) => {
                Self::Final(Error::unavailable(format!("{error}; it may have been written")))
            }
            other => other,
        }
    }

    /// That of connecting: what is not a fault of the way or of the server is one of the address.
    pub(super) fn of_connecting(error: tokio_postgres::Error) -> Self {
        match Self::from(error) {
            Self::Final(error) if error.kind() == ErrorKind::Internal => {
                Self::Final(Error::config(error.to_string()))
            }
            other => other,
        }
    }

    /// No answer for too long.
    pub(super) fn timeout() -> Self {
        Self::Lost(Error::unavailable("the rules' database takes too long to answer"))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Passing(error) | Failure::Lost(error) | Failure::Final(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = format!("the rules' database: {}", describe(&error));
        let of = |kind| Error::new(kind, text.clone());
        match error.as_db_error() {
            Some(told) => of_code(told.code(), of),
            None if error.is_closed() => Self::Lost(of(ErrorKind::Unavailable)),
            None => match error.source().and_then(|it| it.downcast_ref::<io::Error>()) {
                // What rustls has against a certificate.
                Some(cause) if cause.kind() == io::ErrorKind::InvalidData => {
                    Self::Final(of(ErrorKind::Config))
                }
                Some(_) => Self::Lost(of(ErrorKind::Unavailable)),
                None => Self::Final(of(ErrorKind::Internal)),
            },
        }
    }
}

fn of_code(code: &SqlState, of: impl Fn(ErrorKind) -> Error) -> Failure {
    // Codes come in classes, named by their first two letters.
    match (code, &code.code()[..2]) {
        (&SqlState::DISK_FULL, _) => Failure::Final(of(ErrorKind::Full)),
        (&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED, _) => {
            Failure::Passing(of(ErrorKind::Unavailable))
        }
        (&SqlState::QUERY_CANCELED, _) => Failure::Final(of(ErrorKind::Unavailable)),
        // The connection is at its end, or the server is.
        (&SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, _) | (_, "08" | "57") => {
            Failure::Lost(of(ErrorKind::Unavailable))
        }
        // A standby, or one that was told not to write.
        (&SqlState::READ_ONLY_SQL_TRANSACTION, _) => Failure::Final(of(ErrorKind::Unavailable)),
        // It has not enough of something, is locked, recovers, or its disk fails.
        (_, "53" | "55" | "58") => Failure::Final(of(ErrorKind::Unavailable)),
        // Who we are, what we may, and where.
        (&SqlState::INSUFFICIENT_PRIVILEGE, _) | (_, "28" | "3D") => Failure::Final(of(ErrorKind::Config)),
        // What we have made is gone, or damaged.
        (&SqlState::UNDEFINED_TABLE | &SqlState::UNDEFINED_COLUMN, _) | (_, "3F") => {
            Failure::Final(of(ErrorKind::Corrupt))
        }
        (&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED, _) => Failure::Final(of(ErrorKind::Corrupt)),
        _ => Failure::Final(of(ErrorKind::Internal)),
    }
}

/// What the server says, or what is known without it. The client's own words do not tell the cause.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(told) = error.as_db_error() {
        return describe_told(told);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(it) = cause {
        text = format!("{text}: {it}");
        cause = it.source();
    }
    text
}

fn describe_told(told: &DbError) -> String {
    let detail = told.detail().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{}{detail} [{}]", told.message(), told.code().code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_code_means() {
        let kind = |code: &str| {
            let failure = of_code(&SqlState::from_code(code), |kind| Error::new(kind, ""));
            let is = match failure {
                Failure::Passing(_) => "passing",
                Failure::Lost(_) => "lost",
                Failure::Final(_) => "final",
            };
            (is, Error::from(failure).kind())
        };
        for (code, expected) in [
            ("53100", ("final", ErrorKind::Full)),
            ("53300", ("final", ErrorKind::Unavailable)),
            ("40001", ("passing", ErrorKind::Unavailable)),
            ("40P01", ("passing", ErrorKind::Unavailable)),
            ("57P01", ("lost", ErrorKind::Unavailable)),
            ("57P03", ("lost", ErrorKind::Unavailable)),
            ("57014", ("final", ErrorKind::Unavailable)),
            ("25P03", ("lost", ErrorKind::Unavailable)),
            ("08006", ("lost", ErrorKind::Unavailable)),
            ("25006", ("final", ErrorKind::Unavailable)),
            ("55000", ("final", ErrorKind::Unavailable)),
            ("55P03", ("final", ErrorKind::Unavailable)),
            ("28P01", ("final", ErrorKind::Config)),
            ("3D000", ("final", ErrorKind::Config)),
            ("42501", ("final", ErrorKind::Config)),
            ("42P01", ("final", ErrorKind::Corrupt)),
            ("23505", ("final", ErrorKind::Internal)),
            ("42601", ("final", ErrorKind::Internal)),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
