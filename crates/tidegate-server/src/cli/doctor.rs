//! `tidegate doctor`: what is wrong with a store.

use std::num::NonZeroU32;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use tidegate::doctor::{Defect, Doctor, DoctorOptions, Report, ServerState};

use super::REFUSED;
use super::args::SettingsArgs;
use super::bar::Bar;
use super::message;
use super::render::{bytes, plural, print, printable};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DoctorArgs {
    /// The store
    #[arg(long, value_name = "URL")]
    store: String,
    /// Mend what is safe to: give keys of ours an end, drop entries of indices whose data is gone
    #[arg(long)]
    fix: bool,
    /// Keys to look at in a second, at most; 0 for as many as it goes
    #[arg(long, value_name = "KEYS", default_value_t = 2000)]
    keys_per_second: u32,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

const EXAMPLES: &str = "\
Safe beside live traffic. Keys that are not ours are counted and never touched.

Exit codes: 0 all is well, 1 something is wrong, 2 wrong usage or the store could not be looked at.

Examples:
  tidegate doctor --store redis://127.0.0.1:6379
  tidegate doctor --store redis://127.0.0.1:6379 --set store.namespace=blue --json
  tidegate doctor --store redis-cluster://10.0.0.1:6379,10.0.0.2:6379 --fix";

pub(super) fn run(args: &DoctorArgs) -> Result<ExitCode, String> {
    let settings = args.settings.load_on(&args.store)?;
    let store = settings.store.whole_options().map_err(message)?;
    let options =
        DoctorOptions::default().fix(args.fix).keys_per_second(NonZeroU32::new(args.keys_per_second));
    let report = super::runtime()?.block_on(async {
        let doctor = Doctor::open(settings.store.url.as_str(), &store).await?;
        let bar = Bar::new("looking");
        doctor.check(&options, |progress| bar.at(progress.scanned, progress.keys)).await
    });
    let report = report.map_err(|error| format!("the store cannot be looked at: {error}"))?;
    print(&if args.json { for_machines(&report).to_string() } else { for_people(&report, args.fix) })?;
    Ok(if report.is_well() { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

fn for_people(report: &Report, is_fixing: bool) -> String {
    let mut lines: Vec<String> = report.servers.iter().map(server_line).collect();
    lines.push(format!(
        "{}, {} declared; {} gone through, {} looked at, {} of others left alone",
        plural(u64::from(report.partitions), "partition"),
        plural(report.parts as u64, "part"),
        plural(report.scanned, "key"),
        plural(report.entries, "index entry").replace("entrys", "entries"),
        report.others,
    ));
    if report.undeclared > 0 {
        lines.push(format!(
            "{} with names like ours that no part is declared for: left alone",
            plural(report.undeclared, "key")
        ));
    }
    let width = report.families.iter().map(|it| it.family.pattern.len()).max().unwrap_or_default();
    for family in &report.families {
        let (pattern, keys, bytes) = (family.family.pattern, family.keys, bytes(family.bytes()));
        lines.push(format!("  {pattern:width$} {keys:>9} {bytes:>9}"));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(report.defects.iter().map(defect_line));
    let told = report.defects.len() as u64;
    if report.defect_count() > told {
        lines.push(format!("and {} more", report.defect_count() - told));
    }
    lines.push(match (report.defect_count(), report.mended) {
        (0, _) => "all is well".to_owned(),
        (found, mended) if found == mended => format!("{}, all of them mended", plural(found, "defect")),
        (found, 0) if !is_fixing => plural(found, "defect"),
        (found, mended) => format!("{}, {mended} of them mended", plural(found, "defect")),
    });
    lines.join("\n")
}

fn server_line(server: &ServerState) -> String {
    let unknown = || "?".to_owned();
    let max = match server.max_memory {
        Some(0) => "no bound".to_owned(),
        max => max.map_or_else(unknown, bytes),
    };
    format!(
        "{} {} {}, {}, {} of {max} in use, {}",
        server.address,
        if server.program.is_empty() { "version" } else { &server.program },
        if server.version.is_empty() { "?" } else { &server.version },
        plural(server.keys, "key"),
        server.used_memory.map_or_else(unknown, bytes),
        server.eviction.clone().unwrap_or_else(unknown),
    )
}

fn defect_line(defect: &Defect) -> String {
    let Defect { kind, subject, detail, is_mended, .. } = defect;
    let (colon, mended) =
        (if detail.is_empty() { "" } else { ": " }, if *is_mended { " (mended)" } else { "" });
    format!("{} {}{colon}{}{mended}", kind.as_str(), printable(subject), printable(detail))
}

fn for_machines(report: &Report) -> Value {
    let server = |it: &ServerState| {
        json!({
            "address": it.address, "program": it.program, "version": it.version, "role": it.role, "keys": it.keys,
            "used_memory": it.used_memory, "maxmemory": it.max_memory, "maxmemory_policy": it.eviction,
            "appendonly": it.append_only, "appendfsync": it.appendfsync, "replicas": it.replicas,
        })
    };
    let families = report.families.iter().map(|it| {
        json!({
            "pattern": it.family.pattern, "part": it.family.kind().map(|kind| kind.as_str()),
            "type": it.family.key_type, "keys": it.keys, "bytes": it.bytes(), "measured": it.measured,
        })
    });
    let defects = report.defects.iter().map(|it| {
        json!({"kind": it.kind.as_str(), "subject": it.subject, "detail": it.detail, "mended": it.is_mended})
    });
    let counts = report.counts.iter().map(|(kind, count)| (kind.as_str().to_owned(), json!(count)));
    json!({
        "well": report.is_well(),
        "servers": report.servers.iter().map(server).collect::<Vec<_>>(),
        "partitions": report.partitions,
        "parts": report.parts,
        "scanned": report.scanned,
        "others": report.others,
        "undeclared": report.undeclared,
        "entries": report.entries,
        "families": families.collect::<Vec<_>>(),
        "defects": defects.collect::<Vec<_>>(),
        "defect_counts": counts.collect::<serde_json::Map<_, _>>(),
        "mended": report.mended,
        "notes": report.notes,
    })
}
