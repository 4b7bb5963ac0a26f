//! `tidegate limit`: what it prints and how it exits; and what a server says of its limits.

use serde_json::{Value, json};

use crate::cli::{Server, run, tidegate};

#[test]
fn a_take_is_printed_for_people_and_for_machines() {
    let server = Server::start(&["--set", "limits.api.rate=2/m"]);
    let (code, out, err) = server.limit(&["take", "api", "a/b:{c} ü"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (first, rest) = out.split_once('\n').unwrap();
    assert!(first.starts_with("admitted: 1 of 2 left, all free again in 1m "), "{out}");
    let receipt = rest.strip_prefix("receipt ").unwrap().trim_end();

    let (code, out, _) = server.limit(&["peek", "api", "a/b:{c} ü", "--json"]);
    let peeked: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &peeked["remaining"], &peeked["key"]), (0, &json!(1), &json!("a/b:{c} ü")));

    let (code, out, _) = server.limit(&["take", "api", "a/b:{c} ü", "--cost", "2"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("rejected: 1 of 2 left, 2 will fit in "), "{out}");
    let (code, out, _) = server.limit(&["take", "api", "a/b:{c} ü", "--cost", "3", "--json"]);
    let refused: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &refused["outcome"], &refused["retry_after_ms"]),
        (1, &json!("rejected"), &json!(null))
    );
    let (code, _, _) = server.limit(&["take", "api", "a/b:{c} ü", "--cost", "3", "--rate", "1/s"]);
    assert_eq!(code, 0);

    assert_eq!(
        server.limit(&["refund", "api", "a/b:{c} ü", receipt]),
        (0, "1 given back\n".into(), "".into())
    );
    assert_eq!(
        server.limit(&["refund", "api", "a/b:{c} ü", receipt]),
        (0, "nothing was given back: the charge no longer counts\n".into(), "".into())
    );
    assert_eq!(server.limit(&["reset", "api", "a/b:{c} ü"]), (0, "reset\n".into(), "".into()));
    let (code, out, _) = server.limit(&["peek", "api", "a/b:{c} ü"]);
    assert_eq!((code, out.as_str()), (0, "admitted: 2 of 2 left\n"));
    assert_eq!(server.limit(&["reset", "api", "x", "--json"]).1, "{\"reset\":true}\n");
}

/// Both targets: a server, and (for as long as the command lives) a store.
#[test]
fn several_limits_are_taken_from_at_once() {
    let limits = [
        "--set",
        "limits.second.rate=2/s",
        "--set",
        "limits.hour.rate=3/h",
        "--set",
        "limits.hour.window=1h",
    ];
    let server = Server::start(&limits);
    let (code, out, err) = server.limit(&["take-all", "second=1,hour=2", "u"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], "admitted");
    assert!(lines[1].starts_with("second: admitted: 119 of 120 left, all free again in "), "{out}");
    assert!(lines[2].starts_with("hour: admitted: 1 of 3 left, all free again in 1h "), "{out}");
    assert!(lines[2].contains(", receipt "), "{out}");

    let (code, out, _) = server.limit(&["take-all", "second,hour=2", "u"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("rejected\nsecond: admitted: 119 of 120 left"), "{out}");
    assert!(out.contains("\nhour: rejected: 1 of 3 left, 2 will fit in "), "{out}");
    let (code, out, _) = server.limit(&["take-all", "second,hour=2", "u", "--json"]);
    let refused: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &refused["violated-policies"]), (1, &json!(["hour"])));

    let (code, _, err) = server.limit(&["take-all", "second,nope", "u"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("tidegate: there is no limit \"nope\"; known are: hour, second"), "{err}");

    let mut direct = tidegate(&["limit", "take-all", "second,hour", "--everyone", "--store", "memory:"]);
    direct.args(limits);
    let (code, out, _) = run(direct);
    assert_eq!((code, out.lines().next()), (0, Some("admitted")));
}

