//! Items from the command line or standard input, noted and looked up many at a time.

use std::io::Write as _;
use std::process::ExitCode;

use tidegate::random::Random;

use super::args::{InAttempt, ItemArgs, OfRun};
use super::{change, open, path_of};
use crate::api::run_items::{FailureNoted, Failures, IsProcessed, ItemFailed, Items, Processed};
use crate::cli::batches::Batches;
use crate::cli::{REFUSED, Request, Target, message, plural, print, problem, read};

/// A batch that was refused: how many of its items were noted all the same.
struct Refused {
    taken: u64,
}

/// What a batch was answered, or that it was refused; what else there is is an error.
async fn ask(target: &Target, request: Request) -> Result<Result<Vec<u8>, Refused>, String> {
    let (status, answer) = target.send(request).await?;
    if status.is_success() {
        return Ok(Ok(answer.to_vec()));
    }
    match problem(&answer).filter(|problem| problem.refusal.is_some()) {
        Some(problem) => {
            // Standard output has nothing but items or one answer.
            let _ = writeln!(std::io::stderr(), "tidegate: {}", problem.detail);
            let members: serde_json::Value = read(&answer)?;
            Ok(Err(Refused { taken: members["taken"].as_u64().unwrap_or_default() }))
        }
        None => Err(target.failure(status, &answer)),
    }
}

pub(super) async fn processed(run: &InAttempt, args: &ItemArgs) -> Result<ExitCode, String> {
    let target = open(&run.of).await?;
    let mut source = Batches::new(&args.items, args.null);
    let (mut sum, mut last) = (0, None::<Processed>);
    let mut is_refused = false;
    loop {
        let batch = source.next().await?;
        // Without any it is still told how many there are.
        if batch.is_empty() && last.is_some() {
            break;
        }
        let is_end = batch.is_empty();
        let body = Items { items: batch.into_iter().map(Into::into).collect() };
        let request = Request::post(change(run, "/processed")).json(&body);
        let answer = match ask(&target, request).await? {
            Ok(answer) => answer,
            Err(Refused { taken }) => {
                is_refused = true;
                sum += taken;
                if let Some(noted) = &mut last {
                    noted.processed += taken;
                }
                break;
            }
        };
        let noted: Processed = read(&answer)?;
        sum += noted.new;
        last = Some(noted);
        if is_end {
            break;
        }
    }
    target.close().await;
    if let Some(noted) = last {
        print(&match run.of.target.json {
            true => serde_json::to_string(&Processed { new: sum, ..noted }).map_err(message)?,
            false => format!("{sum} new, {} processed", noted.processed),
        })?;
    }
    Ok(if is_refused { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

pub(super) async fn skip_done(run: &OfRun, null: bool) -> Result<ExitCode, String> {
    let target = open(&run.of).await?;
    let mut source = Batches::stdin(null);
    let separator = if null { "\0" } else { "\n" };
    let mut is_first = true;
    let ended = loop {
        let batch = source.next().await?;
        // A run that is not there is refused, whether there are items or not.
        if batch.is_empty() && !is_first {
            break ExitCode::SUCCESS;
        }
        is_first = false;
        let body = Items { items: batch.iter().map(Into::into).collect() };
        let path = format!("{}/is_processed", path_of(&run.id));
        let Ok(answer) = ask(&target, Request::post(path).json(&body)).await? else {
            break ExitCode::from(REFUSED);
        };
        let IsProcessed { processed, .. } = read(&answer)?;
        if processed.len() != batch.len() {
            return Err(format!("{} items were asked, and {} answered", batch.len(), processed.len()));
        }
        let left = batch.iter().zip(processed).filter(|(_, is_done)| !is_done);
        let text: String = left.map(|(item, _)| format!("{item}{separator}")).collect();
        write(&text)?;
        if batch.is_empty() {
            break ExitCode::SUCCESS;
        }
    };
    target.close().await;
    Ok(ended)
}

pub(super) async fn retry_list(run: &OfRun, null: bool) -> Result<ExitCode, String> {
    let target = open(&run.of).await?;
    let separator = if null { "\0" } else { "\n" };
    let mut cursor = String::new();
    let ended = loop {
        let path = format!("{}/retry_list?limit=1000{cursor}", path_of(&run.id));
        let Ok(answer) = ask(&target, Request::get(path)).await? else {
            break ExitCode::from(REFUSED);
        };
        let page: Failures = read(&answer)?;
        write(&page.failures.iter().map(|it| format!("{}{separator}", it.item)).collect::<String>())?;
        match page.next {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break ExitCode::SUCCESS,
        }
    };
    target.close().await;
    Ok(ended)
}

pub(super) async fn failed(
    run: &InAttempt,
    args: &ItemArgs,
    reason: &str,
    call: Option<&str>,
) -> Result<ExitCode, String> {
    if call.is_some() && args.items.len() != 1 {
        return Err("`--call` is of one item on the command line".to_owned());
    }
    let target = open(&run.of).await?;
    let mut source = Batches::new(&args.items, args.null);
    let (mut noted, mut is_refused) = (0, false);
    let calls = format!("{:016x}", Random::System.bits());
    'all: loop {
        let batch = source.next().await?;
        if batch.is_empty() {
            break;
        }
        for item in &batch {
            noted += 1;
            let id = call.map_or_else(|| format!("{calls}-{noted}"), str::to_owned);
            let body = ItemFailed { item: item.into(), reason: reason.into(), id: id.into() };
            let request = Request::post(change(run, "/failures")).json(&body);
            let Ok(answer) = ask(&target, request).await? else {
                is_refused = true;
                break 'all;
            };
            if run.of.target.json {
                print(&String::from_utf8_lossy(&answer))?;
                continue;
            }
            let FailureNoted { item, count, dropped, .. } = read(&answer)?;
            if args.items.len() == 1 {
                print(&format!("failed {}", plural(count, "time")))?;
            }
            if let Some(dropped) = dropped {
                let _ = writeln!(
                    std::io::stderr(),
                    "tidegate: {item:?} is noted, {dropped:?} was dropped for it"
                );
            }
        }
    }
    target.close().await;
    Ok(if is_refused { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// Items as they are: whoever reads them wants them so.
fn write(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| format!("cannot write items: {error}"))
}
