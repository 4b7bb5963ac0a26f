//! `tidegate declare`: what a store says that limits and spaces are.

use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};
use tidegate::Tidegate;
use tidegate::clock::Timestamp;
use tidegate::store::{Declaration, Declarations, DeclaredSettings, Differences, Part};

use super::args::SettingsArgs;
use super::message;
use super::render::print;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DeclareArgs {
    /// The store
    #[arg(long, value_name = "URL")]
    store: String,
    /// Declare the limits and spaces that --config, the environment and --set name
    #[arg(long)]
    replace: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

const EXAMPLES: &str = "\
Every server declares what it opens. Commands with --store go by it.

Examples:
  tidegate declare --store redis://127.0.0.1:6379
  tidegate declare --store redis://127.0.0.1:6379 --config tidegate.yaml --replace
  tidegate declare --store redis://127.0.0.1:6379 --set limits.api.rate=10/s --replace";

pub(super) fn run(args: &DeclareArgs) -> Result<ExitCode, String> {
    let mut settings = args.settings.load_on(&args.store)?;
    if settings.store.url.scheme() == "memory" {
        return Err("`--store`: memory: declares nothing: redis://, rediss:// and clusters do".to_owned());
    }
    settings.store.options.declarations = Declarations::ReadOnly;
    let text = super::runtime()?.block_on(async {
        let gate = settings.store.open().await.map_err(message)?;
        gate.store().check().map_err(message)?;
        let text = match args.replace {
            false => list(&gate, args.json).await,
            true => replace(&gate, &settings.parts.written(), args.json).await,
        };
        gate.shutdown().await;
        text
    })?;
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(gate: &Tidegate, as_json: bool) -> Result<String, String> {
    let all = gate.declarations().await.map_err(message)?;
    if as_json {
        return Ok(json!({"declarations": all.iter().map(machine).collect::<Vec<_>>()}).to_string());
    }
    if all.is_empty() {
        return Ok("nothing is declared".to_owned());
    }
    Ok(all.iter().map(for_people).collect::<Vec<_>>().join("\n"))
}

async fn replace(gate: &Tidegate, parts: &[Part], as_json: bool) -> Result<String, String> {
    if parts.is_empty() {
        return Err("`--replace`: there is nothing to declare: name limits and spaces by --config or --set"
            .to_owned());
    }
    let mut lines = Vec::new();
    for part in parts {
        let was = gate.replace_declaration(part).await.map_err(message)?;
        let what = match &was {
            None => "declared",
            Some(was) if was.settings == part.settings => "as it was",
            Some(_) => "replaced",
        };
        let (kind, name) = (part.kind.as_str(), part.name.as_str());
        lines.push(match (as_json, &was) {
            (true, was) => json!({
                "part": kind, "name": name, "outcome": what.replace(' ', "_"),
                "settings": part.settings, "was": was.as_ref().map(|it| &it.settings),
            })
            .to_string(),
            (false, Some(was)) if was.settings != part.settings => {
                let differences = Differences { declared: &was.settings, own: &part.settings };
                format!("{kind} {name}: {what} ({differences})")
            }
            (false, _) => format!("{kind} {name}: {what}"),
        });
    }
    Ok(lines.join("\n"))
}

fn for_people(declared: &Declaration) -> String {
    let Declaration { kind, name, settings, by, at, others, .. } = declared;
    let mut text =
        format!("{} {}: {}; by {by}, {}", kind.as_str(), name.as_str(), all_of(settings), moment(*at));
    for other in others {
        let differences = Differences { declared: settings, own: &other.settings };
        text += &format!("\n  {} had others at {}: {differences}", other.by, moment(other.used));
    }
    text
}

fn all_of(settings: &DeclaredSettings) -> String {
    settings.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

fn moment(at: Timestamp) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(at.as_millis());
    humantime::format_rfc3339_seconds(at).to_string()
}

fn machine(declared: &Declaration) -> Value {
    let others = declared
        .others
        .iter()
        .map(|it| json!({"settings": it.settings, "by": it.by, "used_ms": it.used.as_millis()}));
    json!({
        "part": declared.kind.as_str(),
        "name": declared.name.as_str(),
        "settings": declared.settings,
        "by": declared.by,
        "at_ms": declared.at.as_millis(),
        "used_ms": declared.used.as_millis(),
        "others": others.collect::<Vec<_>>(),
    })
}
