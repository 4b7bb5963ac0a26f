//! Two different inputs never make one key, in whatever room, space, namespace and
//! partition: even if they are made of the names of keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::hot::{Edit, HotOptions, Recorded};
use tidegate::limit::{Algorithm, LimitOptions, Period};
use tidegate::session::{Found, SessionOptions};
use tidegate::store::StoreOptions;
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::{calendar, sliding, token};
use tidegate::{Cost, ErrorKind, Key, Name, Tidegate};

/// What keys are made of.
const PIECES: [&str; 26] = [
    "activity",
    "hot",
    "window",
    "meta",
    "rank",
    "state",
    "spaces",
    "pages",
    "session",
    "sessions",
    "broadcaster",
    "ref_count",
    "trypema",
    "tidegate",
    "courtlistener",
    "marker",
    "absolute",
    "h",
    "token",
    "beside",
    "override",
    "{0}",
    "0",
    "a",
    "b",
    "disconnected_sessions",
];

/// What keys without a namespace start with.
const STARTS: [&str; 14] = [
    "activity",
    "hot",
    "spaces",
    "session",
    "broadcaster",
    "ref_count",
    "sessions",
    "active_sessions",
    "disconnected_sessions",
    "claimed_sessions",
    "dead_sessions",
    "trypema",
    "tidegate",
    "courtlistener",
];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    Sliding { prefix: String, limit: String },
    Token { prefix: String, limit: String },
    Calendar { prefix: String, limit: String },
    Activity { space: String },
    Hot { space: String },
    Session { space: String },
}

type Input = (Option<String>, Room, String);

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(PIECES.iter().filter(|it| Name::new(it).is_ok()).collect::<Vec<_>>())
        .prop_map(|it| (*it).to_owned())
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 1..5).prop_map(|pieces| pieces.join(":"))
}

fn inputs() -> impl Strategy<Value = Vec<Input>> {
    let prefix = |usual: &'static str| prop_oneof![Just(usual.to_owned()), text()];
    let room = prop_oneof![
        (prefix("trypema"), name()).prop_map(|(prefix, limit)| Room::Sliding { prefix, limit }),
        (prefix("tidegate"), name()).prop_map(|(prefix, limit)| Room::Token { prefix, limit }),
        (prefix("courtlistener"), name()).prop_map(|(prefix, limit)| Room::Calendar { prefix, limit }),
        name().prop_map(|space| Room::Activity { space }),
        name().prop_map(|space| Room::Hot { space }),
        name().prop_map(|space| Room::Session { space }),
    ];
    // A prefix and a namespace of one name are both first: that is for people to avoid.
    let is_apart = |(namespace, room, _): &Input| match room {
        Room::Sliding { prefix, .. } | Room::Token { prefix, .. } | Room::Calendar { prefix, .. } => {
            STARTS.contains(&prefix.as_str()) || namespace.is_some()
        }
        _ => true,
    };
    let input = (prop::option::of(name()), room, text()).prop_filter("one name as both", is_apart);
    prop::collection::vec(input, 1..40)
}

async fn open(url: &str, namespace: Option<&str>) -> tidegate::Result<Tidegate> {
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    options.namespace = namespace.map(|it| Name::new(it).unwrap());
    // As many for one namespace, always: they are pinned.
    options.partitions = namespace.map(|it| 1 + it.len() as u32 % 3);
    Tidegate::open_with(url, options).await
}

