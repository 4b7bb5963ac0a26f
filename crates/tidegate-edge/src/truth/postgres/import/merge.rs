//! All that is new or says something else, written as one change under the lock.

use super::compare::compare;
use super::{OnProgress, Session, Shared, TOGETHER, now, tell_progress};
use crate::truth::group::{Head, rule};
use crate::truth::import::{ImportStep, Plan};
use crate::truth::postgres::failure::Result;
use crate::truth::postgres::{read, write};

/// From here on nobody counts clicks of what changes or goes.
const LOCK: &str =
    "SELECT count(*) FROM (SELECT r.id FROM pg_temp.touched t JOIN tidegate.rules r ON r.id = t.id
    ORDER BY t.id FOR UPDATE OF r) locked";

/// Clicks that came after it was judged by them whether a rule has ended.
const CLICKED: &str =
    "SELECT t.id, t.body, r.clicks FROM pg_temp.touched t JOIN tidegate.rules r ON r.id = t.id
    WHERE t.clicks IS NOT NULL AND t.id > $1 AND r.id > $1 AND t.clicks <> r.clicks ORDER BY t.id LIMIT $2";

const JUDGE: &str = "UPDATE pg_temp.touched SET state = judged.state, next_at = judged.next_at
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS judged (id, state, next_at) WHERE touched.id = judged.id";

const UNTAG: &str =
    "DELETE FROM tidegate.tags USING (SELECT id, unnest(left_tags) AS tag FROM pg_temp.touched) gone
    WHERE tags.tag = gone.tag AND tags.id = gone.id";

const DELETE: [&str; 3] = [
    "DELETE FROM tidegate.blocks USING pg_temp.touched t WHERE blocks.rule = t.id AND t.body IS NULL",
    "DELETE FROM tidegate.days USING pg_temp.touched t WHERE days.rule = t.id AND t.body IS NULL",
    "DELETE FROM tidegate.rules USING pg_temp.touched t WHERE rules.id = t.id AND t.body IS NULL",
];

/// Clicks stay, and what may have been spent.
const UPDATE: &str =
    "UPDATE tidegate.rules SET host = t.host, path = t.path, destination = t.destination, state = t.state,
        next_at = t.next_at, body = t.body
    FROM pg_temp.touched t WHERE rules.id = t.id AND t.body IS NOT NULL";

/// What was spent elsewhere is spent.
const INSERT: &str =
    "INSERT INTO tidegate.rules (id, host, path, destination, state, next_at, body, clicks, granted)
    SELECT id, host, path, destination, state, next_at, body, clicks, clicks FROM pg_temp.staged ORDER BY id";

const TAG: &str = "INSERT INTO tidegate.tags (tag, id)
    SELECT tag, id FROM (SELECT unnest(tags) AS tag, id FROM pg_temp.staged
        UNION ALL SELECT unnest(came_tags), id FROM pg_temp.touched) came
    ORDER BY tag, id";

/// Compares what was staged under the lock and writes it; where the rules stand then, if it was written.
pub(super) async fn merge(
    session: &Session,
    shared: &Shared,
    plan: &mut Plan,
    progress: &mut OnProgress,
) -> Result<Option<Head>> {
    write::prepare(session).await?;
    let decided = async {
        session.begin().await?;
        let locked = session.row(write::LOCK, &[]).await?;
        let (mut head, log_from) = write::head(locked.as_ref())?;
        plan.now_ms = read::now(session, now(&shared.clock)).await?;
        compare(session, plan, head.count, &shared.random).await?;
        if plan.ends_as().is_some() {
            return Ok((None, None));
        }
        tell_progress(progress, plan.at(ImportStep::Writing)).await?;
        write_rules(session, plan).await?;
        let writes = vec![plan.write(&mut head)];
        Ok((Some(head), Some(write::Decided { writes, head, log_from, now_ms: plan.now_ms })))
    };
    let decided = decided.await;
    write::end(session, decided, shared.max_log).await
}

async fn write_rules(session: &Session, plan: &Plan) -> Result<()> {
    let report = plan.report();
    if report.changed + report.deleted > 0 {
        session.execute(LOCK, &[]).await?;
        judge_anew(session, plan.now_ms).await?;
        session.execute(UNTAG, &[]).await?;
    }
    if report.deleted > 0 {
        for statement in DELETE {
            session.execute(statement, &[]).await?;
        }
    }
    if report.changed > 0 {
        session.execute(UPDATE, &[]).await?;
    }
    if report.created > 0 {
        session.execute(INSERT, &[]).await?;
    }
    session.execute(TAG, &[]).await
}

/// Judges rules anew that have been clicked since they were compared.
async fn judge_anew(session: &Session, now_ms: u64) -> Result<()> {
    let mut last = String::new();
    loop {
        let rows = session.rows(CLICKED, &[&last, &TOGETHER]).await?;
        let Some(row) = rows.last() else { return Ok(()) };
        last = row.try_get(0)?;
        let (mut ids, mut states, mut next_at) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let rule = rule(row.try_get(1)?, row.try_get::<_, i64>(2)? as u64)?;
            states.push(rule.state(now_ms).as_str());
            next_at.push(rule.next_at(now_ms).map(|at| at as i64));
            ids.push(rule.id);
        }
        session.execute(JUDGE, &[&ids, &states, &next_at]).await?;
    }
}
