//! Where settings come from, who wins, and what is said about wrong ones.

use std::collections::BTreeMap;
use std::io::Write as _;

use tidegate_server::settings::{Flag, Settings, Sources};

/// Sources with this file.
fn file(yaml: &str) -> (tempfile::NamedTempFile, Sources) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(yaml.as_bytes()).unwrap();
    let sources = Sources { file: Some(file.path().to_owned()), ..Sources::default() };
    (file, sources)
}

fn variables(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn environment(all: &[(&str, &str)]) -> Sources {
    Sources { environment: variables(all), ..Sources::default() }
}

fn set(path: &str, value: &str) -> Flag {
    Flag { given_as: "--set", path: path.to_owned(), value: value.to_owned() }
}

fn flags(all: &[(&str, &str)]) -> Sources {
    let flags = all.iter().map(|(path, value)| set(path, value)).collect();
    Sources { flags, ..Sources::default() }
}

fn load(sources: &Sources) -> Settings {
    Settings::load(sources).unwrap()
}

fn error(sources: &Sources) -> String {
    Settings::load(sources).unwrap_err().to_string()
}

/// A setting, a value, and another setting without which it has no effect.
type Sample = (&'static str, &'static str, Option<(&'static str, &'static str)>);

/// A value for each setting, other than its default where there is another.
const SAMPLES: &[Sample] = &[
    ("listen", "localhost:9000", None),
    ("store.url", "redis://127.0.0.1:1", None),
    ("store.namespace", "blue", None),
    ("store.partitions", "8", None),
    ("store.deadline", "20ms", None),
    ("store.connect_timeout", "1s", None),
    ("store.nodelay", "false", None),
    ("store.tls_ca", "/etc/ca.pem", None),
    ("limits.api.algorithm", "sliding", None),
    ("limits.api.rate", "0.29/s", None),
    ("limits.api.window", "2m", None),
    ("limits.api.coalesce", "1s", None),
    ("limits.api.outage", "closed", None),
    ("limits.api.local_share", "0.5", Some(("limits.api.outage", "local"))),
    ("limits.api.nodes", "4", Some(("limits.api.outage", "local"))),
    ("limits.api.after_loss", "hold", None),
    ("limits.api.max_keys", "10", None),
    ("limits.api.when_full", "share", None),
    ("limits.api.prefix", "mine", None),
    ("http.header_timeout", "1s", None),
    ("http.idle_timeout", "1m", None),
    ("http.request_timeout", "1s", None),
    ("http.max_body_bytes", "100", None),
    ("http.max_connections", "7", None),
    ("http.shutdown_deadline", "0s", None),
    ("log.level", "debug", None),
    ("log.format", "json", None),
];

fn variable(path: &str) -> String {
    format!("TIDEGATE_{}", path.replace('.', "__").to_uppercase())
}

/// `a.b: value` in YAML.
fn yaml(path: &str, value: &str) -> String {
    let depth = path.matches('.').count();
    format!("{{{}: {value}{}}}", path.replace('.', ": {"), "}".repeat(depth))
}

#[test]
fn every_setting_can_be_set_by_file_environment_and_flag() {
    let sampled: Vec<_> = SAMPLES.iter().map(|(path, ..)| (*path).to_owned()).collect();
    let known: Vec<_> = Settings::list().into_iter().map(|(path, _)| path.replace("NAME", "api")).collect();
    assert_eq!(sampled, known);

    let default = format!("{:?}", load(&Sources::default()));
    for (path, value, beside) in SAMPLES {
        let beside: Vec<_> = beside.iter().copied().collect();
        let by_flag = Sources {
            flags: beside.iter().chain([&(*path, *value)]).map(|(p, v)| set(p, v)).collect(),
            ..Sources::default()
        };
        let by_flag = format!("{:?}", load(&by_flag));
        if *path != "limits.api.algorithm" {
            assert_ne!(by_flag, default, "{path}");
        }

        let mut by_environment = flags(&[]);
        for (path, value) in beside.iter().chain([&(*path, *value)]) {
            by_environment.environment.insert(variable(path), (*value).to_owned());
        }
        assert_eq!(format!("{:?}", load(&by_environment)), by_flag, "{path}");

        let (_file, mut by_file) = file(&yaml(path, value));
        by_file.flags = beside.iter().map(|(path, value)| set(path, value)).collect();
        assert_eq!(format!("{:?}", load(&by_file)), by_flag, "{path}");
    }
}

#[test]
fn defaults_yield_to_the_file_the_file_to_the_environment_and_that_to_flags() {
    let mut sources = Sources::default();
    let listen = |sources: &Sources| load(sources).listen.as_str().to_owned();
    assert_eq!(listen(&sources), "127.0.0.1:8080");
    let (_file, with_file) = file("listen: 127.0.0.1:1\nlimits: {api: {rate: 1/s, window: 10s}}\n");
    sources.file = with_file.file;
    assert_eq!(listen(&sources), "127.0.0.1:1");
    sources.environment =
        variables(&[("TIDEGATE_LISTEN", "127.0.0.1:2"), ("TIDEGATE_LIMITS__API__RATE", "2/s")]);
    assert_eq!(listen(&sources), "127.0.0.1:2");
    sources.flags = vec![set("listen", "127.0.0.1:3")];
    assert_eq!(listen(&sources), "127.0.0.1:3");
    // Each setting for itself: the window is still the file's.
    assert_eq!(load(&sources).limits[0].sliding.capacity(), 20);
}

#[test]
fn a_file_can_be_named_by_the_environment_and_the_flag_wins() {
    let (named, _) = file("listen: 127.0.0.1:1");
    let mut sources = environment(&[("TIDEGATE_CONFIG", named.path().to_str().unwrap())]);
    assert_eq!(load(&sources).listen.as_str(), "127.0.0.1:1");
    let (_other, with_file) = file("listen: 127.0.0.1:2");
    sources.file = with_file.file;
    assert_eq!(load(&sources).listen.as_str(), "127.0.0.1:2");
}

#[test]
fn without_limits_there_is_one() {
    let settings = load(&Sources::default());
    let [limit] = settings.limits.as_slice() else { panic!("{settings:?}") };
    assert_eq!((limit.name.as_str(), limit.sliding.capacity()), ("api", 300));
    for yaml in ["", "limits:\n", "# nothing\n", "limits: {}\n"] {
        let (_file, sources) = file(yaml);
        assert_eq!(load(&sources).limits[0].name.as_str(), "api", "{yaml:?}");
    }
    let other = load(&flags(&[("limits.login.rate", "1/s")]));
    assert_eq!(other.limits.len(), 1);
    assert_eq!(other.limits[0].name.as_str(), "login");
}

#[test]
fn the_environment_finds_limits_with_a_dash() {
    let (_file, mut sources) = file("limits: {per-minute: {rate: 1/s}}");
    sources.environment = variables(&[("TIDEGATE_LIMITS__PER_MINUTE__RATE", "2/s")]);
    let settings = load(&sources);
    assert_eq!(settings.limits.len(), 1);
    assert_eq!(settings.limits[0].name.as_str(), "per-minute");
    assert_eq!(settings.limits[0].sliding.capacity(), 120);
}

#[test]
fn the_store_has_a_short_variable() {
    let settings = load(&environment(&[("TIDEGATE_STORE", "redis://127.0.0.1:1")]));
    assert_eq!(settings.store.url.as_str(), "redis://127.0.0.1:1");
}

#[test]
fn what_kubernetes_sets_for_a_service_of_our_name_is_no_setting() {
    load(&environment(&[
        ("TIDEGATE_PORT", "tcp://10.0.0.1:8080"),
        ("TIDEGATE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("TIDEGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("TIDEGATE_SERVICE_HOST", "10.0.0.1"),
        ("TIDEGATE_SERVICE_PORT", "8080"),
        ("TIDEGATE_SERVICE_PORT_HTTP", "8080"),
    ]));
    assert!(error(&environment(&[("TIDEGATE_PORT", "8080")])).starts_with("unknown setting"));
}

#[test]
fn an_unknown_setting_in_a_file_names_the_nearest_and_shows_the_line() {
    for (yaml, message) in [
        ("lisen: a:1\n", ":1: unknown setting `lisen`: did you mean `listen`?\n   1 | lisen: a:1"),
        (
            "store:\n  deadlin: 1s\n",
            ":2: unknown setting `deadlin`: did you mean `deadline`?\n   2 |   deadlin: 1s",
        ),
        (
            "limits:\n  api:\n    wnidow: 1m\n",
            ":3: unknown setting `wnidow`: did you mean `window`?\n   3 |     wnidow: 1m",
        ),
    ] {
        let (file, sources) = file(yaml);
        assert_eq!(error(&sources), format!("{}{message}", file.path().display()));
    }
}

#[test]
fn an_unknown_setting_elsewhere_names_the_nearest() {
    for (sources, message) in [
        (
            environment(&[("TIDEGATE_LISEN", "a:1")]),
            "unknown setting `TIDEGATE_LISEN` in the environment: did you mean `TIDEGATE_LISTEN`?",
        ),
        (
            environment(&[("TIDEGATE_LIMITS__LOGIN__RAT", "1/s")]),
            "unknown setting `TIDEGATE_LIMITS__LOGIN__RAT` in the environment: did you mean `TIDEGATE_LIMITS__LOGIN__RATE`?",
        ),
        (flags(&[("lisen", "a:1")]), "unknown setting `lisen`: did you mean `listen`?"),
        (
            flags(&[("http.header_timeuot", "1s")]),
            "unknown setting `http.header_timeuot`: did you mean `http.header_timeout`?",
        ),
        (
            flags(&[("limits.login.wndow", "1s")]),
            "unknown setting `limits.login.wndow`: did you mean `limits.login.window`?",
        ),
        (flags(&[("listen.port", "1")]), "unknown setting `listen.port`: did you mean `listen`?"),
        (
            flags(&[("store", "redis:")]),
            "`--set store`: that is a group of settings: name one of them, like `store.url`",
        ),
        (
            flags(&[("limits.login", "1")]),
            "`--set limits.login`: that is a group of settings: name one of them, like `limits.login.algorithm`",
        ),
    ] {
        assert_eq!(error(&sources), message);
    }
}

#[test]
fn a_wrong_value_is_told_what_is_allowed() {
    for (path, value, message) in [
        ("listen", "8080", "\"8080\" is not an address to listen on: host:port is"),
        ("listen", "::1:80", "is not an address to listen on"),
        ("listen", "localhost:65536", "is not an address to listen on"),
        ("store.deadline", "5", "\"5\" is not a length of time: a number with a unit is"),
        ("store.partitions", "0", "\"0\" is not allowed: whole numbers from 1 to 4294967295 are"),
        ("store.nodelay", "yes", "\"yes\" is not allowed: true and false are"),
        ("store.namespace", "A", "the name \"A\" is not allowed"),
        ("limits.api.rate", "5/y", "\"5/y\" is not a rate"),
        (
            "limits.api.outage",
            "opne",
            "\"opne\" is not allowed: open, closed and local are (did you mean `open`?)",
        ),
        ("limits.api.algorithm", "token", "\"token\" is not allowed: sliding is"),
        ("limits.api.local_share", "2", "a share of 2 is not allowed: 0.000001 to 1 are"),
        ("limits.api.local_share", "half", "\"half\" is not a share"),
        ("limits.api.prefix", "", "a prefix must not be empty"),
        ("limits.api.max_keys", "0", "\"0\" is not allowed: whole numbers from 1 to"),
        ("log.level", "loud", "\"loud\" is not allowed: error, warn, info, debug and trace are"),
    ] {
        let start = format!("`--set {path}`: ");
        let told = error(&flags(&[(path, value)]));
        assert!(told.starts_with(&start) && told.contains(message), "{told}");
        let told = error(&environment(&[(&variable(path), value)]));
        assert!(told.contains(&variable(path)) && told.contains(message), "{told}");
        let (_file, sources) = file(&yaml(path, &format!("{value:?}")));
        let told = error(&sources);
        assert!(told.contains(":1: ") && told.contains(message), "{told}");
    }
}

#[test]
fn values_that_do_not_fit_together_are_told_why() {
    for (all, message) in [
        (
            vec![("limits.api.outage", "local")],
            "`limits.api.outage`: `local` needs `local_share` (above 0, up to 1) or `nodes` (how many servers there are)",
        ),
        (
            vec![("limits.api.window", "1500ms")],
            "`limits.api`: a window of 1.5s is not allowed: whole seconds from 1s to 31 days are",
        ),
        (
            vec![("limits.api.coalesce", "1ms")],
            "`limits.api`: buckets of 1ms in a window of 60 s are not allowed: 469 ms to 60000 ms are",
        ),
        (
            vec![("limits.api.rate", "1/d")],
            "`limits.api`: 1/d over 60 s is 0 permits: 1 to 9007199254740991 are allowed",
        ),
        (
            vec![("limits.Api.rate", "1/s")],
            "`limits`: the name \"Api\" is not allowed: 1 to 64 of a-z, 0-9, _ and -, starting with a letter",
        ),
        (vec![("http.request_timeout", "0s")], "`http.request_timeout`: 0s is not allowed: 1ms to 1h are"),
        (
            vec![("http.max_body_bytes", "16777217")],
            "`http.max_body_bytes`: 16777217 is not allowed: 1 to 16777216 are",
        ),
    ] {
        assert_eq!(error(&flags(&all)), message);
    }
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let missing = Sources { file: Some("/nowhere/tidegate.yaml".into()), ..Sources::default() };
    assert!(error(&missing).starts_with("cannot read /nowhere/tidegate.yaml: "));
    let (path, sources) = file("listen: a:1\nlisten: b:2\n");
    let name = path.path().display();
    assert_eq!(error(&sources), format!("{name}:2: `listen` is set twice\n   2 | listen: b:2"));
    let (_file, sources) = file("listen: [1]\n");
    assert!(error(&sources).contains(":1: expected string scalar"), "{}", error(&sources));
    let (_file, sources) = file("- listen\n");
    assert!(error(&sources).contains(":1: "), "{}", error(&sources));
}

#[test]
fn a_password_is_not_shown() {
    let settings = load(&environment(&[("TIDEGATE_STORE", "redis://:secret@127.0.0.1")]));
    assert!(!format!("{settings:?}").contains("secret"));
    let (_file, sources) = file("store:\n  url: redis://:secret@127.0.0.1\n  deadlin: 1s\n");
    assert!(!error(&sources).contains("secret"));
}

#[test]
fn the_files_to_start_from_are_right() {
    for (name, limits) in [("minimal", 1), ("dev", 2), ("prod", 2)] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        assert_eq!(load(&sources).limits.len(), limits, "{name}");
    }
}
