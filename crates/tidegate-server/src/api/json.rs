//! Configurations and values: JSON over HTTP, text in the store.
//!
//! The store has what older programs have there, a text, mostly JSON. A value is kept as it was
//! written, digit by digit. A string is kept as its own text, without quotes, unless that would be
//! read as something else: `dark` is, `7` and `{}` are not. So whatever goes in comes back, and a
//! text that is not JSON, whoever wrote it, is a string. Nothing at all is `null`.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Invalid;

/// How `value` is kept.
pub(crate) fn to_text(value: &RawValue) -> Result<Cow<'_, str>, Invalid> {
    let json = value.get();
    if !json.starts_with('"') {
        return Ok(Cow::Borrowed(json));
    }
    let text: String = serde_json::from_str(json)
        .map_err(|error| Invalid(format!("the body is not what is expected: {error}")))?;
    match text.is_empty() || is_json(&text) {
        true => Ok(Cow::Borrowed(json)),
        false => Ok(Cow::Owned(text)),
    }
}

/// What is kept as `text`.
pub(crate) fn from_text(text: &str) -> Cow<'_, RawValue> {
    if let Ok(value) = serde_json::from_str::<&RawValue>(text) {
        return Cow::Borrowed(value);
    }
    let json = match text.is_empty() {
        true => None,
        false => serde_json::value::to_raw_value(text).ok(),
    };
    json.map_or(Cow::Borrowed(RawValue::NULL), Cow::Owned)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn back(json: &str) -> String {
        let value: &RawValue = serde_json::from_str(json).unwrap();
        from_text(&to_text(value).unwrap()).get().to_owned()
    }

    #[test]
    fn values_are_kept_as_they_were_written() {
        for (json, text) in [
            (r#"{"b": 1,  "a":10000000000000000001}"#, r#"{"b": 1,  "a":10000000000000000001}"#),
            ("7.10", "7.10"),
            ("null", "null"),
            ("[1, 2]", "[1, 2]"),
            (r#""dark \"mode\"""#, r#"dark "mode""#),
            (r#""7""#, r#""7""#),
            (r#""{}""#, r#""{}""#),
            (r#""true""#, r#""true""#),
            (r#""""#, r#""""#),
        ] {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(to_text(value).unwrap(), text, "{json}");
            assert_eq!(back(json), json);
        }
    }

    #[test]
    fn what_others_have_written_is_json_too() {
        for (text, json) in [
            ("dark mode", r#""dark mode""#),
            ("", "null"),
            (" {\"a\": 1}\n", r#"{"a": 1}"#),
            ("{\"a\": 1", r#""{\"a\": 1""#),
            ("nan", r#""nan""#),
            ("7.5", "7.5"),
        ] {
            assert_eq!(from_text(text).get(), json, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_string_comes_back(text in "(?s).{0,20}|[0-9.eE+-]{0,6}|[\\[\\]{}\", :a-z0-9]{0,10}") {
            let json = serde_json::to_string(&text).unwrap();
            let returned: String = serde_json::from_str(&back(&json)).unwrap();
            prop_assert_eq!(returned, text);
        }
    }
}
