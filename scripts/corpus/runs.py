"""Runs: started, updated, items, tasks and failures noted, ended, retried, deleted; the quota; and every refusal."""

import time

from .routes import EMPTY_NAMES

SPACE = "/v1/runs/{space}"
ONE = SPACE + "/runs/{run}"
TASK = ONE + "/tasks/{task}"
CHARGE = SPACE + "/quota/charges/{id}"

# So that no two happen in one millisecond: lists are in order of time.
APART_S = 0.003

# What comes back as it went in.
TEXTS = ["100000000000001", "007", "a:b", "\"quoted\"", "two\nlines", "\u00e4 \U0001f600", "%41"]


def record(rec):
    lives(rec)
    texts(rec)
    bounds(rec)
    quota(rec)
    bodies(rec)
    paths_and_queries(rec)


def look(rec, path, route):
    for method in ["GET", "HEAD"]:
        rec.request(method, path, route=route)


def see(rec, at, run):
    """All that can be asked about a run."""
    one = f"{at}/runs/{run}"
    look(rec, one, ONE)
    for below in ["/progress", "/tasks", "/failures", "/retry_list"]:
        look(rec, one + below, ONE + below)
    rec.request("POST", one + "/is_processed", {"items": ["1", "2", "nope"]}, route=ONE + "/is_processed")


def lives(rec):
    """One run through all its states, in each space."""
    for space in ["main", "small"]:
        rec.section = f"runs of {space}"
        at = f"/v1/runs/{space}"
        one = f"{at}/runs/nightly%3A1"

        def post(below, body=None, query=""):
            time.sleep(APART_S)
            return rec.request("POST", one + below + query, body, route=ONE + below)

        def task(name, query=""):
            time.sleep(APART_S)
            return rec.request("PUT", f"{one}/tasks/{name}{query}", route=TASK)

        see(rec, at, "nightly%3A1")
        post("/processed", {"items": ["1"]})
        rec.request("PUT", one, route=ONE)
        rec.request("PUT", one, {}, route=ONE)
        see(rec, at, "nightly%3A1")
        post("/update", {"state": "processing", "fields": {"stage": "1"}, "total": 4})
        post("/update", {"fields": {"stage": None, "note": "x"}}, "?attempt=1")
        post("/update", {}, "?attempt=2")
        post("/update", {"state": "succeeded"})
        for items in [["1", "2"], ["2", "3", "3"], []]:
            post("/processed", {"items": items})
        post("/processed", {"items": ["4"]}, "?attempt=9")
        rec.request("POST", f"{one}/tasks/download/finish", route=TASK + "/finish")
        for name in ["download", "download", "load"]:
            task(name)
        rec.request("POST", f"{one}/tasks/download/finish", route=TASK + "/finish")
        # Finished, and a call comes late.
        task("download")
        task("load", "?attempt=9")
        for item, reason, call in [("5", "timeout", "c1"), ("5", "timeout", "c1"), ("5", "gone", "c2"), ("2", "", "c3")]:
            found = post("/failures", {"item": item, "reason": reason, "id": call})
        post("/failures", {"item": "5", "reason": "x", "id": "c4"}, "?attempt=9")
        see(rec, at, "nightly%3A1")
        failures = rec.quietly("GET", f"{one}/failures").json()["failures"]
        hour = time.strftime("%Y-%m-%d_%H", time.gmtime(failures[0]["last_at_ms"] / 1000))
        for name in [hour, "2015-09-12_00"]:
            look(rec, f"{at}/failures/{name}", SPACE + "/failures/{hour}")
        post("/processed", {"items": ["5"]})
        rec.request("GET", f"{one}/retry_list", route=ONE + "/retry_list")
        post("/retry", {"from_attempt": 1})
        post("/finish", {"state": "failed"}, "?attempt=9")
        for state in ["failed", "failed", "succeeded"]:
            post("/finish", {"state": state})
        post("/processed", {"items": ["6"]})
        task("late")
        rec.request("PUT", one, route=ONE)
        for attempt in [9, 1, 1]:
            post("/retry", {"from_attempt": attempt})
        task("download", "?attempt=1")
        task("download", "?attempt=2")
        see(rec, at, "nightly%3A1")
        post("/expire", {"lasting": "20h"})
        post("/expire", {"lasting_ms": 3_600_000}, "?attempt=2")
        post("/expire", {"lasting": "1h"}, "?attempt=1")
        for query in ["", "?state=running", "?state=failed", "?limit=1"]:
            rec.request("GET", at + query, route=SPACE)
        rec.request("HEAD", at, route=SPACE)
        rec.request("DELETE", one + "?attempt=1", route=ONE)
        rec.request("DELETE", one, route=ONE)
        rec.request("DELETE", one, route=ONE)
        see(rec, at, "nightly%3A1")
        rec.request("PUT", one, route=ONE)
        rec.request("GET", one, route=ONE)
        rec.request("DELETE", one, route=ONE)
        for body in [None, {}]:
            rec.request("POST", f"{at}/cleanup", body, route=SPACE + "/cleanup")
    look(rec, "/v1/runs", "/v1/runs")


