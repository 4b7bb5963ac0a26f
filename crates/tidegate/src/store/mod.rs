//! Where state is kept: in this process, or on Redis, Valkey or their Cluster.

#[cfg(feature = "redis")]
mod declaration;
#[cfg(feature = "redis")]
pub(crate) mod declarer;
#[cfg(feature = "redis")]
mod default_space;
#[cfg(feature = "redis")]
mod families;
#[cfg(feature = "redis")]
mod health;
#[cfg(feature = "redis")]
pub(crate) mod keyspace;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod metrics;
#[cfg(feature = "redis")]
mod open;
#[cfg(feature = "redis")]
pub(crate) mod partitions;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
mod response_times;
mod secret;
mod spread;
#[cfg(feature = "redis")]
mod status;
#[cfg(feature = "redis")]
mod tally;
mod time_index;

#[cfg(feature = "redis")]
pub use self::declaration::{Declaration, Declarations, DeclaredSettings, Differences, Other, Part};
#[cfg(feature = "redis")]
pub(crate) use self::declaration::{duration_of, duration_text};
#[cfg(feature = "redis")]
pub use self::default_space::DEFAULT_SPACE;
#[cfg(feature = "redis")]
pub(crate) use self::families::MARKER;
#[cfg(feature = "redis")]
pub use self::families::{Family, families};
#[cfg(feature = "redis")]
pub use self::health::{PartHealth, PeakHour, ResponseTimes, ServerMemory, StoreHealth, success_rate};
#[cfg(feature = "redis")]
pub(crate) use self::open::{Backend, MemoryStore};
#[cfg(feature = "redis")]
pub use self::open::{Store, StoreOptions};
pub(crate) use self::secret::Secret;
pub(crate) use self::spread::Spread;
#[cfg(feature = "redis")]
pub use self::status::{Away, StoreStatus};
pub use self::time_index::TimeIndex;
pub use crate::PartKind;
