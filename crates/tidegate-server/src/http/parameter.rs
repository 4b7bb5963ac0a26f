//! What stands behind the `?` of a path. A name that is not known is an error, and
//! never just has no effect.

use std::ops::RangeInclusive;
use std::str::FromStr;

use tidegate::{Cursor, MAX_PAGE};

use super::Result;
use super::problem::Problem;
use crate::api::pattern;

/// The parameters of an operation.
pub(crate) trait FromQuery: Sized {
    const PARAMETERS: &'static [Parameter];

    fn from_query(query: &Query) -> Result<Self>;
}

/// Types of parameters: what each is, the member that it becomes, and how it is read.
macro_rules! query {
    ($(
        $(#[$about:meta])*
        struct $name:ident from($query:ident) {
            $($parameter:expr => $member:ident: $type:ty = $read:expr,)+
        }
    )+) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $name {
            $(pub(in crate::http) $member: $type,)+
        }

        impl $crate::http::FromQuery for $name {
            const PARAMETERS: &'static [$crate::http::Parameter] = &[$($parameter),+];

            fn from_query($query: &$crate::http::Query) -> $crate::http::Result<Self> {
                Ok(Self { $($member: $read),+ })
            }
        }
    )+};
}
pub(super) use query;

/// One of them, as it is checked and described.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) kind: ParameterKind,
    pub(crate) is_required: bool,
}

/// What a parameter may be.
#[derive(Debug)]
pub(crate) enum ParameterKind {
    /// A whole number.
    Integer {
        allowed: RangeInclusive<u64>,
        default: Option<u64>,
    },
    /// `true` or `false`; no unless given.
    Flag,
    OneOf(&'static [&'static str]),
    /// Text in the form of a regular expression, and one that is.
    Text {
        pattern: &'static str,
        example: &'static str,
    },
}

impl Parameter {
    /// A whole number; `default` unless given, if there is one.
    pub(super) const fn integer(
        name: &'static str,
        allowed: RangeInclusive<u64>,
        default: Option<u64>,
        about: &'static str,
    ) -> Self {
        let kind = ParameterKind::Integer { allowed, default };
        Self { name, about, kind, is_required: false }
    }

    pub(super) const fn flag(name: &'static str, about: &'static str) -> Self {
        Self { name, about, kind: ParameterKind::Flag, is_required: false }
    }

    pub(super) const fn text(
        name: &'static str,
        pattern: &'static str,
        example: &'static str,
        about: &'static str,
    ) -> Self {
        Self { name, about, kind: ParameterKind::Text { pattern, example }, is_required: false }
    }

    pub(super) const fn one_of(
        name: &'static str,
        allowed: &'static [&'static str],
        about: &'static str,
    ) -> Self {
        Self { name, about, kind: ParameterKind::OneOf(allowed), is_required: false }
    }

    pub(super) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// Those of an operation that has none.
#[derive(Debug)]
pub(crate) struct NoQuery;

impl FromQuery for NoQuery {
    const PARAMETERS: &'static [Parameter] = &[];

    fn from_query(_: &Query) -> Result<Self> {
        Ok(Self)
    }
}

/// The parameters of a request, each at most once.
#[derive(Debug)]
pub(crate) struct Query {
    given: Vec<(String, String)>,
    known: &'static [Parameter],
}

impl Query {
    /// Those of `text`, which are among `known`.
    pub(super) fn parse(text: Option<&str>, known: &'static [Parameter]) -> Result<Self> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
            if !known.iter().any(|parameter| parameter.name == name) {
                let name: String = name.chars().take(40).collect();
                let names: Vec<_> = known.iter().map(|parameter| parameter.name).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                return Err(Problem::invalid(format!("unknown parameter {name:?}; known are: {known}")));
            }
            if given.iter().any(|(other, _)| *other == name) {
                return Err(Problem::invalid(format!("the parameter {name:?} is given twice")));
            }
            given.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self { given, known })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Whether the parameter says yes; no unless given.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        let given = self.read(name, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{text:?} is not allowed: true and false are")),
        })?;
        Ok(given.unwrap_or(false))
    }

    /// A whole number in the parameter's range; its default unless given.
    pub(super) fn integer(&self, name: &str) -> Result<Option<u64>> {
        self.integer_in(name, None)
    }

    /// The same, with another upper bound than the parameter's own, and why.
    pub(super) fn integer_in(&self, name: &str, most: Option<(u64, &str)>) -> Result<Option<u64>> {
        let known = self.known.iter().find(|parameter| parameter.name == name);
        let Some(Parameter { kind: ParameterKind::Integer { allowed, default }, .. }) = known else {
            return Ok(None);
        };
        let (least, most, why) = match most {
            Some((most, why)) => (*allowed.start(), most, why),
            None => (*allowed.start(), *allowed.end(), ""),
        };
        let given = self.read(name, |text| {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| {
                format!("{text:?} is not allowed{why}: whole numbers from {least} to {most} are")
            })
        })?;
        Ok(given.or(*default))
    }

    /// The parameter as the library reads it.
    pub(super) fn parsed<T: FromStr<Err = tidegate::Error>>(&self, name: &str) -> Result<Option<T>> {
        self.read(name, |text| text.parse().map_err(|error: tidegate::Error| error.to_string()))
    }

    /// What `read` makes of the parameter; its error names the parameter.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let read = self.get(name).map(read).transpose();
        read.map_err(|refused| Problem::invalid(format!("`{name}`: {refused}")))
    }
}

/// How many a page may have.
pub(super) const LIMIT: Parameter =
    Parameter::integer("limit", 1..=MAX_PAGE as u64, Some(100), "how many at most");

/// Where a page begins.
pub(super) const CURSOR: Parameter =
    Parameter::text("cursor", pattern::CURSOR, "", "where to go on: `next` of the page before");

query! {
    /// How many a page may have, and where it begins.
    struct PageQuery from(query) {
        LIMIT => limit: usize = query.integer("limit")?.unwrap_or_default() as usize,
        CURSOR => after: Option<Cursor> = query.parsed("cursor")?,
    }
}

/// A place in a list as `next` has it, if `read` finds one in `text`.
pub(super) fn place<T>(text: &str, read: impl FnOnce() -> Option<T>) -> Result<T, String> {
    read().ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is not a place in a list: the `next` of a page is")
    })
}
