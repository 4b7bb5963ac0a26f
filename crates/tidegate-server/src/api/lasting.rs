//! Lengths of time in requests: as a number, or in words.

use std::time::Duration;

use schemars::Schema;
use serde_json::json;

use super::Invalid;
use crate::settings::parse::Parse as _;

/// How long something lasts, as a number or in words.
pub(crate) fn lasting(ms: Option<u64>, text: Option<&str>) -> Result<Duration, Invalid> {
    match (ms, text) {
        (Some(ms), None) => Ok(Duration::from_millis(ms)),
        (None, Some(text)) => Duration::parse(text).map_err(|why| Invalid(format!("`lasting`: {why}"))),
        (None, None) => {
            Err(Invalid("how long is missing: `lasting_ms`, or `lasting` like \"1h\"".to_owned()))
        }
        (Some(_), Some(_)) => {
            Err(Invalid("`lasting_ms` and `lasting` are the same: name one of them".to_owned()))
        }
    }
}

/// Says of a schema that exactly one of the two is given; `null` is none.
pub(crate) fn one_length_of_time(schema: &mut Schema) {
    let given = |name: &str, kind: &str| json!({"required": [name], "properties": {name: {"type": kind}}});
    let either = json!([given("lasting_ms", "integer"), given("lasting", "string")]);
    schema.insert("oneOf".to_owned(), either);
}
