//! Markers: how the store is spread, whether all partitions agree, and what is declared.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis::Value;

use super::report::{Defect, DefectKind, Report};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::store::redis::{Direct, MARKER_TTL, Script};
use crate::store::{Declaration, Differences, StoreOptions};

static MARKER: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("marker.lua")]));

/// The most partitions there may be.
const MAX_PARTITIONS: u32 = 1024;

/// How a store is spread, as far as its first marker says.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) partitions: u32,
    pub(super) has_marker: bool,
    /// What is wrong with that.
    disagreements: Vec<(String, String)>,
}

/// One marker.
struct Marker {
    now: Timestamp,
    key_type: String,
    is_endless: bool,
    is_mended: bool,
    fields: HashMap<String, String>,
}

impl Marker {
    async fn read(direct: &Direct, partition: u32, is_mending: bool) -> Result<Self> {
        let (key, time) = (direct.keyspace.marker(partition), direct.time());
        let (is_mending, ttl) = (if is_mending { "1" } else { "0" }, MARKER_TTL.as_millis().to_string());
        let answer = direct.run(partition, &MARKER, &[&key], &[&time, is_mending, &ttl]).await?;
        Self::of(answer).ok_or_else(|| Error::internal(format!("the marker {key:?} cannot be read")))
    }

    fn of(answer: Value) -> Option<Self> {
        let Value::Array(answer) = answer else { return None };
        let mut answer = answer.into_iter();
        let mut number = || redis::from_redis_value::<u64>(answer.next()?).ok();
        let now = Timestamp::from_millis(number()?);
        let key_type = redis::from_redis_value::<String>(answer.next()?).ok()?;
        let mut flag = || Some(matches!(answer.next()?, Value::Int(1)));
        let (is_endless, is_mended) = (flag()?, flag()?);
        // What is no text is no field of ours.
        let texts: Vec<String> =
            answer.map(|it| redis::from_redis_value::<Vec<u8>>(it).unwrap_or_default()).map(text).collect();
        let fields = texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        Some(Self { now, key_type, is_endless, is_mended, fields })
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map(String::as_str).unwrap_or_default()
    }

    fn partitions(&self) -> Option<u32> {
        self.field("partitions").parse().ok().filter(|it| (1..=MAX_PARTITIONS).contains(it))
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Finds out how the store is spread: by its first marker, which has a tag with several partitions and
/// none with one.
pub(super) async fn find(url: &str, options: &StoreOptions) -> Result<Found> {
    let set = options.partitions;
    let mut found = Vec::new();
    for assumed in [1, 2] {
        let direct = Direct::new(url, options, assumed)?;
        let marker = Marker::read(&direct, 0, false).await?;
        if marker.key_type != "none" {
            found.push((direct.keyspace.marker(0), direct.is_cluster(), assumed, marker));
        }
        if direct.is_cluster() {
            break;
        }
    }
    let mut disagreements = Vec::new();
    let default = if url.starts_with("redis-cluster") || url.starts_with("rediss-cluster") { 64 } else { 1 };
    // Of two the one that the settings mean, or the one that says what its own name does.
    let fits =
        |assumed: u32, is_cluster: bool, partitions: u32| is_cluster || (partitions > 1) == (assumed > 1);
    let chosen = found
        .iter()
        .find(|(_, is_cluster, assumed, _)| set.is_some_and(|set| fits(*assumed, *is_cluster, set)))
        .or_else(|| {
            found.iter().find(|(_, is_cluster, assumed, marker)| {
                marker.partitions().is_some_and(|it| fits(*assumed, *is_cluster, it))
            })
        })
        .or(found.first());
    let partitions = chosen.and_then(|(_, is_cluster, assumed, marker)| {
        marker.partitions().filter(|it| fits(*assumed, *is_cluster, *it))
    });
    let partitions = partitions.or(set).unwrap_or(default);
    for (key, is_cluster, assumed, marker) in &found {
        let stored = marker.field("partitions");
        if marker.key_type == "hash" && !fits(*assumed, *is_cluster, partitions) {
            disagreements.push((
                key.clone(),
                format!("it says {stored:?} partitions beside another marker that says {partitions}"),
            ));
        } else if let Some(set) = set
            && marker.partitions().is_some_and(|stored| stored != set)
        {
            disagreements
                .push((key.clone(), format!("it says {stored} partitions, and the settings say {set}")));
        }
    }
    Ok(Found { partitions, has_marker: !found.is_empty(), disagreements })
}

/// Looks at the markers of all partitions; what the first declares.
pub(super) async fn look_at(
    direct: &Direct,
    found: &Found,
    is_mending: bool,
    report: &mut Report,
) -> Result<Vec<Declaration>> {
    for (key, detail) in &found.disagreements {
        report.found(DefectKind::MarkerDisagrees, key, detail);
    }
    if !found.has_marker {
        report.notes.push("there is no marker: nobody has used this store, or all of it was lost".to_owned());
        return Ok(Vec::new());
    }
    let mut declared = Vec::new();
    for partition in 0..found.partitions {
        let (key, marker) =
            (direct.keyspace.marker(partition), Marker::read(direct, partition, is_mending).await?);
        match marker.key_type.as_str() {
            "hash" => {}
            "none" => {
                let detail = format!("partition {partition} of {} has no marker", found.partitions);
                report.found(DefectKind::MarkerMissing, key, detail);
                continue;
            }
            other => {
                report.found(DefectKind::WrongType, key, format!("{other} instead of hash"));
                continue;
            }
        }
        if marker.is_endless {
            let (kind, detail, is_mended) = (DefectKind::NoTtl, String::new(), marker.is_mended);
            report.add(Defect { kind, subject: key.clone(), detail, is_mended });
        }
        let expected = [("partitions", found.partitions.to_string()), ("hash", direct.keyspace.hash_id())];
        for (field, expected) in expected {
            if marker.field(field) != expected {
                let detail = format!("{field} is {:?} and not {expected:?}", marker.field(field));
                report.found(DefectKind::MarkerDisagrees, &key, detail);
            }
        }
        if partition == 0 {
            declared = declarations(&marker, report);
        }
    }
    Ok(declared)
}

/// What a marker declares, and who disagrees.
fn declarations(marker: &Marker, report: &mut Report) -> Vec<Declaration> {
    let mut all: Vec<_> =
        marker.fields.iter().filter_map(|(field, text)| Declaration::of_field(field, text)).collect();
    all.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    for declared in &all {
        for other in declared.others.iter().filter(|it| it.is_used(marker.now)) {
            let differences = Differences { declared: &declared.settings, own: &other.settings };
            let subject = format!("{} {}", declared.kind.as_str(), declared.name.as_str());
            let detail = format!("declared by {}, and {} has: {differences}", declared.by, other.by);
            report.found(DefectKind::SettingsDisagree, subject, detail);
        }
    }
    all
}
