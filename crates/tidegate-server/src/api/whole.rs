//! Whole numbers in requests: `2` and `2.0` are the same number to JSON, and so to us.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, Unexpected, Visitor};
use tidegate::bounds::MAX_COUNT;

/// The whole number that a float says, if it is one that has a float of its own.
pub(crate) fn from_float(number: f64) -> Option<i64> {
    let is_exact = number.fract() == 0.0 && number.abs() <= MAX_COUNT as f64;
    is_exact.then_some(number as i64)
}

/// Reads a member that is a whole number.
pub(crate) fn required<'de, D: Deserializer<'de>, T: Integer>(deserializer: D) -> Result<T, D::Error> {
    Whole::deserialize(deserializer).map(|whole| whole.0)
}

/// Reads one that may be `null`.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Integer>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(|whole: Whole<T>| whole.0))
}

/// A type of whole numbers.
pub(crate) trait Integer: TryFrom<i64> + TryFrom<u64> {
    /// What is expected, in an error.
    const NAME: &'static str;
}

impl Integer for u64 {
    const NAME: &'static str = "u64";
}

impl Integer for i64 {
    const NAME: &'static str = "i64";
}

struct Whole<T>(T);

impl<'de, T: Integer> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(WholeVisitor(PhantomData)).map(Self)
    }
}

struct WholeVisitor<T>(PhantomData<T>);

impl<T: Integer> Visitor<'_> for WholeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        let whole = from_float(number).and_then(|whole| T::try_from(whole).ok());
        whole.ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Numbers {
        #[serde(deserialize_with = "required")]
        count: u64,
        #[serde(default, deserialize_with = "optional")]
        change: Option<i64>,
    }

    /// What it is read as, or why not, as serde says it of its own integers.
    fn read(json: &str) -> Result<(u64, Option<i64>), String> {
        let read = serde_json::from_str::<Numbers>(json).map_err(|error| error.to_string());
        read.map(|Numbers { count, change }| (count, change))
    }

    #[test]
    fn whole_floats_are_integers() {
        assert_eq!(read(r#"{"count":382.0,"change":-3e2}"#), Ok((382, Some(-300))));
        assert_eq!(read(r#"{"count":9007199254740991.0,"change":null}"#), Ok((9_007_199_254_740_991, None)));
        assert_eq!(read(r#"{"count":18446744073709551615}"#), Ok((u64::MAX, None)));
        assert_eq!(read(r#"{"count":-0.0}"#), Ok((0, None)));
    }

    #[test]
    fn anything_else_is_refused_as_it_always_was() {
        #[derive(Debug, Deserialize)]
        struct Plain {
            #[serde(rename = "count")]
            _count: u64,
            #[serde(default, rename = "change")]
            _change: Option<i64>,
        }
        for json in [
            r#"{"count":1.5}"#,
            r#"{"count":-1}"#,
            r#"{"count":"1"}"#,
            r#"{"count":null}"#,
            r#"{"count":1e300}"#,
            r#"{"count":[1]}"#,
            r#"{"count":1,"change":0.5}"#,
            r#"{"count":1,"change":18446744073709551615}"#,
            r#"{"count":1,"change":true}"#,
            r#"{"change":1}"#,
        ] {
            let plain = serde_json::from_str::<Plain>(json).map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(read(json).map(|_| ()), plain, "{json}");
            assert!(plain.is_err(), "{json}");
        }
    }
}
