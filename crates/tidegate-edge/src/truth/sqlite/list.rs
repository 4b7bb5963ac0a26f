//! Pages of rules, each from an index that has them in order.

use rusqlite::{Connection, params};

use super::failure::failed;
use super::read::{is_due, rule_of};
use crate::error::Result;
use crate::rule::Rule;
use crate::truth::list::{Cursor, Filter, Order, PageBuilder, Place, RulePage, range};

/// A rule, with what is over of its permits counted: whether it has ended may depend on that.
macro_rules! counted {
    () => {
        "SELECT body, clicks + (SELECT coalesce(sum(permits), 0) FROM blocks
            WHERE blocks.rule = rules.id AND standing = 0 AND deadline_ms <= ?6) FROM "
    };
}

pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    cursor: Option<Cursor>,
    limit: usize,
    now_ms: u64,
) -> Result<RulePage> {
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let order = match filter.order() {
        // Some are not where they belong yet. Among all they are found in the same order.
        Order::State if is_due(&transaction, now_ms)? => Order::Id,
        order => order,
    };
    let mut page = PageBuilder::new(filter, cursor, limit, now_ms, |destination| destination);
    while let Some(needed) = page.needs() {
        let found = behind(&transaction, filter, order, page.place(), (needed, now_ms))?;
        page.add(needed, found);
    }
    Ok(page.page())
}

/// Rules behind a place, in order, without what else is asked of them.
fn behind(
    connection: &Connection,
    filter: &Filter,
    order: Order,
    place: Option<&Place>,
    (limit, now_ms): (usize, u64),
) -> Result<Vec<Rule>> {
    let (by, prefix) = match order {
        Order::Host => (filter.host.as_deref(), filter.path_prefix.as_deref()),
        Order::Path => (None, filter.path_prefix.as_deref()),
        Order::Destination => (None, filter.destination_prefix.as_deref()),
        Order::Tag => (filter.tag.as_deref(), None),
        Order::State => (filter.state.map(|state| state.as_str()), None),
        Order::Id => (None, None),
    };
    let (from, end) = range(prefix.unwrap_or_default());
    let place = place.map_or(("", ""), |place| (&place.key, &place.id));
    let (key, id) = place.max((&from, ""));
    let mut select = connection.prepare_cached(statement(order)).map_err(failed)?;
    let rules = select.query_map(params![by, end, key, id, limit, now_ms], rule_of).map_err(failed)?;
    rules.map(|rule| rule.map_err(failed)?).collect()
}

/// What finds rules behind a place. It has one lower bound: SQLite seeks by the first that there is, and would pass over
/// all that is between it and another.
fn statement(order: Order) -> &'static str {
    match order {
        Order::Host => {
            concat!(
                counted!(),
                "rules WHERE host = ?1 AND path < ?2 AND (path, id) > (?3, ?4)
             ORDER BY path LIMIT ?5"
            )
        }
        Order::Path => {
            concat!(
                counted!(),
                "rules WHERE ?1 IS NULL AND path < ?2 AND (path, id) > (?3, ?4)
             ORDER BY path, id LIMIT ?5"
            )
        }
        Order::Destination => {
            concat!(
                counted!(),
                "rules
             WHERE ?1 IS NULL AND destination < ?2 AND (destination, id) > (?3, ?4)
             ORDER BY destination, id LIMIT ?5"
            )
        }
        Order::Tag => {
            concat!(
                counted!(),
                "tags CROSS JOIN rules ON rules.id = tags.id
             WHERE tags.tag = ?1 AND ?2 = ?2 AND ?3 = ?3 AND tags.id > ?4 ORDER BY tags.id LIMIT ?5"
            )
        }
        Order::State => {
            concat!(
                counted!(),
                "rules WHERE state = ?1 AND ?2 = ?2 AND ?3 = ?3 AND id > ?4
             ORDER BY id LIMIT ?5"
            )
        }
        Order::Id => {
            concat!(
                counted!(),
                "rules WHERE ?1 IS NULL AND ?2 = ?2 AND ?3 = ?3 AND id > ?4
             ORDER BY id LIMIT ?5"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::rule::{Draft, State, Terms};
    use crate::truth::{Change, Truth, TruthOptions};

    /// Steps of SQLite for a page.
    fn steps(connection: &Connection, filter: &Filter, cursor: Option<Cursor>) -> (i32, RulePage) {
        let select = connection.prepare_cached(statement(filter.order())).unwrap();
        select.reset_status(StatementStatus::VmStep);
        drop(select);
        let page = list(connection, filter, cursor, 100, 0).unwrap();
        let select = connection.prepare_cached(statement(filter.order())).unwrap();
        (select.get_status(StatementStatus::VmStep), page)
    }

    #[tokio::test]
    async fn the_last_page_costs_what_the_first_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.db");
        let url = format!("sqlite:{}", path.display());
        let truth = Truth::open(&url, &TruthOptions::default()).await.unwrap();
        for first in (0..3000).step_by(1000) {
            let drafts = (first..first + 1000).map(|number| {
                let mut draft = Draft::new(Terms::new(format!("/p/{number:04}"), "https://example.com/"));
                draft.id = Some(format!("{number:04}"));
                draft.terms.tags = vec!["t".to_owned()];
                Change::Create(draft)
            });
            assert!(truth.change_all(drafts.collect()).await.unwrap().iter().all(Result::is_ok));
        }
        let connection = Connection::open(&path).unwrap();
        let mut filters = vec![Filter::default()];
        for change in [
            (|it| it.host = Some("*".to_owned())) as fn(&mut Filter),
            |it| it.path_prefix = Some("/p".to_owned()),
            |it| (it.host, it.path_prefix) = (Some("*".to_owned()), Some("/p/".to_owned())),
            |it| it.tag = Some("t".to_owned()),
            |it| it.destination_prefix = Some("https://example".to_owned()),
            |it| it.state = Some(State::Live),
        ] {
            let mut filter = Filter::default();
            change(&mut filter);
            filters.push(filter);
        }
        for filter in filters {
            let (first, mut page) = steps(&connection, &filter, None);
            let (mut found, mut second) = (page.rules.len(), None);
            while let Some(next) = page.next {
                let (more, here) = steps(&connection, &filter, Some(next));
                // To compare rules with a place takes some steps, but not more the further it is.
                let second = *second.get_or_insert(more);
                assert!(second <= first * 2, "{filter:?}: {first} steps, then {second}");
                assert!(more <= second, "{filter:?}: {second} steps, and {more} behind {found} rules");
                page = here;
                found += page.rules.len();
            }
            assert_eq!(found, 3000, "{filter:?}");
        }
    }
}
