//! Lines of a snapshot: the same whichever database they are from.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::types::Position;
use crate::error::{Error, ErrorKind, Result};

/// What of each rule a snapshot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fields {
    /// All but its clicks.
    #[default]
    All,
    /// What a filter needs: host and path of rules for one path, and the hash by which who has one of them knows that it
    /// is still the same. Rules for a folder are whole: they are few, and who has not all of them can answer nothing.
    Keys,
}

pub(super) fn position_line(position: &Position) -> Result<String> {
    let json = serde_json::to_string(position);
    json.map(|json| json + "\n")
        .map_err(|error| Error::new(ErrorKind::Internal, format!("a position cannot be written: {error}")))
}

pub(super) fn key_line(
    into: &mut impl Write,
    id: &str,
    host: &str,
    path: &str,
    body: &str,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Key<'a> {
        host: &'a str,
        path: &'a str,
        hash: Digest,
    }
    if path.ends_with("/*") {
        into.write_all(body.as_bytes())?;
    } else {
        let version = version_of(body).ok_or_else(|| io::Error::other(format!("{body} has no version")))?;
        let hash = Digest::of(id, version, body);
        serde_json::to_writer(&mut *into, &Key { host, path, hash })?;
    }
    into.write_all(b"\n")
}

/// The version that the canonical JSON of a rule has, without reading all of it: behind it there are only numbers.
fn version_of(body: &str) -> Option<u64> {
    const NAME: &str = ",\"version\":";
    let rest = &body[body.rfind(NAME)? + NAME.len()..];
    rest[..rest.find(',')?].parse().ok()
}
