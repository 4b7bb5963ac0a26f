//! `tidegate health`: how the store has been doing.

use std::process::ExitCode;
use std::time::Duration;

use axum::http::StatusCode;
use clap::Args;
use tidegate::Tidegate;
use tidegate::store::{Declarations, StoreOptions};

use super::args::TargetArgs;
use super::message;
use super::render::{Rendered, bytes, plural, printable};
use super::request::Request;
use super::send::send_to;
use super::target::Target;
use crate::api::health::{Health, Server};
use crate::http::App;
use crate::parts::{PartSettings, Parts};
use crate::settings::{Settings, Sources};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct HealthArgs {
    #[command(flatten)]
    target: TargetArgs,
}

const EXAMPLES: &str = "\
A server tells what it has seen since it was started. With --store there is nothing to tell of yet: it is
found out whether the store can be reached, and what memory it uses; nothing is written.

Exit codes: 0 the store is healthy, 1 it is not, 2 wrong usage or no answer.

Examples:
  tidegate health
  tidegate health --server http://10.0.0.5:8080 --json
  tidegate health --store redis://127.0.0.1:6379";

/// Between two looks at a store that is not there yet.
const PAUSE: Duration = Duration::from_millis(10);

/// The longest pause between two attempts to reach a store.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn run(args: &HealthArgs) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        let target = match args.target.direct() {
            Some(sources) => Target::of(app(&sources).await?),
            None => Target::server(&args.target.server)?,
        };
        let request = Request::get("/v1/health/store");
        let no_refusal = |_: StatusCode, _: &[u8]| None;
        send_to(target, args.target.json, request, |health: Health| render(&health), no_refusal).await
    })
}

/// A store that may be away: that is what is asked.
async fn app(sources: &Sources) -> Result<App, String> {
    let mut settings = Settings::load(sources).map_err(message)?;
    settings.store.options.declarations = Declarations::ReadOnly;
    settings.store.options.read_only = true;
    let gate = settings.store.open().await.map_err(message)?;
    settle(&gate, &settings.store.options).await;
    let parts = Parts::open(gate, &PartSettings::default()).map_err(message)?;
    Ok(App::new(parts))
}

/// Waits until it is known: all of it was reached, or it failed often enough.
async fn settle(gate: &Tidegate, options: &StoreOptions) {
    let attempt = options.connect_timeout + options.deadline + LONGEST_PAUSE;
    let is_known = || gate.store().status().away.is_empty() || !gate.store().health().is_healthy();
    let known = async {
        while !is_known() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    // Not known in all that time: then it is told as it is.
    let _ = tokio::time::timeout(attempt * options.unhealthy_after.get(), known).await;
}

fn render(health: &Health) -> Rendered {
    let mut lines = vec![
        match health.healthy {
            true => "healthy".to_owned(),
            false => format!("unhealthy: {} in a row", plural(health.consecutive_failures.into(), "failure")),
        },
        format!(
            "connections {}, {} failed{}; {} in a row, unhealthy after {}",
            health.connection_attempts,
            health.connection_failures,
            rate(health.success_rate),
            health.consecutive_failures,
            health.unhealthy_after,
        ),
        format!(
            "operations  {}, {} failed{}{}",
            health.operations,
            health.operation_failures,
            rate(health.operation_success_rate),
            times(health.average_response_ms, health.p99_response_ms),
        ),
    ];
    for part in health.parts.iter().filter(|part| part.operations > 0) {
        lines.push(format!(
            "  {:<9} {}, {} failed{}{}",
            printable(&part.part),
            part.operations,
            part.operation_failures,
            rate(part.operation_success_rate),
            times(part.average_response_ms, part.p99_response_ms),
        ));
    }
    lines.push(format!("memory      {}", health.memory_bytes.map_or("unknown".to_owned(), bytes)));
    for Server { server, memory_bytes, max_memory_bytes } in &health.servers {
        let most = max_memory_bytes.map_or("no bound".to_owned(), bytes);
        lines.push(format!("  {} {} of {most}", printable(server), bytes(*memory_bytes)));
    }
    if let (Some(hour), Some(operations)) = (&health.peak_hour, health.peak_hour_operations) {
        lines.push(format!("peak hour   {} with {}", printable(hour), plural(operations, "operation")));
    }
    Rendered { text: lines.join("\n"), is_refusal: !health.healthy }
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(String::new, |rate| format!(" ({:.2} % done)", rate * 100.0))
}

fn times(average: Option<f64>, p99: Option<f64>) -> String {
    match (average, p99) {
        (Some(average), Some(p99)) => format!("; average {average:.2} ms, p99 {p99:.2} ms"),
        _ => String::new(),
    }
}
