//! Commands that go through a whole store: `migrate`, `reconcile` and `compare`. They hold the
//! library themselves: a server answers questions, and none of these is one.

mod compare;
mod found;
mod migrate;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use tidegate::Tidegate;
use tidegate::session::{Reap, Reconciled, Reconciliation, Sessions, Step};
use tidegate::store::PartKind;

pub(super) use self::compare::compare;
pub(super) use self::migrate::migrate;
use super::args::ReconcileArgs;
use crate::cli::target::STORE_DEADLINE;
use crate::cli::{Bar, message, print};
use crate::parts::{Access, Named};
use crate::settings::StoreSettings;

/// How long the loops in the background wait: longer than any of these commands.
const LATER: Duration = Duration::from_secs(24 * 3600);

/// Compares sessions with their index and repairs both.
pub(super) async fn reconcile(args: &ReconcileArgs) -> Result<ExitCode, String> {
    let reconciler = Reconciler::open(args, Access::Write, |_| Ok(())).await?;
    let done = reconciler.run("mending", reconciler.sessions.reconcile().anew(), |_| {}).await;
    reconciler.close().await;
    let done = done?;
    print(&match args.json {
        true => json!({"space": reconciler.space(), "done": found::for_machines(&done)}).to_string(),
        false => found::for_people(&done, true),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A store and the space on it.
struct Reconciler<'a> {
    args: &'a ReconcileArgs,
    gate: Tidegate,
    sessions: Sessions,
}

impl<'a> Reconciler<'a> {
    /// Opens the store of `args`, if `check` has nothing against it.
    async fn open(
        args: &'a ReconcileArgs,
        access: Access,
        check: impl FnOnce(&StoreSettings) -> Result<(), String>,
    ) -> Result<Self, String> {
        let mut settings = args.settings.load_on(&args.store)?;
        if settings.store.url.scheme() == "memory" {
            let why = "`--store`: memory: has nothing to walk through: redis://, rediss:// and clusters have";
            return Err(why.to_owned());
        }
        check(&settings.store)?;
        settings.store.options.deadline = settings.store.options.deadline.max(STORE_DEADLINE);
        // Defaults would be a guess: at what is an orphan, and at when whose keys end.
        let gate = settings.open_for(&[(PartKind::Sessions, &args.space)], access).await?;
        let space = Named::find(&settings.parts.sessions, &args.space);
        let mut space = space.map_err(|unknown| unknown.to_string())?.clone();
        // Nothing is reaped on the way.
        space.options.reap = Reap::Claims;
        space.options.cleanup_interval = LATER;
        space.options.reconcile_interval = 60 * LATER;
        let sessions = space.open(&gate).map_err(message)?;
        Ok(Self { args, gate, sessions })
    }

    /// Goes all the way; `each` sees every step.
    async fn run(
        &self,
        what: &'static str,
        mut reconciliation: Reconciliation,
        mut each: impl FnMut(&Step),
    ) -> Result<Reconciled, String> {
        let bar = Bar::new(what);
        let mut scanned = 0;
        loop {
            match reconciliation.step().await {
                Ok(None) => return Ok(reconciliation.total),
                Ok(Some(step)) => {
                    scanned += step.scanned;
                    bar.at(scanned, step.keys);
                    if self.args.verbose {
                        bar.report(&step.findings);
                    }
                    each(&step);
                }
                Err(error) => return Err(format!("while {what}: {error}; run it again to go on")),
            }
        }
    }

    /// What the space is called.
    fn space(&self) -> &str {
        self.sessions.space().as_str()
    }

    async fn close(&self) {
        self.gate.shutdown().await;
    }
}
