//! The default space by its two names: one set of keys, one declaration, whichever version of
//! the program wrote them.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, HotOptions};
use tidegate::session::{Holder, SessionOptions};
use tidegate::store::{DEFAULT_SPACE, Declarations, PartKind, StoreOptions};
use tidegate::testkit::unique;
use tidegate::{ErrorKind, Key, Name, Tidegate};

use crate::kit::{CLUSTER, REDIS};

async fn open(url: &str, namespace: &str, clock: &ManualClock, declarations: Declarations) -> Tidegate {
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    options.deadline = Duration::from_secs(10);
    options.namespace = Some(Name::new(namespace).unwrap());
    options.declarations = declarations;
    Tidegate::open_with(url, options).await.unwrap()
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_millis(1_700_000_000_000))
}

/// All keys below a namespace, without it and without the tags of partitions.
fn keys(url: &str, namespace: &str) -> Vec<String> {
    let mut connections = match url.starts_with("redis-cluster") {
        true => CLUSTER.nodes().iter().map(|node| node.connection()).collect(),
        false => vec![REDIS.connection()],
    };
    let mut all = Vec::new();
    for connection in &mut connections {
        let pattern = format!("{namespace}:*");
        let found: Vec<String> = redis::cmd("KEYS").arg(pattern).query(connection).unwrap();
        all.extend(found.iter().map(|key| {
            let key = key.strip_prefix(namespace).unwrap().trim_start_matches(':');
            match key.strip_prefix('{') {
                Some(tagged) => tagged.split_once("}:").unwrap().1.to_owned(),
                None => key.to_owned(),
            }
        }));
    }
    all.sort();
    all.dedup();
    all
}

/// The fields of the markers below a namespace.
fn marker_fields(url: &str, namespace: &str) -> Vec<String> {
    let mut connections = match url.starts_with("redis-cluster") {
        true => CLUSTER.nodes().iter().map(|node| node.connection()).collect(),
        false => vec![REDIS.connection()],
    };
    let mut all = Vec::new();
    for connection in &mut connections {
        let pattern = format!("{namespace}:*tidegate:marker");
        let markers: Vec<String> = redis::cmd("KEYS").arg(pattern).query(connection).unwrap();
        for marker in markers {
            all.extend(redis::cmd("HKEYS").arg(marker).query::<Vec<String>>(connection).unwrap());
        }
    }
    all
}

async fn edit(gate: &Tidegate, space: &str, id: &str) {
    let hot = gate.hot(space, HotOptions::default()).unwrap();
    hot.record(&Edit::new(Key::new("en:Weir").unwrap(), id, "alice")).await.unwrap();
}

/// What one server writes by a name of the default space another reads by the other name, in
/// both directions: an upgrade and a rollback.
#[tokio::test]
async fn what_is_written_by_one_name_is_there_by_the_other() {
    for url in [REDIS.url(), CLUSTER.url()] {
        let (namespace, clock) = (unique("names"), clock());
        let before = open(&url, &namespace, &clock, Declarations::Replace).await;
        edit(&before, "pages", "1").await;
        edit(&before, "pages", "2").await;
        let sessions = before.sessions("sessions", SessionOptions::default()).unwrap();
        let (broadcaster, holder) = (Key::new("channel_7").unwrap(), Key::new("h").unwrap());
        let holder = Holder { name: holder, generation: None };
        let session = sessions.activate(broadcaster, "{}", Some(holder.name)).await.unwrap().done().unwrap();
        before.declare().await.unwrap();
        before.shutdown().await;

        let after = open(&url, &namespace, &clock, Declarations::Replace).await;
        let hot = after.hot(DEFAULT_SPACE, HotOptions::default()).unwrap();
        assert_eq!(hot.space().as_str(), "main");
        assert_eq!(hot.list(10).await.unwrap()[0].edits, 2, "{url}");
        edit(&after, DEFAULT_SPACE, "3").await;
        let sessions = after.sessions(DEFAULT_SPACE, SessionOptions::default()).unwrap();
        let found = sessions.find(broadcaster).await.unwrap().expect("the session is there");
        assert_eq!(found.id, session.id, "{url}");
        sessions.heartbeat(session.id, holder).await.unwrap().done().unwrap();
        after.declare().await.unwrap();
        after.shutdown().await;

        let back = open(&url, &namespace, &clock, Declarations::Strict).await;
        let hot = back.hot("pages", HotOptions::default()).unwrap();
        assert_eq!((hot.space().as_str(), hot.list(10).await.unwrap()[0].edits), ("pages", 3), "{url}");
        let sessions = back.sessions("sessions", SessionOptions::default()).unwrap();
        assert_eq!(sessions.get(session.id).await.unwrap().unwrap().holders.len(), 1);
        back.declare().await.expect("the settings are the declared ones");
        let all = keys(&url, &namespace);
        assert!(!all.iter().any(|key| key.starts_with("spaces:")), "{all:?}");
        for key in ["hot:rank", "hot:window:en:Weir", "broadcaster:channel_7", "active_sessions"] {
            assert!(all.iter().any(|it| it == key), "{key} is not among {all:?}");
        }
        let fields = marker_fields(&url, &namespace);
        for field in ["declared:hot:pages", "declared:sessions:sessions"] {
            assert_eq!(fields.iter().filter(|it| *it == field).count(), 1, "{fields:?}");
        }
        assert!(!fields.iter().any(|it| it.ends_with(":main")), "{fields:?}");
        back.shutdown().await;
    }
}

