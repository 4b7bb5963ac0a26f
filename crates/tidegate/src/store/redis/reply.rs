//! What a script answered, read field by field in the order in which it was written.
//!
//! The numbers that stand for something have names, the same in Rust and in Lua: each room has a
//! `codes.rs` and a `codes.lua`, which a test compares.

use redis::Value;

use crate::clock::Timestamp;
use crate::error::{Error, Result};

/// Reads the replies to the scripts of one part, by whose name they are called in errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replies(pub(crate) &'static str);

impl Replies {
    /// A reply that is nothing that the script answers.
    pub(crate) fn unexpected(self, reply: &(impl std::fmt::Debug + ?Sized)) -> Error {
        Error::internal(format!("a script of {} answered {reply:?}", self.0))
    }

    /// The fields of a list.
    pub(crate) fn list(self, reply: &Value) -> Result<Fields<'_>> {
        match reply {
            Value::Array(fields) => Ok(Fields { of: self, reply, rest: fields }),
            _ => Err(self.unexpected(reply)),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn number(self, reply: &Value) -> Result<u64> {
        match reply {
            Value::Int(number) => u64::try_from(*number).map_err(|_| self.unexpected(reply)),
            _ => Err(self.unexpected(reply)),
        }
    }

    /// The replies to a call of `items` items: to one it is not in a list.
    pub(crate) fn items(self, reply: &Value, items: usize) -> Result<&[Value]> {
        match reply {
            reply if items == 1 => Ok(std::slice::from_ref(reply)),
            Value::Array(replies) if replies.len() == items => Ok(replies),
            _ => Err(self.unexpected(reply)),
        }
    }
}

/// The fields of a reply that have not been read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    of: Replies,
    reply: &'a Value,
    rest: &'a [Value],
}

impl<'a> Fields<'a> {
    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The reply is not what the script answers.
    pub(crate) fn unexpected(&self) -> Error {
        self.of.unexpected(self.reply)
    }

    /// The next field, whatever it is.
    pub(crate) fn field(&mut self) -> Result<&'a Value> {
        let (field, rest) = self.rest.split_first().ok_or_else(|| self.unexpected())?;
        self.rest = rest;
        Ok(field)
    }

    pub(crate) fn integer(&mut self) -> Result<i64> {
        match self.field()? {
            Value::Int(number) => Ok(*number),
            _ => Err(self.unexpected()),
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn number(&mut self) -> Result<u64> {
        u64::try_from(self.integer()?).map_err(|_| self.unexpected())
    }

    pub(crate) fn numbers<const N: usize>(&mut self) -> Result<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Ok(numbers)
    }

    /// Numbers that others may have had a hand in: those below zero count as 0.
    pub(crate) fn clamped<const N: usize>(&mut self) -> Result<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.integer()?.max(0) as u64;
        }
        Ok(numbers)
    }

    /// Whether it is 1.
    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.integer()? == 1)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        self.number().map(Timestamp::from_millis)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        match self.field()? {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.as_bytes()),
            _ => Err(self.unexpected()),
        }
    }

    /// A text; what others wrote need not be one, and is made one.
    pub(crate) fn text(&mut self) -> Result<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// A list in the list.
    pub(crate) fn list(&mut self) -> Result<Fields<'a>> {
        self.of.list(self.field()?)
    }

    /// That was all.
    pub(crate) fn end(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// What `read` makes of all that is left, so many fields at a time.
    pub(crate) fn each<T>(mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while !self.is_empty() {
            all.push(read(&mut self)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
pub(crate) mod codes {
    use std::collections::BTreeMap;

    /// The constants of a `codes.rs`.
    fn of_rust(source: &str) -> BTreeMap<String, i64> {
        let constant = |line: &str| {
            let (name, value) = line.split_once("const ")?.1.split_once(": i64 = ")?;
            Some((name.to_owned(), value.trim_end_matches(';').parse().ok()?))
        };
        source.lines().filter_map(constant).collect()
    }

    /// The constants of a `codes.lua`, several to a line.
    fn of_lua(source: &str) -> BTreeMap<String, i64> {
        let mut all = BTreeMap::new();
        for line in source.lines().filter_map(|line| line.strip_prefix("local ")) {
            let (names, values) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
            let (names, values): (Vec<_>, Vec<_>) =
                (names.split(", ").collect(), values.split(", ").collect());
            assert_eq!(names.len(), values.len(), "{line}");
            for (name, value) in names.into_iter().zip(values) {
                let value = value.parse().unwrap_or_else(|_| panic!("{line}: {value} is no number"));
                assert_eq!(all.insert(name.to_owned(), value), None, "{name} stands twice");
            }
        }
        all
    }

    /// Both sides have the same names for the same numbers.
    pub(crate) fn assert_alike(rust: &str, lua: &str) {
        let (rust, lua) = (of_rust(rust), of_lua(lua));
        assert!(!rust.is_empty());
        assert_eq!(rust, lua);
    }

    #[test]
    fn a_name_or_a_number_on_one_side_alone_is_found() {
        let rust = "pub(super) const ONE: i64 = 1;\npub(super) const NONE: i64 = -1;";
        assert_alike(rust, "-- A comment.\nlocal NONE, ONE = -1, 1");
        for lua in ["local ONE = 1", "local NONE, ONE = -1, 2", "local NONE, ONE, TWO = -1, 1, 2"] {
            assert!(std::panic::catch_unwind(|| assert_alike(rust, lua)).is_err(), "{lua}");
        }
    }
}
