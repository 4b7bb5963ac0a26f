//! A moment as people and programs write it: milliseconds since 1970, or RFC 3339.

use std::fmt;
use std::time::UNIX_EPOCH;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;

use crate::api::whole;

/// What is allowed, for messages.
const ALLOWED: &str = "milliseconds since 1970 are, and RFC 3339 like 2026-11-15T12:30:00Z";

/// A moment in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.as_millis())
    }
}

impl JsonSchema for Moment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        std::borrow::Cow::Borrowed("Moment")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "milliseconds since 1970, or RFC 3339",
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_COUNT},
                {"type": "string", "pattern": PATTERN},
            ],
        })
    }
}

/// The same in a query, where numbers are text too.
pub(crate) const PARAMETER: &str = "^[0-9]{1,15}$";

/// Texts that are moments; there are others, of every offset.
pub(crate) const PATTERN: &str = "^(19[789][0-9]|20[0-9]{2})-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$";

/// Reads a moment; the error says what is allowed.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ms = if is_number { text.parse().ok() } else { rfc3339(text) };
    ms.filter(|ms| *ms <= MAX_COUNT).map(Timestamp::from_millis).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{shown:?} is not a moment: {ALLOWED}")
    })
}

/// With any offset, which is more than what we stand on reads.
fn rfc3339(text: &str) -> Option<u64> {
    const NAIVE: usize = "2026-11-15T12:30:00".len();
    if !text.is_ascii() || text.len() <= NAIVE || !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
        return None;
    }
    let (naive, offset_ms) = match text.strip_suffix(['Z', 'z']) {
        Some(naive) => (naive, 0),
        None => {
            let (naive, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
            (naive, offset_ms(offset)?)
        }
    };
    let (date, time) = (naive.get(..10)?, naive.get(11..)?);
    let at = humantime::parse_rfc3339(&format!("{date}T{time}Z")).ok()?;
    let ms = i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    u64::try_from(ms - offset_ms).ok()
}

/// `+02:00`. In a query a plus that is not escaped is a space.
fn offset_ms(text: &str) -> Option<i64> {
    let sign = match text.as_bytes()[0] {
        b'+' | b' ' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let number = |text: &str, most: i64| {
        let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| is_two && *number <= most)
    };
    Some(sign * (number(hours, 23)? * 60 + number(minutes, 59)?) * 60_000)
}

/// What to say of a moment that is one of our days in seconds, and 1970 in milliseconds.
pub(crate) fn seconds_hint(at: Timestamp) -> Option<String> {
    let ms = at.as_millis();
    // From 2001 on, and before any that a program of today writes in milliseconds.
    (1_000_000_000..100_000_000_000).contains(&ms).then(|| {
        let meant = shown(Timestamp::from_millis(ms * 1000));
        format!("{ms} looks like {meant} in seconds: milliseconds since 1970 are expected")
    })
}

/// A moment for people.
pub(crate) fn shown(at: Timestamp) -> String {
    let at = UNIX_EPOCH.checked_add(std::time::Duration::from_millis(at.as_millis()));
    // What is further off than the year 9999 has no such form.
    let at = at.filter(|at| at.duration_since(UNIX_EPOCH).is_ok_and(|it| it.as_secs() < 253_402_300_800));
    at.map_or("far off".to_owned(), |at| humantime::format_rfc3339_millis(at).to_string())
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MomentVisitor)
    }
}

struct MomentVisitor;

impl Visitor<'_> for MomentVisitor {
    type Value = Moment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a moment: {ALLOWED}")
    }

    fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Moment, E> {
        parse(&ms.to_string()).map(Moment).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Moment, E> {
        parse(&ms.to_string()).map(Moment).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, ms: f64) -> Result<Moment, E> {
        let whole = whole::from_float(ms).and_then(|whole| u64::try_from(whole).ok());
        let at = whole.map(|whole| Moment(Timestamp::from_millis(whole)));
        at.ok_or_else(|| E::custom(format!("{ms} is not a moment: {ALLOWED}")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
        parse(text).map(Moment).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_number_or_rfc_3339() {
        for (text, ms) in [
            ("0", 0),
            ("1442018818771", 1_442_018_818_771),
            ("2015-09-12T00:46:58.771Z", 1_442_018_818_771),
            ("2015-09-12T00:46:58Z", 1_442_018_818_000),
            ("2015-09-12t02:46:58.7710009z", 1_442_026_018_771),
            ("2015-09-12T02:46:58.771+02:00", 1_442_018_818_771),
            ("2015-09-12T02:46:58.771 02:00", 1_442_018_818_771),
            ("2015-09-11 19:16:58-05:30", 1_442_018_818_000),
        ] {
            assert_eq!(parse(text).map(Timestamp::as_millis), Ok(ms), "{text}");
        }
        assert_eq!(shown(Timestamp::from_millis(1_442_018_818_771)), "2015-09-12T00:46:58.771Z");
        assert_eq!(shown(Timestamp::from_millis(MAX_COUNT)), "far off");
    }

    #[test]
    fn anything_else_is_refused_with_what_is_allowed() {
        for text in [
            "",
            "-1",
            "soon",
            "1.5",
            "99999999999999999999",
            "2015-09-12",
            "2015-09-12T00:46:58",
            "2015-09-12T00:46:58+2:00",
            "2015-09-12T00:46:58+24:00",
            "2015-13-12T00:46:58Z",
            "1969-12-31T23:59:59Z",
            "2015-09-12T00:46:58ä:00",
            "ä015-09-12T00:46:58Z",
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(
                refusal.ends_with(
                    "is not a moment: milliseconds since 1970 are, and RFC 3339 like 2026-11-15T12:30:00Z"
                ),
                "{refusal}"
            );
        }
    }
}
