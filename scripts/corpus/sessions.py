"""Sessions: activated, held, left, claimed, acknowledged, and every refusal."""

import random
import re
import time

from .routes import EMPTY_NAMES

SPACE = "/v1/sessions/{space}"
ONE = SPACE + "/{id}"
HOLDER = ONE + "/holders/{holder}"
NOBODY = "67e55044-10b1-426f-9247-bb680e5fe0c8"

# So that no two happen in one millisecond: lists are in order of time.
APART_S = 0.003

# What one call has claimed or buried has one moment, and so any order.
AT_ONCE = [(re.compile(r"<id \d+ of [^<>]+>"), "<id>")]


def record(rec):
    rec.normal.literal(NOBODY)
    lives(rec)
    bodies(rec)
    paths_and_queries(rec)
    full(rec)
    claims(rec)
    deaths(rec)
    any_order(rec)


def activate(rec, space, broadcaster, holder=None, config=None):
    body = {"broadcaster": broadcaster, "config": {} if config is None else config}
    if holder:
        body["holder"] = holder
    time.sleep(APART_S)
    return rec.request("POST", f"/v1/sessions/{space}", body, route=SPACE)


def lives(rec):
    """One session through all its states, in each space."""
    for space in ["sessions", "work"]:
        rec.section = f"lives in {space}"
        at = f"/v1/sessions/{space}"
        session = activate(rec, space, "channel 1", "tab-1", {"theme": "dark", "n": 1.50}).json()["id"]
        activate(rec, space, "channel 1", "tab-1", "dark")
        one = f"{at}/{session}"

        def see():
            for method in ["GET", "HEAD"]:
                rec.request(method, one, route=ONE)
                rec.request(method, f"{at}/broadcasters/channel%201", route=SPACE + "/broadcasters/{broadcaster}")
            rec.request("GET", f"{at}/counts", route=SPACE + "/counts")
            for state in ["active", "disconnected", "orphan", "claimed", "dead"]:
                rec.request("GET", f"{at}?state={state}", route=SPACE)

        see()
        rec.request("PUT", f"{one}/value", {"value": {"score": 7}}, route=ONE + "/value")
        rec.request("PUT", f"{one}/value", {"value": "text", "generation": 1}, route=ONE + "/value")
        rec.request("PUT", f"{one}/value", {"value": 1, "generation": 2}, route=ONE + "/value")
        rec.request("DELETE", one, route=ONE)
        for query in ["", "?resume=true", "?resume=false", "?generation=1", "?generation=9",
                "?resume=true&generation=1"]:
            rec.request("PUT", f"{one}/holders/tab-2{query}", route=HOLDER)
        rec.request("PUT", f"{one}/holders/tab-3", {}, route=HOLDER)
        for query in ["", "?generation=1", "?generation=9"]:
            rec.request("POST", f"{one}/holders/tab-1/heartbeat{query}", route=HOLDER + "/heartbeat")
            rec.request("POST", f"{one}/holders/nobody/heartbeat{query}", route=HOLDER + "/heartbeat")
        see()
        rec.request("DELETE", f"{one}/holders/tab-3", route=HOLDER)
        rec.request("DELETE", f"{one}/holders/nobody", route=HOLDER)
        rec.request("DELETE", f"{one}/holders/tab-1?generation=9", route=HOLDER)
        rec.request("DELETE", f"{one}/holders/tab-1?generation=1", route=HOLDER)
        rec.request("DELETE", f"{one}/holders/tab-2", route=HOLDER)
        time.sleep(APART_S)
        see()
        rec.request("DELETE", f"{one}/holders/tab-2", route=HOLDER)
        rec.request("PUT", f"{one}/holders/tab-1", route=HOLDER)
        rec.request("POST", f"{one}/holders/tab-1/heartbeat", route=HOLDER + "/heartbeat")
        rec.request("PUT", f"{one}/holders/tab-1?resume=true", route=HOLDER)
        see()
        rec.request("DELETE", f"{one}/holders/tab-1", route=HOLDER)
        activate(rec, space, "channel 1")
        activate(rec, space, "channel 1", "tab-4")
        rec.request("DELETE", f"{one}/holders/tab-4", route=HOLDER)
        rec.request("DELETE", one, route=ONE)
        see()
        for method, below in [("PUT", "/holders/a"), ("PUT", "/holders/a?resume=true"), ("DELETE", "/holders/a"),
                ("POST", "/holders/a/heartbeat"), ("DELETE", ""), ("GET", "")]:
            for session_id in [session, NOBODY]:
                rec.request(method, f"{at}/{session_id}{below}")
        rec.request("PUT", f"{at}/{NOBODY}/value", {"value": 1}, route=ONE + "/value")


