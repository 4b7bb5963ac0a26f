"""Limits: every operation on every algorithm, good, at its bounds and bad."""

import random
import re

from .routes import EMPTY_NAMES

SUBJECT = {"key": "/v1/limits/{limit}/keys/{key}", "everyone": "/v1/limits/{limit}/everyone"}
LIMITS = ["api", "roomy", "shared", "closed", "refusing", "holding", "few", "together", "thinned", "sampled",
    "smooth", "bucket", "daily", "leased"]
UNCERTAIN = ["sampled", "smooth"]

# Of these the clock would decide what is left: they are only looked at.
BY_THE_CLOCK = ["default", "hourly"]

# What a node has of a lease, and so who decides, is a matter of moments.
LEASED = [
    (re.compile(r'"remaining":\d+'), '"remaining":<n>'),
    (re.compile(r'"source":"(?:store|lease)"'), '"source":"<store or lease>"'),
    (re.compile(r";r=\d+"), ";r=<n>"),
    (re.compile(r"^\d+ of"), "<n> of"),
]


def subject(limit, key):
    """The path of a key, and its route."""
    if key is None:
        return f"/v1/limits/{limit}/everyone", SUBJECT["everyone"]
    return f"/v1/limits/{limit}/keys/{key}", SUBJECT["key"]


def record(rec):
    every_operation(rec)
    numbers_in_queries(rec)
    keys_in_paths(rec)
    several(rec)
    charges(rec)
    receipts(rec)
    overrides(rec)
    reservations(rec)
    lists(rec)
    chance(rec)
    any_order(rec)


def every_operation(rec):
    """On each limit, for a key and for everyone."""
    for limit in LIMITS:
        rec.section = f"limit {limit}"
        leave_out = LEASED if limit == "leased" else ()
        rec.request("GET", f"/v1/limits/{limit}", route="/v1/limits/{limit}")
        for key in ["user 1", None]:
            path, route = subject(limit, key and key.replace(" ", "%20"))
            body = {"key": key} if key else {}

            def request(method, below="", given=None, headers=(), at="", route=route, path=path):
                return rec.request(method, path + at, given, headers, route=route + below, leave_out=leave_out)

            request("GET")
            taken = [rec.request("POST", f"/v1/limits/{limit}/take", {**body, "cost": cost},
                route="/v1/limits/{limit}/take", leave_out=leave_out) for cost in (1, 2)]
            request("GET")
            request("GET", at="?cost=1000001")
            request("HEAD")
            for answer in taken:
                receipt = answer.json()["receipt"]
                for _ in range(2):
                    rec.request("POST", f"/v1/limits/{limit}/refund", {**body, "receipt": receipt or "1-2-3"},
                        route="/v1/limits/{limit}/refund")
            request("PUT", "/override", {"rate": "50/d", "lasting": "2h"}, at="/override")
            request("GET", "/override", at="/override")
            request("HEAD", "/override", at="/override")
            request("GET")
            rec.request("POST", f"/v1/limits/{limit}/take", body, route="/v1/limits/{limit}/take", leave_out=leave_out)
            rec.request("GET", f"/v1/limits/{limit}/overrides", route="/v1/limits/{limit}/overrides")
            request("DELETE", "/override", at="/override")
            request("DELETE", "/override", at="/override")
            request("GET", "/override", at="/override")
            held = {"cost": 2, "lasting": "1h"}
            for at in ["/reservations/a", "/reservations/b"]:
                request("PUT", "/reservations/{id}", held, at=at)
                request("PUT", "/reservations/{id}", held, at=at)
                request("GET", "/reservations/{id}", at=at)
                request("HEAD", "/reservations/{id}", at=at)
            rec.request("GET", f"/v1/limits/{limit}/reservations", route="/v1/limits/{limit}/reservations")
            for _ in range(2):
                request("POST", "/reservations/{id}/commit", {}, at="/reservations/a/commit")
                request("DELETE", "/reservations/{id}", at="/reservations/b")
            request("DELETE", "/reservations/{id}", at="/reservations/a")
            request("POST", "/reservations/{id}/commit", at="/reservations/b/commit")
            request("PUT", "/reservations/{id}", held, at="/reservations/b")
            request("GET", "/reservations/{id}", at="/reservations/none")
            request("DELETE", "/reservations/{id}", at="/reservations/none")
            request("POST", "/reservations/{id}/commit", at="/reservations/none/commit")
            request("DELETE")
            request("DELETE")
            request("GET")


    for limit in BY_THE_CLOCK:
        rec.section = f"limit {limit}"
        rec.request("GET", f"/v1/limits/{limit}", route="/v1/limits/{limit}")
        for cost in [1, 25, 26, 300, 301]:
            rec.request("GET", f"/v1/limits/{limit}/keys/untouched?cost={cost}", route=SUBJECT["key"])


