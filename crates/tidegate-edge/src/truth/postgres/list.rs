//! Pages of rules, each from an index that has them in order.

use super::failure::Result;
use super::read::{Now, can_be, is_due, now, rule_of};
use super::session::{Params, Session};
use crate::rule::Rule;
use crate::truth::list::{Cursor, Filter, Order, PageBuilder, Place, RulePage, range};

/// A rule, with what is over of its permits counted: whether it has ended may depend on that.
macro_rules! counted {
    () => {
        "SELECT r.body, r.clicks + coalesce((SELECT sum(b.permits) FROM tidegate.blocks b
            WHERE b.rule = r.id AND b.standing = 0 AND b.deadline_ms <= $1), 0)::bigint FROM "
    };
}

/// Bytes of a destination that are in the index: a row of it has no room for more than 2,704 in all.
const DESTINATION_BYTES: usize = 1024;

/// What of a destination is in the index.
pub(super) fn indexed(destination: &str) -> &str {
    &destination[..destination.floor_char_boundary(DESTINATION_BYTES)]
}

pub(super) async fn list(
    session: &Session,
    filter: &Filter,
    cursor: Option<Cursor>,
    limit: usize,
    at: Now,
) -> Result<RulePage> {
    let asked = [&filter.host, &filter.path_prefix, &filter.tag, &filter.destination_prefix];
    if asked.into_iter().flatten().any(|text| !can_be(text)) {
        return Ok(RulePage { rules: Vec::new(), next: None });
    }
    let now_ms = now(session, at).await?;
    let order = match filter.order() {
        // Some are not where they belong yet. Among all they are found in the same order.
        Order::State if is_due(session, Some(now_ms as i64)).await? => Order::Id,
        order => order,
    };
    let mut page = PageBuilder::new(filter, cursor, limit, now_ms, indexed);
    while let Some(needed) = page.needs() {
        let found = behind(session, filter, order, page.place(), (needed, now_ms)).await?;
        page.add(needed, found);
    }
    Ok(page.page())
}

/// Rules behind a place, in order, without what else is asked of them. Where a page begins is said by one bound: PostgreSQL
/// seeks by one, and would pass over all that is between it and another.
async fn behind(
    session: &Session,
    filter: &Filter,
    order: Order,
    place: Option<&Place>,
    (limit, now_ms): (usize, u64),
) -> Result<Vec<Rule>> {
    // A cursor is anybody's text. What is behind one with a zero in it is behind what is before the zero.
    let until_zero = |text: &str| text.split('\0').next().unwrap_or_default().to_owned();
    let (key, id) = place.map_or_else(Default::default, |it| (until_zero(&it.key), until_zero(&it.id)));
    let (limit, now) = (limit as i64, now_ms as i64);
    match order {
        Order::Host => {
            let (from, end) = range(filter.path_prefix.as_deref().unwrap_or_default());
            let statement = concat!(
                counted!(),
                "tidegate.rules r
                WHERE host = $2 AND path >= $3 AND path < $4 AND path > $5 ORDER BY host, path LIMIT $6"
            );
            query(session, statement, &[&now, &filter.host, &from, &end, &key, &limit]).await
        }
        Order::Path => {
            let (from, end) = range(filter.path_prefix.as_deref().unwrap_or_default());
            let statement = concat!(
                counted!(),
                "tidegate.rules r
                WHERE path < $2 AND (path, id) > ($3, $4) ORDER BY path, id LIMIT $5"
            );
            let (key, id) = (key, id).max((from, String::new()));
            query(session, statement, &[&now, &end, &key, &id, &limit]).await
        }
        Order::Destination => {
            let (from, end) = range(indexed(filter.destination_prefix.as_deref().unwrap_or_default()));
            let statement = concat!(
                counted!(),
                "tidegate.rules r
                WHERE destination < $2 AND (destination, id) > ($3, $4) ORDER BY destination, id LIMIT $5"
            );
            let (key, id) = (key, id).max((from, String::new()));
            query(session, statement, &[&now, &end, &key, &id, &limit]).await
        }
        Order::Tag => {
            let statement = concat!(
                counted!(),
                "tidegate.tags t JOIN tidegate.rules r ON r.id = t.id
                WHERE t.tag = $2 AND t.id > $3 ORDER BY t.tag, t.id LIMIT $4"
            );
            query(session, statement, &[&now, &filter.tag, &id, &limit]).await
        }
        Order::State => {
            let state = filter.state.map(|state| state.as_str());
            let statement = concat!(
                counted!(),
                "tidegate.rules r
                WHERE state = $2 AND id > $3 ORDER BY state, id LIMIT $4"
            );
            query(session, statement, &[&now, &state, &id, &limit]).await
        }
        Order::Id => {
            let statement = concat!(counted!(), "tidegate.rules r WHERE id > $2 ORDER BY id LIMIT $3");
            query(session, statement, &[&now, &id, &limit]).await
        }
    }
}

async fn query(session: &Session, statement: &'static str, params: Params<'_>) -> Result<Vec<Rule>> {
    session.rows(statement, params).await?.iter().map(rule_of).collect()
}
