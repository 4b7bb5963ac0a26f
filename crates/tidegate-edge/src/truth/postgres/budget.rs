//! Blocks of permits, each debited in one transaction before it is sent.
//!
//! Whoever changes the clicks of a rule, or one of its blocks, holds the lock of that rule: budgets of different rules do
//! not wait for each other, nor for changes of other rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::clicks;
use super::failure::{Failure, Result};
use super::read::{Now, can_be, now as read_now, position, rule_of};
use super::session::Session;
use super::write::RULES;
use crate::error::Error;
use crate::rule::Rule;
use crate::truth::budget::{
    Ask, Grant, Granted, NO_RULE, REMEMBERED_MS, Return, Returned, Standing, nothing, permits,
};

/// Blocks that are forgotten with one that comes, at most.
const FORGOTTEN: i64 = 100;

/// Rules are gone, and their blocks and clicks with them: those of their ids that come later have nothing to do with them.
pub(super) const FORGET_BLOCKS: &str = "DELETE FROM tidegate.blocks WHERE rule = ANY ($1)";
/// The same for what was counted of them.
pub(super) const FORGET_DAYS: &str = "DELETE FROM tidegate.days WHERE rule = ANY ($1)";

/// A rule that is locked.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) rule: Rule,
    /// How often it may have redirected.
    pub(super) granted: u64,
}

struct Block {
    rule: String,
    permits: u64,
    deadline_ms: u64,
    standing: Standing,
}

pub(super) async fn grant(session: &Session, ask: &Ask, life: Duration, now: Now) -> Result<Granted> {
    if !can_be(&ask.rule) {
        return Ok(Granted::UNKNOWN);
    }
    session.begin().await?;
    let granted = grant_in(session, ask, life, now).await;
    session.end(granted).await
}

async fn grant_in(session: &Session, ask: &Ask, life: Duration, now: Now) -> Result<Granted> {
    let ids = [ask.rule.clone()];
    let mut budgets = lock(session, &ids).await?;
    // Not before the lock: it is the time when this is written.
    let position = position(session, now).await?;
    let (now_ms, epoch) = (position.time_ms, position.epoch);
    if let Some(block) = block(session, &ask.worker, ask.number).await? {
        let created_at = budgets.get(&ask.rule).map(|it| it.rule.created_at);
        // Its answer was lost. What is over is asked for by another number.
        let left = Duration::from_millis(block.deadline_ms.saturating_sub(now_ms));
        let is_same = block.standing == Standing::Open && block.rule == ask.rule && !left.is_zero();
        let grant = if is_same {
            Grant::Block { permits: block.permits, life: left.min(life), epoch }
        } else {
            Grant::Wait { retry_after: Duration::ZERO }
        };
        return Ok(Granted { grant, created_at });
    }
    if lose(session, &ids, &mut budgets, now_ms).await? {
        let lost: Vec<_> = budgets.values().map(Budget::again).collect();
        count(session, &lost, None, now_ms).await?;
    }
    let Some(Budget { rule, granted }) = budgets.remove(&ask.rule) else {
        return Ok(Granted::UNKNOWN);
    };
    let granted_of = |grant| Granted { grant, created_at: Some(rule.created_at) };
    let Some(max_clicks) = rule.terms.max_clicks else { return Ok(granted_of(Grant::Unbounded)) };
    let permits = permits(max_clicks, granted, ask.wanted);
    if permits == 0 {
        let held = "SELECT max(deadline_ms) FROM tidegate.blocks WHERE rule = $1 AND standing = 0";
        let row = session.row(held, &[&ask.rule]).await?;
        let until: Option<i64> = row.map_or(Ok(None), |row| row.try_get(0))?;
        return Ok(granted_of(nothing(until.map(|it| it as u64), now_ms)));
    }
    let debit = "UPDATE tidegate.rules SET granted = $2 WHERE id = $1";
    session.execute(debit, &[&ask.rule, &((granted + permits) as i64)]).await?;
    let deadline_ms = now_ms.saturating_add(life.as_millis() as u64);
    let open = "INSERT INTO tidegate.blocks (worker, number, rule, permits, deadline_ms, standing)
        VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT DO NOTHING RETURNING number";
    let (worker, number) = (worker_name(&ask.worker), number(ask.number)?);
    let (permits_kept, deadline_kept) = (permits as i64, deadline_ms as i64);
    let opened = session.row(open, &[&worker, &number, &ask.rule, &permits_kept, &deadline_kept]).await?;
    if opened.is_none() {
        // The same number for another rule, at the same time: whoever comes second finds what the first has written.
        return Err(Failure::Passing(Error::unavailable("a block of that number is being written")));
    }
    forget_old(session, now_ms).await?;
    Ok(granted_of(Grant::Block { permits, life, epoch }))
}

/// Takes blocks back, all in one transaction.
pub(super) async fn take_back(session: &Session, blocks: &[Return], now: Now) -> Result<Vec<Returned>> {
    session.begin().await?;
    let returned = take_back_in(session, blocks, now).await;
    session.end(returned).await
}

