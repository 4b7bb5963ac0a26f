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
    // From where on and until where, for what starts alike. One bound from below, the nearer of two: SQLite would go by the
    // first of them, and look at every rule between.
    let range = |prefix: &Option<String>| {
        let prefix = prefix.clone().unwrap_or_default();
        let end = format!("{prefix}{END}");
        let (key, id) =
            if *key < *prefix { (prefix, String::new()) } else { (key.to_owned(), id.to_owned()) };
        (key, id, end)
    };
    let (statement, by) = match filter.order() {
        Order::Host => {
            let (key, id, end) = range(&filter.path_prefix);
            let statement = "SELECT body, clicks FROM rules
                WHERE host = ?1 AND path < ?2 AND (path, id) > (?3, ?4) ORDER BY path LIMIT ?5";
            return query(connection, statement, params![filter.host, end, key, id, limit]);
        }
        Order::Path => {
            let (key, id, end) = range(&filter.path_prefix);
            let statement = "SELECT body, clicks FROM rules WHERE path < ?1 AND (path, id) > (?2, ?3)
                ORDER BY path, id LIMIT ?4";
            return query(connection, statement, params![end, key, id, limit]);
        }
        Order::Destination => {
            let (key, id, end) = range(&filter.destination_prefix);
            let statement = "SELECT body, clicks FROM rules WHERE destination < ?1
                AND (destination, id) > (?2, ?3) ORDER BY destination, id LIMIT ?4";
            return query(connection, statement, params![end, key, id, limit]);
        }
        Order::Tag => (
            "SELECT body, clicks FROM tags CROSS JOIN rules ON rules.id = tags.id
             WHERE tags.tag = ?1 AND tags.id > ?2 ORDER BY tags.id LIMIT ?3",
            filter.tag.clone().unwrap_or_default(),
        ),
        Order::State => (
            "SELECT body, clicks FROM rules WHERE state = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            filter.state.map(|state| state.as_str().to_owned()).unwrap_or_default(),
        ),
        Order::Id => {
            ("SELECT body, clicks FROM rules WHERE ?1 = ?1 AND id > ?2 ORDER BY id LIMIT ?3", String::new())
        }
    };
    query(connection, statement, params![by, id, limit])
}

fn query(connection: &Connection, statement: &str, params: &[&dyn rusqlite::ToSql]) -> Result<Vec<Rule>> {
    let mut select = connection.prepare_cached(statement).map_err(failed)?;
    let rules = select.query_map(params, rule_of).map_err(failed)?;
    rules.map(|rule| rule.map_err(failed)?).collect()
}
