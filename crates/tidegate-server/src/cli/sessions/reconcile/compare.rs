//! `tidegate sessions compare`: orphans as sessions say by themselves, found by scan,
//! against orphans as the index has them.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate::clock::monotonic;
use tidegate::session::SessionId;

use super::Reconciler;
use crate::cli::sessions::args::ReconcileArgs;
use crate::cli::{REFUSED, message, plural, print};
use crate::parts::Access;

/// Sessions listed at a time: the most that there may be.
const PAGE: usize = 1000;

/// Of each difference so many are shown; all are counted.
const SHOWN: usize = 100;

type Ids = BTreeSet<SessionId>;

/// Both ways to look, and what each took.
struct Looked {
    scan: Ids,
    index: Ids,
    looked_at: u64,
    scan_took: Duration,
    index_took: Duration,
}

pub(in crate::cli) async fn compare(
    args: &ReconcileArgs,
    max_age: Option<Duration>,
) -> Result<ExitCode, String> {
    let reconciler = Reconciler::open(args, Access::Read, |_| Ok(())).await?;
    let age = max_age.unwrap_or(reconciler.sessions.options().grace);
    let compared = both(&reconciler, age).await;
    reconciler.close().await;
    let (looked, [scan_only, index_only]) = compared?;
    print(&render(&reconciler, age, &looked, &scan_only, &index_only))?;
    let is_same = scan_only.is_empty() && index_only.is_empty();
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// Looks, and if there is a difference looks again: what has come or gone between one and
/// the other differs once, what is wrong does twice.
async fn both(reconciler: &Reconciler<'_>, age: Duration) -> Result<(Looked, [Ids; 2]), String> {
    let first = look(reconciler, age).await?;
    let differing = |looked: &Looked| [&looked.scan - &looked.index, &looked.index - &looked.scan];
    let found = differing(&first);
    if found.iter().all(BTreeSet::is_empty) {
        return Ok((first, found));
    }
    let second = look(reconciler, age).await?;
    let [scan_only, index_only] = differing(&second);
    Ok((second, [&found[0] & &scan_only, &found[1] & &index_only]))
}

async fn look(reconciler: &Reconciler<'_>, age: Duration) -> Result<Looked, String> {
    let started = monotonic();
    let mut index = Ids::new();
    let mut after = None;
    loop {
        let page = reconciler.sessions.orphans_after(age, after, PAGE).await.map_err(message)?;
        index.extend(page.sessions.iter().map(|it| it.id));
        after = page.sessions.last().copied();
        if page.sessions.len() < PAGE {
            break;
        }
    }
    let index_took = since(started);
    let started = monotonic();
    let mut scan = Ids::new();
    let see = |step: &tidegate::session::Step| scan.extend(step.orphans.iter().map(|it| it.id));
    let looked_at =
        reconciler.run("scanning", reconciler.sessions.reconcile_dry_run(age), see).await?.looked_at;
    Ok(Looked { scan, index, looked_at, scan_took: since(started), index_took })
}

fn since(started: Instant) -> Duration {
    monotonic().duration_since(started)
}

fn render(
    reconciler: &Reconciler<'_>,
    age: Duration,
    looked: &Looked,
    scan_only: &Ids,
    index_only: &Ids,
) -> String {
    let ms = |took: Duration| took.as_secs_f64() * 1000.0;
    let shown = |ids: &Ids| ids.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>();
    if reconciler.args.json {
        return json!({
            "space": reconciler.space(), "max_age_ms": age.as_millis() as u64,
            "scan": {"orphans": looked.scan.len(), "looked_at": looked.looked_at, "took_ms": ms(looked.scan_took)},
            "index": {"orphans": looked.index.len(), "took_ms": ms(looked.index_took)},
            "only_by_scan": {"count": scan_only.len(), "ids": shown(scan_only)},
            "only_by_index": {"count": index_only.len(), "ids": shown(index_only)},
        })
        .to_string();
    }
    let mut text = format!(
        "by scan: {} ({} looked at, {:.1} ms)\nby index: {} ({:.1} ms)\n{} only by scan, {} only by index",
        plural(looked.scan.len() as u64, "orphan"),
        looked.looked_at,
        ms(looked.scan_took),
        plural(looked.index.len() as u64, "orphan"),
        ms(looked.index_took),
        scan_only.len(),
        index_only.len(),
    );
    for (ids, what) in [(scan_only, "only by scan"), (index_only, "only by index")] {
        for id in shown(ids) {
            text += &format!("\n{id} {what}");
        }
    }
    text
}
