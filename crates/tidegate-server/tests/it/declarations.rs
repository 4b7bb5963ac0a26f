//! What a store declares, and who goes by it: servers, strict ones, the command line.

use serde_json::{Value, json};
use tidegate::Tidegate;
use tidegate::clock::Clock;
use tidegate::store::PartKind;
use tidegate::testkit::{RedisCluster, RedisServer};
use tidegate_server::parts::QuotaSettings;
use tidegate_server::settings::{Flag, Settings, Sources};

use crate::cli::{Server, run, tidegate};

const DEADLINE: [&str; 2] = ["--set", "store.deadline=10s"];

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// A command on a store.
fn on(store: &str, args: &[&str]) -> (i32, String, String) {
    let mut command = tidegate(args);
    command.args(["--store", store]).args(DEADLINE);
    run(command)
}

fn server(store: &str, args: &[&str]) -> Server {
    Server::start(&[&["--store", store], &DEADLINE[..], args].concat())
}

fn load(all: &[(&str, &str)]) -> Settings {
    let flag = |(path, value): &(&str, &str)| Flag {
        given_as: "--set",
        path: (*path).to_owned(),
        value: (*value).to_owned(),
    };
    let flags = all.iter().map(flag).collect();
    Settings::load(&Sources { flags, ..Sources::default() }).unwrap()
}

/// Declared settings open the same part again, whatever it is.
#[tokio::test]
async fn a_part_is_opened_again_exactly_as_it_is_declared() {
    let redis = RedisServer::start();
    let gate = Tidegate::open(&redis.url()).await.unwrap();
    let written = load(&[
        ("limits.plain.rate", "0.25/m"),
        ("limits.plain.window", "1h"),
        ("limits.fine.rate", "5/s"),
        ("limits.fine.window", "7s"),
        ("limits.fine.coalesce", "60ms"),
        ("limits.fine.after_loss", "hold"),
        ("limits.fine.on_lapse", "give_back"),
        ("limits.fine.max_reservations", "77"),
        ("limits.fine.prefix", "a:\"b\"{c}"),
        ("limits.hard.algorithm", "suppressed"),
        ("limits.hard.rate", "100/s"),
        ("limits.hard.hard_limit_factor", "1.234567"),
        ("limits.smooth.algorithm", "smooth"),
        ("limits.smooth.rate", "100/d"),
        ("limits.smooth.window", "31d"),
        ("limits.bucket.algorithm", "token"),
        ("limits.bucket.rate", "1.5/s"),
        ("limits.bucket.burst", "9"),
        ("limits.hour.algorithm", "calendar"),
        ("limits.hour.limit", "1000"),
        ("limits.hour.safety_buffer", "0"),
        ("limits.hour.counter_ttl", "90m"),
        ("hot.main.window_duration", "24h"),
        ("hot.few.max_tracked", "7"),
        ("hot.few.when_full", "replace_coldest"),
        ("hot.few.spike_ratio", "2.5"),
        ("hot.few.partitions", "3"),
        ("hot.few.max_activity", "9"),
        ("sessions.rooms.grace", "1500ms"),
        ("sessions.rooms.reap", "claims"),
        ("sessions.rooms.max_holders", "3"),
        ("sessions.rooms.retention", "30d"),
        ("runs.night.prefix", "acme"),
        ("runs.night.quota.kind", "both"),
        ("runs.night.quota.limit", "77"),
        ("runs.night.quota.safety_buffer", "7"),
        ("runs.night.quota.counter_ttl", "3h"),
        ("runs.night.quota.max_charges", "9"),
    ]);
    for part in written.parts.written() {
        assert_eq!(gate.replace_declaration(&part).await.unwrap(), None);
    }
    let mut declared = load(&[]);
    declared.parts.only_declared(&gate.declarations().await.unwrap()).unwrap();
    assert_eq!(declared.parts.limits.len(), 6);
    for limit in &written.parts.limits {
        let found = declared.parts.limits.iter().find(|it| it.name == limit.name).unwrap();
        let (found, own) = (&found.options, &limit.options);
        assert_eq!(found.algorithm, own.algorithm, "{}", limit.name.as_str());
        let mut options = own.options.clone();
        // Always written down, so that a new default changes nothing.
        options.prefix.clone_from(&found.options.prefix);
        assert_eq!(found.options, options, "{}", limit.name.as_str());
    }
    for (found, space) in declared.parts.hot.iter().zip(&written.parts.hot) {
        assert_eq!((&found.name, &found.options), (&space.name, &space.options));
    }
    for (found, space) in declared.parts.sessions.iter().zip(&written.parts.sessions) {
        assert_eq!((&found.name, &found.options), (&space.name, &space.options));
    }
    assert_eq!((declared.parts.hot.len(), declared.parts.sessions.len()), (2, 1));
    let [found, own] = [&declared, &written].map(|settings| &settings.parts.runs[0].options);
    assert_eq!(found.options, own.options);
    let (QuotaSettings::Implied(found), QuotaSettings::Written(own)) = (&found.quota, &own.quota) else {
        panic!("{found:?} as {own:?}")
    };
    assert_eq!(found, own);
    assert!(
        declared.parts.has(PartKind::Sessions, "rooms") && !declared.parts.has(PartKind::Sessions, "main")
    );
}

