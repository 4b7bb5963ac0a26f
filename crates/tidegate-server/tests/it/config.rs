//! Where settings come from, who wins, and what is said about wrong ones.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use tidegate::hot::HotOptions;
use tidegate::limit::{Algorithm, Period};
use tidegate::session::{Reap, SessionOptions};
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

const CALENDAR: Option<(&str, &str)> = Some(("limits.api.algorithm", "calendar"));

/// A value for each setting, other than its default where there is another.
const SAMPLES: &[Sample] = &[
    ("listen", "localhost:9000", None),
    ("store.url", "redis://127.0.0.1:1", None),
    ("store.namespace", "blue", None),
    ("store.partitions", "8", None),
    ("store.deadline", "20ms", None),
    ("store.connect_timeout", "1s", None),
    ("store.nodelay", "false", None),
    ("store.keepalive", "10s", None),
    ("store.check_interval", "1s", None),
    ("store.tls_ca", "/etc/ca.pem", None),
    ("declarations", "strict", None),
    ("limits.api.algorithm", "token", None),
    ("limits.api.rate", "0.29/s", None),
    ("limits.api.window", "2m", None),
    ("limits.api.coalesce", "1s", None),
    ("limits.api.hard_limit_factor", "1.5", Some(("limits.api.algorithm", "suppressed"))),
    ("limits.api.burst", "7", Some(("limits.api.algorithm", "token"))),
    ("limits.api.limit", "100", CALENDAR),
    ("limits.api.period", "day", CALENDAR),
    ("limits.api.safety_buffer", "0", CALENDAR),
    ("limits.api.counter_ttl", "3h", CALENDAR),
    ("limits.api.outage", "closed", None),
    ("limits.api.closed_status", "503", None),
    ("limits.api.local_share", "0.5", Some(("limits.api.outage", "local"))),
    ("limits.api.nodes", "4", Some(("limits.api.outage", "local"))),
    ("limits.api.after_loss", "hold", None),
    ("limits.api.max_keys", "10", None),
    ("limits.api.when_full", "share", None),
    ("limits.api.on_lapse", "give_back", None),
    ("limits.api.max_reservations", "10", None),
    ("limits.api.lease", "true", None),
    ("limits.api.lease_duration", "1s", Some(("limits.api.lease", "true"))),
    ("limits.api.prefix", "mine", None),
    ("hot.main.max_tracked", "10", None),
    ("hot.main.promotion_threshold", "7", None),
    ("hot.main.window_duration", "15m", None),
    ("hot.main.max_members_per_page", "50", None),
    ("hot.main.hot_threshold", "3", None),
    ("hot.main.cleanup_interval", "10m", None),
    ("hot.main.when_full", "replace_coldest", None),
    ("hot.main.spike_ratio", "2.5", None),
    ("hot.main.spike_minimum", "9", None),
    ("hot.main.max_activity", "100", None),
    ("hot.main.max_bytes", "1048576", None),
    ("hot.main.partitions", "4", None),
    ("sessions.main.grace", "0s", None),
    ("sessions.main.holder_lease", "20s", None),
    ("sessions.main.session_ttl", "2h", None),
    ("sessions.main.retention", "2d", None),
    ("sessions.main.batch", "50", None),
    ("sessions.main.cleanup_interval", "10s", None),
    ("sessions.main.reap", "claims", None),
    ("sessions.main.claim_lease", "5m", None),
    ("sessions.main.max_attempts", "7", None),
    ("sessions.main.max_holders", "9", None),
    ("sessions.main.max_sessions", "99", None),
    ("sessions.main.migration_lease", "30m", None),
    ("sessions.main.reconcile_interval", "1d", None),
    ("http.header_timeout", "1s", None),
    ("http.idle_timeout", "1m", None),
    ("http.request_timeout", "1s", None),
    ("http.bulk_timeout", "1s", None),
    ("http.stall_timeout", "1s", None),
    ("http.max_body_bytes", "100", None),
    ("http.max_connections", "7", None),
    ("http.shutdown_deadline", "0s", None),
    ("http.drain_delay", "5s", None),
    ("http.readiness", "all", None),
    ("http.trusted_network", "true", None),
    ("http.backlog", "7", None),
    ("http.access_log", "true", None),
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
    let named = |path: &str| {
        let path = path.replace("sessions.NAME", "sessions.main");
        path.replace("hot.NAME", "hot.main").replace("NAME", "api")
    };
    let known: Vec<_> = Settings::list().into_iter().map(|(path, _)| named(&path)).collect();
    assert_eq!(sampled, known);

    for (path, value, beside) in SAMPLES {
        let beside: Vec<_> = beside.iter().copied().collect();
        let by_flag = Sources {
            flags: beside.iter().chain([&(*path, *value)]).map(|(p, v)| set(p, v)).collect(),
            ..Sources::default()
        };
        let by_flag = format!("{:?}", load(&by_flag));
        let without = Sources {
            flags: beside
                .iter()
                .filter(|(p, _)| *p == "limits.api.algorithm")
                .map(|(p, v)| set(p, v))
                .collect(),
            ..Sources::default()
        };
        assert_ne!(by_flag, format!("{:?}", load(&without)), "{path}");

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
    assert_eq!(load(&sources).parts.limits[0].options.algorithm.capacity(), 20);
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
    let [limit] = settings.parts.limits.as_slice() else { panic!("{settings:?}") };
    assert_eq!((limit.name.as_str(), limit.options.algorithm.capacity()), ("api", 300));
    for yaml in ["", "limits:\n", "# nothing\n", "limits: {}\n"] {
        let (_file, sources) = file(yaml);
        assert_eq!(load(&sources).parts.limits[0].name.as_str(), "api", "{yaml:?}");
    }
    let other = load(&flags(&[("limits.login.rate", "1/s")]));
    assert_eq!(other.parts.limits.len(), 1);
    assert_eq!(other.parts.limits[0].name.as_str(), "login");
}

#[test]
fn without_spaces_there_is_one() {
    let settings = load(&Sources::default());
    let [space] = settings.parts.hot.as_slice() else { panic!("{settings:?}") };
    assert_eq!((space.name.as_str(), &space.options), ("main", &HotOptions::default()));
    let other = load(&flags(&[("hot.links.max_tracked", "7")]));
    assert_eq!(other.parts.hot.len(), 1);
    assert_eq!((other.parts.hot[0].name.as_str(), other.parts.hot[0].options.max_tracked), ("links", 7));
}

#[test]
fn without_spaces_of_sessions_there_is_one_that_waits_for_its_first_use() {
    let settings = load(&Sources::default());
    let [space] = settings.parts.sessions.as_slice() else { panic!("{settings:?}") };
    assert_eq!((space.name.as_str(), &space.options), ("main", &SessionOptions::default()));
    assert!(space.is_implied);
    let other = load(&flags(&[("sessions.chats.max_holders", "7"), ("sessions.games.reap", "claims")]));
    let [chats, games] = other.parts.sessions.as_slice() else { panic!("{other:?}") };
    assert_eq!((chats.name.as_str(), chats.options.max_holders, chats.is_implied), ("chats", 7, false));
    assert_eq!((games.name.as_str(), games.options.reap), ("games", Reap::Claims));
    let (_file, sources) = file("sessions: {main: {}}");
    assert!(!load(&sources).parts.sessions[0].is_implied, "written down, with nothing to say");
}

#[test]
fn spaces_with_a_dash_are_found_by_the_environment() {
    let (_file, mut sources) = file("sessions: {my-chats: {max_holders: 5}}");
    sources.environment = variables(&[("TIDEGATE_SESSIONS__MY_CHATS__MAX_HOLDERS", "6")]);
    let settings = load(&sources);
    assert_eq!((settings.parts.sessions.len(), settings.parts.sessions[0].name.as_str()), (1, "my-chats"));
    assert_eq!(settings.parts.sessions[0].options.max_holders, 6);
    let (_file, mut sources) = file("hot: {my-pages: {max_tracked: 5}}");
    sources.environment = variables(&[("TIDEGATE_HOT__MY_PAGES__MAX_TRACKED", "6")]);
    let settings = load(&sources);
    assert_eq!((settings.parts.hot.len(), settings.parts.hot[0].name.as_str()), (1, "my-pages"));
    assert_eq!(settings.parts.hot[0].options.max_tracked, 6);
}

#[test]
fn the_environment_finds_limits_with_a_dash() {
    let (_file, mut sources) = file("limits: {per-minute: {rate: 1/s}}");
    sources.environment = variables(&[("TIDEGATE_LIMITS__PER_MINUTE__RATE", "2/s")]);
    let settings = load(&sources);
    assert_eq!(settings.parts.limits.len(), 1);
    assert_eq!(settings.parts.limits[0].name.as_str(), "per-minute");
    assert_eq!(settings.parts.limits[0].options.algorithm.capacity(), 120);
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
            "hot:\n  pages:\n    max_tracekd: 1\n",
            ":3: unknown setting `max_tracekd`: did you mean `max_tracked`?\n   3 |     max_tracekd: 1",
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
        (
            flags(&[("hot.links.max_tracekd", "1")]),
            "unknown setting `hot.links.max_tracekd`: did you mean `hot.links.max_tracked`?",
        ),
        (
            environment(&[("TIDEGATE_HOT__LINKS__WHEN_FUL", "reject")]),
            "unknown setting `TIDEGATE_HOT__LINKS__WHEN_FUL` in the environment: did you mean `TIDEGATE_HOT__LINKS__WHEN_FULL`?",
        ),
        (
            flags(&[("sessions.chats.grce", "1s")]),
            "unknown setting `sessions.chats.grce`: did you mean `sessions.chats.grace`?",
        ),
        (
            environment(&[("TIDEGATE_SESSIONS__CHATS__BATHC", "1")]),
            "unknown setting `TIDEGATE_SESSIONS__CHATS__BATHC` in the environment: did you mean `TIDEGATE_SESSIONS__CHATS__BATCH`?",
        ),
        (
            flags(&[("sessions", "1")]),
            "`--set sessions`: that is a group of settings: name one of them, like `sessions.main.grace`",
        ),
        (
            flags(&[("sessions.chats", "1")]),
            "`--set sessions.chats`: that is a group of settings: name one of them, like `sessions.chats.grace`",
        ),
        (
            flags(&[("hot", "1")]),
            "`--set hot`: that is a group of settings: name one of them, like `hot.main.max_tracked`",
        ),
        (
            flags(&[("hot.links", "1")]),
            "`--set hot.links`: that is a group of settings: name one of them, like `hot.links.max_tracked`",
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
fn a_wrong_value_is_refused_with_what_is_allowed() {
    for (path, value, message) in [
        ("listen", "8080", "\"8080\" is not an address to listen on: host:port is"),
        ("listen", "::1:80", "is not an address to listen on"),
        ("listen", "localhost:65536", "is not an address to listen on"),
        ("store.deadline", "5", "\"5\" is not a length of time: a number with a unit is"),
        ("store.partitions", "0", "\"0\" is not allowed: whole numbers from 1 on are"),
        ("store.nodelay", "yes", "\"yes\" is not allowed: true and false are"),
        ("store.namespace", "A", "the name \"A\" is not allowed"),
        ("limits.api.rate", "5/y", "\"5/y\" is not a rate"),
        (
            "limits.api.outage",
            "opne",
            "\"opne\" is not allowed: open, closed and local are (did you mean `open`?)",
        ),
        (
            "limits.api.algorithm",
            "tokn",
            "\"tokn\" is not allowed: sliding, suppressed, smooth, token and calendar are (did you mean `token`?)",
        ),
        ("limits.api.local_share", "2", "a share of 2 is not allowed: 0.000001 to 1 are"),
        ("limits.api.local_share", "half", "\"half\" is not a share"),
        ("limits.api.hard_limit_factor", "0.9", "\"0.9\" is not allowed: numbers from 1 to 1000 are"),
        ("limits.api.hard_limit_factor", "nan", "\"nan\" is not allowed: numbers from 1 to 1000 are"),
        ("limits.api.burst", "0", "\"0\" is not allowed: whole numbers from 1 to 9007199254740991 are"),
        ("limits.api.limit", "-1", "\"-1\" is not allowed: whole numbers from 1 to 9007199254740991 are"),
        (
            "limits.api.safety_buffer",
            "x",
            "\"x\" is not allowed: whole numbers from 0 to 9007199254740991 are",
        ),
        ("limits.api.period", "week", "\"week\" is not allowed: minute, hour and day are (did you mean"),
        ("limits.api.counter_ttl", "2", "\"2\" is not a length of time"),
        ("limits.api.on_lapse", "keep", "\"keep\" is not allowed: spend and give_back are"),
        ("limits.api.max_reservations", "0", "\"0\" is not allowed: whole numbers from 1 on"),
        ("limits.api.lease", "yes", "\"yes\" is not allowed: true and false are"),
        ("limits.api.prefix", "", "a prefix must not be empty"),
        ("http.trusted_network", "yes", "\"yes\" is not allowed: true and false are"),
        ("http.backlog", "0", "\"0\" is not allowed: whole numbers from 1 on"),
        ("limits.api.max_keys", "0", "\"0\" is not allowed: whole numbers from 1 on"),
        ("hot.main.max_tracked", "0", "\"0\" is not allowed: whole numbers from 1 on"),
        ("hot.main.hot_threshold", "-1", "\"-1\" is not allowed: whole numbers from 1 on"),
        ("hot.main.window_duration", "15", "\"15\" is not a length of time"),
        (
            "hot.main.when_full",
            "replace",
            "\"replace\" is not allowed: reject and replace_coldest are (did you mean",
        ),
        ("hot.main.spike_ratio", "0.5", "\"0.5\" is not allowed: numbers from 1 to 1000 are"),
        ("sessions.main.grace", "30", "\"30\" is not a length of time"),
        ("sessions.main.batch", "0", "\"0\" is not allowed: whole numbers from 1 on"),
        ("sessions.main.max_attempts", "x", "\"x\" is not allowed: whole numbers from 1 on are"),
        (
            "sessions.main.reap",
            "claim",
            "\"claim\" is not allowed: cleanup and claims are (did you mean `claims`?)",
        ),
        ("log.level", "loud", "\"loud\" is not allowed: error, warn, info, debug and trace are"),
    ] {
        let start = format!("`--set {path}`: ");
        let refusal = error(&flags(&[(path, value)]));
        assert!(refusal.starts_with(&start) && refusal.contains(message), "{refusal}");
        let refusal = error(&environment(&[(&variable(path), value)]));
        assert!(refusal.contains(&variable(path)) && refusal.contains(message), "{refusal}");
        let (_file, sources) = file(&yaml(path, &format!("{value:?}")));
        let refusal = error(&sources);
        assert!(refusal.contains(":1: ") && refusal.contains(message), "{refusal}");
    }
}

#[test]
fn values_that_do_not_fit_together_are_refused_with_the_reason() {
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
            vec![("limits.api.algorithm", "calendar"), ("limits.api.limit", "25")],
            "`limits.api.safety_buffer`: 25, the default, leaves nothing of a limit of 25: 0 to 24 are allowed",
        ),
        (
            vec![
                ("limits.api.algorithm", "calendar"),
                ("limits.api.limit", "10"),
                ("limits.api.safety_buffer", "11"),
            ],
            "`limits.api.safety_buffer`: 11 leaves nothing of a limit of 10: 0 to 9 are allowed",
        ),
        (
            vec![("limits.api.algorithm", "calendar"), ("limits.api.counter_ttl", "32d")],
            "`limits.api`: counters kept for 2764800s are not allowed: up to 31 days are",
        ),
        (
            vec![("limits.api.algorithm", "token"), ("limits.api.rate", "0/s")],
            "`limits.api`: 0/s with a burst of 1 is not allowed: it admits nothing, or too much",
        ),
        (vec![("limits.api.lease_duration", "1s")], "`limits.api.lease_duration`: needs `lease: true`"),
        (
            vec![("limits.Api.rate", "1/s")],
            "`limits`: the name \"Api\" is not allowed: 1 to 64 of a-z, 0-9, _ and -, starting with a letter",
        ),
        (
            vec![("hot.Pages.max_tracked", "1")],
            "`hot`: the name \"Pages\" is not allowed: 1 to 64 of a-z, 0-9, _ and -, starting with a letter",
        ),
        (
            vec![("hot.main.max_tracked", "1000001")],
            "`hot.main`: a max_tracked of 1000001 is not allowed: 1 to 1000000 are",
        ),
        (
            vec![("hot.main.hot_threshold", "101")],
            "`hot.main`: a hot_threshold of 101 is not allowed: 1 to 100 are",
        ),
        (
            vec![("hot.main.window_duration", "8d")],
            "`hot.main`: a window_duration of 691200s is not allowed: 1s to 7 days are",
        ),
        (
            vec![("hot.main.window_duration", "1500ms")],
            "`hot.main.window_duration`: 1s 500ms is not allowed: whole seconds are",
        ),
        (
            vec![("hot.main.max_members_per_page", "2"), ("hot.main.hot_threshold", "3")],
            "`hot.main`: a max_members_per_page of 2 is not allowed: 5 to 4000 are",
        ),
        (
            vec![("hot.main.max_bytes", "1000")],
            "`hot.main.max_bytes`: 1000 is not allowed: at least 1048576 are needed",
        ),
        (
            vec![("hot.main.partitions", "2"), ("hot.main.max_tracked", "1")],
            "`hot.main`: a max_tracked of 1 is not allowed: 2 to 1000000 are",
        ),
        (
            vec![("sessions.Chats.batch", "1")],
            "`sessions`: the name \"Chats\" is not allowed: 1 to 64 of a-z, 0-9, _ and -, starting with a letter",
        ),
        (
            vec![("sessions.main.batch", "1001")],
            "`sessions.main`: a batch of 1001 is not allowed: 1 to 1000 are",
        ),
        (
            vec![("sessions.main.retention", "1h")],
            "`sessions.main`: a retention of 3600s is not allowed: 86400s to 5184000s are",
        ),
        (
            vec![("sessions.main.session_ttl", "1h"), ("sessions.main.grace", "59m 30s")],
            "`sessions.main`: a grace of 3570s is not allowed: 0ns to 3555s are",
        ),
        (vec![("http.bulk_timeout", "25h")], "`http.bulk_timeout`: 1day 1h is not allowed: 1ms to 1day are"),
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
fn a_setting_of_another_algorithm_is_refused_with_whose_it_is() {
    for (algorithm, setting, value, whose) in [
        ("sliding", "hard_limit_factor", "2", "suppressed limits do"),
        ("sliding", "burst", "2", "token limits do"),
        ("sliding", "limit", "2", "calendar limits do"),
        ("smooth", "hard_limit_factor", "2", "suppressed limits do"),
        ("smooth", "lease", "true", "sliding and calendar limits do"),
        ("suppressed", "on_lapse", "spend", "sliding and calendar limits do"),
        ("token", "window", "60s", "sliding, suppressed and smooth limits do"),
        ("token", "coalesce", "1s", "sliding, suppressed and smooth limits do"),
        ("token", "max_reservations", "5", "sliding and calendar limits do"),
        ("token", "lease_duration", "1s", "sliding and calendar limits do"),
        ("calendar", "rate", "5/s", "sliding, suppressed, smooth and token limits do"),
        ("calendar", "burst", "5", "token limits do"),
        ("suppressed", "period", "day", "calendar limits do"),
        ("suppressed", "safety_buffer", "1", "calendar limits do"),
        ("suppressed", "counter_ttl", "1h", "calendar limits do"),
    ] {
        let path = format!("limits.api.{setting}");
        let refusal = error(&flags(&[("limits.api.algorithm", algorithm), (&path, value)]));
        let expected =
            format!("`{path}`: {algorithm} limits have no such setting: {whose} (`limits.api.algorithm`)");
        assert_eq!(refusal, expected);
    }
    // What says nothing is nobody's.
    load(&flags(&[("limits.api.algorithm", "token"), ("limits.api.lease", "false")]));
}

#[test]
fn every_algorithm_has_its_defaults() {
    for (all, capacity, window) in [
        (vec![("limits.api.algorithm", "sliding")], 300, 60),
        (vec![("limits.api.algorithm", "suppressed")], 300, 60),
        (vec![("limits.api.algorithm", "smooth")], 300, 60),
        (vec![("limits.api.algorithm", "token")], 5, 1),
        (vec![("limits.api.algorithm", "token"), ("limits.api.rate", "100/m")], 100, 60),
        (vec![("limits.api.algorithm", "token"), ("limits.api.rate", "0.5/s")], 1, 2),
        (vec![("limits.api.algorithm", "calendar")], 4975, 3600),
        (vec![("limits.api.algorithm", "calendar"), ("limits.api.period", "minute")], 4975, 60),
        (vec![("limits.api.algorithm", "calendar"), ("limits.api.limit", "100")], 75, 3600),
    ] {
        let settings = load(&flags(&all));
        let algorithm = settings.parts.limits[0].options.algorithm;
        assert_eq!((algorithm.capacity(), algorithm.window_size_seconds()), (capacity, window), "{all:?}");
    }
    let suppressed =
        load(&flags(&[("limits.api.algorithm", "suppressed")])).parts.limits[0].options.algorithm;
    let Algorithm::Suppressed(suppressed) = suppressed else { panic!("{suppressed:?}") };
    assert_eq!(suppressed.hard_capacity(), Some(300), "a hard limit factor of 1");
}

/// `CALL_LIMIT_PER_HOUR`, `COURTLISTENER_SAFETY_BUFFER` and `REDIS_COUNTER_TTL_HOURS`.
#[test]
fn what_the_pipeline_took_from_its_environment_can_be_set_so() {
    let settings = load(&environment(&[
        ("TIDEGATE_LIMITS__RATE_LIMIT__ALGORITHM", "calendar"),
        ("TIDEGATE_LIMITS__RATE_LIMIT__LIMIT", "1000"),
        ("TIDEGATE_LIMITS__RATE_LIMIT__SAFETY_BUFFER", "10"),
        ("TIDEGATE_LIMITS__RATE_LIMIT__COUNTER_TTL", "3h"),
    ]));
    let Algorithm::Calendar(calendar) = settings.parts.limits[0].options.algorithm else {
        panic!("{settings:?}")
    };
    assert_eq!((calendar.limit(), calendar.safety_buffer(), calendar.capacity()), (1000, 10, 990));
    assert_eq!((calendar.counter_ttl(), calendar.period()), (Duration::from_secs(3 * 3600), Period::Hour));
}

#[test]
fn leases_need_to_know_how_many_share() {
    let lease = |all: &[(&str, &str)]| load(&flags(all)).parts.limits[0].options.options.lease;
    assert_eq!(lease(&[("limits.api.nodes", "4")]), None);
    assert_eq!(lease(&[("limits.api.lease", "false")]), None);
    assert_eq!(lease(&[("limits.api.lease", "true")]).unwrap().nodes.get(), 8);
    let all = [("limits.api.lease", "true"), ("limits.api.nodes", "4"), ("limits.api.lease_duration", "2s")];
    let lease = lease(&all).unwrap();
    assert_eq!((lease.nodes.get(), lease.duration), (4, Some(Duration::from_secs(2))));
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
    for (name, limits) in [("minimal", 1), ("dev", 2), ("prod", 3)] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        assert_eq!(load(&sources).parts.limits.len(), limits, "{name}");
    }
}

/// Who reaches a server may do everything: one that others reach says that it is meant.
#[test]
fn only_the_file_that_listens_for_others_trusts_the_network() {
    for (name, listens, trusts) in [
        ("dev", "127.0.0.1:8080", false),
        ("prod", "0.0.0.0:8080", true),
        ("minimal", "127.0.0.1:8080", false),
    ] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        let settings = load(&sources);
        assert_eq!((settings.listen.as_str(), settings.http.trusted_network), (listens, trusts), "{name}");
    }
}

/// The values of the document that hot pages come from.
#[test]
fn the_files_to_start_from_have_hot_pages_as_they_were() {
    for (name, tracked, trending, window, members, hot, cleanup) in [
        ("dev", 1000, 5, 15, 100, 2, 5),
        ("prod", 5000, 10, 30, 200, 3, 2),
        ("minimal", 100, 3, 10, 50, 2, 10),
    ] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        let settings = load(&sources);
        let [space] = settings.parts.hot.as_slice() else { panic!("{name}: {settings:?}") };
        let mut expected = HotOptions::default();
        expected.max_tracked = tracked;
        expected.promotion_threshold = trending;
        expected.window_duration = Duration::from_secs(window * 60);
        expected.max_members_per_page = members;
        expected.hot_threshold = hot;
        expected.cleanup_interval = Duration::from_secs(cleanup * 60);
        assert_eq!((space.name.as_str(), &space.options), ("main", &expected), "{name}");
    }
}

/// The values of the document that sessions come from.
#[test]
fn the_files_to_start_from_have_sessions_as_they_were() {
    for name in ["dev", "prod", "minimal"] {
        let path = format!("{}/../../config/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let (_file, sources) = file(&std::fs::read_to_string(path).unwrap());
        let settings = load(&sources);
        let [space] = settings.parts.sessions.as_slice() else { panic!("{name}: {settings:?}") };
        let options = &space.options;
        assert_eq!((space.name.as_str(), space.is_implied), ("main", false), "{name}");
        assert_eq!((options.grace.as_secs(), options.cleanup_interval.as_secs()), (30, 30), "{name}");
        assert_eq!(options.max_sessions, if name == "minimal" { 1000 } else { 1_000_000 }, "{name}");
    }
}