/// Two servers that call the default space differently have one declaration of it: they agree
/// if their settings do, and are told if not.
#[tokio::test]
async fn servers_that_name_it_differently_do_not_fight() {
    for url in [REDIS.url(), CLUSTER.url()] {
        let (namespace, clock) = (unique("names"), clock());
        let old = open(&url, &namespace, &clock, Declarations::Replace).await;
        old.hot("pages", HotOptions::default()).unwrap();
        old.declare().await.unwrap();
        let new = open(&url, &namespace, &clock, Declarations::Strict).await;
        new.hot(DEFAULT_SPACE, HotOptions::default()).unwrap();
        new.declare().await.expect("nothing differs");
        assert_eq!((old.differing(), new.differing()), (Vec::new(), Vec::new()));
        let all = new.declarations().await.unwrap();
        let names: Vec<_> = all.iter().map(|it| (it.kind, it.name.as_str(), it.others.len())).collect();
        assert_eq!(names, [(PartKind::Hot, "main", 0)]);

        let other = open(&url, &namespace, &clock, Declarations::Strict).await;
        let mut options = HotOptions::default();
        options.window_duration = Duration::from_secs(60);
        other.hot(DEFAULT_SPACE, options).unwrap();
        let refused = other.declare().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains(r#"hot "main" is declared with other settings"#), "{refused}");
    }
}

/// In one process both names are one space, in memory too.
#[tokio::test]
async fn both_names_open_one_space_in_a_process() {
    let gate = Tidegate::open("memory:").await.unwrap();
    edit(&gate, "pages", "1").await;
    edit(&gate, DEFAULT_SPACE, "2").await;
    let hot = gate.hot(DEFAULT_SPACE, HotOptions::default()).unwrap();
    assert_eq!(hot.list(10).await.unwrap()[0].edits, 2);
    let mut options = HotOptions::default();
    options.max_tracked = 7;
    let refused = gate.hot(DEFAULT_SPACE, options).unwrap_err();
    assert_eq!(refused.to_string(), r#"there is a space "pages" with other options already"#);
    let sessions = gate.sessions("sessions", SessionOptions::default()).unwrap();
    let session = sessions.activate(Key::new("b").unwrap(), "{}", None).await.unwrap().done().unwrap();
    let main = gate.sessions(DEFAULT_SPACE, SessionOptions::default()).unwrap();
    assert!(main.get(session.id).await.unwrap().is_some());
}

/// A space that an older version had called `main` is another one: its keys have that name in
/// them, and neither its data nor its declaration is taken for the default one's.
#[tokio::test]
async fn an_older_versions_main_is_not_taken_for_the_default_one() {
    let (namespace, clock) = (unique("names"), clock());
    let gate = open(&REDIS.url(), &namespace, &clock, Declarations::Replace).await;
    gate.hot(DEFAULT_SPACE, HotOptions::default()).unwrap();
    gate.declare().await.unwrap();
    let marker = format!("{namespace}:tidegate:marker");
    let theirs = r#"{"version":1,"settings":{"window_duration":"9s"},"by":"a:1","at_ms":1,"used_ms":1}"#;
    let mut connection = REDIS.connection();
    redis::cmd("HSET").arg(marker).arg("declared:hot:main").arg(theirs).exec(&mut connection).unwrap();
    let all = gate.declarations().await.unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].settings["window_duration"], "1h");
}
