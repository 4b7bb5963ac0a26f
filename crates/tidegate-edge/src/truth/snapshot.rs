//! Lines of a snapshot: the same whichever database they are from.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::types::Position;
use crate::error::{Error, ErrorKind, Result};

/// What of each rule a snapshot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fields {
    /// All but its clicks.
    #[default]
    All,
    /// What a filter needs: host and path of rules for one path. Rules for a folder are whole: they are few, and who
    /// has not all of them can answer nothing.
    Keys,
}

pub(super) fn position_line(position: &Position) -> Result<String> {
    let json = serde_json::to_string(position);
    json.map(|json| json + "\n")
        .map_err(|error| Error::new(ErrorKind::Internal, format!("a position cannot be written: {error}")))
}

pub(super) fn key_line(into: &mut impl Write, host: &str, path: &str, body: &str) -> io::Result<()> {
    #[derive(Serialize)]
    struct Key<'a> {
        host: &'a str,
        path: &'a str,
    }
    if path.ends_with("/*") {
        into.write_all(body.as_bytes())?;
    } else {
        serde_json::to_writer(&mut *into, &Key { host, path })?;
    }
    into.write_all(b"\n")
}
