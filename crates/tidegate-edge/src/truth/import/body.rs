//! The canonical JSON of a rule, taken apart without parsing it: it begins with the id and ends with numbers.

const START: &str = "{\"id\":";

/// What it says of the rule's terms: what is equal there is equal, whatever the id and the version.
pub(super) fn terms_of(body: &str) -> Option<&str> {
    let rest = behind_id(body)?;
    // Behind it there are only numbers.
    Some(&rest[..rest.rfind(",\"version\":")?])
}

/// The same with another id.
pub(super) fn renamed(body: &str, id: &str) -> Option<String> {
    Some(format!("{START}{},{}", serde_json::to_string(id).ok()?, behind_id(body)?))
}

fn behind_id(body: &str) -> Option<&str> {
    let text = body.strip_prefix(START)?.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    text[end? + 1..].strip_prefix(',')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Rule, Terms};
    use crate::truth::group::body;

    #[test]
    fn a_body_is_taken_apart_without_parsing_it() {
        for id in ["a\",\"b", "a", "\\", "\\\"", "\"\\\\", "ü,"] {
            let mut rule = Rule {
                id: id.to_owned(),
                terms: Terms::new("/a", "/b"),
                clicks: 0,
                version: 1,
                created_at: 2,
                updated_at: 3,
            };
            rule.terms.note = ",\"version\":7".to_owned();
            let first = body(&rule).unwrap();
            let terms = terms_of(&first).unwrap().to_owned();
            assert!(terms.starts_with("\"host\":") && terms.ends_with('"'), "{terms}");
            (rule.version, rule.updated_at) = (5, 6);
            assert_eq!(terms_of(&body(&rule).unwrap()), Some(&*terms));
            let other = renamed(&first, "ü\\").unwrap();
            (rule.version, rule.updated_at, rule.id) = (1, 3, "ü\\".to_owned());
            assert_eq!(other, body(&rule).unwrap());
        }
    }
}
