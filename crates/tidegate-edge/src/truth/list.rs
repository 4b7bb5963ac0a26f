//! Which rules are asked for, page by page.

use serde::{Deserialize, Serialize};

use crate::rule::{Rule, State};

/// Rules in a page, at most.
pub const MAX_PAGE: usize = 1000;

/// Rules that are looked at together.
const TOGETHER: usize = 500;

/// Rules that are looked at for a page, about: what else is asked of them may be true of few.
const EXAMINED: usize = 10_000;

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

/// A page that is being put together of rules as an index has them.
pub(super) struct PageBuilder<'a> {
    filter: &'a Filter,
    now_ms: u64,
    limit: usize,
    /// What of a destination is in its index.
    indexed: fn(&str) -> &str,
    rules: Vec<Rule>,
    place: Option<Place>,
    examined: usize,
    /// There are no more rules; or one more than fits.
    is_last: bool,
    is_full: bool,
}

impl<'a> PageBuilder<'a> {
    pub(super) fn new(
        filter: &'a Filter,
        cursor: Option<Cursor>,
        limit: usize,
        now_ms: u64,
        indexed: fn(&str) -> &str,
    ) -> Self {
        let place = cursor.map(|cursor| cursor.0);
        let (rules, examined, is_last, is_full) = (Vec::new(), 0, false, false);
        Self { filter, now_ms, limit, indexed, rules, place, examined, is_last, is_full }
    }

    /// How many rules are needed next, of those behind its place; none if it has all that it should have.
    pub(super) fn needs(&self) -> Option<usize> {
        let is_done = self.is_last || self.is_full || self.examined >= EXAMINED;
        (!is_done).then_some(TOGETHER.max(self.limit))
    }

    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Goes through what was found of so many that were needed.
    pub(super) fn add(&mut self, needed: usize, found: Vec<Rule>) {
        self.is_last = found.len() < needed;
        self.examined += found.len();
        for rule in found {
            let here = self.place_of(&rule);
            if self.filter.has(&rule, self.now_ms) {
                // One more than fits says that there is a next page.
                if self.rules.len() == self.limit {
                    self.is_full = true;
                    return;
                }
                self.rules.push(rule);
            }
            self.place = Some(here);
        }
    }

    pub(super) fn page(self) -> RulePage {
        let next = if self.is_last && !self.is_full { None } else { self.place.map(Cursor) };
        RulePage { rules: self.rules, next }
    }

    /// What a rule is sorted by.
    fn place_of(&self, rule: &Rule) -> Place {
        let order = self.filter.order();
        let key = match order {
            Order::Host | Order::Path => &rule.terms.path,
            Order::Destination => (self.indexed)(&rule.terms.destination),
            Order::Tag | Order::State | Order::Id => "",
        };
        Place { order, key: key.to_owned(), id: rule.id.clone() }
    }
}
