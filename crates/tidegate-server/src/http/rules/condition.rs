//! What a change is made under: `If-Match` and `If-None-Match`, of the version that an `ETag` has said.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use tidegate::bounds::MAX_COUNT;
use tidegate_edge::truth::Condition;

use crate::http::{Parameter, Problem, Result};

const MATCH: Parameter = Parameter::text(
    "If-Match",
    r#"^(\*|"[0-9]{1,15}")$"#,
    "*",
    "only if the rule is of this version, the `ETag` of an answer; `*`: if there is one",
);

/// For what changes a rule that is there.
pub(super) const IF_MATCH: &[Parameter] = &[MATCH];

/// For what can make one, too.
pub(super) const CONDITIONS: &[Parameter] =
    &[MATCH, Parameter::text("If-None-Match", r"^\*$", "*", "`*`: only if there is no rule of this id")];

/// How a version is written in a header.
pub(super) fn tag(version: u64) -> HeaderValue {
    // Digits between quotes: always a header's value.
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// What is said of a rule that may not be there yet.
pub(super) fn conditions(headers: &HeaderMap) -> Result<Condition> {
    let absent = one(headers, &header::IF_NONE_MATCH)?;
    match (if_match(headers)?, absent) {
        (condition, None) => Ok(condition),
        (Condition::None, Some("*")) => Ok(Condition::Absent),
        (Condition::None, Some(other)) => {
            Err(Problem::invalid(format!("`If-None-Match`: {} is not allowed: only * is", shown(other))))
        }
        (_, Some(_)) => {
            let detail = "`If-Match` and `If-None-Match` exclude each other: send one of them";
            Err(Problem::invalid(detail.to_owned()))
        }
    }
}

/// What is said of a rule that must be there.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Condition> {
    let Some(text) = one(headers, &header::IF_MATCH)? else { return Ok(Condition::None) };
    if text == "*" {
        return Ok(Condition::Exists);
    }
    let digits = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let digits = digits.filter(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()));
    let version = digits.and_then(|it| it.parse().ok()).filter(|version| *version <= MAX_COUNT);
    version.map(Condition::Version).ok_or_else(|| {
        let allowed = "the ETag of an answer is, like \"3\" with its quotes, or *";
        Problem::invalid(format!("`If-Match`: {} is not allowed: {allowed}", shown(text)))
    })
}

/// The value of a field that is there once at most.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Ok(Some(value.to_str().unwrap_or("?").trim_ascii())),
        (Some(_), Some(_)) => {
            Err(Problem::invalid(format!("the field {name} is there twice: one version is expected")))
        }
    }
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(HeaderName, &'static str)]) -> Option<Condition> {
        let fields = fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        conditions(&headers).ok()
    }

    #[test]
    fn a_version_is_what_an_answer_has_said() {
        let (on, off) = (header::IF_MATCH, header::IF_NONE_MATCH);
        assert_eq!(of(&[]), Some(Condition::None));
        assert_eq!(of(&[(on.clone(), "*")]), Some(Condition::Exists));
        assert_eq!(of(&[(on.clone(), "\"3\"")]), Some(Condition::Version(3)));
        assert_eq!(of(&[(on.clone(), "\"9007199254740991\"")]), Some(Condition::Version(MAX_COUNT)));
        assert_eq!(of(&[(off.clone(), "*")]), Some(Condition::Absent));
        for wrong in [
            "",
            "3",
            "\"\"",
            "\"",
            "\"+3\"",
            "\"3",
            "W/\"3\"",
            "\"3\", \"4\"",
            "\"x\"",
            "\"9007199254740992\"",
        ] {
            assert_eq!(of(&[(on.clone(), wrong)]), None, "{wrong}");
        }
        assert_eq!(of(&[(off.clone(), "\"3\"")]), None);
        assert_eq!(of(&[(on.clone(), "\"3\""), (off.clone(), "*")]), None);
        assert_eq!(of(&[(on.clone(), "*"), (off, "*")]), None);
        assert_eq!(of(&[(on.clone(), "\"3\""), (on, "\"4\"")]), None);
        assert_eq!(
            if_match(&HeaderMap::from_iter([(header::IF_MATCH, tag(7))])).ok(),
            Some(Condition::Version(7))
        );
    }
}
