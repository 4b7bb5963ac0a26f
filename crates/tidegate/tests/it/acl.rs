//! The commands and keys that `docs/operations.md` names are all that is needed: every room
//! runs under a user who may use no others.

use std::time::Duration;

use tidegate::doctor::Report;
use tidegate::limit::LimitOptions;
use tidegate::run::{Hour, RunOptions, RunState};
use tidegate::session::{Reconciliation, SessionOptions};
use tidegate::store::StoreOptions;
use tidegate::testkit::{RedisCluster, RedisServer, hot, limit, run, session};
use tidegate::{Cost, Key, Rate, Tidegate};

use crate::doctor::world::{World, assert_well, options};
use crate::kit::On;

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// What is between backticks in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The text from one word on to another.
fn between<'a>(from: &str, to: &str) -> &'a str {
    let start = PAGE.find(from).unwrap_or_else(|| panic!("the page does not say {from:?}"));
    let rest = &PAGE[start + from.len()..];
    &rest[..rest.find(to).unwrap_or_else(|| panic!("the page does not say {to:?} after {from:?}"))]
}

/// The documented commands, as an ACL has them.
fn commands() -> Vec<String> {
    let all = [
        between("Needed commands:", "Keys start with"),
        between("Needed Redis commands beside the others:", "\n\n"),
    ];
    let is_command = |it: &&str| it.chars().all(|c| c.is_ascii_uppercase() || c == ' ');
    let commands = all.into_iter().flat_map(quoted).filter(is_command);
    commands.map(|it| format!("+{}", it.to_lowercase().replace(' ', "|"))).collect()
}

/// What keys start with, as documented.
fn key_patterns() -> Vec<String> {
    let starts = quoted(between("Keys start with", "or with `store.namespace`"));
    // A whole key, or the first part of one; in a cluster behind the partition's tag.
    starts
        .flat_map(|it| [it.to_owned(), format!("{it}:*"), format!("{{*}}:{it}"), format!("{{*}}:{it}:*")])
        .collect()
}

/// Makes a user `app` who may do what is documented, with keys of these patterns.
fn restrict(server: &RedisServer, patterns: &[String]) {
    restrict_to(server, patterns, &commands());
}

fn restrict_to(server: &RedisServer, patterns: &[String], commands: &[String]) {
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("app").arg("reset").arg("on").arg(">secret").arg("-@all");
    for pattern in patterns {
        user.arg(format!("~{pattern}"));
    }
    for command in commands {
        user.arg(command);
    }
    user.exec(&mut server.connection()).unwrap();
}

fn as_user(url: &str) -> String {
    url.replacen("://", "://app:secret@", 1)
}

/// All that happens in random histories, in a namespace.
#[test]
fn the_documented_commands_are_enough() {
    let server = RedisServer::start();
    // Namespaces of tests start with a letter of their own.
    restrict(&server, &["t-*".to_owned()]);
    let on = On::url(as_user(&server.url()));
    limit::history::check(&on, 3000);
    hot::history::check(&on, 3600);
    session::history::check(&on, 3600);
    run::history::check(&on, 3600);
}

#[test]
fn the_documented_commands_are_enough_in_a_cluster() {
    let cluster = RedisCluster::start();
    for node in cluster.nodes() {
        restrict(node, &["t-*".to_owned()]);
    }
    let on = On { url: as_user(&cluster.url()), options: |options| options.partitions = Some(3) };
    limit::history::check(&on, 500);
    hot::history::check(&on, 600);
    session::history::check(&on, 600);
    run::history::check(&on, 600);
}