/// Edits of two hours ago, in a space of a day.
fn fill(server: &Server) {
    let then = (Clock::system().now().as_millis() - 2 * 3_600_000).to_string();
    for id in ["1", "2", "3"] {
        let (code, out, err) = server.hot(&["record", "en:Weir", "--id", id, "--at", &then]);
        assert_eq!(code, 0, "{out} {err}");
    }
}

#[test]
fn hot_commands_on_a_store_go_by_its_window_and_delete_nothing() {
    let (redis, cluster) = (RedisServer::start(), RedisCluster::start());
    for store in [redis.url(), cluster.url()] {
        let server = server(&store, &["--set", "hot.main.window_duration=24h"]);
        fill(&server);
        for _ in 0..2 {
            let (code, out, err) = on(&store, &["hot", "list", "--json"]);
            assert_eq!((code, err.as_str()), (0, ""));
            assert_eq!(json_of(&out)["pages"][0]["edits"], 3, "{out}");
            let (code, out, _) = on(&store, &["hot", "stats", "en:Weir", "--json"]);
            assert_eq!((code, &json_of(&out)["total_edits"]), (0, &json!(3)));
            let (code, out, _) = on(&store, &["hot", "top", "--once", "--json"]);
            assert_eq!((code, &json_of(&out)["pages"][0]["edits"]), (0, &json!(3)), "{out}");
            // Who insists on a window of an hour sees less, gets a warning, and deletes nothing.
            for command in [&["hot", "list", "--json"][..], &["hot", "stats", "en:Weir"], &["hot", "cleanup"]]
            {
                let args = [command, &["--set", "hot.main.window_duration=1h"]].concat();
                let (_, out, err) = on(&store, &args);
                assert!(!out.contains("Weir") || out.contains("Weir: not hot"), "{out}");
                let expected = "tidegate: hot main is declared with other settings than are used here: window_duration \
                            1d declared, 1h here\n";
                assert_eq!(err, expected);
            }
        }
        let metrics = server.get("/metrics");
        let differs = "tidegate_declarations_differing{part=\"hot\",name=\"main\"} 0";
        assert!(metrics.contains(differs), "a question changes nothing: {metrics}");
    }
}

#[test]
fn limit_commands_on_a_store_go_by_its_numbers_or_by_those_they_are_given() {
    let redis = RedisServer::start();
    let store = redis.url();
    let (code, out, err) = on(&store, &["limit", "peek", "api", "u"]);
    assert_eq!((code, out.as_str()), (2, ""));
    let message = "the store declares no limit \"api\", and it is not written down here: a server that has it \
                   declares it; or say what it is, by --config FILE or --set limits.api.rate=5/s";
    assert!(err.contains(message), "{err}");
    let (_, out, _) = on(&store, &["limit", "peek", "api", "u", "--set", "limits.api.rate=9/m"]);
    assert_eq!(out, "admitted: 9 of 9 left\n");
    assert_eq!(on(&store, &["declare"]).1, "nothing is declared\n", "a question declares nothing");

    let server = server(&store, &["--set", "limits.api.rate=7/m", "--set", "limits.day.algorithm=calendar"]);
    for command in [&["limit", "take", "api", "u", "--cost", "2"][..], &["limit", "peek", "api", "u"]] {
        let (_, out, _) = on(&store, command);
        assert!(out.starts_with("admitted: 5 of 7 left"), "{out}");
    }
    assert_eq!(on(&store, &["limit", "take-all", "api,day", "u"]).0, 0);
    assert!(on(&store, &["limit", "list"]).1.contains("day"));
    let (code, _, err) = on(&store, &["limit", "take-all", "api,night", "u"]);
    assert_eq!(code, 2);
    assert!(err.contains("the store declares no limit \"night\""), "{err}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    std::fs::write(&file, "limits: {api: {rate: 20/m}}\n").unwrap();
    let (_, out, err) = on(&store, &["limit", "peek", "api", "u", "--config", file.to_str().unwrap()]);
    assert!(out.starts_with("admitted: 17 of 20 left"), "{out}");
    assert!(err.contains("rate 7/m declared, 20/m here"), "{err}");
    for args in [&["hot", "list"][..], &["sessions", "counts"]] {
        let (code, out, err) = on(&store, &[args, &["--space", "nope"]].concat());
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("the store declares no space of ") && err.contains("\"nope\""), "{err}");
    }
    drop(server);
}

