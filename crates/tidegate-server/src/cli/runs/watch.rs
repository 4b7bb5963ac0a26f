//! `tidegate run watch`: a run's card, drawn anew until it has ended.

use std::process::ExitCode;
use std::time::Duration;

use super::args::OfRun;
use super::card::{Card, Found};
use super::open;
use crate::cli::screen;
use crate::cli::{REFUSED, Target, message, print};

pub(super) async fn run(run: &OfRun, interval: Duration) -> Result<ExitCode, String> {
    let target = open(&run.of).await?;
    let watched = match screen::is_seen() && !run.of.target.json {
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
    let mut ticks = tokio::time::interval(interval.max(screen::LEAST));
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
            true => serde_json::to_string(&card).map_err(message)?,
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
    let (mut last, mut gone) = (None, None);
    screen::live(interval, async |_| match Card::read(target, run).await {
        Ok(Found::Card(card)) => {
            let (lines, has_ended) = (card.lines(), card.has_ended());
            last = Some(card);
            (!has_ended).then_some(Ok(lines))
        }
        Ok(Found::None(why)) => {
            gone = Some(why);
            None
        }
        Err(error) => Some(Err(error)),
    })
    .await?;
    // What was drawn is gone with its screen.
    match (gone, last) {
        (Some(why), _) => {
            print(&why)?;
            Ok(ExitCode::from(REFUSED))
        }
        (None, None) => Ok(ExitCode::SUCCESS),
        (None, Some(card)) => {
            print(&card.lines().join("\n"))?;
            Ok(if card.has_ended() { ended(&card) } else { ExitCode::SUCCESS })
        }
    }
}
