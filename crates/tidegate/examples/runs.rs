//! A run of a pipeline in this process, without a runtime: what is processed is skipped by the next
//! attempt, what has failed is taken up again, and a worker that comes late changes nothing.
//!
//! ```text
//! cargo run -p tidegate --example runs
//! ```

use tidegate::Key;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::run::{Answer, Attempt, InProcess, Refusal, RunOptions, RunState, Update};

const DOCKETS: [&str; 5] = ["12345", "12346", "007", "100000000000001", "12347"];

/// Does what an attempt finds to do; `is_broken` says which dockets fail.
fn work(
    runs: &InProcess,
    run: Key<'_>,
    attempt: Attempt,
    is_broken: impl Fn(&str) -> bool,
) -> Result<Vec<&'static str>, Box<dyn std::error::Error>> {
    let keys = DOCKETS.map(Key::new).into_iter().collect::<tidegate::Result<Vec<_>>>()?;
    let is_done = runs.is_processed(run, &keys)?.into_result()?;
    let mut worked_on = Vec::new();
    for (docket, _) in keys.into_iter().zip(is_done).filter(|(_, is_done)| !is_done) {
        let text = DOCKETS.into_iter().find(|it| *it == docket.as_str()).unwrap_or_default();
        worked_on.push(text);
        if is_broken(text) {
            // The id is the call's own: made again, since its answer was lost, it counts once.
            let id = format!("{attempt}-{text}");
            for _ in 0..2 {
                runs.failed(run, Some(attempt), docket, "timeout", Key::new(&id)?)?.into_result()?;
            }
        } else {
            runs.processed(run, Some(attempt), &[docket])?.into_result()?;
        }
    }
    Ok(worked_on)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::at(Timestamp::from_millis(1_726_583_400_000));
    let runs = InProcess::with_clock(RunOptions::new(), clock.clone().into())?;
    let run = Key::new("manual_2024-09-17T14:30:00+00:00")?;

    let first = runs.start(run).into_result()?;
    assert!(first.is_new && !runs.start(run).into_result()?.is_new, "whoever comes first starts it");
    runs.update(run, Some(first.attempt), &Update::new().total(5).field("court", "scotus"))?.into_result()?;

    let fetch = Key::new("fetch")?;
    runs.task_started(run, Some(first.attempt), fetch).into_result()?;
    clock.advance_ms(90_000);
    assert_eq!(work(&runs, run, first.attempt, |docket| docket == "007")?, DOCKETS);
    let took = runs.task_finished(run, Some(first.attempt), fetch).into_result()?;
    println!("fetch took {took:?}");
    assert_eq!(took.as_secs(), 90);

    let progress = runs.progress(run).into_result()?;
    println!("{} of 5 processed, {} to retry", progress.processed, progress.to_retry);
    assert_eq!((progress.processed, progress.failed, progress.total), (4, 1, Some(5)));
    let failure = &runs.retry_list(run, None, 10)?.into_result()?.items[0];
    assert_eq!((failure.item.as_str(), failure.reason.as_str(), failure.count), ("007", "timeout", 1));

    // It ends, and is led on: nothing that was done is done again.
    runs.finish(run, Some(first.attempt), RunState::Failed)?.into_result()?;
    let second = runs.retry(run, first.attempt)?.into_result()?.attempt;
    assert_eq!(work(&runs, run, second, |_| false)?, ["007"]);

    // A worker of the first attempt wakes up.
    let late = runs.processed(run, Some(first.attempt), &[Key::new("12348")?])?;
    assert_eq!(late, Answer::Refused(Refusal::Stale { current: second }));
    runs.finish(run, Some(second), RunState::Succeeded)?.into_result()?;
    println!("{} in attempt {second}", runs.get(run).ok_or("it is there")?.state);

    // 25 hours after its last update all of it is gone.
    clock.advance_ms(25 * 3_600_000);
    assert_eq!(runs.get(run), None);
    Ok(())
}
