//! Which rules are asked for, page by page.

use serde::{Deserialize, Serialize};

use crate::rule::{Rule, State};

/// Rules in a page, at most.
pub const MAX_PAGE: usize = 1000;

/// What rules are looked for by: all of what is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Filter {
    /// Of that host, as a rule has it.
    pub host: Option<String>,
    /// Whose path starts so.
    pub path_prefix: Option<String>,
    /// With that tag.
    pub tag: Option<String>,
    /// Whose destination starts so.
    pub destination_prefix: Option<String>,
    /// Which are so.
    pub state: Option<State>,
}

/// What a page comes in the order of: of what is asked for, that which narrows it most. There is an index for each, so
/// that the last page costs what the first does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Host,
    Path,
    Tag,
    Destination,
    State,
    Id,
}

impl Filter {
    pub(super) fn order(&self) -> Order {
        let is_any = self.host.as_deref() == Some("*");
        match () {
            () if self.host.is_some() && !is_any => Order::Host,
            () if self.tag.is_some() => Order::Tag,
            // An index has host and path: together they narrow it more than the path alone.
            () if self.path_prefix.is_some() && is_any => Order::Host,
            () if self.path_prefix.is_some() => Order::Path,
            () if self.destination_prefix.is_some() => Order::Destination,
            () if self.state.is_some() => Order::State,
            // The host of rules that name none is most rules'.
            () if is_any => Order::Host,
            () => Order::Id,
        }
    }

    /// Whether a rule is one of those.
    pub(super) fn has(&self, rule: &Rule, now_ms: u64) -> bool {
        let starts =
            |text: &str, prefix: &Option<String>| prefix.as_ref().is_none_or(|it| text.starts_with(it));
        self.host.as_ref().is_none_or(|host| *host == rule.terms.host)
            && starts(&rule.terms.path, &self.path_prefix)
            && self.tag.as_ref().is_none_or(|tag| rule.terms.tags.contains(tag))
            && starts(&rule.terms.destination, &self.destination_prefix)
            && self.state.is_none_or(|state| rule.state(now_ms) == state)
    }
}

/// Where a page goes on: what the last rule of the one before is sorted by, and its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) order: Order,
    pub(super) key: String,
    pub(super) id: String,
}

/// Where a page goes on, as text that only this crate reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub(super) Place);

impl Cursor {
    /// What [`to_string`](ToString::to_string) has made of one for the same filter.
    pub fn parse(text: &str, filter: &Filter) -> Result<Self, String> {
        let bytes: Option<Vec<u8>> =
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect();
        let place = bytes.and_then(|bytes| serde_json::from_slice::<Place>(&bytes).ok());
        match place {
            Some(place) if place.order == filter.order() => Ok(Self(place)),
            Some(_) => Err("the cursor is of a list by something else".to_owned()),
            None => Err(format!("{text:?} is no cursor: only what a page has answered is")),
        }
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let json = serde_json::to_vec(&self.0).map_err(|_| std::fmt::Error)?;
        json.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A text and what is behind all that start with it, in the order of bytes.
pub(super) fn range(prefix: &str) -> (String, String) {
    // Nothing is between the last of all characters and the end of what starts like the text before it.
    let mut end = prefix.trim_end_matches(char::MAX).to_owned();
    let next = end.pop().and_then(|last| (last..=char::MAX).nth(1));
    // What rules are found by starts with what is in ASCII.
    end.push(next.unwrap_or(char::MAX));
    (prefix.to_owned(), end)
}

/// Some rules, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RulePage {
    /// They.
    pub rules: Vec<Rule>,
    /// Where the next ones are; none if there are no more. A page may have fewer rules than were asked for, even none,
    /// and go on.
    pub next: Option<Cursor>,
}
