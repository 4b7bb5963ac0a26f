//! What can be set of redirects, by our names and by those that workers had before.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_edge::worker::Hydrate;
use tidegate_server::parts::EdgeSettings;
use tidegate_server::settings::{Settings, Sources};

use super::kit::{Process, Rules, exchange, to};
use crate::cli::{run, tidegate};
use crate::config::{file, load};

fn of(environment: &[(&str, &str)]) -> Result<Option<EdgeSettings>, String> {
    let listening = [("TIDEGATE_EDGE__LISTEN", "127.0.0.1:0"), ("TIDEGATE_RULES", "sqlite:rules.db")];
    let environment: BTreeMap<_, _> = listening
        .iter()
        .chain(environment)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let settings = Settings::load(&Sources { environment, ..Sources::default() });
    settings.map(|it| it.edge).map_err(|error| error.to_string())
}

#[test]
fn settings_have_the_names_and_the_defaults_that_they_had() {
    let edge = of(&[]).unwrap().unwrap();
    let options = &edge.options;
    assert_eq!((options.max_bytes, options.eviction_batch), (500 << 20, 1000));
    assert_eq!((options.check_interval, options.log_evictions), (Duration::from_secs(10), true));
    assert_eq!((options.hydrate, options.deadline), (Hydrate::Keys, Duration::from_secs(1)));
    let before = [
        ("CACHE_MAX_HEAP_MB", "200"),
        ("CACHE_EVICTION_BATCH", "500"),
        ("CACHE_CHECK_INTERVAL_MS", "5000"),
        ("CACHE_METRICS", "false"),
    ];
    let options = of(&before).unwrap().unwrap().options;
    assert_eq!((options.max_bytes, options.eviction_batch), (200 << 20, 500));
    assert_eq!((options.check_interval, options.log_evictions), (Duration::from_secs(5), false));
    // Our own names go before them.
    let own = [("TIDEGATE_EDGE__MAX_MEMORY_MB", "7"), ("TIDEGATE_EDGE__LOG_EVICTIONS", "true")];
    let options = of(&[&before[..], &own].concat()).unwrap().unwrap().options;
    assert_eq!((options.max_bytes, options.eviction_batch, options.log_evictions), (7 << 20, 500, true));
}

/// Any program may have a variable of that name.
#[test]
fn names_of_others_mean_nothing_without_redirects() {
    let environment = BTreeMap::from([("CACHE_METRICS".to_owned(), "1".to_owned())]);
    assert!(Settings::load(&Sources { environment, ..Sources::default() }).unwrap().edge.is_none());
    let wrong = of(&[("CACHE_METRICS", "1")]).unwrap_err();
    assert!(wrong.starts_with("`CACHE_METRICS`: \"1\" is not allowed: true and false are"), "{wrong}");
}

