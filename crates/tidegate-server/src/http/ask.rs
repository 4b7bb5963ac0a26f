//! What is asked in a body, checked: nothing behind it checks again.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use tidegate::bounds::MAX_COUNT;
use tidegate::{Cost, Key, Rate};

use super::problem::Problem;

/// A key in a body. Without one it is about everyone; an empty one is an error, and so is `null`,
/// which is what a program writes that has lost the key.
#[derive(Debug, Default)]
struct Subject<'a>(Option<Cow<'a, str>>);

impl Subject<'_> {
    fn key(&self) -> Result<Key<'_>, Problem> {
        match &self.0 {
            Some(text) => Ok(Key::new(text)?),
            None => Ok(Key::EVERYONE),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Subject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(SubjectVisitor).map(|key| Self(Some(key)))
    }
}

struct SubjectVisitor;

impl<'de> Visitor<'de> for SubjectVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or no `key` at all for what everyone shares")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// The body of a take.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with key, cost and rate")]
pub(crate) struct Take<'a> {
    #[serde(default, borrow)]
    key: Subject<'a>,
    #[serde(default)]
    cost: Option<WholeCost>,
    #[serde(default, borrow)]
    rate: Option<Cow<'a, str>>,
}

impl Take<'_> {
    pub(crate) fn key(&self) -> Result<Key<'_>, Problem> {
        self.key.key()
    }

    pub(crate) fn cost(&self) -> Cost {
        WholeCost::or_one(self.cost.as_ref())
    }

    pub(crate) fn rate(&self) -> Result<Option<Rate>, Problem> {
        Ok(self.rate.as_ref().map(|rate| rate.parse()).transpose()?)
    }
}

/// The body of a take from several limits.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with key and limits")]
pub(crate) struct TakeAll<'a> {
    #[serde(default, borrow)]
    key: Subject<'a>,
    #[serde(borrow)]
    pub(crate) limits: Vec<TakeOne<'a>>,
}

impl TakeAll<'_> {
    pub(crate) fn key(&self) -> Result<Key<'_>, Problem> {
        self.key.key()
    }
}

/// One of them.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with limit and cost")]
pub(crate) struct TakeOne<'a> {
    #[serde(borrow)]
    pub(crate) limit: Cow<'a, str>,
    #[serde(default)]
    cost: Option<WholeCost>,
}

impl TakeOne<'_> {
    pub(crate) fn cost(&self) -> Cost {
        WholeCost::or_one(self.cost.as_ref())
    }
}

/// The body of a refund.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with key and receipt")]
pub(crate) struct Refund<'a> {
    #[serde(default, borrow)]
    key: Subject<'a>,
    #[serde(borrow)]
    receipt: Cow<'a, str>,
}

impl Refund<'_> {
    pub(crate) fn key(&self) -> Result<Key<'_>, Problem> {
        self.key.key()
    }

    pub(crate) fn receipt(&self) -> &str {
        &self.receipt
    }
}

/// The body of an override.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with rate and lasting_ms or lasting")]
pub(crate) struct SetOverride<'a> {
    #[serde(borrow)]
    rate: Cow<'a, str>,
    #[serde(default)]
    lasting_ms: Option<u64>,
    #[serde(default, borrow)]
    lasting: Option<Cow<'a, str>>,
}

impl SetOverride<'_> {
    pub(crate) fn rate(&self) -> Result<Rate, Problem> {
        Ok(self.rate.parse()?)
    }

    pub(crate) fn lasting(&self) -> Result<Duration, Problem> {
        lasting(self.lasting_ms, self.lasting.as_deref())
    }
}

/// The body of a reservation.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with cost and lasting_ms or lasting")]
pub(crate) struct Reserve<'a> {
    #[serde(default)]
    cost: Option<WholeCost>,
    #[serde(default)]
    lasting_ms: Option<u64>,
    #[serde(default, borrow)]
    lasting: Option<Cow<'a, str>>,
}

impl Reserve<'_> {
    pub(crate) fn cost(&self) -> Cost {
        WholeCost::or_one(self.cost.as_ref())
    }

    pub(crate) fn lasting(&self) -> Result<Duration, Problem> {
        lasting(self.lasting_ms, self.lasting.as_deref())
    }
}

/// The body of a request that needs none.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an empty object, or nothing")]
pub(crate) struct Nothing {}

/// How long something lasts, as a number or in words.
fn lasting(ms: Option<u64>, text: Option<&str>) -> Result<Duration, Problem> {
    match (ms, text) {
        (Some(ms), None) => Ok(Duration::from_millis(ms)),
        (None, Some(text)) => humantime::parse_duration(text).map_err(|_| {
            Problem::invalid(format!(
                "`lasting`: {text:?} is not a length of time: a number with a unit is, like 500ms, 5s or 2m"
            ))
        }),
        (None, None) => {
            Err(Problem::invalid("how long is missing: `lasting_ms`, or `lasting` like \"1h\"".to_owned()))
        }
        (Some(_), Some(_)) => {
            Err(Problem::invalid("`lasting_ms` and `lasting` are the same: name one of them".to_owned()))
        }
    }
}

/// A cost as JSON writes numbers: `2` and `2.0` are the same.
#[derive(Debug)]
struct WholeCost(Cost);

impl WholeCost {
    fn or_one(given: Option<&Self>) -> Cost {
        given.map_or(Cost::ONE, |cost| cost.0)
    }
}

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