def numbers_in_queries(rec):
    rec.section = "limit queries"
    numbers = ["1", "0", "-1", "1.0", "1e3", "+1", "%201", "", "x", "9007199254740991", "9007199254740992",
        "99999999999999999999", "1000", "1001", "%31"]
    for number in numbers:
        rec.request("GET", f"/v1/limits/api/keys/q?cost={number}", route=SUBJECT["key"])
        rec.request("GET", f"/v1/limits/api/everyone?cost={number}", route=SUBJECT["everyone"])
        for listed in ["overrides", "reservations"]:
            rec.request("GET", f"/v1/limits/api/{listed}?limit={number}", route="/v1/limits/{limit}/" + listed)
    for cursor in ["", "x", "1-", "1-zz", "-61", "1442018818771-61", "99999999999999999999-61",
            "1442018818771-" + "61" * 600]:
        for listed in ["overrides", "reservations"]:
            rec.request("GET", f"/v1/limits/api/{listed}?cursor={cursor}", route="/v1/limits/{limit}/" + listed)


def keys_in_paths(rec):
    rec.section = "keys in paths"
    keys = ["a%2Fb", "%C3%A4", "a+b", "a%2Bb", "a%20b", "%00", "%F0%9F%98%80", "%FF", "%zz", "%", "%2", "..",
        "%2E%2E", ".", "everyone", "a;b=c", "a:b@c", "a%25", "x" * 255, "x" * 256, "%C3%A4" * 127, "%C3%A4" * 128,
        "a%0Ab", "%22%5C"]
    for key in keys:
        for method in ["GET", "DELETE"]:
            rec.request(method, f"/v1/limits/api/keys/{key}", route=SUBJECT["key"])
        rec.request("GET", f"/v1/limits/api/keys/{key}/override", route=SUBJECT["key"] + "/override")
        rec.request("GET", f"/v1/limits/holding/keys/k/reservations/{key}", route=SUBJECT["key"] + "/reservations/{id}")
        rec.request("PUT", f"/v1/limits/roomy/everyone/reservations/{key}", {"lasting_ms": 3_600_000},
            route=SUBJECT["everyone"] + "/reservations/{id}")
    for path in [it for it in EMPTY_NAMES if it.startswith("/v1/limits")]:
        for method in ["GET", "DELETE", "PUT", "POST"]:
            for limit in ["api", "nope"]:
                rec.request(method, path.format(limit=limit), route=path)
    for at in ["keys//override", "keys//reservations/a", "keys", "everyone/", "keys/a/", "keys/a/b",
            "keys/a/override/", "keys/a/reservations", "keys/a/reservations/"]:
        rec.request("GET", f"/v1/limits/api/{at}")


