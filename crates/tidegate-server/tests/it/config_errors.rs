//! What is said about wrong settings.

use tidegate_server::settings::Sources;

use crate::config::{environment, error, file, flags, load, variable, yaml};

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
        (
            "limits.api.safety_buffer",
            "+25",
            "\"+25\" is not allowed: whole numbers from 0 to 9007199254740991 are",
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
        // A variable that is empty says nothing.
        if !value.is_empty() {
            let refusal = error(&environment(&[(&variable(path), value)]));
            assert!(refusal.contains(&variable(path)) && refusal.contains(message), "{refusal}");
        }
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
            "`hot.main`: a hot_threshold of 3 is not allowed: 1 to 2 are",
        ),
        (
            vec![("hot.main.gather", "100ms")],
            "`hot.main`: a gather of 100ms is not allowed: edits are not gathered, only counts are, with a \
             max_members_per_page of 0",
        ),
        (
            vec![("hot.main.max_members_per_page", "0"), ("hot.main.gather", "2m")],
            "`hot.main`: a gather of 120s is not allowed: 0s to 60s are",
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
