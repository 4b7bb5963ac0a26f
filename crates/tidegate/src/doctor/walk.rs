//! The way through all keys.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::DoctorOptions;
use super::part::{Known, Part, find};
use super::report::{Defect, DefectKind, Report};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::key;
use crate::store::redis::{Direct, Node};
use crate::store::{Declaration, Family, MARKER};

/// Keys that a server goes through in one step, about.
const SCANNED: &str = "250";

/// Keys that are looked at together: half a millisecond of a server's time or so.
const TOGETHER: usize = 50;

/// Entries that are looked at together, about.
const ENTRIES: &str = "100";

/// To go through a key costs a server so much less than to look at one.
const CHEAPER: u32 = 20;

/// Of each family so many keys are measured, and then one in so many.
const MEASURED_FIRST: u64 = 64;
const MEASURED_EVERY: u64 = 32;

/// What was spent is waited for when it comes to so much: timers are no finer, and most steps cost less.
const LEAST_WAIT: Duration = Duration::from_millis(5);

/// A key to be looked at.
struct Item {
    family: &'static Family,
    key: String,
    subject: String,
    is_measured: bool,
}

/// Items that one script can look at: of a part, in a partition, with the suffix of their indices.
type Group = (usize, u32, String);

/// What a key is by its name.
enum Named<'a> {
    Marker,
    Known { partition: u32, known: Known<'a> },
    Outside(u32),
    Undeclared,
    Others,
}

