//! What is said about counts of pages, in spaces that only count.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::hot::{self, MAX_AT_ONCE, Recorded};
use tidegate::{Key, Result};

use crate::api::{RequestBody, response, whole};

/// So many of a page, in a body of its own or a line of many.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Count")]
#[serde(deny_unknown_fields, expecting = "an object with page and count")]
pub(crate) struct Count<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) page: Cow<'a, str>,
    /// How many; one unless given.
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_AT_ONCE))]
    pub(crate) count: Option<u64>,
}

impl RequestBody for Count<'static> {
    type Read<'a> = Count<'a>;
    const TYPES: &'static str = "application/json is, and application/x-ndjson for a page per line";
}

impl Count<'_> {
    pub(crate) fn count(&self) -> Result<hot::Count<'_>> {
        let count = hot::Count::new(Key::new(&self.page)?, self.count.unwrap_or(1));
        count.check()?;
        Ok(count)
    }

    /// The same, on its own.
    pub(crate) fn into_owned(self) -> Count<'static> {
        Count { page: Cow::Owned(self.page.into_owned()), count: self.count }
    }
}

response! {
    /// What became of counts of one page.
    #[schemars(rename = "CountRecorded")]
    struct Counted from(space: &str, count: &hot::Count<'_>, recorded: &Recorded) {
        space: String = space.to_owned(),
        page: String = count.page.as_str().to_owned(),
        count: u64 = count.count,
        outcome: String = recorded.as_str().to_owned(),
        /// The page that had to leave, if one had to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<String> = recorded.replaced().map(str::to_owned),
    }
}