def texts(rec):
    rec.section = "texts of runs"
    at = "/v1/runs/main"
    for number, text in enumerate(TEXTS):
        one = f"{at}/runs/texts%20{number}"
        rec.request("PUT", one, route=ONE)
        rec.request("POST", f"{one}/processed", {"items": [text]}, route=ONE + "/processed")
        rec.request("POST", f"{one}/is_processed", {"items": [text, text + " "]}, route=ONE + "/is_processed")
        rec.request("POST", f"{one}/failures", {"item": text, "reason": text, "id": text}, route=ONE + "/failures")
        rec.request("POST", f"{one}/update", {"fields": {text: text}}, route=ONE + "/update")
        rec.request("GET", f"{one}/failures", route=ONE + "/failures")
        rec.request("GET", one, route=ONE)
        rec.request("DELETE", one, route=ONE)


def bounds(rec):
    """What the space allows, and one more."""
    rec.section = "bounds of runs"
    at = "/v1/runs/small"
    one = f"{at}/runs/full"
    rec.request("PUT", one, route=ONE)
    rec.request("POST", f"{one}/processed", {"items": ["1", "2", "3"]}, route=ONE + "/processed")
    rec.request("POST", f"{one}/processed", {"items": ["3", "4", "5", "6", "7"]}, route=ONE + "/processed")
    rec.request("POST", f"{one}/processed", {"items": ["1", "5"]}, route=ONE + "/processed")
    rec.request("POST", f"{one}/update", {"fields": {"a": "1", "b": "2", "c": "3"}}, route=ONE + "/update")
    for name in ["a", "b", "c"]:
        rec.request("PUT", f"{one}/tasks/{name}", route=TASK)
    for item in ["x", "y", "z"]:
        time.sleep(APART_S)
        body = {"item": item, "reason": "a reason that is too long for it", "id": item}
        rec.request("POST", f"{one}/failures", body, route=ONE + "/failures")
        rec.request("POST", f"{one}/failures", {**body, "reason": "short"}, route=ONE + "/failures")
    rec.request("GET", f"{one}/failures", route=ONE + "/failures")
    for number in range(4):
        time.sleep(APART_S)
        rec.request("PUT", f"{at}/runs/more%20{number}", route=ONE)
    rec.request("GET", at, route=SPACE)
    for items in [10_001, 10_000]:
        rec.request("POST", "/v1/runs/main/runs/many/processed", {"items": [str(it) for it in range(items)]},
            route=ONE + "/processed")


