//! Says when a server goes away and when it is back, for people who read the log.
//!
//! At once, and then at growing intervals for as long as it lasts: which server, since
//! when, why, and what callers are answered meanwhile. One line per server, however many
//! partitions it has. Also when a limit begins and ends to refuse after a loss.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Shared;
use super::breaker::{Breaker, Outage};
use crate::clock::{self, Timestamp};
use crate::log;
use crate::outage::OutageReason;

/// What goes away together is logged together, and who opens a store has said by then
/// what its parts answer.
const SETTLE: Duration = Duration::from_millis(50);

/// From one line to the next about the same outage: doubles from this to that.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Names per policy that a line has room for.
const MAX_NAMES: usize = 8;

/// What a part answers while the store is away, or after it lost writes.
#[derive(Debug, Clone)]
pub(crate) struct PartPolicy {
    /// What it is called: `limit api`.
    pub(crate) name: String,
    /// What is answered, in a word.
    pub(crate) outage: &'static str,
    /// For how long it refuses everything after a loss.
    pub(crate) hold: Option<Duration>,
}

impl Outage {
    pub(super) fn reason(&self) -> OutageReason {
        // What has none is something that only a setting can change.
        self.error.reason().unwrap_or(OutageReason::Config)
    }
}

pub(super) struct OutageLog {
    shared: Arc<Shared>,
    breakers: Vec<Arc<Breaker>>,
    /// By server, what was said.
    reports: BTreeMap<String, Report>,
    /// By part, until when it refuses.
    held: BTreeMap<String, Instant>,
}

struct Report {
    since: Timestamp,
    started: Instant,
    /// Calls refused on partitions that are back.
    refused: u64,
    next: Instant,
    pause: Duration,
}

/// The partitions of one server that are away.
struct Group {
    partitions: u32,
    first: Outage,
    refused: u64,
}

impl OutageLog {
    pub(super) fn new(shared: Arc<Shared>, breakers: Vec<Arc<Breaker>>) -> Self {
        Self { shared, breakers, reports: BTreeMap::new(), held: BTreeMap::new() }
    }

