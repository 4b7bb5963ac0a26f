//! Imports rules into a file of SQLite or a database of PostgreSQL, and says how long that took and how much memory this
//! process.
//!
//! ```text
//! import rules.db 1000000                             so many rules that are made up
//! import rules.db 1000000 2                           the same that say something else: with other numbers, others
//! import postgres://me@localhost/rules list.csv
//! ```

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::path::Path;

use tidegate::clock::monotonic;
use tidegate_edge::formats::{ExportFormat, Format, Reader};
use tidegate_edge::truth::{ImportOptions, ImportStep, Truth, TruthOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (database, list, edition) = match &arguments[..] {
        [database, list] => (database, list, "1"),
        [database, list, edition] => (database, list, edition.as_str()),
        _ => return Err("usage: import URL|DATABASE COUNT|FILE [EDITION]".into()),
    };
    let file = match list.parse() {
        Ok(count) => made_up(count, edition)?,
        Err(_) => File::open(list)?,
    };
    let is_url = ["sqlite:", "postgres:", "postgresql:"].iter().any(|scheme| database.starts_with(scheme));
    let url = if is_url { database.clone() } else { format!("sqlite:{database}") };
    let truth = Truth::open(&url, &TruthOptions::default()).await?;
    let start = monotonic();
    let mut last = None;
    let progress = move |progress: tidegate_edge::truth::ImportProgress| {
        if last != Some(progress.step) || progress.step != ImportStep::Reading {
            eprintln!("{:?} from {:.1} s on", progress.step, start.elapsed().as_secs_f64());
            last = Some(progress.step);
        }
    };
    let reader = Reader::new(Format::Csv, file);
    let report = truth.import(reader, ImportOptions::default(), progress).await?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", serde_json::to_string(&report)?);
    println!("{seconds:.1} s, {:.0} rules/s, {}", report.rules as f64 / seconds, memory()?);
    let start = monotonic();
    let (position, mut file) = truth.export(ExportFormat::Csv).await?;
    let bytes = file.seek(io::SeekFrom::End(0))?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} rules exported, {bytes} bytes, {seconds:.1} s, {}", position.count, memory()?);
    Ok(())
}

/// A file of rules in no order.
fn made_up(count: u64, edition: &str) -> io::Result<File> {
    let mut into = BufWriter::new(tempfile::tempfile_in(Path::new("."))?);
    writeln!(into, "id,host,path,destination,code,tags,note")?;
    for number in 0..count {
        let id = number.wrapping_mul(7_919) % count;
        let tag = id % 50;
        writeln!(
            into,
            "rule-{id:08},www.example.com,/campaigns/{tag}/{id:x},https://shop.example.org/products/{id}?ref={edition},301,\
             campaign-{tag},made up"
        )?;
    }
    let mut file = into.into_inner()?;
    file.rewind()?;
    Ok(file)
}

/// The most memory that this process has had.
fn memory() -> io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(format!("at most {}", peak.unwrap_or("?").trim()))
}
