//! Clicks, in all and per day.

use std::collections::{BTreeMap, BTreeSet};

use super::budget::{Budget, count, lock, number, worker_name};
use super::failure::Result;
use super::read::{Now, can_be, now as read_now};
use super::session::Session;
use crate::truth::clicks::{Clicked, DayClicks, MAX_DAYS, REMEMBERED_MS, Report, day_of};

/// Counts a report, unless it was counted before; whether it was not.
pub(super) async fn report(session: &Session, report: &Report, now: Now) -> Result<bool> {
    session.begin().await?;
    let counted = report_in(session, report, now).await;
    session.end(counted).await
}

async fn report_in(session: &Session, report: &Report, now: Now) -> Result<bool> {
    // What a worker sends twice may come twice at once: the second waits here for the first.
    let worker = worker_name(&report.worker);
    let first =
        "INSERT INTO tidegate.reports (worker, number, at_ms) VALUES ($1, -1, 0) ON CONFLICT DO NOTHING";
    session.execute(first, &[&worker]).await?;
    let last = "SELECT number FROM tidegate.reports WHERE worker = $1 FOR UPDATE";
    let last: Option<i64> = session.row(last, &[&worker]).await?.map(|row| row.try_get(0)).transpose()?;
    let own = number(report.number)?;
    if last.is_some_and(|last| last >= own) {
        return Ok(false);
    }
    let ids: BTreeSet<_> = report.clicks.iter().map(|it| &it.id).filter(|id| can_be(id)).collect();
    let ids: Vec<_> = ids.into_iter().cloned().collect();
    // Whoever was deleted meanwhile is counted no more, whoever has its id now.
    let budgets = lock(session, &ids).await?;
    let mut clicks = BTreeMap::<&str, u64>::new();
    for it in &report.clicks {
        if budgets.get(&it.id).is_some_and(|budget| it.is_of(&budget.rule)) {
            *clicks.entry(&it.id).or_default() += it.clicks;
        }
    }
    let now_ms = read_now(session, now).await?;
    let mut counted = Vec::new();
    let (mut rules, mut of_day) = (Vec::new(), Vec::new());
    for (id, Budget { mut rule, granted }) in budgets {
        let Some(&clicks) = clicks.get(&*id) else { continue };
        rule.clicks += clicks;
        counted.push(Budget { rule, granted: granted + clicks });
        rules.push(id);
        of_day.push(clicks as i64);
    }
    count(session, &counted, Some(now_ms), now_ms).await?;
    let rules: Vec<_> = rules.iter().map(String::as_str).collect();
    on_day(session, &rules, &of_day, now_ms).await?;
    let last = "UPDATE tidegate.reports SET number = $2, at_ms = $3 WHERE worker = $1";
    session.execute(last, &[&worker, &own, &(now_ms as i64)]).await?;
    // One that is being written to is not old.
    let forget = "DELETE FROM tidegate.reports WHERE worker IN
        (SELECT worker FROM tidegate.reports WHERE at_ms < $1 FOR UPDATE SKIP LOCKED)";
    session.execute(forget, &[&(now_ms.saturating_sub(REMEMBERED_MS) as i64)]).await?;
    Ok(true)
}

/// Adds clicks to the day of rules that are locked.
pub(super) async fn on_day(session: &Session, rules: &[&str], clicks: &[i64], now_ms: u64) -> Result<()> {
    let day = day_of(now_ms) as i64;
    let add = "INSERT INTO tidegate.days (rule, day, clicks)
        SELECT c.rule, $3::bigint, c.clicks FROM unnest($1::text[], $2::bigint[]) AS c (rule, clicks)
        ON CONFLICT (rule, day) DO UPDATE SET clicks = days.clicks + excluded.clicks";
    session.execute(add, &[&rules, &clicks, &day]).await?;
    let forget = "DELETE FROM tidegate.days USING unnest($1::text[]) AS c (rule)
        WHERE days.rule = c.rule AND days.day <= (SELECT old.day FROM tidegate.days old WHERE old.rule = c.rule
            ORDER BY old.rule DESC, old.day DESC LIMIT 1 OFFSET $2)";
    session.execute(forget, &[&rules, &(MAX_DAYS as i64)]).await
}

/// How often a rule has redirected; none if there is no such rule.
pub(super) async fn clicks(session: &Session, id: &str) -> Result<Option<Clicked>> {
    if !can_be(id) {
        return Ok(None);
    }
    let select = "SELECT r.clicks, r.last_click_at, d.day, d.clicks
        FROM tidegate.rules r LEFT JOIN tidegate.days d ON d.rule = r.id WHERE r.id = $1 ORDER BY d.rule DESC, d.day DESC";
    let rows = session.rows(select, &[&id]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let (clicks, last_click_at): (i64, Option<i64>) = (first.try_get(0)?, first.try_get(1)?);
    let mut days = Vec::new();
    for row in &rows {
        let (day, clicks): (Option<i64>, Option<i64>) = (row.try_get(2)?, row.try_get(3)?);
        days.extend(day.zip(clicks).map(|(day, clicks)| DayClicks::new(day as u64, clicks as u64)));
    }
    Ok(Some(Clicked { clicks: clicks as u64, last_click_at: last_click_at.map(|at| at as u64), days }))
}