    pub(super) async fn run(mut self) {
        let changed = self.shared.changed.clone();
        let mut due: Option<Instant> = None;
        loop {
            let wait = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = changed.notified() => tokio::time::sleep(SETTLE).await,
                () = wait => {}
            }
            let now = clock::monotonic();
            self.tell_of_outages(now);
            self.tell_of_holds(now);
            due = self.reports.values().map(|report| report.next).chain(self.held.values().copied()).min();
        }
    }

    fn tell_of_outages(&mut self, now: Instant) {
        let away = self.away();
        for (server, group) in &away {
            self.tell_away(server, group, now);
        }
        let over: Vec<_> = self.breakers.iter().filter_map(|breaker| breaker.take_over()).collect();
        for over in over {
            let server = over.outage.server.clone();
            if !self.reports.contains_key(&server) {
                // Over before anybody could be told of it.
                self.tell_away(&server, &Group { partitions: 1, first: over.outage, refused: 0 }, now);
            }
            if let Some(report) = self.reports.get_mut(&server) {
                report.refused += over.refused;
            }
        }
        self.reports.retain(|server, report| {
            let is_away = away.contains_key(server);
            if !is_away {
                let after = whole(now.saturating_duration_since(report.started));
                log::warn!(
                    server,
                    since = %report.since,
                    ?after,
                    answered_without_it = report.refused,
                    "the store is back"
                );
            }
            is_away
        });
    }

    fn away(&self) -> BTreeMap<String, Group> {
        let mut away = BTreeMap::<String, Group>::new();
        for breaker in &self.breakers {
            let Some(outage) = breaker.outage() else { continue };
            let refused = breaker.refused();
            match away.get_mut(&outage.server) {
                None => {
                    let group = Group { partitions: 1, refused, first: outage };
                    away.insert(group.first.server.clone(), group);
                }
                Some(group) => {
                    group.partitions += 1;
                    group.refused += refused;
                    if outage.started < group.first.started {
                        group.first = outage;
                    }
                }
            }
        }
        away
    }

    fn tell_away(&mut self, server: &str, group: &Group, now: Instant) {
        let Outage { since, started, error, .. } = &group.first;
        let (reason, partitions) = (group.first.reason(), group.partitions);
        let meanwhile = self.meanwhile();
        let Some(report) = self.reports.get_mut(server) else {
            log::warn!(server, %since, %reason, %error, partitions, meanwhile, "the store is away");
            let (since, started) = (*since, *started);
            let report = Report { since, started, refused: 0, next: now + FIRST_PAUSE, pause: FIRST_PAUSE };
            self.reports.insert(server.to_owned(), report);
            return;
        };
        if now < report.next {
            return;
        }
        let after = whole(now.saturating_duration_since(*started));
        let answered_without_it = report.refused + group.refused;
        log::warn!(
            server, %since, ?after, %reason, %error, partitions, answered_without_it, meanwhile,
            "the store is still away"
        );
        report.pause = (report.pause * 2).min(LONGEST_PAUSE);
        report.next = now + report.pause;
    }

    /// What callers are answered meanwhile: `open: limit api; closed: limit login`.
    fn meanwhile(&self) -> String {
        let policies = self.shared.policies.lock();
        let mut by_answer = BTreeMap::<&str, Vec<&str>>::new();
        for policy in &*policies {
            by_answer.entry(policy.outage).or_default().push(&policy.name);
        }
        let shown = by_answer.into_iter().map(|(answer, names)| {
            let more = names.len().saturating_sub(MAX_NAMES);
            let names = names[..names.len() - more].join(", ");
            match more {
                0 => format!("{answer}: {names}"),
                _ => format!("{answer}: {names} and {more} more"),
            }
        });
        let shown: Vec<_> = shown.collect();
        if shown.is_empty() { "calls fail".to_owned() } else { shown.join("; ") }
    }

    fn tell_of_holds(&mut self, now: Instant) {
        let losses: Vec<_> = self.shared.markers.iter().filter_map(|marker| marker.lock().lost_at).collect();
        for policy in &*self.shared.policies.lock() {
            let (part, Some(hold)) = (&policy.name, policy.hold) else { continue };
            let ends = losses.iter().map(|lost_at| *lost_at + hold).filter(|end| *end > now);
            let partitions = ends.clone().count();
            match ends.max() {
                Some(end) => {
                    if self.held.insert(part.clone(), end).is_none() {
                        let lasting = whole(end.saturating_duration_since(now));
                        log::warn!(
                            part,
                            partitions,
                            ?lasting,
                            "refuses everything, since the store lost writes"
                        );
                    }
                }
                None => {
                    if self.held.remove(part).is_some() {
                        log::warn!(part, "decides again: the hold after a loss is over");
                    }
                }
            }
        }
    }
}

/// Whole milliseconds, to be read.
fn whole(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::RedisStore;
    use super::*;
    use crate::store::StoreOptions;
    use crate::store::metrics::StoreMetrics;

    /// At once, after 10 s, 20 s more, 40 s more, … and then every ten minutes.
    #[tokio::test]
    async fn an_outage_is_logged_at_growing_intervals() {
        let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("redis://{nowhere}");
        let store = RedisStore::open(&url, &StoreOptions::default(), StoreMetrics::default()).await.unwrap();
        let breakers = store.lanes.iter().map(|lane| lane.breaker.clone()).collect();
        let mut log = OutageLog::new(store.shared.clone(), breakers);
        let start = clock::monotonic();
        let mut logged_after = Vec::new();
        for second in 0..4000 {
            let now = start + Duration::from_secs(second);
            let due = log.reports.values().next().is_none_or(|report| report.next <= now);
            let before = log.reports.values().next().map(|report| report.next);
            log.tell_of_outages(now);
            let after = log.reports.values().next().map(|report| report.next);
            assert_eq!(before != after, due, "report when it is due, and not else");
            if due {
                logged_after.push(second);
            }
        }
        assert_eq!(logged_after, [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030, 3630]);
    }
}