async fn take_back_in(session: &Session, all: &[Return], now: Now) -> Result<Vec<Returned>> {
    let keys = all.iter().map(key).collect::<Result<Vec<_>>>()?;
    let seen = blocks(session, &keys).await?;
    let ids: BTreeSet<_> =
        seen.values().map(|it| &it.rule).filter(|rule| *rule != NO_RULE).cloned().collect();
    let mut budgets = lock(session, &Vec::from_iter(ids)).await?;
    // What they were before the lock they may be no more.
    let mut found = blocks(session, &keys).await?;
    let now_ms = read_now(session, now).await?;
    let (mut returned, mut refused) = (Vec::new(), BTreeSet::new());
    let (mut closed, mut spent) = (BTreeSet::new(), BTreeMap::new());
    for (it, key) in all.iter().zip(keys) {
        let Some(block) = found.get_mut(&key).filter(|it| it.rule != NO_RULE) else {
            // Who has spent some of it has had it.
            if it.spent == 0 && !seen.contains_key(&key) {
                refused.insert(key);
            }
            returned.push(Returned::Unknown);
            continue;
        };
        // What counts as spent already.
        let counted = match block.standing {
            _ if it.spent > block.permits => {
                returned.push(Returned::TooMany);
                continue;
            }
            Standing::Returned => {
                returned.push(Returned::Known);
                continue;
            }
            Standing::Open => 0,
            Standing::Lost => block.permits,
        };
        block.standing = Standing::Returned;
        closed.insert(key);
        if let Some(budget) = budgets.get_mut(&block.rule) {
            budget.rule.clicks = (budget.rule.clicks + it.spent).saturating_sub(counted);
            budget.granted = budget.granted.saturating_sub(block.permits - it.spent);
            *spent.entry(block.rule.clone()).or_default() += it.spent;
        }
        returned.push(Returned::Counted);
    }
    close(session, closed).await?;
    credit(session, budgets, &spent, now_ms).await?;
    refuse(session, refused, now_ms).await?;
    Ok(returned)
}

/// By what a worker's block is known here.
type Key = (String, i64);

fn key(it: &Return) -> Result<Key> {
    Ok((worker_name(&it.worker), number(it.number)?))
}

/// Notes that blocks were given back.
async fn close(session: &Session, keys: BTreeSet<Key>) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let close = "UPDATE tidegate.blocks SET standing = $3 FROM unnest($1::text[], $2::bigint[]) AS it (worker, number)
        WHERE blocks.worker = it.worker AND blocks.number = it.number";
    let (workers, numbers): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
    session.execute(close, &[&workers, &numbers, &i16::from(Standing::Returned.as_number())]).await
}

/// Counts what of locked rules has come back, and how many of the permits were spent.
async fn credit(
    session: &Session,
    mut budgets: BTreeMap<String, Budget>,
    spent: &BTreeMap<String, u64>,
    now_ms: u64,
) -> Result<()> {
    budgets.retain(|id, _| spent.contains_key(id));
    let (clicked, idle): (Vec<_>, Vec<_>) = budgets.into_values().partition(|it| spent[&it.rule.id] > 0);
    if !idle.is_empty() {
        count(session, &idle, None, now_ms).await?;
    }
    if !clicked.is_empty() {
        count(session, &clicked, Some(now_ms), now_ms).await?;
        let of_day = clicked.iter().map(|it| (&*it.rule.id, spent[&it.rule.id] as i64));
        let (rules, clicks): (Vec<_>, Vec<_>) = of_day.unzip();
        clicks::on_day(session, &rules, &clicks, now_ms).await?;
    }
    Ok(())
}

/// Notes that what is asked for by these numbers is not to be granted.
async fn refuse(session: &Session, keys: BTreeSet<Key>, now_ms: u64) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let refuse = "INSERT INTO tidegate.blocks (worker, number, rule, permits, deadline_ms, standing)
        SELECT it.worker, it.number, $3, 0, $4, $5 FROM unnest($1::text[], $2::bigint[]) AS it (worker, number)
        ON CONFLICT DO NOTHING RETURNING number";
    let (workers, numbers): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
    let returned = i16::from(Standing::Returned.as_number());
    let refused = session.rows(refuse, &[&workers, &numbers, &NO_RULE, &(now_ms as i64), &returned]).await?;
    if refused.len() < numbers.len() {
        // It was granted at the same time, and is given back when this is tried again.
        return Err(Failure::Passing(Error::unavailable("a block of that number is being written")));
    }
    forget_old(session, now_ms).await
}

