//! Runs: what a pipeline has done, and what it has not.
//!
//! A run is started once, by whoever comes first, and lives until a while after its last update.
//! Its workers note which items are processed and which have failed, so that one that was restarted
//! skips what is done and takes up what is not. A run that has ended is only led on by a retry, which
//! raises its attempt: a worker that names the attempt it was started in changes nothing of a later
//! one, however late it comes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate::run::{Answer, Refusal, RunOptions, RunState};
//! use tidegate::{Key, Tidegate};
//!
//! let gate = Tidegate::open("memory:").await?;
//! let runs = gate.runs("main", RunOptions::new())?;
//! let run = Key::new("manual_2024-09-17T14:30:00+00:00")?;
//!
//! let attempt = runs.start(run).await?.into_result()?.attempt;
//! let (one, two) = (Key::new("12345")?, Key::new("12346")?);
//! runs.processed(run, Some(attempt), &[one]).await?.into_result()?;
//! runs.failed(run, Some(attempt), two, "timeout", Key::new("call-1")?).await?.into_result()?;
//! runs.finish(run, Some(attempt), RunState::Failed).await?.into_result()?;
//!
//! // The next attempt does what is left.
//! let next = runs.retry(run, attempt).await?.into_result()?.attempt;
//! assert_eq!(runs.is_processed(run, &[one, two]).await?, Answer::Done(vec![true, false]));
//! let late = runs.processed(run, Some(attempt), &[two]).await?;
//! assert_eq!(late, Answer::Refused(Refusal::Stale { current: next }));
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "redis")]
mod declared;
#[cfg(feature = "redis")]
mod handle;
mod in_process;
#[cfg(feature = "redis")]
mod keys;
mod memory;
pub(crate) mod metrics;
mod options;
mod progress;
#[cfg(feature = "redis")]
mod quota;
#[cfg(feature = "redis")]
mod redis;
mod types;

use std::time::Duration;

#[cfg(feature = "redis")]
pub use self::handle::Runs;
pub use self::in_process::InProcess;
#[cfg(feature = "redis")]
pub(crate) use self::keys::{QuotaKeys, RunKeys};
pub use self::options::{MAX_ITEMS, RunOptions};
pub use self::progress::Progress;
#[cfg(feature = "redis")]
pub(crate) use self::quota::{DEFAULT_FAMILY, Quotas};
#[cfg(feature = "redis")]
pub use self::quota::{
    Quota, QuotaCharge, QuotaHour, QuotaKind, QuotaOptions, QuotaRefusal, QuotaStatus, QuotaUse,
};
pub use self::types::{
    Answer, Attempt, Failure, FailureNoted, Finished, Interruption, Listed, Processed, Refusal, Run,
    RunFailure, RunState, Started, Task, TaskStarted, Update, Updated,
};
pub use crate::hour::Hour;

/// A length of time in milliseconds; none is longer than a few decades.
fn age_ms(age: Duration) -> u64 {
    age.as_millis().min(1 << 40) as u64
}
