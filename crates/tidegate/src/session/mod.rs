//! Sessions: who is connected, and what was left behind.
//!
//! A session is held by leases, one per holder. When the last one ends, by a disconnect or
//! by silence, the session is disconnected at that moment; when nobody resumes it within
//! the grace it is an orphan, and is reaped: claimed, its side effects run by whoever
//! claimed it, acknowledged, deleted. A live session is never reaped, and nothing is ever
//! found by scanning.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate::{Key, Tidegate, session::{Answer, Refusal, SessionOptions, State}};
//!
//! let gate = Tidegate::open("memory:").await?;
//! let sessions = gate.sessions("main", SessionOptions::new())?;
//!
//! let (channel, browser) = (Key::new("channel_7")?, Key::new("browser-1")?);
//! let id = sessions.activate(channel, r#"{"theme":"dark"}"#, None).await?.into_result()?.id;
//! sessions.connect(id, browser).await?.into_result()?;
//! assert_eq!(sessions.delete(id).await?, Answer::Refused(Refusal::Active));
//!
//! sessions.disconnect(id, browser).await?.into_result()?;
//! let session = sessions.get(id).await?.ok_or(Refusal::Gone)?;
//! assert_eq!((session.state, session.ref_count), (State::Disconnected, 0));
//!
//! // It is resumed within its grace, and is in its second life.
//! assert_eq!(sessions.resume(id, browser).await?.into_result()?.generation.get(), 2);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "redis")]
mod declared;
#[cfg(feature = "redis")]
mod effects;
#[cfg(feature = "redis")]
mod handle;
mod hold;
mod in_process;
#[cfg(feature = "redis")]
mod keys;
mod memory;
pub(crate) mod metrics;
mod options;
#[cfg(feature = "redis")]
mod reap;
mod reaped;
#[cfg(feature = "redis")]
mod reconcile;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod store_time;
mod types;

use std::time::Duration;

#[cfg(feature = "redis")]
pub use self::handle::Sessions;
pub use self::in_process::InProcess;
#[cfg(feature = "redis")]
pub(crate) use self::keys::SessionKeys;
pub use self::options::{Reap, SessionOptions};
#[cfg(feature = "redis")]
pub use self::reconcile::{Reconciled, Reconciliation, Step};
pub use self::types::{
    Activated, Answer, Claim, Claims, Counts, Disconnect, Found, Generation, HeldBy, Holder, Lease, List,
    Listed, MAX_TEXT_BYTES, Refusal, Session, SessionId, State, Swept,
};

/// An age in milliseconds. Before the epoch nobody was connected.
fn age_ms(age: Duration) -> u64 {
    age.as_millis().min(1 << 40) as u64
}
