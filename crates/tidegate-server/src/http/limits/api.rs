//! What is said about limits. A request that was read is checked by its methods: nothing
//! behind them checks again.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use tidegate::bounds::MAX_COUNT;
use tidegate::key::MAX_KEY_BYTES;
use tidegate::limit::{
    Algorithm, Calendar, KeyOverride, KeyReservation, MAX_LIMITS, Page, Reservation as Held, Sliding, Token,
};
use tidegate::{Cost, Key};

use crate::api::{Invalid, borrowing, ms, one_length_of_time, pattern, response, subject, whole};

/// A key in a body. Without one it is about everyone; an empty one is an error, and so is `null`,
/// which is what a program writes that has lost the key.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Subject<'a>(pub(crate) Option<Cow<'a, str>>);

impl Subject<'_> {
    pub(crate) fn key(&self) -> Result<Key<'_>, Invalid> {
        match &self.0 {
            Some(text) => Ok(Key::new(text)?),
            None => Ok(Key::EVERYONE),
        }
    }

    pub(super) fn is_everyone(&self) -> bool {
        self.0.is_none()
    }
}

impl JsonSchema for Subject<'_> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Key")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "what is counted: a user, an address; at most 255 bytes";
        json_schema!({"type": "string", "minLength": 1, "maxLength": MAX_KEY_BYTES, "description": about})
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with key, cost and rate")]
pub(crate) struct Take<'a> {
    #[serde(default, borrow, skip_serializing_if = "Subject::is_everyone")]
    pub(crate) key: Subject<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<WholeCost>,
    /// Judges by this rate instead of the limit's own, like 10/s.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::RATE))]
    pub(crate) rate: Option<Cow<'a, str>>,
}

/// The body of a take from several limits.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with key and limits")]
pub(crate) struct TakeAll<'a> {
    #[serde(default, borrow, skip_serializing_if = "Subject::is_everyone")]
    pub(crate) key: Subject<'a>,
    #[serde(borrow)]
    #[schemars(length(min = 1, max = MAX_LIMITS))]
    pub(crate) limits: Vec<TakeOne<'a>>,
}

/// One of them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with limit and cost")]
pub(crate) struct TakeOne<'a> {
    #[serde(borrow)]
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(crate) limit: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<WholeCost>,
}

/// The body of a refund.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with key and receipt")]
pub(crate) struct Refund<'a> {
    #[serde(default, borrow, skip_serializing_if = "Subject::is_everyone")]
    pub(crate) key: Subject<'a>,
    /// What the take answered.
    #[serde(borrow)]
    #[schemars(extend("pattern" = pattern::RECEIPT))]
    pub(crate) receipt: Cow<'a, str>,
}

/// The body of an override.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with rate and lasting_ms or lasting")]
#[schemars(transform = one_length_of_time)]
pub(crate) struct SetOverride<'a> {
    /// The key's own rate, like 50/s.
    #[serde(borrow)]
    #[schemars(extend("pattern" = pattern::RATE))]
    pub(crate) rate: Cow<'a, str>,
    /// At most 90 days.
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 7_776_000_000_u64))]
    pub(crate) lasting_ms: Option<u64>,
    /// The same in words, like 1h.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::LENGTH_OF_TIME))]
    pub(crate) lasting: Option<Cow<'a, str>>,
}

/// The body of a reservation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with cost and lasting_ms or lasting")]
#[schemars(transform = one_length_of_time)]
pub(crate) struct Reserve<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<WholeCost>,
    /// At most the limit's window.
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub(crate) lasting_ms: Option<u64>,
    /// The same in words, like 1h.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::LENGTH_OF_TIME))]
    pub(crate) lasting: Option<Cow<'a, str>>,
}

borrowing!(Take, TakeAll, Refund, SetOverride, Reserve);

/// A cost as JSON writes numbers: `2` and `2.0` are the same.
#[derive(Debug)]
pub(crate) struct WholeCost(Cost);

impl Serialize for WholeCost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.get())
    }
}

impl JsonSchema for WholeCost {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Cost")
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "how many permits; 1 unless given";
        json_schema!({"type": "integer", "minimum": 1, "maximum": MAX_COUNT, "description": about})
    }
}

impl WholeCost {
    pub(crate) fn new(cost: u64) -> Result<Self, Invalid> {
        Ok(Self(Cost::new(cost)?))
    }

    pub(crate) fn or_one(given: &Option<Self>) -> Cost {
        given.as_ref().map_or(Cost::ONE, |cost| cost.0)
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
        u64::try_from(cost).map_err(|_| refused(cost)).and_then(|cost| self.visit_u64(cost))
    }