def bodies(rec):
    rec.section = "bodies of sessions"
    good = {"broadcaster": "bodies", "config": {}}
    for config in [{}, None, 7, 7.10, True, "", "dark", "7", "{}", "null", "true", [1, 2], {"b": 1, "a": 10**19},
            "x" * 65_534, "x" * 65_536, "x" * 65_537, "\u0000", "\u00e4 \U0001f600", "a\nb", {"deep": [[[[[[]]]]]]}]:
        found = activate(rec, "sessions", "bodies", "h", config)
        if found.status < 300:
            rec.request("GET", f"/v1/sessions/sessions/{found.json()['id']}", route=ONE)
            rec.request("PUT", f"/v1/sessions/sessions/{found.json()['id']}/value", {"value": config},
                route=ONE + "/value")
            rec.request("GET", f"/v1/sessions/sessions/{found.json()['id']}", route=ONE)
    for body in ['{"broadcaster":"bodies","config":{"b": 1,  "a":10000000000000000001,"c":1.50}}',
            '{"broadcaster":"bodies","config":"\\ud83d"}',
            '{"broadcaster":"bodies","config":' + "[" * 200 + "]" * 200 + "}"]:
        rec.request("POST", "/v1/sessions/sessions", body, route=SPACE)
        rec.request("GET", "/v1/sessions/sessions/broadcasters/bodies", route=SPACE + "/broadcasters/{broadcaster}")
    for body in [{}, {"broadcaster": "b"}, {"config": {}}, {**good, "broadcaster": ""},
            {**good, "broadcaster": "x" * 256}, {**good, "broadcaster": 5}, {**good, "broadcaster": None},
            {**good, "holder": ""}, {**good, "holder": "x" * 256}, {**good, "holder": 5}, {**good, "more": 1},
            [good]]:
        rec.request("POST", "/v1/sessions/sessions", body, route=SPACE)
        rec.request("POST", "/v1/sessions/nope", body)
    for name in ["x" * 255, "\u00e4/ b?", "\u0000"]:
        time.sleep(APART_S)
        rec.request("POST", "/v1/sessions/sessions", {"broadcaster": name, "config": {}, "holder": name}, route=SPACE)
    for body in [{}, {"value": 1, "generation": 0}, {"value": 1, "generation": -1}, {"value": 1, "generation": "1"},
            {"value": 1, "generation": 1.0}, {"value": 1, "generation": None},
            {"value": 1, "generation": 9007199254740992}, {"value": 1, "more": 1}, [1]]:
        rec.request("PUT", f"/v1/sessions/sessions/{NOBODY}/value", body, route=ONE + "/value")
    for body in [{"limit": 0}, {"limit": 1001}, {"limit": -1}, {"limit": "1"}, {"limit": 1.5}, {"limit": None},
            {"more": 1}, [], {"limit": 1000}]:
        rec.request("POST", "/v1/sessions/work/claims", body, route=SPACE + "/claims")
    ack = {"id": NOBODY, "generation": 1}
    for body in [{}, {"acks": []}, {"acks": [ack]}, {"acks": [ack, ack]}, {"acks": [{**ack, "id": "x"}]},
            {"acks": [{**ack, "generation": 0}]}, {"acks": [{"id": NOBODY}]}, {"acks": [{"generation": 1}]},
            {"acks": [{**ack, "more": 1}]}, {"acks": [[NOBODY, 1]]}, {"acks": ack}, {"acks": None},
            {"acks": [ack] * 1000}, {"acks": [ack] * 1001}]:
        rec.request("POST", "/v1/sessions/work/acks", body, route=SPACE + "/acks")
    for body in ['{"a":1}', "[]", "x", "null", " "]:
        for path, route in [("claims", "/claims"), ("cleanup", "/cleanup"), (f"{NOBODY}/holders/h/heartbeat", None),
                (f"dead/{NOBODY}/retry", "/dead/{id}/retry")]:
            rec.request("POST", f"/v1/sessions/sessions/{path}", body, [("content-type", "application/json")],
                route=route and SPACE + route)
        rec.request("PUT", f"/v1/sessions/sessions/{NOBODY}/holders/h", body, route=HOLDER)
        rec.request("PUT", f"/v1/sessions/sessions/claims/{NOBODY}?generation=1&attempt=1", body,
            route=SPACE + "/claims/{id}")