#[test]
fn other_settings_are_logged_with_both_values_and_counted() {
    let redis = RedisServer::start();
    let store = redis.url();
    let old = server(&store, &["--set", "limits.api.window=4s"]);
    let new = server(&store, &["--set", "limits.api.window=2s"]);
    let metrics = new.get("/metrics");
    let replaced = "tidegate_declarations_replaced_total{part=\"limit\",name=\"api\"} 1";
    assert!(metrics.contains(replaced), "{metrics}");
    let (_, out, _) = on(&store, &["declare", "--json"]);
    let declared = &json_of(&out)["declarations"];
    let api = declared.as_array().unwrap().iter().find(|it| it["name"] == "api").unwrap();
    assert_eq!(
        (&api["settings"]["window"], &api["others"][0]["settings"]["window"]),
        (&json!("2s"), &json!("4s"))
    );
    assert!(api["by"].as_str().unwrap().ends_with(&format!(":{}", new.id())), "{api}");
    let (_, log) = new.signal("TERM");
    let lines: Vec<_> = log.lines().filter(|line| line.contains("declared with other settings")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let expected = ["WARN", "replaced them", "window 4s declared, 2s here", "part=\"limit\"", "name=\"api\""];
    assert!(expected.iter().all(|it| lines[0].contains(it)), "{}", lines[0]);
    let (_, log) = old.signal("TERM");
    let first = log.lines().filter(|line| line.contains("replaced")).count();
    assert_eq!(first, 0, "{log}");
}

/// A server with no settings of a part takes it as others have declared it.
#[test]
fn what_nobody_wrote_down_is_as_it_is_declared() {
    let redis = RedisServer::start();
    let store = redis.url();
    let args = ["--set", "limits.api.rate=7/m", "--set", "hot.main.window_duration=24h"];
    let first = server(&store, &args);
    let second = server(&store, &[]);
    assert!(second.get("/v1/limits").contains("\"rate\":\"7/m\""));
    assert!(second.get("/v1/hot").contains("86400"), "{}", second.get("/v1/hot"));
    let (_, log) = second.signal("TERM");
    assert!(!log.contains("declared with other settings"), "{log}");
    drop(first);
}

#[test]
fn strict_does_not_start_with_other_settings_until_they_are_declared() {
    let redis = RedisServer::start();
    let store = redis.url();
    let strict = |rate: &str| {
        let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
        command.args(DEADLINE).args(["--set", "declarations=strict", "--set"]);
        command.arg(format!("limits.api.rate={rate}"));
        command
    };
    // Whoever comes first declares it.
    let first = server(&store, &["--set", "declarations=strict", "--set", "limits.api.rate=5/s"]);
    let (code, out, err) = run(strict("6/s"));
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("`declarations`: strict, and limit \"api\" is declared with other settings: rate 5/s declared, 6/s here"), "{err}");
    assert!(err.contains("tidegate declare --replace"), "{err}");
    let (code, out, _) = on(&store, &["declare", "--replace", "--set", "limits.api.rate=6/s"]);
    assert_eq!((code, out.as_str()), (0, "limit api: replaced (rate 5/s declared, 6/s here)\n"));
    let (_, out, _) = on(&store, &["declare", "--replace", "--set", "limits.api.rate=6/s"]);
    assert_eq!(out, "limit api: as it was\n");
    let second = server(&store, &["--set", "declarations=strict", "--set", "limits.api.rate=6/s"]);
    let (_, out, _) = on(&store, &["declare"]);
    assert!(out.contains("limit api: ") && out.contains("rate 6/s"), "{out}");
    let (code, _, err) = on(&store, &["declare", "--replace"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is nothing to declare"), "{err}");
    drop((first, second, redis));
    // Without its store it cannot know.
    let (code, _, err) = run(strict("6/s"));
    assert_eq!(code, 2);
    assert!(
        err.contains("`declarations`: strict, and what the store declares cannot be known while it is away"),
        "{err}"
    );
}

/// A quota is what the server that has it says: whoever has only the store goes by that, and says where it does not.
#[test]
fn quota_commands_on_a_store_go_by_what_is_declared() {
    let (redis, cluster) = (RedisServer::start(), RedisCluster::start());
    for store in [redis.url(), cluster.url()] {
        let sets = ["runs.main.prefix=acme", "runs.main.quota.limit=10", "runs.main.quota.safety_buffer=2"];
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let server = server(&store, &sets);
        assert_eq!(
            on(&store, &["run", "charge", "a", "--cost", "5"]),
            (0, "charged, 3 left\n".into(), "".into())
        );
        let (code, out, err) = on(&store, &["run", "quota"]);
        let head = "acme: 3 left of 10 per hour (2 are never used), counted aligned";
        assert_eq!((code, out.lines().next(), err.as_str()), (0, Some(head), ""));
        assert_eq!(on(&store, &["run", "release", "a"]), (0, "released\n".into(), "".into()));
        // By other settings it is done, and said.
        let other = ["--set", "runs.main.prefix=acme", "--set", "runs.main.quota.limit=100"];
        let (code, out, err) = on(&store, &[&["run", "charge", "b", "--cost", "9"], &other[..]].concat());
        assert_eq!((code, out.as_str()), (0, "charged, 66 left\n"));
        let said = "tidegate: quota acme is declared with other settings than are used here: limit 10 declared, 100 here";
        assert!(err.contains(said), "{err}");
        // What is written down of the space says nothing of its quota.
        let other = ["--set", "runs.main.prefix=acme", "--set", "runs.main.max_runs=9"];
        let (_, out, _) = on(&store, &[&["run", "quota"], &other[..]].concat());
        assert!(out.starts_with("acme: 0 left of 10 per hour"), "{out}");
        // A second server with nothing written down takes what is declared; a strict one with others does not start.
        let second = self::server(&store, &[]);
        let mut command = tidegate(&["run", "quota", "--server"]);
        command.arg(format!("http://{}", second.address()));
        let (_, out, _) = run(command);
        assert!(out.starts_with("acme: 0 left of 10 per hour"), "{out}");
        let refused = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--set",
            "declarations=strict",
            "--set",
            "runs.main.prefix=acme",
            "--set",
            "runs.main.quota.limit=11",
            "--set",
            "runs.main.quota.safety_buffer=2",
        ];
        let (code, _, err) = on(&store, &refused);
        assert_ne!(code, 0);
        assert!(
            err.contains("quota \"acme\" is declared with other settings: limit 10 declared, 11 here"),
            "{err}"
        );
        drop((server, second));
    }
}

/// What nobody has said is not guessed.
#[test]
fn a_quota_that_nobody_has_declared_is_not_guessed() {
    let redis = RedisServer::start();
    let space = ["--set", "runs.main.max_runs=9"];
    let (code, out, err) = on(&redis.url(), &[&["declare", "--replace"], &space[..]].concat());
    assert_eq!((code, out.as_str(), err.as_str()), (0, "runs main: declared\n", ""));
    for command in [&["run", "quota"][..], &["run", "charge", "a"], &["run", "release", "a"]] {
        let (code, out, err) = on(&redis.url(), command);
        assert_eq!((code, out.as_str()), (2, ""), "{command:?}");
        assert!(err.contains("the store declares no quota of the family \"courtlistener\""), "{err}");
        assert!(err.contains("--set runs.main.quota.limit=5000"), "{err}");
    }
    assert_eq!(on(&redis.url(), &["run", "list"]).0, 0, "runs have nothing to do with it");
    let quota = ["--set", "runs.main.max_runs=9", "--set", "runs.main.quota.limit=50"];
    let (code, out, _) = on(&redis.url(), &[&["declare", "--replace"], &quota[..]].concat());
    assert_eq!((code, out.as_str()), (0, "runs main: as it was\nquota courtlistener: declared\n"));
    let (_, out, _) = on(&redis.url(), &["run", "quota"]);
    assert!(out.starts_with("courtlistener: 25 left of 50 per hour"), "{out}");
}
