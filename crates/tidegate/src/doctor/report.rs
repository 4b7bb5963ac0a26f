//! What was found in a store.

use crate::store::Family;

/// Of each kind so many defects are told one by one; all are counted.
pub(super) const MAX_TOLD: usize = 1000;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DefectKind {
    /// A key of ours would never end.
    NoTtl,
    /// A key of ours is not of the type that its family has.
    WrongType,
    /// An index lists what is gone before its time.
    EntryWithoutData,
    /// What should be listed is not, or not where it belongs.
    DataWithoutEntry,
    /// Something is listed where it does not belong.
    Misplaced,
    /// Of several keys that belong together one is gone.
    Incomplete,
    /// A key of ours cannot be read.
    Unreadable,
    /// A partition has no marker.
    MarkerMissing,
    /// Markers do not agree with each other, or with the settings.
    MarkerDisagrees,
    /// A key is in a partition that there is none of.
    OutsidePartitions,
    /// Two who use a part do so with other settings.
    SettingsDisagree,
    /// The server may evict keys.
    Eviction,
    /// The server's memory is nearly full.
    MemoryNearBound,
    /// The server leaves it to its system when writes reach the disk.
    Appendfsync,
    /// A replica accepts writes, or would.
    WritableReplica,
    /// The server is a replica: it takes no writes that last.
    IsReplica,
    /// The server is older than what we need.
    OldServer,
}

impl DefectKind {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::NoTtl,
        Self::WrongType,
        Self::EntryWithoutData,
        Self::DataWithoutEntry,
        Self::Misplaced,
        Self::Incomplete,
        Self::Unreadable,
        Self::MarkerMissing,
        Self::MarkerDisagrees,
        Self::OutsidePartitions,
        Self::SettingsDisagree,
        Self::Eviction,
        Self::MemoryNearBound,
        Self::Appendfsync,
        Self::WritableReplica,
        Self::IsReplica,
        Self::OldServer,
    ];

    /// One word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoTtl => "no-ttl",
            Self::WrongType => "wrong-type",
            Self::EntryWithoutData => "entry-without-data",
            Self::DataWithoutEntry => "data-without-entry",
            Self::Misplaced => "misplaced",
            Self::Incomplete => "incomplete",
            Self::Unreadable => "unreadable",
            Self::MarkerMissing => "marker-missing",
            Self::MarkerDisagrees => "marker-disagrees",
            Self::OutsidePartitions => "outside-partitions",
            Self::SettingsDisagree => "settings-disagree",
            Self::Eviction => "eviction",
            Self::MemoryNearBound => "memory-near-bound",
            Self::Appendfsync => "appendfsync",
            Self::WritableReplica => "writable-replica",
            Self::IsReplica => "is-replica",
            Self::OldServer => "old-server",
        }
    }

    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defect {
    /// What.
    pub kind: DefectKind,
    /// Where: a key, a part or a server.
    pub subject: String,
    /// The entry of the key, if it is one; or what there is to be said.
    pub detail: String,
    /// It has been mended.
    pub is_mended: bool,
}

/// How many keys a family has.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FamilyCount {
    /// The family.
    pub family: &'static Family,
    /// Its keys, of all parts and partitions.
    pub keys: u64,
    /// Those of them that were measured.
    pub measured: u64,
    /// What those take in bytes.
    pub measured_bytes: u64,
}

impl FamilyCount {
    /// What all of them take, as far as those that were measured tell.
    pub fn bytes(&self) -> u64 {
        match self.measured {
            0 => 0,
            measured => (self.measured_bytes as f64 / measured as f64 * self.keys as f64) as u64,
        }
    }
}

/// One server. What it does not tell is not known.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ServerState {
    /// Where it is.
    pub address: String,
    /// What it says it is: `redis` or `valkey`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// `master` or `slave`.
    pub role: String,
    /// Keys, whosever they are.
    pub keys: u64,
    /// Bytes in use.
    pub used_memory: Option<u64>,
    /// Bytes that may be; 0 for any.
    pub max_memory: Option<u64>,
    /// What becomes of keys when it is full.
    pub eviction: Option<String>,
    /// Whether writes go to a file.
    pub append_only: Option<bool>,
    /// When they reach the disk.
    pub appendfsync: Option<String>,
    /// Its replicas.
    pub replicas: Vec<String>,
}

/// All that was found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// The masters.
    pub servers: Vec<ServerState>,
    /// How many partitions there are.
    pub partitions: u32,
    /// Limits and spaces that are declared.
    pub parts: usize,
    /// Families that have keys.
    pub families: Vec<FamilyCount>,
    /// Keys that were gone through.
    pub scanned: u64,
    /// Keys that are not ours.
    pub others: u64,
    /// Keys with names like ours that no part is declared for: they are left alone too.
    pub undeclared: u64,
    /// Entries of indices that were looked at.
    pub entries: u64,
    /// What is wrong, the first of each kind.
    pub defects: Vec<Defect>,
    /// By kind, how many there are.
    pub counts: Vec<(DefectKind, u64)>,
    /// How many have been mended.
    pub mended: u64,
    /// What is to be known, and no defect.
    pub notes: Vec<String>,
}

impl Report {
    /// How many defects there are, mended ones among them.
    pub fn defect_count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// Whether nothing is wrong any more.
    pub fn is_well(&self) -> bool {
        self.defect_count() == self.mended
    }

    pub(super) fn add(&mut self, defect: Defect) {
        // A scan may come by a key twice.
        if self.defects.contains(&defect) {
            return;
        }
        if defect.is_mended {
            self.mended += 1;
        }
        let at = match self.counts.iter().position(|(kind, _)| *kind == defect.kind) {
            Some(at) => at,
            None => {
                self.counts.push((defect.kind, 0));
                self.counts.len() - 1
            }
        };
        self.counts[at].1 += 1;
        if self.counts[at].1 <= MAX_TOLD as u64 {
            self.defects.push(defect);
        }
    }

    pub(super) fn found(&mut self, kind: DefectKind, subject: impl Into<String>, detail: impl Into<String>) {
        self.add(Defect { kind, subject: subject.into(), detail: detail.into(), is_mended: false });
    }

    pub(super) fn count(&mut self, family: &'static Family) -> &mut FamilyCount {
        let at = match self.families.iter().position(|it| it.family.name == family.name) {
            Some(at) => at,
            None => {
                self.families.push(FamilyCount { family, keys: 0, measured: 0, measured_bytes: 0 });
                self.families.len() - 1
            }
        };
        &mut self.families[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SCAN may come by a key twice.
    #[test]
    fn a_defect_that_is_met_again_is_one() {
        let mut report = Report::default();
        for _ in 0..2 {
            report.found(DefectKind::NoTtl, "a", "");
            report.found(DefectKind::NoTtl, "b", "");
        }
        assert_eq!((report.defect_count(), report.defects.len()), (2, 2));
        assert!(!report.is_well());
    }
}