def charges(rec):
    """By an id: once, given back once, and never for something else."""
    rec.section = "charges by an id"
    route, release = "/v1/charges", "/v1/charges/release"
    for key in ["charged", None]:
        subject_of = {"key": key} if key else {}
        for name, limits in [("a", [{"limit": "api", "cost": 2}, {"limit": "daily"}]),
                ("a", [{"limit": "api", "cost": 2}, {"limit": "daily"}]), ("a", [{"limit": "api", "cost": 3}, {"limit": "daily"}]),
                ("a", [{"limit": "api", "cost": 2}]), ("b", [{"limit": "api", "cost": 99}]),
                ("c", [{"limit": "api"}, {"limit": "daily", "cost": 99}]), ("d", [{"limit": "bucket"}]),
                ("e", [{"limit": "nope"}]), ("f", []), ("", [{"limit": "api"}]), ("x" * 256, [{"limit": "api"}]),
                ("g", [{"limit": "api", "cost": 0}]), ("h", [{"limit": "api"}] * 2)]:
            rec.request("POST", route, {"id": name, "limits": limits, **subject_of}, route=route)
        for name, limits in [("a", ["api"]), ("a", ["api", "daily"]), ("a", ["daily", "api"]), ("nobody", ["api"]),
                ("a", []), ("a", ["nope"]), ("", ["api"])]:
            rec.request("POST", release, {"id": name, "limits": limits, **subject_of}, route=release)
        rec.request("POST", route, {"id": "a", "limits": [{"limit": "api", "cost": 2}, {"limit": "daily"}], **subject_of},
            route=route)
    for target in [route, release]:
        for body in [{}, {"id": "a"}, {"id": 1, "limits": ["api"]}, {"id": "a", "limits": "api"},
                {"id": "a", "limits": [1]}, {"id": "a", "limits": ["api"], "key": ""}, [], "x"]:
            rec.request("POST", target, body, route=target)


def several(rec):
    rec.section = "take from several"
    route = "/v1/limits/take"
    bodies = [
        {"key": "s", "limits": [{"limit": "api"}]},
        {"key": "s", "limits": [{"limit": "api"}, {"limit": "roomy", "cost": 5}]},
        {"limits": [{"limit": "daily"}, {"limit": "bucket"}, {"limit": "api", "cost": 2}]},
        {"key": "s", "limits": [{"limit": "api", "cost": 9}, {"limit": "roomy"}]},
        {"key": "s", "limits": [{"limit": "api", "cost": 9}, {"limit": "bucket", "cost": 6}, {"limit": "roomy"}]},
        {"key": "s", "limits": [{"limit": "thinned", "cost": 5}, {"limit": "api"}]},
        {"key": "s", "limits": [{"limit": "thinned"}, {"limit": "api"}]},
        {"key": "s", "limits": [{"limit": name} for name in LIMITS if name not in UNCERTAIN + ["leased"]]},
        {"key": "s", "limits": []},
        {"key": "s", "limits": [{"limit": "api"}, {"limit": "api"}]},
        {"key": "s", "limits": [{"limit": "api"}] * 17},
        {"key": "s", "limits": [{"limit": "nope"}]},
        {"key": "s", "limits": [{"limit": ""}]},
        {"key": "s", "limits": [{"limit": "api", "rate": "5/s"}]},
        {"key": "s", "limits": [{"limit": "api", "cost": 0}]},
        {"key": "s", "limits": [{"limit": "api", "cost": 1.5}]},
        {"key": "s", "limits": [{"cost": 1}]},
        {"key": "s", "limits": [["api"]]},
        {"key": "s", "limits": ["api"]},
        {"key": "s", "limits": {"limit": "api"}},
        {"key": "s", "limits": None},
        {"key": "s"},
        {"key": "", "limits": [{"limit": "api"}]},
        {"key": None, "limits": [{"limit": "api"}]},
        {"key": "x" * 256, "limits": [{"limit": "api"}]},
        {"key": "s", "limits": [{"limit": "api"}], "cost": 1},
        [{"limit": "api"}],
    ]
    for body in bodies:
        for _ in range(2):
            rec.request("POST", "/v1/limits/take", body, route=route)
    for at in ["?key=a", "/", "?"]:
        rec.request("POST", "/v1/limits/take" + at, bodies[0], route=route)


