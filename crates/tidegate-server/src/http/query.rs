//! What stands behind the `?` of a path. A name that is not known is an error, and
//! never just has no effect.

use super::problem::Problem;

/// The parameters of a route.
pub(super) trait FromQuery: Sized {
    /// What they are called.
    const NAMES: &'static [&'static str];

    fn from_query(query: &Query) -> Result<Self, Problem>;
}

/// Those of a route that has none.
#[derive(Debug)]
pub(super) struct NoQuery;

impl FromQuery for NoQuery {
    const NAMES: &'static [&'static str] = &[];

    fn from_query(_: &Query) -> Result<Self, Problem> {
        Ok(Self)
    }
}

/// The parameters of a request, each at most once.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Those of `text`, which are among `known`.
    pub(super) fn parse(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let name: String = name.chars().take(40).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::invalid(format!("unknown parameter {name:?}; known are: {known}")));
            }
            if found.iter().any(|(other, _)| *other == name) {
                return Err(Problem::invalid(format!("the parameter {name:?} is given twice")));
            }
            found.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(found))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the parameter says yes; no unless given.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        let given = self.read(name, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{text:?} is not allowed: true and false are")),
        })?;
        Ok(given.unwrap_or(false))
    }

    /// What `read` makes of the parameter; its error is told with the name.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Problem> {
        let read = self.get(name).map(read).transpose();
        read.map_err(|refused| Problem::invalid(format!("`{name}`: {refused}")))
    }
}
