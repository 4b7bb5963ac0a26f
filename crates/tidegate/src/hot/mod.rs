//! Hot pages: which keys are hot right now, inside exact bounds.
//!
//! Most pages get one edit and never another. What is remembered of them is little,
//! ends ten minutes after the first edit and is bounded in number. A page with
//! `hot_threshold` edits in that time becomes hot: all its edits of the last
//! `window_duration` are kept, the newest `max_members_per_page` of them, until there
//! are none left. Never more than `max_tracked` pages are hot.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidegate::Result<()> {
//! use tidegate::{Key, Tidegate, hot::{Edit, HotOptions, Recorded}};
//!
//! let gate = Tidegate::open("memory:").await?;
//! let hot = gate.hot("main", HotOptions::default())?;
//!
//! let page = Key::new("en:Tide gate")?;
//! assert_eq!(hot.record(&Edit::new(page, "1", "alice")).await?, Recorded::Remembered);
//! assert_eq!(hot.record(&Edit::new(page, "2", "bob")).await?, Recorded::Promoted { replaced: None });
//! assert_eq!(hot.record(&Edit::new(page, "2", "bob")).await?, Recorded::Duplicate);
//!
//! let stats = hot.stats(page).await?;
//! assert_eq!((stats.edits_last_hour, stats.unique_editors), (2, 2));
//! assert_eq!(hot.list(10).await?[0].page, "en:Tide gate");
//! # Ok(())
//! # }
//! ```

mod batch;
#[cfg(feature = "redis")]
mod count;
#[cfg(feature = "redis")]
mod declared;
mod edit;
#[cfg(feature = "redis")]
mod feed;
#[cfg(feature = "redis")]
mod flush;
mod full;
#[cfg(feature = "redis")]
mod gather;
#[cfg(feature = "redis")]
mod handle;
mod in_process;
#[cfg(feature = "redis")]
mod keys;
mod memory;
pub(crate) mod metrics;
mod notes;
mod options;
mod position;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod watch;

pub use self::edit::{
    Count, Edit, EditRef, Event, EventKind, HotPage, MAX_AT_ONCE, MAX_BYTE_CHANGE, Recorded, Removed, Stats,
};
#[cfg(feature = "redis")]
pub use self::handle::Hot;
pub use self::in_process::InProcess;
#[cfg(feature = "redis")]
pub(crate) use self::keys::HotKeys;
pub use self::options::HotOptions;
#[cfg(feature = "redis")]
pub use self::watch::Watch;
pub use crate::bounds::WhenFull;
