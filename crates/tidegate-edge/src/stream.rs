//! The change stream: every change of the rules in its order, exactly once, from the log alone.
//!
//! A server has one [`Tail`], which reads the log as it grows; whoever follows it has [`Changes`] of its own, and a
//! [`Follower`] at the other end. Who was away goes on by the [`Mark`] of the last change it has seen. If that is not in
//! the log, or the database has gone back since, it is told to begin anew, with a snapshot of all rules.

mod changes;
mod event;
mod follow;
mod mark;
mod snapshot;
mod tail;
mod workers;

pub use self::changes::{Changes, Next};
pub use self::event::{Event, Message};
pub use self::follow::{Follower, Step};
pub use self::mark::Mark;
pub use self::snapshot::{Snapshot, Snapshots};
pub use self::tail::{StreamOptions, Tail};
pub use self::workers::{Following, Worker, Workers};