def receipts(rec):
    rec.section = "receipts"
    route = "/v1/limits/{limit}/refund"

    def taken(limit, key="owner", cost=1):
        return rec.quietly("POST", f"/v1/limits/{limit}/take", {"key": key, "cost": cost}).json()["receipt"]

    for limit in ["api", "bucket", "daily", "roomy"]:
        good = taken(limit)
        rec.normal.receipt(good)
        changed = good[:-1] + ("0" if good[-1] != "0" else "1")
        for receipt in [good, changed, good.upper() + "A", good + "-1", "-" + good, good.replace("-", "_"),
                " " + good]:
            # What was changed is not written down as it is: it differs from run to run.
            hide = [(re.compile(re.escape(good.replace("-", "_"))), "<changed>"), (re.compile(re.escape(changed)),
                "<changed>"), (re.compile(re.escape(good), re.I), "<receipt>")]
            rec.request("POST", f"/v1/limits/{limit}/refund", {"key": "owner", "receipt": receipt}, route=route,
                leave_out=hide)
            rec.lines[-1]["request"]["body"] = "<a receipt, or a receipt that was changed>"
        for body in [{"key": "other", "receipt": good}, {"receipt": good}]:
            rec.request("POST", f"/v1/limits/{limit}/refund", body, route=route)
        rec.request("POST", "/v1/limits/shared/refund", {"key": "owner", "receipt": good}, route=route)
    for receipt in ["", "1", "1-2", "1-2-3", "1-2-3-4", "1-2-3-5f0c8d21b7e3a94c", "x", "1-2-3-4-5-6", "9" * 400,
            "\u00e4", "1--2"]:
        for limit in ["api", "bucket", "daily", "thinned", "nope"]:
            rec.request("POST", f"/v1/limits/{limit}/refund", {"key": "owner", "receipt": receipt}, route=route)
    for body in [{"key": "owner"}, {"receipt": None}, {"receipt": 5}, {"receipt": "1-2", "cost": 1},
            {"key": None, "receipt": "1"}, {"key": "", "receipt": "1-2-3-4"}]:
        rec.request("POST", "/v1/limits/api/refund", body, route=route)


def overrides(rec):
    rec.section = "overrides"
    bodies = [
        {"rate": "50/s", "lasting": "1h"},
        {"rate": "50/s", "lasting_ms": 3_600_000},
        {"rate": "1/d", "lasting": "90days"},
        {"rate": "1/d", "lasting": "91days"},
        {"rate": "1/d", "lasting_ms": 7_776_000_000},
        {"rate": "1/d", "lasting_ms": 7_776_000_001},
        {"rate": "1/d", "lasting_ms": 0},
        {"rate": "1/d", "lasting_ms": -1},
        {"rate": "1/d", "lasting_ms": 1.5},
        {"rate": "1/d", "lasting_ms": "1"},
        {"rate": "1/d", "lasting_ms": None},
        {"rate": "1/d", "lasting_ms": 18_446_744_073_709_551_615},
        {"rate": "1/d", "lasting_ms": 18_446_744_073_709_551_616},
        {"rate": "1/d", "lasting": ""},
        {"rate": "1/d", "lasting": "soon"},
        {"rate": "1/d", "lasting": "1h", "lasting_ms": 1},
        {"rate": "1/d"},
        {"lasting": "1h"},
        {"rate": "", "lasting": "1h"},
        {"rate": "0/s", "lasting": "1h"},
        {"rate": "x/s", "lasting": "1h"},
        {"rate": "5", "lasting": "1h"},
        {"rate": "0.5/d", "lasting": "1h"},
        {"rate": "999999999999/s", "lasting": "1h"},
        {"rate": 5, "lasting": "1h"},
        {"rate": None, "lasting": "1h"},
        {"rate": "5/s", "lasting": "1h", "more": 1},
        ["5/s", "1h"],
    ]
    for number, body in enumerate(bodies):
        for limit in ["api", "bucket", "daily", "thinned"]:
            path, route = subject(limit, f"o{number}")
            rec.request("PUT", path + "/override", body, route=route + "/override")
        rec.request("PUT", "/v1/limits/roomy/everyone/override", body, route=SUBJECT["everyone"] + "/override")
    rec.request("DELETE", "/v1/limits/roomy/everyone/override", route=SUBJECT["everyone"] + "/override")


