//! What goes wrong on the way to a server, and what it means for a call.

use crate::error::Error;
use crate::outage::OutageReason;

/// Why a command has no answer.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The connection ended before the system was given any byte of the command: to send
    /// it again cannot carry it out twice.
    Unsent,
    /// The slot is another server's, which is known by now. Nothing was carried out.
    Moved,
    /// The server cannot be reached, or not understood.
    Away(OutageReason, String),
    /// The server's own error, its code first.
    Server(String),
    /// The store is not what the settings say.
    Config(String),
}

impl Failure {
    /// Where the server says that a slot is, and whether only this once.
    pub(super) fn redirect(&self) -> Option<(&str, bool)> {
        let Self::Server(text) = self else { return None };
        let mut words = text.split(' ');
        let is_ask = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        Some((words.nth(1)?, is_ask))
    }

    /// Whether a connection ended, and that is all: the next one may last. What does no harm
    /// twice can be tried on it.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self, Self::Unsent | Self::Away(OutageReason::Cut, _))
    }

    /// Whether the server's error has this code.
    pub(super) fn has_code(&self, code: &str) -> bool {
        matches!(self, Self::Server(text) if text.split(' ').next() == Some(code))
    }

    /// What a failed connection attempt means.
    pub(super) fn of_connecting(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let reason = match error.kind() {
            ErrorKind::ConnectionRefused => OutageReason::Refused,
            ErrorKind::TimedOut => OutageReason::Timeout,
            ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => {
                OutageReason::Cut
            }
            // That is how the TLS library says that it does not trust somebody.
            ErrorKind::InvalidData => OutageReason::Tls,
            _ => OutageReason::Unreachable,
        };
        Self::Away(reason, format!("the store cannot be reached: {error}"))
    }

    /// What it means for a call to a single server or to a cluster.
    pub(super) fn into_error(self, is_cluster: bool) -> Error {
        match self {
            Self::Unsent => Error::away(OutageReason::Cut, "the store closes every connection"),
            Self::Moved => Error::away(OutageReason::ClusterDown, "a slot kept moving"),
            Self::Away(reason, text) => Error::away(reason, text),
            Self::Config(text) => Error::config(text),
            Self::Server(text) => {
                // In a cluster these have been followed.
                let is_node = ["MOVED", "ASK", "CROSSSLOT"].contains(&code(&text));
                if is_node && !is_cluster {
                    return Error::config("the store is one node of a cluster: use redis-cluster:// for it");
                }
                if is_cluster && text.contains("cluster support disabled") {
                    return Error::config("the store is not a cluster: use redis:// for it");
                }
                server_failure(&text)
            }
        }
    }
}

fn code(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// What an error of the server means, by its code. Before version 7 a script's
/// error has the line in front: `@user_script: 12: -OOM command not allowed`.
pub(crate) fn server_failure(text: &str) -> Error {
    let message = text
        .rsplit_once("@user_script: ")
        .and_then(|(_, line)| line.split_once(": "))
        .map_or(text, |it| it.1);
    let message = message.trim_start_matches('-');
    let away = |reason| Error::away(reason, format!("the store cannot answer now: {message}"));
    let refused = |reason| Error::config(format!("the store refuses us: {message}")).because(reason);
    match code(message) {
        "LOADING" => away(OutageReason::Loading),
        "READONLY" | "UNBLOCKED" | "MASTERDOWN" => away(OutageReason::ReadOnly),
        "OOM" => away(OutageReason::OutOfMemory),
        "BUSY" => away(OutageReason::Busy),
        "MISCONF" => away(OutageReason::Misconf),
        "NOREPLICAS" => away(OutageReason::NoReplicas),
        "TRYAGAIN" | "CLUSTERDOWN" => away(OutageReason::ClusterDown),
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED" => refused(OutageReason::Auth),
        // What comes before a login may not be long.
        _ if message.contains("Protocol error: unauthenticated") => refused(OutageReason::Auth),
        _ if message.contains("max number of clients") => away(OutageReason::TooManyClients),
        // What our scripts say of it themselves, with its key.
        "CORRUPT" => Error::corrupt(format!(
            "a key in the store is of another type than ours, or cannot be read: {}",
            message.trim_start_matches("CORRUPT ")
        )),
        _ if CORRUPT.iter().any(|mark| message.contains(mark)) => Error::corrupt(format!(
            "a key in the store is of another type than ours, or cannot be read: {message}"
        )),
        _ => Error::internal(format!("the store answered: {message}")),
    }
}

/// What Redis, Lua and our scripts say of a key that is not what a script takes it for.
/// `is_corrupt` in `prelude.lua` goes by the same words.
const CORRUPT: [&str; 8] = [
    "WRONGTYPE",
    "attempt to ",
    "bad argument",
    "data string too short",
    "unfinished string",
    "not an integer",
    "not a valid float",
    "cannot be read",
];