/// An id is charged once, however often it is sent, and given back once.
#[test]
fn several_limits_are_charged_by_an_id() {
    let limits = [
        "--set",
        "limits.second.rate=2/s",
        "--set",
        "limits.hour.rate=3/h",
        "--set",
        "limits.hour.window=1h",
    ];
    let server = Server::start(&limits);
    for _ in 0..2 {
        let (code, out, err) = server.limit(&["charge", "second=1,hour=2", "u", "order-17"]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert_eq!(out, "charged\nsecond: 119 of 120 left\nhour: 1 of 3 left\n");
    }
    let (code, out, _) = server.limit(&["charge", "second,hour=2", "u", "order-18"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("rejected\nsecond: admitted: 119 of 120 left"), "{out}");
    let (code, out, _) = server.limit(&["charge", "second,hour=1", "u", "order-17"]);
    assert_eq!(
        (code, out.as_str()),
        (1, "the reservation \"order-17\" is for 2 and cannot be for 1: use another id\n")
    );
    let release = || server.limit(&["release-charge", "second,hour", "u", "order-17"]);
    assert_eq!(
        [release(), release()].map(|(code, out, _)| (code, out)),
        [(); 2].map(|()| (0, "released\n".to_owned()))
    );
    let (code, out, _) = server.limit(&["charge", "second=1,hour=2", "u", "order-17"]);
    assert_eq!(
        (code, out.as_str()),
        (1, "the charge \"order-17\" is released: nothing is charged; use another id\n")
    );
    let (code, out, _) = server.limit(&["release-charge", "second,hour", "--everyone", "order-17", "--json"]);
    assert_eq!(code, 1);
    assert!(out.contains("no-charge"), "{out}");
    let (code, out, _) = server.limit(&["charge", "hour", "--everyone", "x", "--json"]);
    let charged: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &charged["key"], &charged["limits"][0]["remaining"]), (0, &Value::Null, &json!(2)));
}

