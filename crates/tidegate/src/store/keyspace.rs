//! How subjects are spread over partitions, and what Redis keys start with.
//!
//! A script touches an entity and its index together, so in a cluster both must
//! be in one slot: they carry the hash tag of the subject's partition. One
//! partition on a single server needs no tag and writes none.

use super::spread::Spread;
use crate::error::Result;
use crate::key::{Name, check_namespace};

/// Partitions and how to find them. The same on every node that shares the
/// data: a marker in the store sees to that.
#[derive(Debug, Clone)]
pub(crate) struct Keyspace {
    /// The namespace with its colon, or nothing.
    namespace: String,
    spread: Spread,
    tagged: bool,
}

/// A slot of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Slot(pub(crate) u16);

impl Slot {
    /// The slot of a hash tag: CRC-16/XMODEM of it, modulo 16384.
    fn of_tag(tag: &str) -> Self {
        let crc = tag.bytes().fold(0_u16, |crc, byte| {
            (0..8)
                .fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 })
        });
        Self(crc % 16_384)
    }
}

/// Partitions of a cluster unless something else is asked for: enough to be
/// spread evenly, few enough to be asked in parallel.
const CLUSTER_PARTITIONS: u32 = 64;

impl Keyspace {
    pub(crate) fn new(
        namespace: Option<&Name>,
        partitions: Option<u32>,
        hash_key: [u8; 16],
        is_cluster: bool,
    ) -> Result<Self> {
        namespace.map_or(Ok(()), check_namespace)?;
        let partitions = partitions.unwrap_or(if is_cluster { CLUSTER_PARTITIONS } else { 1 });
        Ok(Self {
            namespace: namespace.map(|name| format!("{}:", name.as_str())).unwrap_or_default(),
            spread: Spread::new(partitions, hash_key)?,
            tagged: is_cluster || partitions > 1,
        })
    }

    pub(crate) fn partitions(&self) -> u32 {
        self.spread.partitions()
    }

    /// How subjects are spread over them.
    pub(crate) fn spread(&self) -> Spread {
        self.spread
    }

    /// What all keys start with.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether keys have the tag of their partition behind that.
    pub(crate) fn is_tagged(&self) -> bool {
        self.tagged
    }

    /// The partition of a subject.
    pub(crate) fn partition(&self, subject: &str) -> u32 {
        self.spread.partition(subject)
    }

    /// What every key of a partition starts with.
    pub(crate) fn prefix(&self, partition: u32) -> String {
        match self.tagged {
            true => format!("{}{{{partition}}}:", self.namespace),
            false => self.namespace.clone(),
        }
    }

    /// The slot that all keys of a partition are in.
    pub(crate) fn slot(&self, partition: u32) -> Slot {
        Slot::of_tag(&partition.to_string())
    }

    /// The marker of a partition.
    pub(crate) fn marker(&self, partition: u32) -> String {
        format!("{}tidegate:marker", self.prefix(partition))
    }

    /// Tells one way of spreading from another without telling the hash key.
    pub(crate) fn hash_id(&self) -> String {
        format!("sip24-{:016x}", self.spread.hash("tidegate"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_partition_on_a_single_server_adds_nothing() {
        let keyspace = Keyspace::new(None, None, [0; 16], false).unwrap();
        assert_eq!(keyspace.prefix(0), "");
        assert_eq!(keyspace.marker(0), "tidegate:marker");
    }

    #[test]
    fn a_cluster_always_tags_and_a_namespace_is_a_prefix() {
        let name = Name::new("blue").unwrap();
        let keyspace = Keyspace::new(Some(&name), Some(1), [0; 16], true).unwrap();
        assert_eq!(keyspace.prefix(0), "blue:{0}:");
    }

    #[test]
    fn slots_are_those_of_a_cluster() {
        assert_eq!(Slot::of_tag("123456789"), Slot(0x31C3));
        assert_eq!(Slot::of_tag("foo"), Slot(12_182));
    }

    #[test]
    fn the_hash_never_changes() {
        let keyspace = Keyspace::new(None, Some(64), [0; 16], false).unwrap();
        let partitions: Vec<_> =
            ["a", "user_123", "{x}:y"].iter().map(|key| keyspace.partition(key)).collect();
        assert_eq!((partitions, keyspace.hash_id().as_str()), (vec![9, 45, 21], "sip24-a1a812ae51a38a89"));
    }

    #[test]
    fn partitions_share_the_subjects_evenly() {
        let keyspace = Keyspace::new(None, Some(16), [7; 16], false).unwrap();
        let mut subjects = [0; 16];
        for i in 0..16_000 {
            subjects[keyspace.partition(&format!("user_{i}")) as usize] += 1;
        }
        assert!(subjects.iter().all(|count| (850..1150).contains(count)), "{subjects:?}");
    }
}
