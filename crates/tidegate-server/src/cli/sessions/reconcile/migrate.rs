//! `tidegate sessions migrate`: takes over what an older program has written, and looks at
//! all of it again.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tidegate::session::{Counts, Reconciled};

use super::{Reconciler, found};
use crate::cli::sessions::args::ReconcileArgs;
use crate::cli::{REFUSED, message, print};
use crate::parts::Access;
use crate::settings::StoreSettings;

/// How often it begins anew if something is off at the end: an older program that is still
/// running makes work, and a run that went on where another was interrupted may have missed
/// some if the server was restarted in between.
const ROUNDS: usize = 3;

pub(in crate::cli) async fn migrate(args: &ReconcileArgs, is_dry: bool) -> Result<ExitCode, String> {
    let reconciler =
        Reconciler::open(args, if is_dry { Access::Read } else { Access::Write }, one_partition).await?;
    let ran = if is_dry { dry_run(&reconciler).await } else { run(&reconciler).await };
    reconciler.close().await;
    ran
}

/// The older program knew of no others: its sessions and broadcasters are anywhere.
fn one_partition(store: &StoreSettings) -> Result<(), String> {
    let why = match (store.url.scheme(), store.options.partitions) {
        ("redis-cluster" | "rediss-cluster", _) => "a cluster",
        (_, Some(partitions)) if partitions > 1 => "a store with several partitions",
        _ => return Ok(()),
    };
    Err(format!(
        "`--store`: {why} has no sessions of an older program: they are on a redis:// or rediss:// server, and \
         can be taken over with one partition there"
    ))
}

async fn dry_run(reconciler: &Reconciler<'_>) -> Result<ExitCode, String> {
    let found =
        reconciler.run("looking", reconciler.sessions.reconcile_dry_run(Duration::ZERO), |_| {}).await?;
    print(&match reconciler.args.json {
        true => json!({"space": reconciler.space(), "dry_run": true, "found": found::for_machines(&found)})
            .to_string(),
        false => format!("dry run: nothing is changed\n{}", found::for_people(&found, false)),
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn run(reconciler: &Reconciler<'_>) -> Result<ExitCode, String> {
    let mut done = Reconciled::default();
    let mut left = Reconciled::default();
    for round in 0..ROUNDS {
        let reconciliation = reconciler.sessions.reconcile();
        // At first where an interrupted one was left.
        let reconciliation = if round == 0 { reconciliation } else { reconciliation.anew() };
        done += reconciler.run("migrating", reconciliation, |_| {}).await?;
        left = reconciler
            .run("verifying", reconciler.sessions.reconcile_dry_run(Duration::ZERO), |_| {})
            .await?;
        if left.faults() == 0 {
            break;
        }
    }
    // Each of them has been seen at the end, however often on the way.
    (done.sessions, done.looked_at) = (left.sessions, left.looked_at);
    done.unrecognised = left.unrecognised;
    let counts = reconciler.sessions.counts().await.map_err(message)?;
    print(&render(reconciler, &done, &left, &counts))?;
    Ok(if left.faults() == 0 { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

fn render(reconciler: &Reconciler<'_>, done: &Reconciled, left: &Reconciled, counts: &Counts) -> String {
    let Counts { active, disconnected, claimed, dead, .. } = *counts;
    let index = active + disconnected + claimed + dead;
    if reconciler.args.json {
        return json!({
            "space": reconciler.space(), "dry_run": false, "done": found::for_machines(done),
            "left": found::for_machines(left), "is_exact": left.faults() == 0,
            "index": {"size": index, "active": active, "disconnected": disconnected, "claimed": claimed, "dead": dead},
        })
        .to_string();
    }
    let verdict = match left.faults() {
        0 => "verified: every session is where it belongs, and nothing else is".to_owned(),
        faults => format!(
            "OFF by {faults}: is the older program still running? {}",
            found::for_people(left, false).replace('\n', "; ")
        ),
    };
    format!(
        "{}\nindex: {index} ({active} active, {disconnected} disconnected, {claimed} claimed, {dead} dead)\n{verdict}",
        found::for_people(done, true)
    )
}