def paths_and_queries(rec):
    rec.section = "paths of sessions"
    ids = ["x", "0", NOBODY.upper(), NOBODY.replace("-", ""), "{" + NOBODY + "}", NOBODY + "0", "urn:uuid:" + NOBODY,
        "%FF", "%zz", "00000000-0000-0000-0000-000000000000", "counts%20", "%63ounts"]
    for session in ids:
        at = f"/v1/sessions/sessions/{session}"
        for method, path in [("GET", at), ("DELETE", at), ("PUT", at + "/holders/h"), ("DELETE", at + "/holders/h"),
                ("POST", at + "/holders/h/heartbeat")]:
            rec.request(method, path)
        rec.request("PUT", at + "/value", {"value": 1}, route=ONE + "/value")
        rec.request("PUT", f"/v1/sessions/sessions/claims/{session}?generation=1&attempt=1", route=SPACE + "/claims/{id}")
        rec.request("POST", f"/v1/sessions/sessions/dead/{session}/retry", route=SPACE + "/dead/{id}/retry")
    for name in ["a%2Fb", "%C3%A4", "%FF", "%zz", "x" * 255, "x" * 256, "%00"]:
        rec.request("GET", f"/v1/sessions/sessions/broadcasters/{name}", route=SPACE + "/broadcasters/{broadcaster}")
        rec.request("PUT", f"/v1/sessions/sessions/{NOBODY}/holders/{name}", route=HOLDER)
    for path in [it for it in EMPTY_NAMES if it.startswith("/v1/sessions")]:
        for method in ["GET", "PUT", "DELETE", "HEAD"]:
            for space in ["sessions", "nope"]:
                rec.request(method, path.format(space=space, id=NOBODY), route=path)
    queries = ["state=", "state=Active", "state=gone", "max_age=30s", "max_age=0s", "max_age=", "max_age=x",
        "max_age=-1s", "state=dead&max_age=1s", "limit=0", "limit=1000", "limit=1001", "limit=x", "after=", "after=x",
        f"after=1442018818771:{NOBODY}", f"after=9007199254740992:{NOBODY}", "after=1:x", "more=1", "limit=1&limit=2"]
    for query in queries:
        rec.request("GET", f"/v1/sessions/sessions?{query}", route=SPACE)
        rec.request("GET", f"/v1/sessions/sessions/dead?{query}", route=SPACE + "/dead")
    numbers = ["0", "1", "-1", "x", "", "1.0", "9007199254740991", "9007199254740992", "99999999999999999999"]
    for number in numbers:
        rec.request("PUT", f"/v1/sessions/sessions/{NOBODY}/holders/h?generation={number}", route=HOLDER)
        rec.request("PUT", f"/v1/sessions/sessions/claims/{NOBODY}?generation={number}&attempt=1",
            route=SPACE + "/claims/{id}")
        rec.request("PUT", f"/v1/sessions/sessions/claims/{NOBODY}?generation=1&attempt={number}",
            route=SPACE + "/claims/{id}")
    for query in ["", "?generation=1", "?attempt=1", "?resume=true"]:
        rec.request("PUT", f"/v1/sessions/sessions/claims/{NOBODY}{query}", route=SPACE + "/claims/{id}")
    for query in ["resume=1", "resume=", "resume=true&resume=true", "x=y"]:
        rec.request("PUT", f"/v1/sessions/sessions/{NOBODY}/holders/h?{query}", route=HOLDER)
    for query in ["dry_run=true", "dry_run=false", "dry_run=1", "x=y"]:
        rec.request("POST", f"/v1/sessions/small/cleanup?{query}", route=SPACE + "/cleanup")
    for path in ["/v1/sessions", "/v1/sessions/", "/v1/sessions/nope", "/v1/sessions/nope/counts",
            "/v1/sessions/nope/dead", f"/v1/sessions/nope/{NOBODY}", "/v1/sessions/nope/broadcasters/b",
            "/v1/sessions/sessions/", "/v1/sessions/sessions/claims", "/v1/sessions/sessions/acks",
            "/v1/sessions/sessions/broadcasters"]:
        rec.request("GET", path, route="/v1/sessions" if path == "/v1/sessions" else None)
    for path in ["claims", "acks", "cleanup", f"dead/{NOBODY}/retry"]:
        rec.request("POST", f"/v1/sessions/nope/{path}", {})


