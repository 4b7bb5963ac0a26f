//! `tidegate hot replay`: a file of edits, by its own times or live.
//!
//! By its own times, the file drives the clock: each edit happens at its time, or late
//! if an earlier line was later, and cleanups run when the file's time says so. So the
//! same file gives the same pages whatever the store, and however fast it is read. Rows whose
//! time is far from that of the rows around them are left out ([`plausible`]).

mod clocked;
mod fields;
mod live;
mod plausible;
mod report;

use std::process::ExitCode;

use tokio::sync::watch;

use self::fields::Mapped;
use self::plausible::{Judged, Plausible};
use self::report::Report;
use super::args::{FieldArgs, ReplayArgs};
use crate::cli::{Input, print};
use crate::lines::{Line, Lines};

/// A line may have far more fields than an edit needs.
const MAX_LINE_BYTES: usize = 1 << 20;

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

/// As a shell says that Ctrl-C ended it.
const INTERRUPTED: u8 = 130;

pub(super) async fn run(args: &ReplayArgs) -> Result<ExitCode, String> {
    let report = match args.rate {
        None => feed(args, clocked::Clocked::open(args).await?).await?,
        Some(rate) => feed(args, live::Live::open(args, rate).await?).await?,
    };
    if report.good == 0 && report.bad > 0 && !report.is_interrupted {
        return Err(format!("{}: no line is an edit: {}", args.file.display(), report.first_bad()));
    }
    report.explain(&args.file);
    print(&if args.json { report.json() } else { report.for_people() })?;
    Ok(if report.is_interrupted { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

async fn feed(args: &ReplayArgs, sink: impl Sink) -> Result<Report, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", args.file.display());
    let input = Input::open(&args.file).map_err(failed)?;
    let bar = input.bar.clone();
    let stop = Stop::on_ctrl_c();
    let mut pieces = input.pieces();
    let mut feeding = Feeding {
        fields: &args.fields,
        // Live they are all made now.
        waiting: args.rate.is_none().then(|| Plausible::new(args.max_gap)),
        report: Report::default(),
        sink,
    };
    let mut lines = Lines::new(MAX_LINE_BYTES);
    let fed = async {
        loop {
            let piece = tokio::select! {
                piece = pieces.recv() => piece,
                () = stop.wait() => None,
            };
            let Some(piece) = piece.transpose().map_err(failed)? else { break };
            let mut rest = &piece[..];
            while !stop.is_set()
                && let Some(line) = lines.next(&mut rest)
            {
                feeding.line(&line).await?;
            }
        }
        if !stop.is_set()
            && let Some(line) = lines.last()
        {
            feeding.line(&line).await?;
        }
        feeding.rest().await?;
        feeding.sink.finish(&mut feeding.report).await
    }
    .await;
    // Whatever comes next begins on a line of its own.
    bar.finish_and_clear();
    fed?;
    feeding.report.is_interrupted = stop.is_set();
    Ok(feeding.report)
}

/// Whether somebody has pressed Ctrl-C. Pressed again, it ends at once.
struct Stop(watch::Receiver<bool>);

impl Stop {
    fn on_ctrl_c() -> Self {
        let (pressed, stop) = watch::channel(false);
        tokio::spawn(async move {
            // Without a handler Ctrl-C ends the process, as ever.
            while tokio::signal::ctrl_c().await.is_ok() {
                if pressed.send_replace(true) {
                    std::process::exit(INTERRUPTED.into());
                }
            }
        });
        Self(stop)
    }

    fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    async fn wait(&self) {
        let mut pressed = self.0.clone();
        if pressed.wait_for(|pressed| *pressed).await.is_err() {
            std::future::pending().await
        }
    }
}

/// A file on its way to a sink.
struct Feeding<'a, S> {
    fields: &'a FieldArgs,
    waiting: Option<Plausible<(u64, Mapped)>>,
    report: Report,
    sink: S,
}

impl<S: Sink> Feeding<'_, S> {
    async fn line(&mut self, line: &Line<'_>) -> Result<(), String> {
        self.report.lines += 1;
        let number = self.report.lines;
        let mapped = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => return Ok(()),
            Line::Whole(line) => self.fields.edit(line, number),
            Line::TooLong => Err(format!("it has more than {MAX_LINE_BYTES} bytes")),
        };
        match (mapped, &mut self.waiting) {
            (Err(detail), _) => self.report.bad_line(number, detail),
            (Ok(edit), None) => self.take(number, edit).await?,
            (Ok(edit), Some(waiting)) => {
                if let Some(judged) = waiting.push(edit.at.as_millis(), (number, edit)) {
                    self.judged(judged).await?;
                }
            }
        }
        Ok(())
    }

    /// What still waits.
    async fn rest(&mut self) -> Result<(), String> {
        while let Some(judged) = self.waiting.as_mut().and_then(Plausible::pop) {
            self.judged(judged).await?;
        }
        Ok(())
    }

    async fn judged(&mut self, judged: Judged<(u64, Mapped)>) -> Result<(), String> {
        let (number, edit) = judged.row;
        match judged.too_far_ms {
            Some(far_ms) => {
                self.report.skip(number, edit.at, far_ms);
                Ok(())
            }
            None => self.take(number, edit).await,
        }
    }

    async fn take(&mut self, number: u64, edit: Mapped) -> Result<(), String> {
        self.report.see(edit.at);
        match self.sink.edit(edit, &mut self.report).await {
            Ok(()) => self.report.good += 1,
            Err(Refused::Line(detail)) => self.report.bad_line(number, detail),
            Err(Refused::All(error)) => return Err(format!("at line {number}: {error}")),
        }
        Ok(())
    }
}
