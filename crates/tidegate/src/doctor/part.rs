//! Declared limits and spaces, as far as their keys are concerned.

use std::time::Duration;

use crate::clock::absurd_ms;
use crate::key::escape;
use crate::run::RunState;
use crate::store::keyspace::Keyspace;
use crate::store::redis::{MARKER_TTL, Script};
use crate::store::{Declaration, DeclaredSettings, FAMILIES, Family, PartKind, duration_of};
use crate::{hot, limit, run, session};

/// A limit or a space, under one of the prefixes that it is used with.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    /// What its keys start with, behind what those of their partition do.
    pub(super) root: String,
    /// What all keys of it may live for.
    pub(super) life_ms: u64,
    /// What it is looked at by.
    pub(super) script: &'static Script,
    /// Over how many partitions of its own it is spread, if it is a space of hot pages.
    pub(super) spread: u32,
    /// The longest window of hot pages.
    span_ms: u64,
    /// Numbers that scripts of the room want.
    numbers: Vec<u64>,
}

/// What a key is.
pub(super) struct Known<'a> {
    pub(super) part: usize,
    pub(super) family: &'static Family,
    pub(super) subject: &'a str,
}

/// Which part a key is of, and which family: `rest` is what is behind that of its partition.
pub(super) fn find<'a>(parts: &[Part], rest: &'a str) -> Option<Known<'a>> {
    parts.iter().enumerate().find_map(|(number, part)| {
        let rest = rest.strip_prefix(&part.root)?;
        let of_kind = FAMILIES.iter().filter(|family| family.kind == Some(part.kind));
        let (family, subject) = of_kind.filter_map(|family| Some((family, family.subject(rest)?))).next()?;
        Some(Known { part: number, family, subject })
    })
}

impl Part {
    /// All that a declaration is about: one, or one for each prefix that somebody uses.
    pub(super) fn all(declared: &Declaration, partitions: u32, slack_ms: u64) -> Vec<Self> {
        let others = declared.others.iter().map(|other| &other.settings);
        let settings: Vec<_> = [&declared.settings].into_iter().chain(others).collect();
        let space = declared.kind.key_prefix(&declared.name);
        let mut roots: Vec<_> = settings
            .iter()
            .flat_map(|it| {
                let prefix = it.get("prefix").map(|it| escape(it)).unwrap_or_default();
                match declared.kind {
                    PartKind::Limit => vec![format!("{prefix}:{}:", declared.name.as_str())],
                    // Whatever kind it is, it may have been another.
                    PartKind::Quota => run::QUOTA_LIMITS.map(|limit| format!("{prefix}:{limit}:")).to_vec(),
                    PartKind::Runs => vec![format!("{space}{prefix}:")],
                    PartKind::Hot | PartKind::Sessions => vec![space.clone()],
                }
            })
            .collect();
        roots.sort();
        roots.dedup();
        roots.into_iter().map(|root| Self::new(declared, &settings, root, partitions, slack_ms)).collect()
    }

    fn new(
        declared: &Declaration,
        settings: &[&DeclaredSettings],
        root: String,
        partitions: u32,
        slack_ms: u64,
    ) -> Self {
        let all = |name: &str| settings.iter().filter_map(|it| it.get(name)).cloned().collect::<Vec<_>>();
        let times = |name| all(name).iter().filter_map(|it| duration_of(it)).map(ms).collect::<Vec<_>>();
        let longest = |name| times(name).into_iter().max().unwrap_or_default();
        let shortest = |name| times(name).into_iter().min().unwrap_or_default();
        let number =
            |name| all(name).iter().filter_map(|it| it.parse::<u64>().ok()).max().unwrap_or_default();
        let hour_ms = 3_600_000;
        let (script, span_ms, life_ms, numbers): (&'static Script, _, _, _) = match declared.kind {
            // No key of ours lives for longer, and the next charge knows better.
            PartKind::Limit | PartKind::Quota => (&limit::LOOK, 0, ms(MARKER_TTL), Vec::new()),
            PartKind::Hot => {
                let window_ms = longest("window_duration");
                (&hot::LOOK, window_ms, window_ms + hour_ms, Vec::new())
            }
            PartKind::Sessions => {
                let retention_ms = shortest("retention");
                let numbers = vec![
                    slack_ms,
                    longest("grace"),
                    longest("holder_lease"),
                    longest("session_ttl"),
                    retention_ms,
                    longest("claim_lease"),
                    number("max_attempts"),
                    number("max_holders"),
                    (number("max_sessions") / u64::from(partitions)).max(1),
                    longest("migration_lease"),
                ];
                (&session::LOOK, 0, longest("retention") + 3 * hour_ms, numbers)
            }
            PartKind::Runs => {
                let ttl_ms = longest("state_ttl");
                let numbers = vec![
                    slack_ms,
                    ttl_ms,
                    absurd_ms(ttl_ms),
                    (number("max_runs") / u64::from(partitions)).max(1),
                    number("max_fields"),
                    number("max_processed"),
                    number("max_failures"),
                    number("max_tasks"),
                ];
                (&run::LOOK, 0, ttl_ms + ttl_ms / 50 + 2 * hour_ms, numbers)
            }
        };
        let spread = number("partitions").clamp(1, 64) as u32;
        // A quota is known by the limits it stands on.
        let kind = if declared.kind == PartKind::Quota { PartKind::Limit } else { declared.kind };
        Self { kind, root, life_ms, script, spread, span_ms, numbers }
    }

    /// What a script that looks at it is told: the keys that all items share, and the arguments in
    /// front of what is to be done.
    pub(super) fn call(
        &self,
        keyspace: &Keyspace,
        partition: u32,
        suffix: &str,
        time: String,
        is_mending: bool,
    ) -> (Vec<String>, Vec<String>) {
        let root = format!("{}{}", keyspace.prefix(partition), self.root);
        let of = |names: &[&str]| names.iter().map(|it| format!("{root}{it}")).collect::<Vec<_>>();
        let mut args = vec![time];
        args.extend(self.numbers.iter().map(u64::to_string));
        let mut keys = vec![keyspace.marker(partition)];
        match self.kind {
            PartKind::Limit | PartKind::Quota | PartKind::Hot => {}
            PartKind::Sessions => {
                keys.extend(of(&[
                    "sessions:state",
                    "active_sessions",
                    "disconnected_sessions",
                    "claimed_sessions",
                    "dead_sessions",
                ]));
                args.extend(of(&["session:", "broadcaster:", "ref_count:"]));
            }
            PartKind::Runs => {
                keys.push(format!("{root}runs_due"));
                keys.extend(RunState::ALL.map(|state| format!("{root}runs:{state}")));
                args.push(root.clone());
            }
        }
        let is_mending = if is_mending { "1" } else { "0" };
        args.extend([is_mending.to_owned(), self.life_ms.to_string(), root, suffix.to_owned()]);
        args.push(self.span_ms.to_string());
        (keys, args)
    }
}

fn ms(duration: Duration) -> u64 {
    duration.as_millis() as u64
}
