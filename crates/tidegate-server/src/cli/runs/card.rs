//! `tidegate run show`: all that is known of a run, on a card.

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::args::OfRun;
use super::{open, path_of, render};
use crate::api::run::One;
use crate::api::run_items::{Failures, Progress, Task, Tasks};
use crate::cli::{REFUSED, message, send};
use crate::cli::{Request, Target, moment, plural, print, printable, read, time};

/// So many failures are on a card.
const FAILURES: usize = 10;

/// How wide the bar is.
const BAR: u64 = 30;

/// What was answered about a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Card {
    pub(super) run: One,
    pub(super) progress: Progress,
    tasks: Vec<Task>,
    /// The latest of them.
    failures: Failures,
}

/// What there is of a run, or why there is none.
pub(super) enum Found {
    Card(Box<Card>),
    None(String),
}

impl Card {
    /// Asks for all of it. A run that ends in between is not there.
    pub(super) async fn read(target: &Target, run: &OfRun) -> Result<Found, String> {
        let path = path_of(&run.id);
        let mut answers = Vec::new();
        for what in ["", "/progress", "/tasks", &format!("/failures?limit={FAILURES}")] {
            let (status, answer) = target.send(Request::get(format!("{path}{what}"))).await?;
            match status.is_success() {
                true => answers.push(answer),
                false => {
                    let refusal = send::refusal(status, &answer);
                    return refusal.map(Found::None).ok_or_else(|| target.failure(status, &answer));
                }
            }
        }
        let Tasks { tasks, .. } = read(&answers[2])?;
        let (run, progress, failures) = (read(&answers[0])?, read(&answers[1])?, read(&answers[3])?);
        Ok(Found::Card(Box::new(Self { run, progress, tasks, failures })))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.run.finished_at_ms.is_some()
    }

    /// On one line.
    pub(super) fn summary(&self) -> String {
        let Self { run, progress, .. } = self;
        format!("{}: {}, attempt {}, {}", printable(&run.run), run.state, run.attempt, bar(progress))
    }

    /// As lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { run, progress, tasks, failures } = self;
        let mut lines = vec![format!("{}: {}, attempt {}", printable(&run.run), run.state, run.attempt)];
        let again = match run.attempt > 1 {
            true => format!(", this attempt {}", moment(run.attempt_started_at_ms)),
            false => String::new(),
        };
        lines.push(format!("started   {}{again}", moment(run.started_at_ms)));
        lines.push(format!("updated   {}", moment(run.updated_at_ms)));
        lines.extend(run.finished_at_ms.map(|at| format!("ended     {}", moment(at))));
        lines.push(format!("kept to   {}", moment(run.ends_at_ms)));
        lines.push(format!("progress  {}", bar(progress)));
        if progress.failed > 0 {
            let failed = plural(progress.failed, "item");
            lines.push(format!("failed    {failed}, {} to be tried again", progress.to_retry));
        }
        lines.extend(progress.lost_at_ms.map(|at| {
            format!(
                "lost      the store lost writes before {}: what was noted then may be missing",
                moment(at)
            )
        }));
        section(
            &mut lines,
            "fields",
            run.fields.iter().map(|(name, value)| format!("{} = {}", printable(name), printable(value))),
        );
        section(&mut lines, "tasks", tasks.iter().map(|task| task_line(task, run.attempt)));
        section(&mut lines, "failures", failures.failures.iter().map(render::failure));
        if failures.next.is_some() {
            lines.push("  and more: tidegate run failures".to_owned());
        }
        lines
    }
}

fn section(lines: &mut Vec<String>, name: &str, rows: impl Iterator<Item = String>) {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        lines.push(name.to_owned());
        lines.extend(rows.map(|row| format!("  {row}")));
    }
}

fn task_line(task: &Task, current: u64) -> String {
    let attempt = if task.attempt == current { String::new() } else { format!(", attempt {}", task.attempt) };
    let how = match task.duration_ms {
        Some(took) => format!("took {}", time(took)),
        None => format!("under way since {}", moment(task.started_at_ms)),
    };
    format!("{}  {how}{attempt}", printable(&task.task))
}

/// How far it is, with a bar if it is known how far it has to go.
fn bar(it: &Progress) -> String {
    let rate =
        if it.rate_per_second > 0.0 { format!(", {:.1}/s", it.rate_per_second) } else { String::new() };
    let Some(total) = it.total else {
        return format!("{} processed{rate}", it.processed);
    };
    let share = |of: u64| (it.processed.min(total) * of).checked_div(total).unwrap_or(of);
    let done = share(BAR) as usize;
    let bar = format!("[{}{}]", "#".repeat(done), ".".repeat(BAR as usize - done));
    let end = it.estimated_end_ms.filter(|_| it.processed < total);
    let end = end.map(|at| format!(", done about {}", moment(at))).unwrap_or_default();
    format!("{bar} {} of {total} ({}%){rate}{end}", it.processed, share(100))
}

pub(super) async fn show(run: &OfRun) -> Result<ExitCode, String> {
    let target = open(&run.of).await?;
    let found = Card::read(&target, run).await;
    target.close().await;
    match found? {
        Found::Card(card) => {
            print(&match run.of.target.json {
                true => serde_json::to_string(&card).map_err(message)?,
                false => card.lines().join("\n"),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Found::None(why) => {
            print(&why)?;
            Ok(ExitCode::from(REFUSED))
        }
    }
}
