//! Which rule is meant by a path.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_edge::rule::MAX_ID_BYTES;

use crate::http::{Problem, Result};

/// What else is below `/v1/rules/`: a rule that is called so is found with a letter of it escaped, `%62ulk`.
pub(crate) const WORDS: [&str; 8] =
    ["bulk", "changes", "export", "import", "new_epoch", "position", "resolve", "snapshot"];

pub(super) const NO_ID: &str = "a rule's id must not be empty: 1 to 128 bytes are allowed";

/// `/v1/rules/{id}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfRule {
    #[schemars(length(min = 1, max = MAX_ID_BYTES))]
    id: String,
}

impl OfRule {
    /// Not checked for what only a database knows to be no id.
    pub(super) fn id(&self) -> Result<&str> {
        match self.id.len() {
            0 => Err(Problem::invalid(NO_ID.to_owned())),
            1..=MAX_ID_BYTES => Ok(&self.id),
            bytes => {
                let detail = format!("a rule's id has {bytes} bytes: 1 to {MAX_ID_BYTES} are allowed");
                Err(Problem::invalid(detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever writes an id into a path knows what it could be taken for.
    #[test]
    fn all_words_are_known() {
        let operations = (super::super::ROUTES.operations)();
        let below = operations.iter().filter_map(|it| it.path.strip_prefix("/v1/rules/"));
        let mut words: Vec<_> = below.filter(|it| !it.starts_with('{')).collect();
        words.sort_unstable();
        assert_eq!(words, WORDS);
    }

    #[test]
    fn the_guide_names_all_words() {
        let guide =
            include_str!("../../../../../docs/rules.md").split_whitespace().collect::<Vec<_>>().join(" ");
        let words = WORDS.map(|word| format!("`{word}`")).join(", ");
        assert!(guide.contains(&format!("a word of ours ({words}) ")), "{words}");
    }
}
