//! What was found in a store, for people and for machines.

use serde_json::{Value, json};
use tidegate::session::Reconciled;

use crate::cli::plural;

pub(super) fn for_machines(found: &Reconciled) -> Value {
    json!({
        "looked_at": found.looked_at, "sessions": found.sessions, "adopted_active": found.adopted_active,
        "adopted_disconnected": found.adopted_disconnected, "indexed": found.indexed,
        "unindexed": found.unindexed, "ended": found.ended, "invalid": found.invalid,
        "unrecognised": found.unrecognised, "replaced": found.replaced,
    })
}

/// A line for each kind of thing that is not as it should be, with what was done or would be.
pub(super) fn for_people(found: &Reconciled, is_done: bool) -> String {
    let mut text = format!("{}, {} looked at", plural(found.sessions, "session"), found.looked_at);
    let would = if is_done { "" } else { "would be " };
    for (count, what, became) in [
        (found.adopted_active, "active of the older program", "taken over and held for a while"),
        (found.adopted_disconnected, "disconnected of the older program", "taken over and indexed"),
        (found.indexed, "missing where they belong", "indexed"),
        (found.unindexed, "in the index without a session there", "dropped"),
        (found.ended, "keys without an end", "given one"),
        (found.replaced, "indices of another type", "removed and made anew"),
    ] {
        if count > 0 {
            text += &format!("\n{count} {what}: {would}{became}");
        }
    }
    if found.unrecognised > 0 {
        let count = found.unrecognised;
        text += &format!(
            "\n{count} under these names that are nothing we know: left alone; --verbose names them"
        );
    }
    text
}
