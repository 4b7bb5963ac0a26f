//! What was found in a store, for people and for machines.

use serde_json::{Value, json};
use tidegate::session::Reconciled;

use crate::cli::render::plural;

pub(super) fn for_machines(found: &Reconciled) -> Value {
    json!({
        "looked_at": found.looked_at, "sessions": found.sessions, "adopted_active": found.adopted_active,
        "adopted_disconnected": found.adopted_disconnected, "indexed": found.indexed,
        "unindexed": found.unindexed, "ended": found.ended, "invalid": found.invalid,
        "unrecognised": found.unrecognised, "replaced": found.replaced,
    })
}

/// A line for each kind of thing that is not as it should be; `done` or what would be.
pub(super) fn for_people(found: &Reconciled, is_done: bool) -> String {
    let verb = |done: &'static str, would: &'static str| if is_done { done } else { would };
    let rows = [
        (
            found.adopted_active,
            "active of the older program",
            verb("taken over and held for a while", "would be taken over and held for a while"),
        ),
        (
            found.adopted_disconnected,
            "disconnected of the older program",
            verb("taken over and indexed", "would be taken over and indexed"),
        ),
        (found.indexed, "missing where they belong", verb("indexed", "would be indexed")),
        (found.unindexed, "in the index without a session there", verb("dropped", "would be dropped")),
        (found.ended, "keys without an end", verb("given one", "would be given one")),
        (
            found.replaced,
            "indices of another type",
            verb("removed and made anew", "would be removed and made anew"),
        ),
        (
            found.unrecognised,
            "under these names that are nothing we know",
            "left alone; --verbose names them",
        ),
    ];
    let mut text = format!("{}, {} looked at", plural(found.sessions, "session"), found.looked_at);
    for (count, what, became) in rows {
        if count > 0 {
            text += &format!("\n{count} {what}: {became}");
        }
    }
    text
}
