//! Pages of rules, each from an index that has them in order.

use rusqlite::{Connection, params};

use super::failure::failed;
use super::read::rule_of;
use crate::error::Result;
use crate::rule::Rule;
use crate::truth::list::{Cursor, Filter, Order, Place, RulePage};

/// Rules that are looked at together.
const TOGETHER: usize = 500;

/// Rules that are looked at for a page, about: what else is asked of them may be true of few.
const EXAMINED: usize = 10_000;

/// Behind every text that starts like the one before it.
const END: char = char::MAX;

pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    cursor: Option<Cursor>,
    limit: usize,
    now_ms: u64,
) -> Result<RulePage> {
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let mut rules = Vec::new();
    let mut place = cursor.map(|cursor| cursor.0);
    let mut examined = 0;
    while examined < EXAMINED {
        let found = behind(&transaction, filter, place.as_ref(), TOGETHER.max(limit))?;
        let is_last = found.len() < TOGETHER.max(limit);
        examined += found.len();
        for rule in found {
            let here = place_of(filter, &rule);
            if filter.has(&rule, now_ms) {
                // One more than fits says that there is a next page.
                if rules.len() == limit {
                    return Ok(RulePage { rules, next: place.map(Cursor) });
                }
                rules.push(rule);
            }
            place = Some(here);
        }
        if is_last {
            return Ok(RulePage { rules, next: None });
        }
    }
    Ok(RulePage { rules, next: place.map(Cursor) })
}

/// What a rule is sorted by.
fn place_of(filter: &Filter, rule: &Rule) -> Place {
    let order = filter.order();
    let key = match order {
        Order::Host | Order::Path => &rule.terms.path,
        Order::Destination => &rule.terms.destination,
        Order::Tag | Order::State | Order::Id => "",
    };
    Place { order, key: key.to_owned(), id: rule.id.clone() }
}

/// Rules behind a place, in order, without what else is asked of them.
fn behind(
    connection: &Connection,
    filter: &Filter,
    place: Option<&Place>,
    limit: usize,
) -> Result<Vec<Rule>> {
    let (key, id) = place.map_or(("", ""), |place| (&place.key, &place.id));
    let prefix = |text: &Option<String>| {
        let prefix = text.clone().unwrap_or_default();
        let end = format!("{prefix}{END}");
        (prefix, end)
    };
    let (statement, by, end) = match filter.order() {
        Order::Host => {
            let (from, end) = prefix(&filter.path_prefix);
            let statement = "SELECT body, clicks FROM rules
                WHERE host = ?1 AND path >= ?6 AND path < ?2 AND path > ?3 AND ?4 = ?4
                ORDER BY path LIMIT ?5";
            return query(connection, statement, params![filter.host, end, key, id, limit, from]);
        }
        Order::Path => {
            let (from, end) = prefix(&filter.path_prefix);
            (
                "SELECT body, clicks FROM rules WHERE path >= ?1 AND path < ?2 AND (path, id) > (?3, ?4)
              ORDER BY path, id LIMIT ?5",
                from,
                end,
            )
        }
        Order::Destination => {
            let (from, end) = prefix(&filter.destination_prefix);
            (
                "SELECT body, clicks FROM rules WHERE destination >= ?1 AND destination < ?2
              AND (destination, id) > (?3, ?4) ORDER BY destination, id LIMIT ?5",
                from,
                end,
            )
        }
        Order::Tag => (
            "SELECT body, clicks FROM tags CROSS JOIN rules ON rules.id = tags.id
             WHERE tags.tag = ?1 AND ?2 = ?2 AND ?3 = ?3 AND tags.id > ?4 ORDER BY tags.id LIMIT ?5",
            filter.tag.clone().unwrap_or_default(),
            String::new(),
        ),
        Order::State => (
            "SELECT body, clicks FROM rules WHERE state = ?1 AND ?2 = ?2 AND ?3 = ?3 AND id > ?4
             ORDER BY id LIMIT ?5",
            filter.state.map(|state| state.as_str().to_owned()).unwrap_or_default(),
            String::new(),
        ),
        Order::Id => (
            "SELECT body, clicks FROM rules WHERE ?1 = ?1 AND ?2 = ?2 AND ?3 = ?3 AND id > ?4
             ORDER BY id LIMIT ?5",
            String::new(),
            String::new(),
        ),
    };
    query(connection, statement, params![by, end, key, id, limit])
}

fn query(connection: &Connection, statement: &str, params: &[&dyn rusqlite::ToSql]) -> Result<Vec<Rule>> {
    let mut select = connection.prepare_cached(statement).map_err(failed)?;
    let rules = select.query_map(params, rule_of).map_err(failed)?;
    rules.map(|rule| rule.map_err(failed)?).collect()
}
