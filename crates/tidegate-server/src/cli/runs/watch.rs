//! `tidegate run watch`: a run's card, drawn anew until it has ended.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use console::{Term, truncate_str};

use super::args::OfRun;
use super::card::{Card, Found};
use super::open;
use crate::cli::REFUSED;
use crate::cli::render::{print, printable};
use crate::cli::screen::{Screen, draw, keys, unless_quit};
use crate::cli::target::Target;

/// No server is asked more often.
const LEAST: Duration = Duration::from_millis(100);

pub(super) async fn run(run: &OfRun, interval: Duration) -> Result<ExitCode, String> {
    let target = open(&run.of).await?;
    let interval = interval.max(LEAST);
    let is_seen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let watched = match is_seen && !run.of.target.json {
        true => live(&target, run, interval).await,
        false => lines(&target, run, interval).await,
    };
    target.close().await;
    watched
}

/// How it has ended.
fn ended(card: &Card) -> ExitCode {
    if card.run.state == "succeeded" { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) }
}

/// A line, or with `--json` an object, whenever something has changed.
async fn lines(target: &Target, run: &OfRun, interval: Duration) -> Result<ExitCode, String> {
    let mut last = String::new();
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        let card = match Card::read(target, run).await? {
            Found::Card(card) => card,
            Found::None(why) => {
                print(&why)?;
                return Ok(ExitCode::from(REFUSED));
            }
        };
        let line = match run.of.target.json {
            true => serde_json::to_string(&card).map_err(|error| error.to_string())?,
            false => card.summary(),
        };
        if line != last {
            print(&line)?;
            last = line;
        }
        if card.has_ended() {
            return Ok(ended(&card));
        }
    }
}

async fn live(target: &Target, run: &OfRun, interval: Duration) -> Result<ExitCode, String> {
    let term = Term::stdout();
    let mut last: Option<Box<Card>> = None;
    {
        let _screen = Screen::enter().map_err(|error| format!("cannot use the terminal: {error}"))?;
        let mut keys = keys();
        let mut ticks = tokio::time::interval(interval);
        while !last.as_ref().is_some_and(|card| card.has_ended()) {
            let Some(_) = unless_quit(&mut keys, ticks.tick()).await else { break };
            let (rows, columns) = term.size();
            let Some(card) = unless_quit(&mut keys, Card::read(target, run)).await else { break };
            let shown = match card {
                Ok(Found::Card(card)) => {
                    let lines = card.lines();
                    last = Some(card);
                    lines
                }
                Ok(Found::None(why)) => return Ok(gone(&why)),
                // It may be back with the next.
                Err(error) => vec![printable(&error)],
            };
            let fits = shown.iter().take(usize::from(rows).saturating_sub(1));
            let fits: Vec<_> =
                fits.map(|line| truncate_str(line, usize::from(columns), "…").into_owned()).collect();
            draw(&fits).map_err(|error| format!("cannot draw: {error}"))?;
        }
    }
    // What was drawn is gone with its screen.
    let Some(card) = last else { return Ok(ExitCode::SUCCESS) };
    print(&card.lines().join("\n"))?;
    Ok(if card.has_ended() { ended(&card) } else { ExitCode::SUCCESS })
}

fn gone(why: &str) -> ExitCode {
    // Who has closed the terminal knows.
    let _ = print(why);
    ExitCode::from(REFUSED)
}