def quota(rec):
    rec.section = "the quota of runs"
    for space in ["main", "small"]:
        at = f"/v1/runs/{space}/quota"
        look(rec, at, SPACE + "/quota")
        for name, body in [("a", {"cost": 1}), ("a", {"cost": 1}), ("a", {"cost": 2}), ("b", None), ("c", {}),
                ("d", {"cost": 100}), ("e", {"cost": 0}), ("f", {"cost": 1.5}), ("g", {"cost": "1"}), ("h", {"nope": 1})]:
            rec.request("PUT", f"{at}/charges/{name}", body, route=CHARGE)
        rec.request("GET", at, route=SPACE + "/quota")
        for name in ["a", "a", "nobody"]:
            rec.request("DELETE", f"{at}/charges/{name}", route=CHARGE)
        rec.request("PUT", f"{at}/charges/a", {"cost": 1}, route=CHARGE)
        rec.request("GET", at, route=SPACE + "/quota")


def bodies(rec):
    rec.section = "bodies of runs"
    one = "/v1/runs/main/runs/bodies"
    rec.request("PUT", one, route=ONE)
    for below, cases in {
        "/update": [{"state": "nope"}, {"state": None}, {"total": -1}, {"total": 1.5}, {"total": None}, {"fields": []},
            {"fields": {"": "x"}}, {"fields": {"a": 1}}, {"fields": {"a": "x" * 70_000}}, {"fields": None}, {"x": 1}],
        "/finish": [{}, {"state": "running"}, {"state": 1}, {"state": "cancelled", "x": 1}],
        "/retry": [{}, {"from_attempt": 0}, {"from_attempt": "1"}, {"from_attempt": 2**60}],
        "/expire": [{}, {"lasting": "x"}, {"lasting": "0s"}, {"lasting": "90days"}, {"lasting_ms": 0},
            {"lasting": "1h", "lasting_ms": 1}],
        "/processed": [{}, {"items": None}, {"items": "x"}, {"items": [1]}, {"items": [""]}, {"items": ["x" * 256]},
            {"items": [], "x": 1}],
        "/is_processed": [{}, {"items": [None]}, {"items": [""]}],
        "/failures": [{}, {"item": "x"}, {"item": "", "reason": "", "id": "1"}, {"item": "x", "reason": 1, "id": "1"},
            {"item": "x", "reason": "", "id": ""}, {"item": "x", "reason": "", "id": None}],
    }.items():
        for body in cases:
            rec.request("POST", one + below, body, route=ONE + below)
    rec.request("GET", one, route=ONE)


def paths_and_queries(rec):
    rec.section = "paths of runs"
    at = "/v1/runs/main"
    for path in EMPTY_NAMES:
        if path.startswith("/v1/runs"):
            for method in EMPTY_NAMES[path]:
                rec.request(method, path.format(space="main", run="r"), route=path)
    for query in ["?state=nope", "?state=", "?limit=0", "?limit=1001", "?limit=x", "?cursor=x", "?cursor=1-2",
            "?state=running&limit=2&cursor=9999999999999-61"]:
        rec.request("GET", at + query, route=SPACE)
        rec.request("GET", f"{at}/runs/bodies/failures{query}", route=ONE + "/failures")
    for query in ["?attempt=0", "?attempt=-1", "?attempt=x", "?attempt=1&attempt=1", "?attempt=99999999999999999999"]:
        rec.request("POST", f"{at}/runs/bodies/update{query}", {}, route=ONE + "/update")
    for hour in ["nope", "2015-09-12", "2015-09-12_24", "2015-02-30_00", "1969-01-01_00"]:
        rec.request("GET", f"{at}/failures/{hour}", route=SPACE + "/failures/{hour}")
    for run in ["x" * 255, "x" * 256, "%00", "%F0%9F%98%80", "a%2Fb"]:
        rec.request("PUT", f"{at}/runs/{run}", route=ONE)
        rec.request("GET", f"{at}/runs/{run}", route=ONE)
        rec.request("DELETE", f"{at}/runs/{run}", route=ONE)