#[test]
fn overrides_are_set_seen_and_ended() {
    let server = Server::start(&[]);
    let (code, out, _) = server.limit(&["get-override", "api", "u"]);
    assert_eq!(
        (code, out.as_str()),
        (1, "the key \"u\" has no override of the limit \"api\", or it has ended\n")
    );
    let set = ["set-override", "api", "u", "--rate", "50/s", "--lasting", "1h"];
    assert_eq!(server.limit(&set), (0, "50/s for another 1h\n".into(), "".into()));
    let (code, out, _) = server.limit(&["get-override", "api", "u"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("50/s for another "), "{out}");
    let (_, out, _) = server.limit(&["get-override", "api", "u", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["rate"], "50/s");
    let (_, out, _) = server.limit(&["peek", "api", "u"]);
    assert_eq!(out, "admitted: 3000 of 3000 left\n");
    assert_eq!(server.limit(&["clear-override", "api", "u"]), (0, "cleared\n".into(), "".into()));
    assert_eq!(server.limit(&["clear-override", "api", "--everyone", "--json"]).1, "{\"cleared\":true}\n");
    let (code, _, err) = server.limit(&["set-override", "api", "u", "--rate", "5/y", "--lasting", "1h"]);
    assert_eq!(code, 2);
    assert!(err.contains("\"5/y\" is not a rate"), "{err}");
    let (code, _, err) = server.limit(&["get-override", "api", ""]);
    assert_eq!(code, 2);
    assert!(err.contains("a key must not be empty"), "{err}");
}

#[test]
fn reservations_are_made_and_settled() {
    let server = Server::start(&["--set", "limits.api.rate=5/m"]);
    let reserve = ["reserve", "api", "u", "order/17", "--cost", "3", "--lasting", "30s"];
    assert_eq!(server.limit(&reserve), (0, "pending: 3, for another 30s\n".into(), "".into()));
    let (code, out, _) = server.limit(&reserve);
    assert_eq!(code, 0, "sent twice, held once");
    assert!(out.starts_with("pending: 3, for another "), "{out}");
    let (code, out, _) = server.limit(&["reserve", "api", "u", "b", "--cost", "3", "--lasting", "30s"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("rejected: 2 of 5 left, 3 will fit in "), "{out}");
    let (code, out, _) =
        server.limit(&["reserve", "api", "u", "order/17", "--cost", "4", "--lasting", "30s"]);
    assert_eq!(
        (code, out.as_str()),
        (1, "the reservation \"order/17\" is for 3 and cannot be for 4: use another id\n")
    );
    let (code, out, _) = server.limit(&["reservation", "api", "u", "order/17", "--json"]);
    assert_eq!((code, &serde_json::from_str::<Value>(&out).unwrap()["state"]), (0, &json!("pending")));
    assert_eq!(server.limit(&["commit", "api", "u", "order/17"]).1, "committed: 3\n");
    let (code, out, _) = server.limit(&["release", "api", "u", "order/17"]);
    assert_eq!(
        (code, out.as_str()),
        (1, "the reservation \"order/17\" is committed: it can no longer be released\n")
    );
    let (code, out, _) = server.limit(&["commit", "api", "u", "other"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("the key \"u\" has no reservation \"other\" of the limit \"api\""), "{out}");

    let everyone = |args: &[&str]| server.limit(&[args, &["--everyone"]].concat());
    assert_eq!(everyone(&["reserve", "api", "r", "--lasting", "1s"]).0, 0);
    assert_eq!(everyone(&["release", "api", "r"]), (0, "released: 1\n".into(), "".into()));
}

#[test]
fn what_everyone_shares_needs_no_key() {
    let server = Server::start(&["--set", "limits.api.rate=2/m"]);
    let (code, out, _) = server.limit(&["take", "api", "--everyone"]);
    assert_eq!(code, 0);
    let receipt = out.lines().nth(1).unwrap().strip_prefix("receipt ").unwrap();
    let (_, out, _) = server.limit(&["peek", "api", "--everyone", "--json"]);
    let peeked: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&peeked["key"], &peeked["remaining"]), (&json!(null), &json!(1)));
    let (code, out, _) = server.limit(&["refund", "api", receipt, "--everyone"]);
    assert_eq!((code, out.as_str()), (0, "1 given back\n"));
    assert_eq!(server.limit(&["reset", "api", "--everyone"]).1, "reset\n");
}

#[test]
fn limits_are_listed() {
    let server = Server::start(&[
        "--set",
        "limits.api.rate=5/s",
        "--set",
        "limits.burst.algorithm=token",
        "--set",
        "limits.rate_limit.algorithm=calendar",
    ]);
    let (code, out, _) = server.limit(&["list"]);
    let expected = "api: sliding, 300 per 1m\nburst: token, 5 per 1s\nrate_limit: calendar, 4975 per 1h\n";
    assert_eq!((code, out.as_str()), (0, expected));
    let (_, out, _) = server.limit(&["list", "--json"]);
    let listed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(listed["limits"][2]["safety_buffer"], 25);
}

#[test]
fn chance_is_printed_and_decides_the_exit_code() {
    let server = Server::start(&["--set", "limits.api.algorithm=suppressed", "--set", "limits.api.rate=1/m"]);
    assert_eq!(server.limit(&["take", "api", "u"]).0, 0);
    let (code, out, _) = server.limit(&["take", "api", "u"]);
    assert_eq!((code, out.as_str()), (1, "suppressed: held back, 100 % of calls are held back\n"));
    let (code, out, _) = server.limit(&["take", "api", "u", "--json"]);
    assert_eq!((code, &serde_json::from_str::<Value>(&out).unwrap()["is_allowed"]), (1, &json!(false)));
}

/// A share of less than one permit refuses everything while the store is away: the log says
/// so when the server starts, not when the store has gone.
#[test]
fn a_local_share_below_one_permit_is_reported_at_the_start() {
    let store = "store.url=redis://127.0.0.1:1";
    let with = |share: &str| {
        let settings =
            [store, "limits.api.rate=1/s", "limits.api.window=10s", "limits.api.outage=local", share];
        let args: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        Server::start(&args).signal("TERM").1
    };
    let log = with("limits.api.local_share=0.05");
    let warning = log.lines().find(|line| line.contains("less than one permit"));
    let warning = warning.unwrap_or_else(|| panic!("{log}"));
    assert!(warning.contains("WARN") && warning.contains("limit=\"api\""), "{warning}");
    assert!(warning.contains("capacity=10"), "{warning}");
    let log = with("limits.api.local_share=0.1");
    assert!(!log.contains("less than one permit"), "{log}");
}

/// A peek for a cost answers and exits as a take of it would.
#[test]
fn a_peek_takes_a_cost() {
    let server = Server::start(&["--set", "limits.api.rate=1/s", "--set", "limits.api.window=10s"]);
    assert_eq!(server.limit(&["take", "api", "u", "--cost", "4"]).0, 0);
    assert_eq!(server.limit(&["peek", "api", "u", "--cost", "6"]).0, 0);
    let (code, out, err) = server.limit(&["peek", "api", "u", "--cost", "7"]);
    assert_eq!((code, err.as_str()), (1, ""));
    assert!(out.starts_with("rejected: 6 of 10 left, 7 will fit in "), "{out}");
    assert_eq!(server.limit(&["peek", "api", "u", "--cost", "0"]).0, 2);
    for bad in ["cost=0", "cost=1.5", "cost=", "cost=1&cost=2", "costs=1", "cost=9007199254740992"] {
        let answer = server.get(&format!("/v1/limits/api/keys/u?{bad}"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{bad}: {answer}");
    }
}
