//! Where settings come from, and who wins.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::Duration;

use tidegate::hot::HotOptions;
use tidegate::limit::{Algorithm, Period};
use tidegate::session::{Reap, SessionOptions};
use tidegate_server::parts::QuotaSettings;
use tidegate_server::settings::{Flag, Settings, Sources};

/// Sources with this file.
pub(crate) fn file(yaml: &str) -> (tempfile::NamedTempFile, Sources) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(yaml.as_bytes()).unwrap();
    let sources = Sources { file: Some(file.path().to_owned()), ..Sources::default() };
    (file, sources)
}

fn variables(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn environment(all: &[(&str, &str)]) -> Sources {
    Sources { environment: variables(all), ..Sources::default() }
}

fn set(path: &str, value: &str) -> Flag {
    Flag { given_as: "--set", path: path.to_owned(), value: value.to_owned() }
}

pub(crate) fn flags(all: &[(&str, &str)]) -> Sources {
    let flags = all.iter().map(|(path, value)| set(path, value)).collect();
    Sources { flags, ..Sources::default() }
}

pub(crate) fn load(sources: &Sources) -> Settings {
    Settings::load(sources).unwrap()
}

pub(crate) fn error(sources: &Sources) -> String {
    Settings::load(sources).unwrap_err().to_string()
}

/// A setting, a value, and other settings without which it has no effect.
type Sample = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const CALENDAR: &[(&str, &str)] = &[("limits.api.algorithm", "calendar")];
const RULES: &[(&str, &str)] = &[("rules.url", "sqlite:rules.db")];
const EDGE: &[(&str, &str)] = &[("edge.listen", "localhost:9001")];
const NAMED: &[(&str, &str)] = &[("edge.listen", "localhost:9001"), ("edge.name", "a")];
const SHARED: &[(&str, &str)] =
    &[("edge.listen", "localhost:9001"), ("edge.name", "a"), ("edge.of", "a,b,c")];

/// A value for each setting, other than its default where there is another.
const SAMPLES: &[Sample] = &[
    ("listen", "localhost:9000", &[]),
    ("store.url", "redis://127.0.0.1:1", &[]),
    ("store.namespace", "blue", &[]),
    ("store.partitions", "8", &[]),
    ("store.deadline", "20ms", &[]),
    ("store.connect_timeout", "1s", &[]),
    ("store.nodelay", "false", &[]),
    ("store.keepalive", "10s", &[]),
    ("store.check_interval", "1s", &[]),
    ("store.unhealthy_after", "5", &[]),
    ("store.tls_ca", "/etc/ca.pem", &[]),
    ("declarations", "strict", &[]),
    ("limits.api.algorithm", "token", &[]),
    ("limits.api.rate", "0.29/s", &[]),
    ("limits.api.window", "2m", &[]),
    ("limits.api.coalesce", "1s", &[]),
    ("limits.api.hard_limit_factor", "1.5", &[("limits.api.algorithm", "suppressed")]),
    ("limits.api.burst", "7", &[("limits.api.algorithm", "token")]),
    ("limits.api.limit", "100", CALENDAR),
    ("limits.api.period", "day", CALENDAR),
    ("limits.api.safety_buffer", "0", CALENDAR),
    ("limits.api.counter_ttl", "3h", CALENDAR),
    ("limits.api.outage", "closed", &[]),
    ("limits.api.closed_status", "503", &[]),
    ("limits.api.local_share", "0.5", &[("limits.api.outage", "local")]),
    ("limits.api.nodes", "4", &[("limits.api.outage", "local")]),
    ("limits.api.after_loss", "hold", &[]),
    ("limits.api.max_keys", "10", &[]),
    ("limits.api.when_full", "share", &[]),
    ("limits.api.on_lapse", "give_back", &[]),
    ("limits.api.max_reservations", "10", &[]),
    ("limits.api.lease", "true", &[]),
    ("limits.api.lease_duration", "1s", &[("limits.api.lease", "true")]),
    ("limits.api.prefix", "mine", &[]),
    ("hot.main.max_tracked", "10", &[]),
    ("hot.main.promotion_threshold", "7", &[]),
    ("hot.main.window_duration", "15m", &[]),
    ("hot.main.max_members_per_page", "50", &[]),
    ("hot.main.count_slots", "30", &[]),
    ("hot.main.gather", "100ms", &[("hot.main.max_members_per_page", "0")]),
    ("hot.main.hot_threshold", "3", &[]),
    ("hot.main.cleanup_interval", "10m", &[]),
    ("hot.main.when_full", "replace_coldest", &[]),
    ("hot.main.spike_ratio", "2.5", &[]),
    ("hot.main.spike_minimum", "9", &[]),
    ("hot.main.max_activity", "100", &[]),
    ("hot.main.max_bytes", "1048576", &[]),
    ("hot.main.partitions", "4", &[]),
    ("sessions.main.grace", "0s", &[]),
    ("sessions.main.holder_lease", "20s", &[]),
    ("sessions.main.session_ttl", "2h", &[]),
    ("sessions.main.retention", "2d", &[]),
    ("sessions.main.batch", "50", &[]),
    ("sessions.main.cleanup_interval", "10s", &[]),
    ("sessions.main.reap", "claims", &[]),
    ("sessions.main.claim_lease", "5m", &[]),
    ("sessions.main.max_attempts", "7", &[]),
    ("sessions.main.max_holders", "9", &[]),
    ("sessions.main.max_sessions", "99", &[]),
    ("sessions.main.migration_lease", "30m", &[]),
    ("sessions.main.reconcile_interval", "1d", &[]),
    ("runs.main.prefix", "nightly", &[]),
    ("runs.main.state_ttl", "2h", &[]),
    ("runs.main.max_runs", "9", &[]),
    ("runs.main.max_fields", "0", &[]),
    ("runs.main.max_field_name_bytes", "9", &[]),
    ("runs.main.max_field_value_bytes", "0", &[]),
    ("runs.main.max_processed", "9", &[]),
    ("runs.main.max_failures", "9", &[]),
    ("runs.main.max_reason_bytes", "0", &[]),
    ("runs.main.max_tasks", "0", &[]),
    ("runs.main.cleanup_interval", "10s", &[]),
    ("runs.main.batch", "50", &[]),
    ("runs.main.quota.kind", "both", &[]),
    ("runs.main.quota.limit", "1000", &[]),
    ("runs.main.quota.safety_buffer", "0", &[]),
    ("runs.main.quota.counter_ttl", "3h", &[]),
    ("runs.main.quota.max_charges", "9", &[]),
    ("rules.url", "sqlite:rules.db", &[]),
    ("rules.max_log", "9", RULES),
    ("rules.block_life", "2s", RULES),
    ("edge.listen", "localhost:9001", &[]),
    ("edge.origin", "http://10.0.0.5:8080", EDGE),
    ("edge.threads", "3", EDGE),
    ("edge.name", "a", EDGE),
    ("edge.max_memory_mb", "7", EDGE),
    ("edge.max_prefix_bytes", "5000", EDGE),
    ("edge.eviction_batch", "9", EDGE),
    ("edge.check_interval", "1s", EDGE),
    ("edge.log_evictions", "false", EDGE),
    ("edge.hydrate", "bodies", EDGE),
    ("edge.deadline", "50ms", EDGE),
    ("edge.trusted_proxies", "10.0.0.0/8", EDGE),
    ("edge.not_found_body", "nothing here", EDGE),
    ("edge.gone_body", "gone for good", EDGE),
    ("edge.age_header", "true", EDGE),
    ("edge.readiness", "connected", EDGE),
    ("edge.of", "a", NAMED),
    ("edge.replicas", "2", SHARED),
    ("http.header_timeout", "1s", &[]),
    ("http.idle_timeout", "1m", &[]),
    ("http.request_timeout", "1s", &[]),
    ("http.bulk_timeout", "1s", &[]),
    ("http.stall_timeout", "1s", &[]),
    ("http.max_body_bytes", "100", &[]),
    ("http.max_connections", "7", &[]),
    ("http.shutdown_deadline", "0s", &[]),
    ("http.drain_delay", "5s", &[]),
    ("http.readiness", "all", &[]),
    ("http.trusted_network", "true", &[]),
    ("http.backlog", "7", &[]),
    ("http.access_log", "true", &[]),
    ("log.level", "debug", &[]),
    ("log.format", "json", &[]),
];

pub(crate) fn variable(path: &str) -> String {
    format!("TIDEGATE_{}", path.replace('.', "__").to_uppercase())
}

/// `a.b: value` in YAML.
pub(crate) fn yaml(path: &str, value: &str) -> String {
    let depth = path.matches('.').count();
    format!("{{{}: {value}{}}}", path.replace('.', ": {"), "}".repeat(depth))
}

#[test]
fn every_setting_can_be_set_by_file_environment_and_flag() {
    let sampled: Vec<_> = SAMPLES.iter().map(|(path, ..)| (*path).to_owned()).collect();
    let named = |path: &str| {
        let path = path.replace("sessions.NAME", "sessions.main").replace("runs.NAME", "runs.main");
        path.replace("hot.NAME", "hot.main").replace("NAME", "api")
    };
    let known: Vec<_> = Settings::list().into_iter().map(|(path, _)| named(&path)).collect();
    assert_eq!(sampled, known);

    for (path, value, beside) in SAMPLES {
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
fn the_store_and_the_rules_have_a_short_variable() {
    let settings = load(&environment(&[("TIDEGATE_STORE", "redis://127.0.0.1:1")]));
    assert_eq!(settings.store.url.as_str(), "redis://127.0.0.1:1");
    assert!(settings.rules.is_none(), "a file is nobody's default place");
    let settings = load(&environment(&[("TIDEGATE_RULES", "sqlite:a.db")]));
    assert_eq!(settings.rules.unwrap().url.as_str(), "sqlite:a.db");
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

/// By the names that they have there, of every space of runs; our own go before them.
#[test]
fn names_of_pipelines_are_read_from_the_environment() {
    let ttl =
        |settings: &Settings, at: usize| settings.parts.runs[at].options.options.state_ttl.as_secs() / 3600;
    let settings = load(&environment(&[("REDIS_STATE_TTL_HOURS", "30")]));
    assert_eq!((settings.parts.runs[0].name.as_str(), ttl(&settings, 0)), ("main", 30));
    let both = load(&environment(&[
        ("REDIS_STATE_TTL_HOURS", "30"),
        ("TIDEGATE_RUNS__DAILY__MAX_RUNS", "5"),
        ("TIDEGATE_RUNS__NIGHTLY__STATE_TTL", "7h"),
    ]));
    assert_eq!((both.parts.runs.len(), ttl(&both, 0), ttl(&both, 1)), (2, 30, 7));
    let mut sources = environment(&[("REDIS_STATE_TTL_HOURS", "30")]);
    let flag = |path: &str| Flag { given_as: "--set", path: path.to_owned(), value: "8h".to_owned() };
    sources.flags = vec![flag("runs.main.state_ttl")];
    assert_eq!(ttl(&load(&sources), 0), 8);
    let error = Settings::load(&environment(&[("REDIS_STATE_TTL_HOURS", "many")])).unwrap_err();
    assert!(
        error.to_string().starts_with("`REDIS_STATE_TTL_HOURS`: \"manyh\" is not a length of time"),
        "{error}"
    );
    let settings = load(&environment(&[
        ("CALL_LIMIT_PER_HOUR", "1000"),
        ("COURTLISTENER_SAFETY_BUFFER", "0"),
        ("REDIS_COUNTER_TTL_HOURS", "3"),
        ("TIDEGATE_RUNS__MAIN__QUOTA__LIMIT", "2000"),
    ]));
    let QuotaSettings::Written(quota) = &settings.parts.runs[0].options.quota else { panic!("it is set") };
    assert_eq!((quota.limit, quota.safety_buffer, quota.counter_ttl.as_secs()), (2000, 0, 3 * 3600));
    assert!(load(&environment(&[])).parts.runs[0].is_implied, "what nobody has set is as it was");
}

/// Of whichever name: `TIDEGATE_STORE=${STORE:-}` is how Compose says that nobody has given one.
#[test]
fn an_empty_variable_is_as_good_as_none() {
    let names: Vec<_> =
        Settings::list().into_iter().map(|(path, _)| variable(&path.replace("NAME", "main"))).collect();
    let of_others = [
        "TIDEGATE_STORE",
        "TIDEGATE_RULES",
        "TIDEGATE_CONFIG",
        "CACHE_MAX_HEAP_MB",
        "CACHE_EVICTION_BATCH",
        "CACHE_CHECK_INTERVAL_MS",
        "CACHE_METRICS",
        "REDIS_STATE_TTL_HOURS",
        "CALL_LIMIT_PER_HOUR",
        "COURTLISTENER_SAFETY_BUFFER",
        "REDIS_COUNTER_TTL_HOURS",
    ];
    let all = names.iter().map(String::as_str).chain(of_others).map(|name| (name, ""));
    let mut sources = flags(&[("edge.listen", "127.0.0.1:0"), ("edge.name", "a")]);
    let without = format!("{:?}", load(&sources));
    sources.environment = variables(&all.collect::<Vec<_>>());
    assert!(sources.environment.len() > 100, "{}", sources.environment.len());
    assert_eq!(format!("{:?}", load(&sources)), without);
    // What others say is not taken back by it.
    let (_file, mut sources) = file("listen: 127.0.0.1:1");
    sources.environment = variables(&[("TIDEGATE_LISTEN", "")]);
    assert_eq!(load(&sources).listen.as_str(), "127.0.0.1:1");
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