/// A doctor needs a few more, all of them, and does without others.
#[tokio::test]
async fn the_documented_commands_are_enough_for_a_doctor() {
    let server = RedisServer::start();
    let allowed = |text| -> Vec<_> {
        quoted(text).map(|it| format!("+{}", it.to_lowercase().replace(' ', "|"))).collect()
    };
    let more = allowed(between("commands beside those of a server:", "It does without"));
    let optional = allowed(between("It does without", "where it must"));
    let needed = [commands(), more.clone()].concat();
    let restrict = |commands: &[String]| restrict_to(&server, &["*".to_owned()], commands);
    restrict(&needed);
    let world = World::open(&as_user(&server.url()), options("", None, None)).await;
    for number in 0..8 {
        world.use_all(number).await;
    }
    world.gate.shutdown().await;
    let report = world.check().await;
    assert_well(&report, "with what is needed");
    let is_blind = |report: &Report| {
        let is_blind = report.notes.iter().any(|it| it.contains("does not answer"));
        let measured = report.families.iter().filter(|it| it.measured > 0).count();
        (is_blind, measured > 30)
    };
    assert_eq!(is_blind(&report), (true, false), "{report:?}");
    restrict(&[needed.clone(), optional].concat());
    let report = world.check().await;
    assert_eq!(is_blind(&report), (false, true), "{report:?}");
    // It sees what there is, and mends it.
    restrict(&needed);
    let session: Vec<String> = redis::cmd("KEYS").arg("session:*").query(&mut server.connection()).unwrap();
    redis::cmd("PERSIST").arg(&session[0]).exec(&mut server.connection()).unwrap();
    assert!(!world.check().await.is_well());
    assert_eq!(world.fix().await.mended, 1);
    assert_well(&world.check().await, "mended");
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    // Without one of them it says so, and not that all is well.
    let own: Vec<_> = more.iter().filter(|it| !commands().contains(it)).collect();
    assert!(own.len() >= 3, "{own:?}");
    for command in own {
        let others: Vec<_> = needed.iter().filter(|it| *it != command).cloned().collect();
        restrict(&others);
        let refused = world.try_check().await.map(|it| it.defects);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("permission") || text.contains("can't run"), "{command}: {text}");
    }
}

/// Without a namespace: whatever has keys of its own, in each room.
#[tokio::test]
async fn the_documented_keys_are_enough() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start());
    restrict(&server, &key_patterns());
    cluster.nodes().iter().for_each(|node| restrict(node, &key_patterns()));
    for url in [server.url(), cluster.url()] {
        let mut options = StoreOptions::default();
        options.deadline = Duration::from_secs(10);
        let gate = Tidegate::open_with(&as_user(&url), options).await.unwrap();
        let key = Key::new("user:{42}").unwrap();
        for limit in crate::keys::one_of_each(&gate) {
            assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
            limit.set_override(key, "7/s".parse::<Rate>().unwrap(), Duration::from_secs(60)).await.unwrap();
            limit.take(key, Cost::ONE).await.unwrap();
            limit.reset(key).await.unwrap();
        }
        let held = gate.limit("held", limit::sliding(10, 60, 600), LimitOptions::default()).unwrap();
        held.reserve(key, "id", Cost::ONE, Duration::from_secs(5)).await.unwrap();
        held.commit(key, "id").await.unwrap();
        for space in ["pages", "links"] {
            let hot = gate.hot(space, tidegate::hot::HotOptions::default()).unwrap();
            for id in ["1", "2", "3"] {
                hot.record(&tidegate::hot::Edit::new(key, id, "alice")).await.unwrap();
            }
            assert_eq!(hot.list(10).await.unwrap().len(), 1);
            assert!(hot.stats(key).await.unwrap().is_hot);
            hot.cleanup().await.unwrap();
        }
        for space in ["sessions", "rooms"] {
            let sessions = gate.sessions(space, SessionOptions::default()).unwrap();
            let active = sessions.activate(key, "{}", Some(key)).await.unwrap().done().unwrap();
            sessions.disconnect(active.id, key).await.unwrap().done().unwrap();
            sessions.counts().await.unwrap();
            sessions.cleanup().await.unwrap();
            let mut reconciliation: Reconciliation = sessions.reconcile();
            while reconciliation.step().await.unwrap().is_some() {}
        }
        for space in ["main", "nightly"] {
            let runs = gate.runs(space, RunOptions::default()).unwrap();
            runs.start(key).await.unwrap().done().unwrap();
            runs.processed(key, None, &[key]).await.unwrap().done().unwrap();
            let failed = runs.failed(key, None, key, "why", key).await.unwrap();
            assert_eq!(failed.done().unwrap().count, 1);
            runs.task_started(key, None, key).await.unwrap().done().unwrap();
            let hour = Hour::of(runs.get(key).await.unwrap().unwrap().updated_at);
            runs.failures_in_hour(hour, None, 10).await.unwrap();
            runs.finish(key, None, RunState::Failed).await.unwrap().done().unwrap();
            assert_eq!(runs.list(None, None, 10).await.unwrap().items.len(), 1);
            runs.cleanup().await.unwrap();
            runs.delete(key, None).await.unwrap().done().unwrap();
        }
        gate.declare().await.unwrap();
        assert!(!gate.declarations().await.unwrap().is_empty());
        gate.shutdown().await;
    }
}
