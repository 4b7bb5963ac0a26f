//! `tidegate hot replay`: a file of edits, by its own times or live.
//!
//! By its own times, the file drives the clock: each edit happens at its time, or late
//! if an earlier line was later, and cleanups run when the file's time says so. So the
//! same file gives the same pages whatever the store, and however fast it is read.

mod clocked;
mod fields;
mod input;
mod live;
mod report;

use std::io::Read as _;
use std::process::ExitCode;

use self::fields::{Fields, Mapped};
use self::input::Input;
use self::report::Report;
use super::hot::print;
use super::hot_args::ReplayArgs;
use crate::lines::{Line, Lines};

/// A line may have far more fields than an edit needs.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// What takes the edits of a file.
trait Sink {
    /// One edit; the error is the edit's own, and counts as a bad line, or ends all.
    async fn edit(&mut self, edit: Mapped, report: &mut Report) -> Result<(), Refused>;

    /// After the last: the hottest of all.
    async fn finish(&mut self, report: &mut Report) -> Result<(), String>;
}

/// Why an edit was not taken.
enum Refused {
    /// Something is wrong with it.
    Line(String),
    /// There is no going on.
    All(String),
}

pub(super) async fn run(args: &ReplayArgs) -> Result<ExitCode, String> {
    let report = match args.rate {
        None => feed(args, clocked::Clocked::open(args).await?).await?,
        Some(rate) => feed(args, live::Live::open(args, rate).await?).await?,
    };
    if report.good == 0 && report.bad > 0 {
        return Err(format!("{}: no line is an edit: {}", args.file.display(), report.first_bad()));
    }
    report.explain(&args.file);
    print(&if args.json { report.json() } else { report.for_people() })?;
    Ok(ExitCode::SUCCESS)
}

async fn feed(args: &ReplayArgs, mut sink: impl Sink) -> Result<Report, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", args.file.display());
    let mut input = Input::open(&args.file).map_err(failed)?;
    let fields = Fields::of(args);
    let mut report = Report::default();
    let mut lines = Lines::new(MAX_LINE_BYTES);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = input.reader.read(&mut piece).map_err(failed)?;
        let mut rest = &piece[..read];
        while let Some(line) = lines.next(&mut rest) {
            take(&line, &fields, &mut sink, &mut report).await?;
        }
        if read == 0 {
            break;
        }
    }
    if let Some(line) = lines.last() {
        take(&line, &fields, &mut sink, &mut report).await?;
    }
    sink.finish(&mut report).await?;
    input.bar.finish_and_clear();
    Ok(report)
}

async fn take(
    line: &Line<'_>,
    fields: &Fields,
    sink: &mut impl Sink,
    report: &mut Report,
) -> Result<(), String> {
    report.lines += 1;
    let mapped = match line {
        Line::Whole(line) if line.trim_ascii().is_empty() => return Ok(()),
        Line::Whole(line) => fields.edit(line, report.lines),
        Line::TooLong => Err(format!("it has more than {MAX_LINE_BYTES} bytes")),
    };
    let taken = match mapped {
        Ok(edit) => {
            report.see(edit.at);
            sink.edit(edit, report).await
        }
        Err(detail) => Err(Refused::Line(detail)),
    };
    match taken {
        Ok(()) => report.good += 1,
        Err(Refused::Line(detail)) => report.bad_line(detail),
        Err(Refused::All(error)) => return Err(format!("at line {}: {error}", report.lines)),
    }
    Ok(())
}
