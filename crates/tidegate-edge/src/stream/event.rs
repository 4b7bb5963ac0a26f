//! What followers are told.

use serde::{Deserialize, Serialize};

use super::mark::Mark;
use crate::truth::{LogRow, Place, Position};

/// One thing that followers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A rule that was not there, or not at this place.
    Create {
        /// It, as canonical JSON.
        body: String,
    },
    /// A rule that was at this place, and says something else now.
    Update {
        /// It, as canonical JSON.
        body: String,
    },
    /// A rule that is not there any more, or not at this place.
    Delete {
        /// Which.
        id: String,
        /// What it was found by.
        place: Place,
    },
    /// Nothing but where the database stands.
    Sync(Position),
    /// What was told before does not count: all rules are to be read anew, as they are at this place or later.
    Resync {
        /// Why.
        reason: String,
    },
}

/// An event with its place in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where who has applied it is; none if another event of the same change follows: both or neither is applied.
    pub mark: Option<Mark>,
    /// What.
    pub event: Event,
}

/// What was deleted, as JSON.
#[derive(Serialize, Deserialize)]
struct Deleted {
    id: String,
    host: String,
    path: String,
}

#[derive(Serialize, Deserialize)]
struct Reason {
    reason: String,
}

impl Event {
    /// What a change in the log is told as.
    pub(super) fn of(row: &LogRow) -> Vec<Self> {
        let Some(id) = &row.id else {
            return vec![Self::Resync { reason: "rules were imported".to_owned() }];
        };
        let deleted = |place: &Place| Self::Delete { id: id.clone(), place: place.clone() };
        match (&row.before, &row.after) {
            (None, Some(after)) => vec![Self::Create { body: after.body.clone() }],
            (Some(before), Some(after)) if *before == after.place => {
                vec![Self::Update { body: after.body.clone() }]
            }
            (Some(before), Some(after)) => vec![deleted(before), Self::Create { body: after.body.clone() }],
            (Some(before), None) => vec![deleted(before)],
            (None, None) => Vec::new(),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Delete { .. } => "delete",
            Self::Sync(_) => "sync",
            Self::Resync { .. } => "resync",
        }
    }

    /// What it says, as JSON in one line: that of `create` and `update` is the rule.
    pub fn data(&self) -> String {
        let json = match self {
            Self::Create { body } | Self::Update { body } => return body.clone(),
            Self::Delete { id, place: Place { host, path } } => {
                serde_json::to_string(&Deleted { id: id.clone(), host: host.clone(), path: path.clone() })
            }
            Self::Sync(position) => serde_json::to_string(position),
            Self::Resync { reason } => serde_json::to_string(&Reason { reason: reason.clone() }),
        };
        // Strings and numbers: there is nothing that JSON cannot write.
        json.unwrap_or_default()
    }

    /// What was said under that name.
    pub fn read(name: &str, data: &str) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| format!("an event {name:?} cannot be read ({error}): {data}");
        match name {
            "create" => Ok(Self::Create { body: data.to_owned() }),
            "update" => Ok(Self::Update { body: data.to_owned() }),
            "delete" => {
                let Deleted { id, host, path } = serde_json::from_str(data).map_err(wrong)?;
                Ok(Self::Delete { id, place: Place { host, path } })
            }
            "sync" => serde_json::from_str(data).map(Self::Sync).map_err(wrong),
            "resync" => {
                serde_json::from_str(data).map(|it: Reason| Self::Resync { reason: it.reason }).map_err(wrong)
            }
            _ => Err(format!("there is no event {name:?}")),
        }
    }
}