def reservations(rec):
    rec.section = "reservations"
    bodies = [
        {"lasting": "30m"},
        {"cost": 2, "lasting_ms": 1_800_000},
        {"cost": 2.0, "lasting_ms": 86_400_000},
        {"cost": 2, "lasting_ms": 86_400_001},
        {"cost": 10, "lasting": "1h"},
        {"cost": 11, "lasting": "1h"},
        {"cost": 100_001, "lasting": "1h"},
        {"cost": 0, "lasting": "1h"},
        {"cost": "1", "lasting": "1h"},
        {"cost": 1},
        {"cost": 1, "lasting": "0s"},
        {"cost": 1, "lasting": "1h", "lasting_ms": 1},
        {"cost": 1, "lasting": "1h", "key": "x"},
        {},
        [1, 2],
    ]
    route = SUBJECT["key"] + "/reservations/{id}"
    for number, body in enumerate(bodies):
        for limit in ["api", "daily", "holding", "bucket", "smooth"]:
            hide = [(re.compile(r"\b\d+ ms\b"), "<n> ms")] if limit == "daily" else ()
            rec.request("PUT", f"/v1/limits/{limit}/keys/h{number}/reservations/one", body, route=route, leave_out=hide)
    at = "/v1/limits/holding/keys/many/reservations/"
    # Two are allowed to be pending; an id stands for what it was used for.
    for name, cost in [("a", 2), ("b", 2), ("c", 2), ("a", 2), ("a", 3), ("d", 9)]:
        rec.request("PUT", at + name, {"cost": cost, "lasting": "1h"}, route=route)
    rec.request("DELETE", at + "a", route=route)
    rec.request("PUT", at + "a", {"cost": 2, "lasting": "1h"}, route=route)
    rec.request("PUT", at + "c", {"cost": 2, "lasting": "1h"}, route=route)
    rec.request("POST", at + "c/commit", {}, route=route + "/commit")
    rec.request("POST", at + "a/commit", {}, route=route + "/commit")
    rec.request("DELETE", at + "c", route=route)
    for limit in ["holding", "roomy", "daily"]:
        path = f"/v1/limits/{limit}/keys/short/reservations/brief"
        rec.quietly("PUT", path, {"cost": 3, "lasting_ms": 1})
        rec.wait_until("the reservation has lapsed", lambda: rec.quietly("GET", path).json().get("state") == "lapsed")
        rec.request("GET", path, route=route)
        rec.request("PUT", path, {"cost": 3, "lasting_ms": 3_600_000}, route=route)
        rec.request("POST", path + "/commit", {}, route=route + "/commit")
        rec.request("DELETE", path, route=route)
        rec.request("GET", f"/v1/limits/{limit}/keys/short", route=SUBJECT["key"])