def full(rec):
    rec.section = "a full space"
    for number in range(3):
        activate(rec, "small", f"small {number}", "h")
    session = rec.quietly("GET", "/v1/sessions/small/broadcasters/small%200").json()["id"]
    rec.request("DELETE", f"/v1/sessions/small/{session}/holders/h", route=HOLDER)
    activate(rec, "small", "small 2", "h")
    rec.request("DELETE", f"/v1/sessions/small/{session}", route=ONE)
    activate(rec, "small", "small 2", "h")
    rec.request("GET", "/v1/sessions/small/counts", route=SPACE + "/counts")


def orphans(rec, space, names):
    """Sessions that were left, one after the other."""
    found = []
    for name in names:
        session = rec.quietly("POST", f"/v1/sessions/{space}", {"broadcaster": name, "config": {"of": name},
            "holder": "h"}).json()["id"]
        rec.quietly("DELETE", f"/v1/sessions/{space}/{session}/holders/h")
        found.append(rec.normal.known(session))
        time.sleep(APART_S)
    return found


def claims(rec):
    rec.section = "claims"
    at = "/v1/sessions/work"
    left = orphans(rec, "work", [f"orphan {number}" for number in range(7)])
    rec.request("GET", f"{at}?state=orphan", route=SPACE)
    place = ""
    for _ in range(5):
        answer = rec.request("GET", f"{at}?state=orphan&limit=3{place}", route=SPACE).json()
        if answer["next"] is None:
            break
        place = "&after=" + answer["next"].replace(":", "%3A")
    rec.request("POST", f"{at}/cleanup?dry_run=true", route=SPACE + "/cleanup")
    first = rec.request("POST", f"{at}/claims", {"limit": 2}, route=SPACE + "/claims").json()["claims"]
    rec.request("POST", f"{at}/claims", route=SPACE + "/claims")
    for session in [left[0], left[6]]:
        for method, below in [("GET", ""), ("PUT", "/holders/h"), ("PUT", "/holders/h?resume=true"),
                ("POST", "/holders/h/heartbeat"), ("DELETE", "/holders/h"), ("DELETE", "")]:
            if session == left[6] and method == "DELETE" and not below:
                continue
            rec.request(method, f"{at}/{session}{below}")
        rec.request("PUT", f"{at}/{session}/value", {"value": 1}, route=ONE + "/value")
        rec.request("POST", f"{at}/dead/{session}/retry", route=SPACE + "/dead/{id}/retry")
    activate(rec, "work", "orphan 0", "h")
    for claim in first:
        for query in [f"generation={claim['generation']}&attempt={claim['attempt']}", "generation=9&attempt=1",
                f"generation={claim['generation']}&attempt=9"]:
            rec.request("PUT", f"{at}/claims/{claim['id']}?{query}", route=SPACE + "/claims/{id}")
    acks = [{"id": claim["id"], "generation": claim["generation"]} for claim in first]
    rec.request("POST", f"{at}/acks", {"acks": [{**acks[0], "generation": 9}, {"id": left[5], "generation": 1}]},
        route=SPACE + "/acks")
    rec.request("POST", f"{at}/acks", {"acks": acks}, route=SPACE + "/acks")
    rec.request("POST", f"{at}/acks", {"acks": acks}, route=SPACE + "/acks")
    rec.request("GET", f"{at}?state=claimed", route=SPACE, leave_out=AT_ONCE)
    rec.request("GET", f"{at}/counts", route=SPACE + "/counts")
    orphans(rec, "work", ["to be cleaned 1", "to be cleaned 2"])
    rec.request("POST", f"{at}/cleanup", {}, route=SPACE + "/cleanup")
    rec.request("POST", f"{at}/cleanup", route=SPACE + "/cleanup")
    rec.request("GET", f"{at}/counts", route=SPACE + "/counts")