#[test]
fn what_cannot_be_set_is_refused() {
    for (name, value, expected) in [
        ("MAX_MEMORY_MB", "0", "`TIDEGATE_EDGE__MAX_MEMORY_MB`: \"0\" is not allowed"),
        ("MAX_MEMORY_MB", "9999999", "`edge.max_memory_mb`: 9999999 is not allowed: 1 to 1048576 are"),
        ("MAX_PREFIX_BYTES", "12", "`edge.max_prefix_bytes`: 12 is not allowed: 4096 to 524288000 are"),
        ("DEADLINE", "2m", "`edge.deadline`: 2m is not allowed: 1ms to 1m are"),
        ("HYDRATE", "some", "`TIDEGATE_EDGE__HYDRATE`: \"some\" is not allowed: keys and bodies are"),
        ("TRUSTED_PROXIES", "10.0.0.0/33", "`TIDEGATE_EDGE__TRUSTED_PROXIES`: \"10.0.0.0/33\" is no address"),
        ("NOT_FOUND_BODY", "@/nowhere.html", "`edge.not_found_body`: cannot read /nowhere.html: "),
        ("ORIGIN", "10.0.0.5:8080", "`edge.origin`: \"10.0.0.5:8080\" is not a server: http://HOST:PORT"),
        ("NAME", "a b", "`edge.name`: \"a b\" is not allowed: 1 to 128 visible ASCII characters are"),
        ("OF", "a,b", "`edge.of`: this worker is none of them"),
        ("OF", "a,a", "`edge.of`: two workers are called \"a\""),
        ("REPLICAS", "2", "`edge.replicas`: there are none unless `edge.of` says"),
        (
            "READINESS",
            "fresh",
            "`TIDEGATE_EDGE__READINESS`: \"fresh\" is not allowed: loaded and connected are",
        ),
    ] {
        let error = of(&[(&format!("TIDEGATE_EDGE__{name}"), value)]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// The values of the document that redirects come from.
#[test]
fn the_files_to_start_from_are_its_small_and_its_large_one() {
    for (name, megabytes, batch, interval) in [("edge-small", 200, 500, 5), ("edge-large", 2000, 5000, 60)] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        let edge = load(&sources).edge.unwrap();
        assert_eq!((edge.options.max_bytes, edge.options.eviction_batch), (megabytes << 20, batch), "{name}");
        assert_eq!(edge.options.check_interval, Duration::from_secs(interval), "{name}");
    }
}

#[test]
fn bodies_are_what_the_settings_say() {
    let rules = Rules::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gone.html");
    std::fs::write(&path, "<h1>Gone</h1>").unwrap();
    let gone = format!("edge.gone_body=@{}", path.display());
    let server = Process::serve(&rules.url(), &["--set", "edge.not_found_body=no such link", "--set", &gone]);
    server.applied_rule(
        "over",
        serde_json::json!({"path": "/over", "expiresAt": 1_000_000_000_000_u64, "destination": "/"}),
    );
    let not_found = server.get("h", "/none");
    assert_eq!((not_found.status, not_found.body.as_str()), (404, "no such link"));
    assert_eq!(not_found.header("content-type"), Some("text/plain; charset=utf-8"));
    let gone = server.get("h", "/over");
    assert_eq!((gone.status, gone.body.as_str()), (410, "<h1>Gone</h1>"));
    assert_eq!(gone.header("content-type"), Some("text/html; charset=utf-8"));
    let asked = exchange(server.redirects(), "HEAD", "h", "/over", "");
    assert_eq!((asked.status, asked.header("content-length")), (410, Some("13")));
    assert_eq!(not_found.header("tidegate-age"), None);
}

#[test]
fn answers_say_how_old_they_may_be_if_asked() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &["--set", "edge.age_header=true"]);
    server.applied_rule("a", to("/a", "https://to.example/"));
    for path in ["/a", "/none"] {
        let age = server.get("h", path).header("tidegate-age").map(|it| it.parse::<u64>().unwrap());
        assert!(age.is_some_and(|age| age < 60), "{path}: {age:?}");
    }
}

#[test]
fn a_worker_needs_rules_and_an_address() {
    for (args, expected) in [
        (
            &["serve", "--edge-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"][..],
            "tidegate: `edge.listen`: there are no rules to redirect by",
        ),
        (&["edge", "--origin", "http://127.0.0.1:1"], "tidegate: `edge.listen`: a worker needs an address"),
        (
            &["edge", "--edge-listen", "127.0.0.1:0"],
            "tidegate: `edge.origin`: a worker needs a server whose rules it follows",
        ),
        (
            &["edge", "--edge-listen", "127.0.0.1:0", "--origin", "ftp://x"],
            "tidegate: `edge.origin`: \"ftp://x\" is not a server",
        ),
    ] {
        let (code, _, err) = run(tidegate(args));
        assert_eq!(code, 2, "{args:?}");
        assert!(err.lines().any(|line| line.starts_with(expected)), "{args:?}: {err}");
    }
}
