//! Rate limits: never more than the capacity in any window, wherever it starts.
//!
//! A [`Limit`] answers the same on every store. A refusal is a value with the
//! exact time to come back; an error says that there was no answer at all.
//! What happens while the store is away is an [outage policy](crate::Outage),
//! and every decision tells [who made it](Source).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidegate::Result<()> {
//! use std::time::Duration;
//! use tidegate::{Cost, Key, Tidegate, limit::{LimitOptions, Sliding}};
//!
//! let gate = Tidegate::open("memory:").await?;
//! let sliding = Sliding::new("5/s".parse()?, Duration::from_secs(60))?;
//! let limit = gate.limit("api", sliding, LimitOptions::default())?;
//!
//! let user = Key::new("user_123")?;
//! let decision = limit.take(user, Cost::ONE).await?;
//! assert_eq!(decision.quota().remaining, 299);
//!
//! // The work failed: give the permit back. Twice does no harm.
//! let receipt = decision.receipt().expect("it was charged");
//! assert_eq!(limit.refund(user, receipt).await?, 1);
//! assert_eq!(limit.refund(user, receipt).await?, 0);
//! assert_eq!(limit.peek(user).await?.quota().remaining, 300);
//! # Ok(())
//! # }
//! ```

mod algorithm;
#[cfg(feature = "redis")]
mod all;
mod calendar;
mod charge;
#[cfg(feature = "redis")]
mod charge_all;
mod decision;
#[cfg(feature = "redis")]
mod declared;
mod divisor;
#[cfg(feature = "redis")]
mod handle;
pub mod headers;
mod hold;
mod hours;
#[cfg(feature = "redis")]
mod keys;
#[cfg(feature = "tower")]
pub mod layer;
#[cfg(feature = "redis")]
mod lease;
mod lease_options;
mod listing;
mod memory;
#[cfg(feature = "redis")]
pub(crate) mod metrics;
mod options;
#[cfg(feature = "redis")]
mod outage;
mod overrides;
#[cfg(feature = "tower")]
mod problem;
mod receipt;
#[cfg(feature = "redis")]
mod redis;
mod reservation;
mod rule;
mod sliding;
mod suppressed;
mod tally;
mod token;
mod usage;
mod verdict;

pub use self::algorithm::Algorithm;
#[cfg(feature = "redis")]
pub(crate) use self::all::take_all;
#[cfg(feature = "redis")]
pub use self::all::{AllDecision, MAX_LIMITS};
pub use self::calendar::{Calendar, Period};
pub use self::charge::{Charge, Release};
#[cfg(feature = "redis")]
pub use self::charge_all::AllCharge;
#[cfg(feature = "redis")]
pub(crate) use self::charge_all::{Hourly, charge_all, charge_by_the_hour, hours_of, release_all};
pub use self::decision::{Admitted, Cause, Decision, Quota, Rejected, Source, Suppression, Wait};
#[cfg(feature = "redis")]
pub use self::handle::Limit;
pub(crate) use self::hours::{Hour, HourChange};
#[cfg(feature = "redis")]
pub(crate) use self::keys::LimitKeys;
#[cfg(feature = "tower")]
pub use self::layer::LimitLayer;
pub use self::lease_options::LeaseOptions;
pub use self::listing::{Cursor, KeyOverride, KeyReservation, MAX_PAGE, Page};
pub use self::memory::InProcess;
pub use self::options::LimitOptions;
pub use self::overrides::Override;
pub use self::receipt::{Receipt, ReceiptText};
pub use self::reservation::{OnLapse, Reservation, ReservationState, Reserve};
pub use self::sliding::Sliding;
pub use self::suppressed::Suppressed;
pub use self::token::Token;
pub use crate::bounds::WhenFull;
