//! What is sent to us, read and checked: nothing behind it checks again.

use std::borrow::Cow;
use std::fmt;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use tidegate::bounds::MAX_COUNT;
use tidegate::{Cost, Rate};

use super::problem::Problem;

/// The body of a take.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with key, cost and rate")]
pub(crate) struct Take<'a> {
    #[serde(borrow)]
    pub(crate) key: Cow<'a, str>,
    #[serde(default)]
    cost: Option<WholeCost>,
    #[serde(default, borrow)]
    rate: Option<Cow<'a, str>>,
}

impl Take<'_> {
    pub(crate) fn cost(&self) -> Cost {
        self.cost.as_ref().map_or(Cost::ONE, |cost| cost.0)
    }

    pub(crate) fn rate(&self) -> Result<Option<Rate>, Problem> {
        Ok(self.rate.as_ref().map(|rate| rate.parse()).transpose()?)
    }
}

/// The body of a refund.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with key and receipt")]
pub(crate) struct Refund<'a> {
    #[serde(borrow)]
    pub(crate) key: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) receipt: Cow<'a, str>,
}

/// A cost as JSON writes numbers: `2` and `2.0` are the same.
#[derive(Debug)]
struct WholeCost(Cost);

impl<'de> Deserialize<'de> for WholeCost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(CostVisitor)
    }
}

struct CostVisitor;

fn refused<E: de::Error>(cost: impl fmt::Display) -> E {
    E::custom(format!("a cost of {cost} is not allowed: whole numbers from 1 to {MAX_COUNT} are"))
}

impl Visitor<'_> for CostVisitor {
    type Value = WholeCost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cost: a whole number from 1 to {MAX_COUNT}")
    }

    fn visit_u64<E: de::Error>(self, cost: u64) -> Result<WholeCost, E> {
        Cost::new(cost).map(WholeCost).map_err(|_| refused(cost))
    }

    fn visit_i64<E: de::Error>(self, cost: i64) -> Result<WholeCost, E> {
        refused_if_negative(cost).and_then(|cost| self.visit_u64(cost))
    }

    fn visit_f64<E: de::Error>(self, cost: f64) -> Result<WholeCost, E> {
        // Up to here every whole number has a float of its own.
        if cost.fract() != 0.0 || !(1.0..=MAX_COUNT as f64).contains(&cost) {
            return Err(refused(cost));
        }
        self.visit_u64(cost as u64)
    }
}

fn refused_if_negative<E: de::Error>(cost: i64) -> Result<u64, E> {
    u64::try_from(cost).map_err(|_| refused(cost))
}

/// Reads the body: JSON by its type, of no type or of curl's, and at most `max_bytes`.
pub(crate) async fn read(headers: &HeaderMap, body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|given| given.to_str().unwrap_or("?"));
    // No type, or what curl says of any `-d`. A browser sends both for any page,
    // but then it names the page.
    let is_command_line = matches!(given, None | Some("application/x-www-form-urlencoded"));
    let is_allowed = given.is_some_and(is_json) || (is_command_line && !headers.contains_key(header::ORIGIN));
    if !is_allowed {
        return Err(Problem::content_type(given.unwrap_or_default()));
    }
    // Known before a byte of it has come.
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > max_bytes as u64) {
        return Err(Problem::body_too_large(max_bytes));
    }
    match Limited::new(body, max_bytes).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::body_too_large(max_bytes)),
        Err(_) => Err(Problem::invalid("the body ended early".to_owned())),
    }
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Parses a body.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    // A struct could be read from an array, by position: nobody should rely on it.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let expected = "the body is an array: an object is expected, like {\"key\":\"user_123\"}";
        return Err(Problem::invalid(expected.to_owned()));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("the body is not what is expected: {error}")))
}
