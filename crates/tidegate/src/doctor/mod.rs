//! A doctor for stores on Redis: walks through all keys and says what is not as it should be.
//!
//! It knows keys by the [families of keys](crate::store::families) and by what the store declares,
//! goes through them with SCAN in small steps, not faster than it is told to, and looks at each with
//! all that belongs to it in one atomic step: beside live traffic nothing is taken for a defect that
//! only was on its way. Keys that are not ours are counted and never touched.
//!
//! It writes nothing, unless it is told to mend what can be mended safely: keys of ours without an
//! end are given one, and entries of indices leave whose data is gone.
//!
//! ```no_run
//! # async fn example() -> tidegate::Result<()> {
//! use tidegate::doctor::{Doctor, DoctorOptions};
//! use tidegate::store::StoreOptions;
//!
//! let doctor = Doctor::open("redis://127.0.0.1:6379", &StoreOptions::default()).await?;
//! let report = doctor.check(&DoctorOptions::default(), |_| {}).await?;
//! assert!(report.is_well(), "{:?}", report.defects);
//! # Ok(())
//! # }
//! ```

mod declared;
mod markers;
mod part;
mod part_keys;
mod report;
mod server;
mod walk;

use std::num::NonZeroU32;

pub(crate) use self::declared::Declared;
use self::markers::Found;
pub(crate) use self::part_keys::{Bounds, HOUR_MS, PartKeys, ms};
pub use self::report::{Defect, DefectKind, FamilyCount, Report, ServerState};
use self::walk::Walk;
use crate::error::{Error, Result};
use crate::setters::setters;
use crate::store::redis::Direct;
use crate::store::{StoreOptions, families};

/// What stands in front of the part of a room that knows its keys.
pub(crate) const LOOK: &str = include_str!("look.lua");

/// How to look at a store.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DoctorOptions {
    /// Mend what can be mended safely.
    pub fix: bool,
    /// Keys looked at per second, at most; others are gone through twenty times as fast. None for as
    /// fast as it goes.
    pub keys_per_second: Option<NonZeroU32>,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        // The server has others to answer too.
        Self { fix: false, keys_per_second: NonZeroU32::new(2000) }
    }
}

setters!(DoctorOptions {
    fix: bool,
    keys_per_second: Option<NonZeroU32>,
});

/// How far a look is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Keys gone through.
    pub scanned: u64,
    /// Keys of all servers, about.
    pub keys: u64,
}

/// Looks at a store.
#[derive(Debug)]
pub struct Doctor {
    direct: Direct,
    /// What was found when it was looked for how the store is spread.
    found: Found,
}

impl Doctor {
    /// For the store at `url`, as it is: its marker says how many partitions there are. Needs a tokio
    /// runtime.
    pub async fn open(url: &str, options: &StoreOptions) -> Result<Self> {
        if url.starts_with("memory:") {
            return Err(Error::config(
                "a store in this process has nothing to look at: redis://, rediss:// and clusters have",
            ));
        }
        let found = markers::find(url, options).await?;
        let direct = Direct::new(url, options, found.partitions)?;
        Ok(Self { direct, found })
    }

    /// Goes through all of it; `progress` is told after each step. An error is that it could not be
    /// looked at, not that something is wrong with it.
    pub async fn check(&self, options: &DoctorOptions, mut progress: impl FnMut(Progress)) -> Result<Report> {
        let mut report = Report { partitions: self.found.partitions, ..Report::default() };
        let masters = self.direct.masters().await?;
        for node in &masters {
            server::look_at(&self.direct, node, &mut report).await?;
        }
        let declared = markers::look_at(&self.direct, &self.found, options.fix, &mut report).await?;
        report.parts = declared.len();
        let keys = report.servers.iter().map(|server| server.keys).sum();
        let mut walk = Walk::new(&self.direct, &declared, *options, report);
        for node in &masters {
            walk.through(node, |scanned| progress(Progress { scanned, keys: u64::max(keys, scanned) }))
                .await?;
        }
        let mut report = walk.end();
        if !self.found.has_marker && report.undeclared > 0 {
            let marker = self.direct.keyspace.marker(0);
            let detail = format!(
                "no partition has one, and there are {} keys that look like ours: nothing says whose they are",
                report.undeclared
            );
            report.found(DefectKind::MarkerMissing, marker, detail);
        }
        let order = |family: &FamilyCount| families().position(|it| it.name == family.family.name);
        report.families.sort_by_key(order);
        report.counts.sort();
        Ok(report)
    }
}