def deaths(rec):
    """Claimed as often as is allowed, and never acknowledged."""
    rec.section = "dead sessions"
    at = "/v1/sessions/dying"
    left = orphans(rec, "dying", ["mortal 1", "mortal 2"])

    def all_dead():
        rec.quietly("POST", f"{at}/claims", {})
        return rec.quietly("GET", f"{at}/counts").json()["dead"] == 2

    rec.wait_until("both are dead", all_dead)
    for path, route in [("/dead", "/dead"), ("?state=dead", ""), ("/dead?limit=1", "/dead"), ("/counts", "/counts")]:
        rec.request("GET", at + path, route=SPACE + route, leave_out=AT_ONCE)
    rec.request("GET", f"{at}/{left[0]}", route=ONE)
    for method, below in [("PUT", "/holders/h"), ("PUT", "/holders/h?resume=true"), ("POST", "/holders/h/heartbeat"),
            ("DELETE", "/holders/h")]:
        rec.request(method, f"{at}/{left[0]}{below}")
    rec.request("POST", f"{at}/acks", {"acks": [{"id": left[0], "generation": 1}]}, route=SPACE + "/acks")
    rec.request("POST", f"{at}/dead/{left[1]}/retry", {}, route=SPACE + "/dead/{id}/retry")
    rec.request("POST", f"{at}/dead/{left[1]}/retry", route=SPACE + "/dead/{id}/retry")
    rec.request("DELETE", f"{at}/{left[0]}", route=ONE)


def any_order(rec):
    """Whatever comes to a space, in an order that is drawn once and for all."""
    rec.section = "sessions in any order"
    draw = random.Random(20261118)
    at, known = "/v1/sessions/sessions", {}
    for _ in range(400):
        time.sleep(APART_S)
        name, holder = f"any-{draw.randrange(5)}", f"h{draw.randrange(4)}"
        session = known.get(name, NOBODY)
        what = draw.choice(["activate", "connect", "resume", "heartbeat", "leave", "leave", "leave", "value", "get",
            "delete", "list"])
        generation = draw.choice(["", "", "generation=1", "generation=2"])
        if what == "activate":
            answer = activate(rec, "sessions", name, draw.choice([None, holder]))
            known[name] = answer.json().get("id", session)
        elif what == "connect":
            rec.request("PUT", f"{at}/{session}/holders/{holder}?{generation}", route=HOLDER)
        elif what == "resume":
            rec.request("PUT", f"{at}/{session}/holders/{holder}?resume=true&{generation}", route=HOLDER)
        elif what == "heartbeat":
            rec.request("POST", f"{at}/{session}/holders/{holder}/heartbeat?{generation}", route=HOLDER + "/heartbeat")
        elif what == "leave":
            rec.request("DELETE", f"{at}/{session}/holders/{holder}?{generation}", route=HOLDER)
        elif what == "value":
            rec.request("PUT", f"{at}/{session}/value", {"value": draw.randrange(100)}, route=ONE + "/value")
        elif what == "get":
            rec.request("GET", f"{at}/{session}", route=ONE)
        elif what == "delete":
            rec.request("DELETE", f"{at}/{session}", route=ONE)
        else:
            state = draw.choice(["active", "disconnected"])
            rec.request("GET", f"{at}?state={state}&limit={draw.randrange(1, 6)}", route=SPACE)