pub(super) struct Walk<'a> {
    direct: &'a Direct,
    options: DoctorOptions,
    parts: Vec<Part>,
    groups: BTreeMap<Group, Vec<Item>>,
    report: Report,
    pace: Pace,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        direct: &'a Direct,
        declared: &[Declaration],
        options: DoctorOptions,
        report: Report,
    ) -> Self {
        let partitions = direct.keyspace.partitions();
        let parts = declared.iter().flat_map(|it| Part::all(it, partitions, direct.slack_ms())).collect();
        let pace = Pace::new(options.keys_per_second.map(|it| it.get()));
        Self { direct, options, parts, groups: BTreeMap::new(), report, pace }
    }

    /// Goes through all keys of a server; `progress` is told how many there were so far, on all.
    pub(super) async fn through(&mut self, node: &Node, mut progress: impl FnMut(u64)) -> Result<()> {
        let mut cursor = "0".to_owned();
        loop {
            let scan = redis::cmd("SCAN").arg(&cursor).arg("COUNT").arg(SCANNED).to_owned();
            let page = self.direct.send(node, &scan).await?;
            let (next, keys): (String, Vec<Vec<u8>>) = redis::from_redis_value(page)
                .map_err(|error| Error::internal(format!("an answer to SCAN cannot be read: {error}")))?;
            self.report.scanned += keys.len() as u64;
            self.pace.spend(keys.len() as u32).await;
            for key in keys {
                match String::from_utf8(key) {
                    Ok(key) => self.sort(key).await?,
                    // No key of ours is no text.
                    Err(_) => self.report.others += 1,
                }
            }
            progress(self.report.scanned);
            if next == "0" {
                break;
            }
            cursor = next;
        }
        let groups: Vec<_> = self.groups.keys().cloned().collect();
        for group in groups {
            self.look_at_group(&group).await?;
        }
        Ok(())
    }

    pub(super) fn end(self) -> Report {
        self.report
    }

    /// Puts a key to those that it is looked at with.
    async fn sort(&mut self, key: String) -> Result<()> {
        let (group, item) = match self.name(&key) {
            Named::Others => {
                self.report.others += 1;
                return Ok(());
            }
            Named::Undeclared => {
                self.report.undeclared += 1;
                return Ok(());
            }
            Named::Outside(partition) => {
                let of = self.direct.keyspace.partitions();
                let detail =
                    format!("it is in partition {partition}, and there are {of}: nobody will read it");
                self.report.found(DefectKind::OutsidePartitions, key, detail);
                return Ok(());
            }
            // All of them have been looked at.
            Named::Marker => {
                self.report.count(&MARKER).keys += 1;
                return Ok(());
            }
            Named::Known { partition, known } => {
                let Known { part, family, subject } = known;
                let seen = self.report.families.iter().find(|it| it.family.name == family.name);
                let number = seen.map_or(0, |it| it.keys);
                let is_measured = number < MEASURED_FIRST || number.is_multiple_of(MEASURED_EVERY);
                let group = (part, partition, self.parts[part].suffix(family, subject));
                let subject = subject.to_owned();
                (group, Item { family, subject, key: String::new(), is_measured })
            }
        };
        self.report.count(item.family).keys += 1;
        let items = self.groups.entry(group.clone()).or_default();
        items.push(Item { key, ..item });
        if items.len() >= TOGETHER {
            self.look_at_group(&group).await?;
        }
        Ok(())
    }

    fn name<'k>(&self, key: &'k str) -> Named<'k> {
        let keyspace = &self.direct.keyspace;
        let Some(rest) = key.strip_prefix(keyspace.namespace()) else { return Named::Others };
        let (partition, rest) = match keyspace.is_tagged() {
            false => (0, rest),
            true => match tag(rest) {
                Some(it) => it,
                None => return Named::Others,
            },
        };
        let is_marker = rest == "tidegate:marker";
        let known = find(&self.parts, rest);
        if partition >= keyspace.partitions() && (is_marker || known.is_some()) {
            return Named::Outside(partition);
        }
        match known {
            _ if is_marker => Named::Marker,
            Some(known) => Named::Known { partition, known },
            None if key::FAMILIES.contains(&rest.split(':').next().unwrap_or_default()) => Named::Undeclared,
            None => Named::Others,
        }
    }

    async fn look_at_group(&mut self, group: &Group) -> Result<()> {
        let Some(items) = self.groups.remove(group) else { return Ok(()) };
        self.pace.spend(items.len() as u32 * CHEAPER).await;
        let mut own = vec!["keys".to_owned()];
        for item in &items {
            let measured = if item.is_measured { "1" } else { "0" };
            own.extend([item.family.name, item.family.key_type, &item.subject, measured].map(str::to_owned));
        }
        let keys: Vec<_> = items.iter().map(|item| item.key.clone()).collect();
        let Some(Value::Array(answers)) = self.look(group, keys, own).await? else { return Ok(()) };
        for (item, answer) in items.iter().zip(answers) {
            let Value::Array(answer) = answer else { return Err(unexpected(&item.key)) };
            let texts: Option<Vec<String>> =
                answer.into_iter().map(|it| redis::from_redis_value(it).ok()).collect();
            let texts = texts.ok_or_else(|| unexpected(&item.key))?;
            let [verdict, bytes, words @ ..] = &texts[..] else { return Err(unexpected(&item.key)) };
            if verdict != "ours" {
                self.report.count(item.family).keys -= 1;
                self.report.others += u64::from(verdict == "others");
                continue;
            }
            if let Ok(bytes) = bytes.parse::<u64>() {
                let count = self.report.count(item.family);
                count.measured += 1;
                count.measured_bytes += bytes;
            }
            for word in words {
                let detail = match word.as_str() {
                    "wrong-type" => format!("it is not a {}", item.family.key_type),
                    "data-without-entry" => format!("not in {}", item.family.listed_in.join(", ")),
                    _ => String::new(),
                };
                self.tell(word, &item.key, detail);
            }
            if let Some(command) = item.family.entries {
                self.look_at_entries(group, item, command).await?;
            }
        }
        Ok(())
    }

    /// Goes through what a key lists.
    async fn look_at_entries(&mut self, group: &Group, item: &Item, command: &str) -> Result<()> {
        let mut cursor = "0".to_owned();
        loop {
            let own = [item.family.name, &cursor, ENTRIES, &item.subject, command].map(str::to_owned);
            let answer = self.look(group, vec![item.key.clone()], own.to_vec()).await?;
            let Some(Value::Array(answer)) = answer else { return Ok(()) };
            let texts: Vec<String> = answer
                .into_iter()
                .map(|it| redis::from_redis_value::<Vec<u8>>(it).unwrap_or_default())
                .map(|it| String::from_utf8_lossy(&it).into_owned())
                .collect();
            let [next, count, findings @ ..] = &texts[..] else { return Err(unexpected(&item.key)) };
            let count = count.parse::<u32>().unwrap_or_default();
            self.report.entries += u64::from(count);
            for finding in findings.chunks_exact(2) {
                self.tell(&finding[0], &item.key, finding[1].clone());
            }
            self.pace.spend(count * CHEAPER / 4).await;
            if next == "0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }

    /// Asks a part's script; nothing if what it needs cannot be read, which is told of itself.
    async fn look(&self, group: &Group, items: Vec<String>, own: Vec<String>) -> Result<Option<Value>> {
        let (part, partition, suffix) = group;
        let part = &self.parts[*part];
        let (mut keys, mut args) =
            part.call(&self.direct.keyspace, *partition, suffix, self.direct.time(), self.options.fix);
        keys.extend(items);
        args.extend(own);
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        match self.direct.run(*partition, part.script(), &keys, &args).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Notes what a script has found.
    fn tell(&mut self, word: &str, key: &str, detail: String) {
        let (word, is_mended) = word.strip_prefix('+').map_or((word, false), |word| (word, true));
        if let Some(kind) = DefectKind::of(word) {
            self.report.add(Defect { kind, subject: key.to_owned(), detail, is_mended });
        }
    }
}

/// The partition that a key is in, and what is behind its tag.
fn tag(key: &str) -> Option<(u32, &str)> {
    let (number, rest) = key.strip_prefix('{')?.split_once("}:")?;
    let is_number = number == "0" || !number.starts_with(['0', '+']);
    number.parse().ok().filter(|_| is_number).map(|number| (number, rest))
}

fn unexpected(key: &str) -> Error {
    Error::internal(format!("an answer about {key:?} cannot be read"))
}

/// Not faster than so much in a second.
struct Pace {
    per_second: Option<u32>,
    /// When what was spent so far is earned.
    until: Instant,
}

impl Pace {
    fn new(keys_per_second: Option<u32>) -> Self {
        let per_second = keys_per_second.map(|it| it.saturating_mul(CHEAPER));
        Self { per_second, until: clock::deadline(Duration::ZERO) }
    }

    async fn spend(&mut self, cost: u32) {
        let Some(per_second) = self.per_second else { return };
        let now = clock::deadline(Duration::ZERO);
        self.until = self.until.max(now) + Duration::from_secs(1) * cost / per_second;
        if self.until > now + LEAST_WAIT {
            tokio::time::sleep_until(self.until).await;
        }
    }
}
