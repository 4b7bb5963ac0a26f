//! Random histories beside a list of rules that knows nothing of databases.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate_edge::rule::{Rule, Terms};
use tidegate_edge::truth::{Change, Condition, Refusal, Truth};

use crate::kit::{START_MS, World, draft, terms};

const HOSTS: [&str; 6] = ["*", "a.example", "*.a.example", "b.a.example", "*.example", "127.0.0.1"];
const PATHS: [&str; 8] = ["/*", "/a", "/a/*", "/a/b", "/a/b/*", "/a/", "//*", "/ab/*"];

/// What is asked for.
const ASKED_HOSTS: [&str; 6] = ["a.example", "b.a.example", "c.example", "ba.example", "d.test", "127.0.0.1"];
const ASKED_PATHS: [&str; 8] = ["/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "//", "/A"];

#[derive(Debug, Clone)]
enum Op {
    Create { id: u8, host: usize, path: usize, from: Option<u64>, until: Option<u64>, enabled: bool },
    Replace { id: u8, host: usize, path: usize, version: Option<u64> },
    Delete { id: u8, version: Option<u64> },
    Resolve { host: usize, path: usize },
    Pass { ms: u64 },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (id, host, path) = (0..6_u8, 0..HOSTS.len(), 0..PATHS.len());
    let version = proptest::option::weighted(0.3, 1..4_u64);
    let time = proptest::option::weighted(0.3, 0..30_u64);
    let op = prop_oneof![
        (id.clone(), host.clone(), path.clone(), time.clone(), time, proptest::bool::weighted(0.9)).prop_map(
            |(id, host, path, from, until, enabled)| Op::Create { id, host, path, from, until, enabled }
        ),
        (id.clone(), host, path, version.clone()).prop_map(|(id, host, path, version)| Op::Replace {
            id,
            host,
            path,
            version
        }),
        (id, version).prop_map(|(id, version)| Op::Delete { id, version }),
        (0..ASKED_HOSTS.len(), 0..ASKED_PATHS.len()).prop_map(|(host, path)| Op::Resolve { host, path }),
        (1..10_u64).prop_map(|ms| Op::Pass { ms }),
    ];
    vec(op, 1..60)
}

/// Rules in a list.
#[derive(Default)]
struct Model {
    rules: Vec<Rule>,
    changes: u64,
}

impl Model {
    fn get(&self, id: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    /// What becomes of a rule that is to say this.
    fn put(&mut self, id: &str, terms: Terms, now_ms: u64) -> Result<bool, Refusal> {
        if self.get(id).is_some_and(|rule| rule.terms == terms) {
            return Ok(false);
        }
        let is_there = |rule: &&Rule| (&rule.terms.host, &rule.terms.path) == (&terms.host, &terms.path);
        if let Some(other) = self.rules.iter().filter(is_there).find(|rule| rule.id != id) {
            return Err(Refusal::PathTaken { by: other.id.clone() });
        }
        let before = self.rules.iter().position(|rule| rule.id == id).map(|at| self.rules.remove(at));
        let json = serde_json::json!({
            "id": id, "path": "", "destination": "",
            "version": before.as_ref().map_or(1, |it| it.version + 1),
            "createdAt": before.as_ref().map_or(now_ms, |it| it.created_at), "updatedAt": now_ms,
        });
        let mut rule: Rule = serde_json::from_value(json).unwrap();
        rule.terms = terms;
        self.rules.push(rule);
        self.changes += 1;
        Ok(true)
    }

    fn delete(&mut self, id: &str) -> Result<bool, Refusal> {
        let at = self.rules.iter().position(|rule| rule.id == id).ok_or(Refusal::Unknown)?;
        self.rules.remove(at);
        self.changes += 1;
        Ok(true)
    }

    /// Every rule that could answer, the best first: by the words of the guide, with nothing of the crate's own.
    fn resolve(&self, host: &str, path: &str, now_ms: u64) -> Option<&Rule> {
        let rank = |rule: &&Rule| {
            let host_rank = match rule.terms.host.as_str() {
                own if own == host => 0,
                "*" => usize::MAX,
                wildcard => {
                    let parent = wildcard.strip_prefix("*.")?;
                    let is_below = host == parent || host.ends_with(&format!(".{parent}"));
                    // The longer its name, the nearer.
                    is_below.then(|| 1000 - parent.len())?
                }
            };
            let path_rank = match rule.terms.path.strip_suffix("/*") {
                None => (rule.terms.path == path).then_some(0)?,
                Some(folder) => {
                    let is_below = path == folder || path.starts_with(&format!("{folder}/"));
                    is_below.then(|| 1000 - folder.len())?
                }
            };
            // Who has ended answers all the same.
            let has_begun = rule.terms.starts_at.is_none_or(|it| it <= now_ms);
            (rule.terms.enabled && has_begun).then_some((host_rank, path_rank))
        };
        self.rules.iter().filter(|rule| rank(rule).is_some()).min_by_key(|rule| rank(rule))
    }
}

fn refused(version: Option<u64>, before: Option<&Rule>, same: bool) -> Option<Refusal> {
    let version = version?;
    match before {
        None => Some(Refusal::Unknown),
        Some(rule) if rule.version == version || same && rule.version == version + 1 => None,
        Some(rule) => Some(Refusal::Changed { version: rule.version }),
    }
}

fn condition(version: Option<u64>) -> Condition {
    version.map_or(Condition::None, Condition::Version)
}

async fn agree(world: &World, history: &[Op]) -> Result<(), TestCaseError> {
    let truth: &Truth = &world.truth;
    let mut model = Model::default();
    for op in history {
        let now_ms = world.clock.now().as_millis();
        let made = async |change| truth.change(change).await.unwrap().map(|it| it.seq.map(|seq| seq.0));
        let (answer, expected) = match op.clone() {
            Op::Create { id, host, path, from, until, enabled } => {
                let (id, mut terms) = (id.to_string(), terms(PATHS[path], "https://example.org/"));
                terms.host = HOSTS[host].to_owned();
                terms.enabled = enabled;
                terms.starts_at = from.map(|it| START_MS + it);
                terms.expires_at = until.map(|it| START_MS + from.unwrap_or(0) + it);
                let expected = match model.get(&id) {
                    Some(rule) if rule.terms != terms => Err(Refusal::Exists),
                    _ => model.put(&id, terms.clone(), now_ms),
                };
                (made(Change::Create(draft(&id, terms))).await, expected)
            }
            Op::Replace { id, host, path, version } => {
                let (id, mut terms) = (id.to_string(), terms(PATHS[path], "https://example.org/new"));
                terms.host = HOSTS[host].to_owned();
                let same = model.get(&id).is_some_and(|rule| rule.terms == terms);
                let expected = match refused(version, model.get(&id), same) {
                    Some(refusal) => Err(refusal),
                    None => model.put(&id, terms.clone(), now_ms),
                };
                (made(Change::Replace { id, terms, condition: condition(version) }).await, expected)
            }
            Op::Delete { id, version } => {
                let id = id.to_string();
                let expected = match refused(version, model.get(&id), false) {
                    Some(refusal) => Err(refusal),
                    None => model.delete(&id),
                };
                (made(Change::Delete { id, condition: condition(version) }).await, expected)
            }
            Op::Resolve { host, path } => {
                let (host, path) = (ASKED_HOSTS[host], ASKED_PATHS[path]);
                let (found, position) = truth.resolve(host, path).await.unwrap();
                prop_assert_eq!(found.as_ref(), model.resolve(host, path, now_ms), "{} {}", host, path);
                prop_assert_eq!(position.count, model.rules.len() as u64);
                continue;
            }
            Op::Pass { ms } => {
                world.clock.advance_ms(ms);
                continue;
            }
        };
        let expected = expected.map(|is_made| is_made.then_some(model.changes));
        prop_assert_eq!(answer, expected, "{:?}", op);
    }
    for rule in &model.rules {
        let stored = truth.get(&rule.id).await.unwrap();
        prop_assert_eq!(stored.as_ref(), Some(rule));
    }
    world.check().await;
    Ok(())
}

/// Each history on an empty database; of a long run each takes the time of so many operations.
fn agrees_with_a_list(each: u32, world: impl AsyncFn() -> World) {
    let cases = std::env::var("TIDEGATE_HISTORY_OPS").map_or(100, |ops| ops.parse::<u32>().unwrap() / each);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |history: Vec<Op>| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { agree(&world().await, &history).await })
    };
    TestRunner::new(config).run(&ops(), run).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn sqlite_agrees_with_a_list() {
    agrees_with_a_list(1000, World::sqlite);
}

#[test]
fn postgres_agrees_with_a_list() {
    let database = std::sync::OnceLock::new();
    agrees_with_a_list(100, async || World::postgres_again(&database).await);
}