def lists(rec):
    """Page by page: each ends later than the one before."""
    rec.section = "lists of a limit"
    for number in range(5):
        key = f"/v1/limits/shared/keys/l{number}"
        rec.quietly("PUT", key + "/override", {"rate": f"{number + 1}/d", "lasting_ms": 3_600_000 * (number + 1)})
        rec.quietly("PUT", key + "/reservations/r", {"cost": number + 1, "lasting_ms": 3_600_000 * (number + 1)})
    hide = [(re.compile(r'"next":"\d{13}-[0-9a-f]+"'), '"next":"<cursor>"')]
    for listed in ["overrides", "reservations"]:
        route = "/v1/limits/{limit}/" + listed
        for size in [1, 2, 5, 6]:
            cursor = ""
            while cursor is not None:
                answer = rec.request("GET", f"/v1/limits/shared/{listed}?limit={size}{cursor}", route=route,
                    leave_out=hide)
                at = "&cursor=<cursor>" if cursor else ""
                rec.lines[-1]["request"]["target"] = f"/v1/limits/shared/{listed}?limit={size}{at}"
                next_page = answer.json()["next"]
                cursor = next_page and f"&cursor={next_page}"
        rec.request("GET", f"/v1/limits/shared/{listed}", route=route, leave_out=hide)
        rec.request("GET", f"/v1/limits/nope/{listed}", route=route)
    for path in ["/v1/limits", "/v1/limits/api", "/v1/limits/nope", "/v1/limits/%FF", "/v1/limits/",
            "/v1/limits/api/"]:
        rec.request("GET", path,
            route="/v1/limits" if path == "/v1/limits" else "/v1/limits/{limit}" if path == "/v1/limits/api" else None)


def chance(rec):
    """Both answers of a limit that lets some through: requested until each was given."""
    rec.section = "chance"
    for limit in UNCERTAIN:
        for wanted in [True, False]:
            key = f"chance-{wanted}"
            for _ in range(8):
                rec.quietly("POST", f"/v1/limits/{limit}/take", {"key": key})
            for _ in range(10_000):
                rec.request("POST", f"/v1/limits/{limit}/take", {"key": key}, route="/v1/limits/{limit}/take")
                said = rec.lines[-1]["response"]["body"]
                if f'"is_allowed":{str(wanted).lower()}' in said:
                    break
                rec.lines.pop()
                rec.numbers[rec.section] -= 1


def any_order(rec):
    """Whatever comes to a limit, in an order that is drawn once and for all."""
    rec.section = "limits in any order"
    draw = random.Random(20261116)
    known = {}
    for _ in range(400):
        limit = draw.choice(["api", "shared", "holding", "bucket", "daily", "refusing"])
        key = f"any-{draw.randrange(4)}"
        path, route = subject(limit, key)
        what = draw.choice(["take", "take", "take", "peek", "refund", "reset", "override", "clear", "reserve",
            "commit", "release", "get"])
        at = f"/reservations/r{draw.randrange(3)}"
        cost = draw.randrange(1, 5)
        if what == "take":
            answer = rec.request("POST", f"/v1/limits/{limit}/take", {"key": key, "cost": cost},
                route="/v1/limits/{limit}/take")
            known[limit, key] = answer.json().get("receipt") or known.get((limit, key))
        elif what == "refund" and known.get((limit, key)):
            rec.request("POST", f"/v1/limits/{limit}/refund", {"key": key, "receipt": known[limit, key]},
                route="/v1/limits/{limit}/refund")
        elif what == "override":
            rec.request("PUT", path + "/override", {"rate": f"{cost * 5}/d", "lasting": "5h"}, route=route + "/override")
        elif what == "clear":
            rec.request("DELETE", path + "/override", route=route + "/override")
        elif what == "reserve":
            rec.request("PUT", path + at, {"cost": cost, "lasting": "5h"}, route=route + "/reservations/{id}")
        elif what == "commit":
            rec.request("POST", path + at + "/commit", route=route + "/reservations/{id}/commit")
        elif what == "release":
            rec.request("DELETE", path + at, route=route + "/reservations/{id}")
        elif what == "get":
            rec.request("GET", path + at, route=route + "/reservations/{id}")
        elif what == "reset" and draw.random() < 0.3:
            rec.request("DELETE", path, route=route)
        else:
            rec.request("GET", f"{path}?cost={cost}", route=route)
