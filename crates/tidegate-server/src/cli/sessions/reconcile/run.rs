//! `tidegate sessions reconcile`: compares sessions with their index and repairs both.

use std::process::ExitCode;

use serde_json::json;

use super::{Reconciler, found};
use crate::cli::render::print;
use crate::cli::sessions::args::ReconcileArgs;
use crate::parts::Access;

pub(in crate::cli) async fn reconcile(args: &ReconcileArgs) -> Result<ExitCode, String> {
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
