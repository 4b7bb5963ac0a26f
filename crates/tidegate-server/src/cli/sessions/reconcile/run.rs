//! `tidegate sessions reconcile`: compares sessions with their index and mends both.

use std::process::ExitCode;

use serde_json::json;

use super::{Walk, found};
use crate::cli::render::print;
use crate::cli::sessions::args::WalkArgs;
use crate::parts::Access;

pub(in crate::cli) async fn reconcile(args: &WalkArgs) -> Result<ExitCode, String> {
    let walk = Walk::open(args, Access::Write, |_| Ok(())).await?;
    let done = walk.go("mending", walk.sessions.reconcile().anew(), |_| {}).await;
    walk.close().await;
    let done = done?;
    print(&match args.json {
        true => json!({"space": walk.space(), "done": found::for_machines(&done)}).to_string(),
        false => found::for_people(&done, true),
    })?;
    Ok(ExitCode::SUCCESS)
}