    fn visit_f64<E: de::Error>(self, cost: f64) -> Result<WholeCost, E> {
        let whole = whole::from_float(cost).and_then(|whole| Cost::new(u64::try_from(whole).ok()?).ok());
        whole.map(WholeCost).ok_or_else(|| refused(cost))
    }
}

/// What a refund gave back.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Refunded {
    pub(crate) refunded: u64,
}

response! {
    /// A key's own rate, and for how long it is still judged by it.
    struct Override of(limit) from(key: Key<'_>, it: &tidegate::limit::Override) {
        /// `null` is no subject at all.
        key: Option<String> = subject(key).map(str::to_owned),
        rate: String = it.rate.to_string(),
        lasting_ms: u64 = ms(it.lasting),
    }

    /// A reservation.
    struct Reservation of(limit) from(key: Key<'_>, id: String, it: &Held) {
        /// `null` is no subject at all.
        key: Option<String> = subject(key).map(str::to_owned),
        id: String = id,
        cost: u64 = it.cost,
        state: String = it.state.as_str().to_owned(),
        expires_in_ms: u64 = it.expires_in_ms,
    }

    /// Overrides of a limit, those that end first in front.
    struct Overrides of(limit) from(page: Page<KeyOverride>) {
        overrides: Vec<OverrideRow> = page.items.into_iter().map(OverrideRow::new).collect(),
        /// Where the next page begins; `null` if there is none.
        next: Option<String> = page.next.map(|next| next.to_string()),
    }

    /// An override of a key; `null` is no subject at all.
    struct OverrideRow from(it: KeyOverride) {
        key: Option<String> = not_everyone(it.key),
        rate: String = it.rate.to_string(),
        lasting_ms: u64 = ms(it.lasting),
    }

    /// Pending reservations of a limit, those that end first in front.
    struct Reservations of(limit) from(page: Page<KeyReservation>) {
        reservations: Vec<ReservationRow> = page.items.into_iter().map(ReservationRow::new).collect(),
        /// Where the next page begins; `null` if there is none.
        next: Option<String> = page.next.map(|next| next.to_string()),
    }

    /// A pending reservation of a key; `null` is no subject at all.
    struct ReservationRow from(it: KeyReservation) {
        key: Option<String> = not_everyone(it.key),
        id: String = it.id,
        cost: u64 = it.reservation.cost,
        expires_in_ms: u64 = it.reservation.expires_in_ms,
    }
}

fn not_everyone(key: String) -> Option<String> {
    Some(key).filter(|key| !key.is_empty())
}

/// All limits.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Limits {
    pub(crate) limits: Vec<LimitInfo>,
}

response! {
    /// A limit, with the numbers of its algorithm; only some have the last eight.
    struct LimitInfo of(limit) from(it: &Algorithm) {
        algorithm: String = it.name().to_owned(),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<String> = sliding(it).map(Sliding::rate).or(token(it).map(Token::rate)).map(|it| it.to_string()),
        window_size_seconds: u64 = it.window_size_seconds(),
        capacity: u64 = it.capacity(),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        coalesce_ms: Option<u64> = sliding(it).map(|it| ms(it.coalesce())),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hard_capacity: Option<u64> = match it {
            Algorithm::Suppressed(it) => it.hard_capacity(),
            _ => None,
        },
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst: Option<u64> = token(it).map(Token::burst),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refill_ms: Option<u64> = token(it).map(Token::refill_ms),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        period: Option<String> = calendar(it).map(|it| it.period().as_str().to_owned()),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_per_period: Option<u64> = calendar(it).map(Calendar::limit),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        safety_buffer: Option<u64> = calendar(it).map(Calendar::safety_buffer),
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counter_ttl_ms: Option<u64> = calendar(it).map(|it| ms(it.counter_ttl())),
    }
}

fn sliding(algorithm: &Algorithm) -> Option<&Sliding> {
    match algorithm {
        Algorithm::Sliding(sliding) => Some(sliding),
        Algorithm::Suppressed(suppressed) => Some(suppressed.sliding()),
        _ => None,
    }
}

fn token(algorithm: &Algorithm) -> Option<&Token> {
    if let Algorithm::Token(token) = algorithm { Some(token) } else { None }
}

fn calendar(algorithm: &Algorithm) -> Option<&Calendar> {
    if let Algorithm::Calendar(calendar) = algorithm { Some(calendar) } else { None }
}