/// Forgets what nobody asks for or gives back any more, some of it: of all rules, and locked by nobody.
async fn forget_old(session: &Session, now_ms: u64) -> Result<()> {
    let forget = "DELETE FROM tidegate.blocks WHERE (worker, number) IN
        (SELECT worker, number FROM tidegate.blocks WHERE standing IN (1, 2) AND deadline_ms < $1 LIMIT $2
         FOR UPDATE SKIP LOCKED)";
    session.execute(forget, &[&(now_ms.saturating_sub(REMEMBERED_MS) as i64), &FORGOTTEN]).await
}

impl Budget {
    fn again(&self) -> Self {
        Self { rule: self.rule.clone(), granted: self.granted }
    }
}

/// Locks rules, in the order of their ids; those that there are.
pub(super) async fn lock(session: &Session, ids: &[String]) -> Result<BTreeMap<String, Budget>> {
    let mut budgets = BTreeMap::new();
    for row in session.rows(RULES, &[&ids]).await? {
        let (rule, granted): (_, i64) = (rule_of(&row)?, row.try_get(2)?);
        budgets.insert(rule.id.clone(), Budget { rule, granted: granted as u64 });
    }
    Ok(budgets)
}

/// Counts permits of locked rules as spent whose workers were silent until the deadline; whether there were some.
pub(super) async fn lose(
    session: &Session,
    ids: &[String],
    budgets: &mut BTreeMap<String, Budget>,
    now_ms: u64,
) -> Result<bool> {
    let lose = "UPDATE tidegate.blocks SET standing = $3
        WHERE rule = ANY ($1) AND standing = 0 AND deadline_ms <= $2 RETURNING rule, permits";
    let lost = i16::from(Standing::Lost.as_number());
    let rows = session.rows(lose, &[&ids, &(now_ms as i64), &lost]).await?;
    for row in &rows {
        if let Some(budget) = budgets.get_mut(row.try_get::<_, &str>(0)?) {
            budget.rule.clicks += row.try_get::<_, i64>(1)? as u64;
        }
    }
    Ok(!rows.is_empty())
}

/// Says how often rules have redirected, and how often they may have.
pub(super) async fn count(
    session: &Session,
    budgets: &[Budget],
    last_click_at: Option<u64>,
    now_ms: u64,
) -> Result<()> {
    let update = "UPDATE tidegate.rules SET clicks = c.clicks, granted = c.granted, state = c.state, next_at = c.next_at,
            last_click_at = coalesce($6, last_click_at)
        FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])
            AS c (id, clicks, granted, state, next_at)
        WHERE rules.id = c.id";
    let ids: Vec<_> = budgets.iter().map(|it| it.rule.id.as_str()).collect();
    let clicks: Vec<_> = budgets.iter().map(|it| it.rule.clicks as i64).collect();
    let granted: Vec<_> = budgets.iter().map(|it| it.granted as i64).collect();
    let states: Vec<_> = budgets.iter().map(|it| it.rule.state(now_ms).as_str()).collect();
    let next_at: Vec<_> = budgets.iter().map(|it| it.rule.next_at(now_ms).map(|at| at as i64)).collect();
    let last_click_at = last_click_at.map(|at| at as i64);
    session.execute(update, &[&ids, &clicks, &granted, &states, &next_at, &last_click_at]).await
}

async fn block(session: &Session, worker: &str, at: u64) -> Result<Option<Block>> {
    let key = (worker_name(worker), number(at)?);
    Ok(blocks(session, std::slice::from_ref(&key)).await?.remove(&key))
}

/// Those that there are.
async fn blocks(session: &Session, keys: &[Key]) -> Result<BTreeMap<Key, Block>> {
    let select = "SELECT worker, number, rule, permits, deadline_ms, standing FROM tidegate.blocks
        JOIN unnest($1::text[], $2::bigint[]) AS it (worker, number) USING (worker, number)";
    let (workers, numbers): (Vec<_>, Vec<_>) =
        keys.iter().map(|(worker, number)| (&**worker, *number)).unzip();
    let mut blocks = BTreeMap::new();
    for row in session.rows(select, &[&workers, &numbers]).await? {
        let standing: i16 = row.try_get(5)?;
        let standing = u8::try_from(standing).ok().and_then(Standing::from_number);
        let standing = standing.ok_or_else(|| Error::corrupt("a block stands like none"))?;
        let (permits, deadline_ms): (i64, i64) = (row.try_get(3)?, row.try_get(4)?);
        let (permits, deadline_ms) = (permits as u64, deadline_ms as u64);
        let block = Block { rule: row.try_get(2)?, permits, deadline_ms, standing };
        blocks.insert((row.try_get(0)?, row.try_get(1)?), block);
    }
    Ok(blocks)
}

/// What a worker is called here: there is no zero in a text of PostgreSQL.
pub(super) fn worker_name(name: &str) -> String {
    name.replace('\0', "\u{fffd}")
}

/// A worker's number, as databases keep it.
pub(super) fn number(number: u64) -> Result<i64> {
    let kept = i64::try_from(number);
    Ok(kept.map_err(|_| {
        Error::config(format!("{number} is too large a number: up to {} is allowed", i64::MAX))
    })?)
}