/// Does what makes a key of `text` in `room`; nothing, if it has a prefix that is refused.
async fn make(gate: &Tidegate, room: &Room, text: &str) -> bool {
    let key = Key::new(text).unwrap();
    let take = async |limit: &str, prefix: &str, algorithm: Algorithm| {
        let mut options = LimitOptions::default();
        options.prefix = Some(prefix.to_owned());
        match gate.limit(limit, algorithm, options) {
            Ok(limit) => assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted(), "{room:?} {text}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                assert!(STARTS[..11].contains(&prefix), "{prefix}: {error}");
                return false;
            }
        }
        true
    };
    match room {
        Room::Sliding { prefix, limit } => return take(limit, prefix, sliding(5, 60, 600).into()).await,
        Room::Token { prefix, limit } => return take(limit, prefix, token("5/h", 5).into()).await,
        Room::Calendar { prefix, limit } => {
            return take(limit, prefix, calendar(5, Period::Day).into()).await;
        }
        Room::Activity { space } => {
            let hot = gate.hot(space, HotOptions::default()).unwrap();
            let recorded = hot.record(&Edit::new(key, "1", "alice")).await.unwrap();
            assert_eq!(recorded, Recorded::Remembered, "{room:?} {text}");
        }
        Room::Hot { space } => {
            let hot = gate.hot(space, HotOptions::default()).unwrap();
            hot.record(&Edit::new(key, "1", "alice")).await.unwrap();
            let recorded = hot.record(&Edit::new(key, "2", "alice")).await.unwrap();
            assert_eq!(recorded, Recorded::Promoted { replaced: None }, "{room:?} {text}");
        }
        Room::Session { space } => {
            let sessions = gate.sessions(space, SessionOptions::default()).unwrap();
            let active = sessions.activate(key, "{}", None).await.unwrap().done().unwrap();
            assert_eq!(active.found, Found::Nothing, "{room:?} {text}");
        }
    }
    true
}

/// Everything is done once on one Redis, each as if nothing else were there, and each makes a
/// key that was not there.
async fn are_apart(url: &str, connection: &mut redis::Connection, inputs: Vec<Input>) {
    redis::cmd("FLUSHALL").exec(connection).unwrap();
    let keys = |connection: &mut redis::Connection| -> BTreeSet<String> {
        redis::cmd("KEYS").arg("*").query(connection).unwrap()
    };
    let mut gates: BTreeMap<(Option<String>, String), Tidegate> = BTreeMap::new();
    let mut done: BTreeSet<(Option<String>, String, String)> = BTreeSet::new();
    for (namespace, room, text) in inputs {
        if namespace.as_deref().is_some_and(|it| STARTS.contains(&it)) {
            let refused = open(url, namespace.as_deref()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Config);
            continue;
        }
        // A page is in one of two states; a limit has one algorithm and prefix at a time, so each
        // room has a gate of its own.
        let kind = match &room {
            Room::Activity { space } | Room::Hot { space } => format!("hot {space}"),
            room => format!("{room:?}"),
        };
        if !done.insert((namespace.clone(), kind.clone(), text.clone())) {
            continue;
        }
        let gate = match gates.entry((namespace.clone(), kind)) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(open(url, namespace.as_deref()).await.unwrap())
            }
        };
        let before = keys(connection);
        if make(gate, &room, &text).await {
            let new: Vec<_> = keys(connection).difference(&before).cloned().collect();
            let is_own = |key: &String| key.contains(&text) || key.ends_with(&text);
            assert!(new.iter().any(is_own), "{namespace:?} {room:?} {text:?} made {new:?}");
        }
    }
    for gate in gates.values() {
        gate.shutdown().await;
    }
}

#[test]
fn two_inputs_never_make_one_key() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    runner
        .run(&inputs(), |inputs| {
            runtime.block_on(are_apart(&server.url(), &mut server.connection(), inputs));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// The one that was found: the namespace `activity` and the page `hot:rank`.
#[tokio::test]
async fn the_start_of_other_keys_is_no_namespace_and_no_prefix() {
    let server = RedisServer::start();
    for start in STARTS {
        let error = open(&server.url(), Some(start)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{start}");
        assert!(
            error.to_string().contains(&format!("the namespace {start:?} is what keys start with")),
            "{error}"
        );
    }
    let gate = open(&server.url(), None).await.unwrap();
    for (number, start) in STARTS.into_iter().enumerate() {
        let mut options = LimitOptions::default();
        options.prefix = Some(start.to_owned());
        let made = gate.limit(&format!("limit-{number}"), sliding(5, 60, 600), options);
        assert_eq!(made.is_ok(), ["trypema", "tidegate", "courtlistener"].contains(&start), "{start}");
    }
}
