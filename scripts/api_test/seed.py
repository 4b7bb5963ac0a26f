"""What is there before the first request: ids that exist, so that every operation gets past its 404.

An operation that takes something away has things of its own to take away, so that the others keep theirs.
"""

import http.client
import json
import time

# Days and hours, so that nothing ends meanwhile; small bounds, so that refusals are reached; and so much time that
# a busy machine answers too.
CONFIG = """\
listen: 127.0.0.1:0
store: {url: "%(url)s", deadline: 20s, connect_timeout: 20s}
http: {max_body_bytes: 1000000, request_timeout: 1m}
limits:
  api: {rate: 1000000/h, window: 1h}
  holding: {rate: 1000000/h, window: 1h, max_reservations: 1000}
  tight: {rate: 2/d, window: 24h}
  bucket: {algorithm: token, rate: 1/d, burst: 5}
  daily: {algorithm: calendar, limit: 30, period: day}
  thinned: {algorithm: suppressed, rate: 5/d, window: 24h}
hot:
  pages: {max_tracked: 5, promotion_threshold: 2, window_duration: 1h, max_members_per_page: 4, hot_threshold: 2}
  views: {max_tracked: 5, promotion_threshold: 20, max_members_per_page: 0, hot_threshold: 10}
  swapped: {max_tracked: 2, promotion_threshold: 2, when_full: replace_coldest}
sessions:
  rooms: {grace: 1h, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 24h}
  small: {grace: 1h, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 24h, max_sessions: 2, max_holders: 1}
  work: {grace: 0s, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 24h, reap: claims, claim_lease: 1h}
  dying: {grace: 0s, holder_lease: 1h, session_ttl: 24h, cleanup_interval: 24h, reap: claims, claim_lease: 1s,
    max_attempts: 1}
runs:
  main: {max_runs: 10000, max_processed: 200, max_fields: 5, max_tasks: 5, max_failures: 5, state_ttl: 24h}
  few: {max_runs: 3, prefix: few, quota: {limit: 30, safety_buffer: 5}}
rules: {url: "sqlite:%(folder)s/rules.db"}
edge: {listen: 127.0.0.1:0, name: one, of: "one,two"}
log: {level: error}
"""

LIMITS = ["api", "tight", "bucket", "daily", "thinned"]
HOT = ["pages", "swapped"]
SESSIONS = ["rooms", "small", "work", "dying"]
RUNS = ["main", "few"]

# As many as are used up by requests that each use up one.
MANY = 40


class Client:
    """Requests that must succeed."""

    def __init__(self, address):
        self.address = address

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"content-type": "application/json"} if text else {})
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        if answer.status >= 300:
            raise SystemExit(f"api-test: {method} {path} answers {answer.status}: {read.decode()}")
        return json.loads(read) if read else None


def bindings(address):
    """By operation: by parameter, the values that it is given most of the time."""
    client = Client(address)
    return of_limits(client) | of_hot(client) | of_sessions(client) | of_runs(client) | of_rules(client)


def of_limits(client):
    for subject in ["keys/favoured", "everyone"]:
        client.request("PUT", f"/v1/limits/holding/{subject}/override", {"rate": "50/s", "lasting": "24h"})
    taken = [client.request("POST", "/v1/limits/holding/take", {})["receipt"] for _ in range(MANY)]
    held = {name: [f"{name}-{number}" for number in range(MANY)] for name in ["kept", "committed", "released"]}
    for ids in held.values():
        for id in ids:
            for subject in ["keys/payer", "everyone"]:
                client.request("PUT", f"/v1/limits/holding/{subject}/reservations/{id}", {"lasting": "1h"})
    everywhere = {"path.limit": LIMITS}
    found = {name: everywhere for name in ["take", "peek", "reset", "set_override", "clear_override", "reserve",
        "list_overrides", "list_reservations", "get_limit"]}
    found["take_all"] = {"body.limits[*].limit": LIMITS}
    # An id that was released before it was charged is never charged: each has its own.
    given_back = [f"given-back-{number}" for number in range(MANY)]
    for id in given_back:
        client.request("POST", "/v1/charges", {"id": id, "key": "payer", "limits": [{"limit": "holding"}]})
    charged = [f"charged-{number}" for number in range(MANY)]
    found["charge_all"] = {"body.limits[*].limit": LIMITS, "body.id": charged}
    found["release_all"] = {"body.limits[*]": ["holding"], "body.key": ["payer"], "body.id": given_back}
    found["refund"] = {"path.limit": ["holding"], "body.receipt": taken}
    found["get_override"] = {"path.limit": ["holding"], "path.key": ["favoured"]}
    for operation, name in [("get_reservation", "kept"), ("commit", "committed"), ("release", "released")]:
        of_everyone = {"path.limit": ["holding"], "path.id": held[name]}
        found[operation] = of_everyone | {"path.key": ["payer"]}
        found[f"{operation}_of_everyone"] = of_everyone
    return found


def narrow(description, bindings):
    """The description, with the limits and spaces that this server has in place of any: what is behind a name
    that is not known is never reached."""
    everywhere = {"limit": LIMITS + ["holding"], "hot": HOT, "sessions": SESSIONS, "runs": RUNS}
    for methods in description["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                name = parameter["name"]
                if parameter["in"] == "path" and name in ["limit", "space"]:
                    known = everywhere["limit" if name == "limit" else operation["tags"][0]]
                    bound = bindings.get(operation["operationId"].removesuffix("_of_everyone"), {})
                    bound = bindings.get(operation["operationId"], bound)
                    parameter["schema"]["enum"] = bound.get(f"path.{name}", known)
    return description


def of_hot(client):
    for number in range(4):
        edit = {"page": "seen", "id": str(number), "editor": "alice", "byte_change": number}
        client.request("POST", "/v1/hot/pages/edits", edit)
    client.request("POST", "/v1/hot/views/counts", {"page": "seen", "count": 10})
    page = {"path.space": HOT, "path.page": ["seen"]}
    found = {name: {"path.space": HOT} for name in ["hot_record", "hot_list", "hot_remove", "hot_cleanup"]}
    return found | {"hot_count": {"path.space": ["views"]}, "hot_stats": page, "hot_window": page}


def of_sessions(client):
    def activate(space, broadcaster, count):
        bodies = [{"broadcaster": f"{broadcaster}-{number}", "config": {}, "holder": "h"} for number in range(count)]
        return [client.request("POST", f"/v1/sessions/{space}", body)["id"] for body in bodies]

    def orphans(space, broadcaster, count):
        ids = activate(space, broadcaster, count)
        for id in ids:
            client.request("DELETE", f"/v1/sessions/{space}/{id}/holders/h")
        return ids

    kept, left = activate("rooms", "kept", MANY), activate("rooms", "left", MANY)
    doomed = orphans("rooms", "doomed", MANY)
    claimed, dead = orphans("work", "claimed", MANY), orphans("dying", "dead", MANY)
    client.request("POST", "/v1/sessions/work/claims", {"limit": 1000})
    until = time.monotonic() + 30
    while client.request("GET", "/v1/sessions/dying/counts")["dead"] < MANY:
        if time.monotonic() > until:
            raise SystemExit("api-test: sessions do not die")
        client.request("POST", "/v1/sessions/dying/claims", {"limit": 1000})
        time.sleep(0.1)

    rooms = {"path.space": ["rooms"]}
    found = {name: {"path.space": SESSIONS} for name in ["session_activate", "session_list", "session_counts",
        "session_claim", "session_cleanup", "session_dead"]}
    found["session_cleanup"] = {"path.space": ["rooms", "small"]}
    found["session_get"] = rooms | {"path.id": kept}
    found["session_delete"] = rooms | {"path.id": doomed}
    found["session_update"] = rooms | {"path.id": kept}
    found["session_connect"] = rooms | {"path.id": kept, "path.holder": ["h", "i"]}
    found["session_heartbeat"] = rooms | {"path.id": kept, "path.holder": ["h"], "query.generation": [1]}
    found["session_disconnect"] = rooms | {"path.id": left, "path.holder": ["h"], "query.generation": [1]}
    found["session_find"] = rooms | {"path.broadcaster": [f"kept-{number}" for number in range(MANY)]}
    found["session_renew"] = {"path.space": ["work"], "path.id": claimed, "query.generation": [1],
        "query.attempt": [1]}
    found["session_ack"] = {"path.space": ["work"], "body.acks[*].id": claimed[:5]}
    found["session_retry"] = {"path.space": ["dying"], "path.id": dead}
    return found


def of_runs(client):
    def start(name, count, state=None):
        ids = [f"{name}-{number}" for number in range(count)]
        for id in ids:
            client.request("PUT", f"/v1/runs/main/runs/{id}")
            if state:
                client.request("POST", f"/v1/runs/main/runs/{id}/finish", {"state": state})
        return ids

    def charge(name, count):
        ids = [f"{name}-{number}" for number in range(count)]
        for id in ids:
            client.request("PUT", f"/v1/runs/main/quota/charges/{id}")
        return ids

    live, finishing, doomed, brief = (start(name, MANY) for name in ["live", "finishing", "doomed", "brief"])
    failed = start("failed", MANY, "failed")
    for id in live:
        client.request("PUT", f"/v1/runs/main/runs/{id}/tasks/fetch")
        client.request("POST", f"/v1/runs/main/runs/{id}/failures", {"item": "1", "reason": "timeout", "id": "1"})
    main = {"path.space": ["main"]}
    found = {name: main | {"path.run": live} for name in ["run_get", "run_progress", "run_tasks", "run_failures",
        "run_retry_list", "run_is_processed"]}
    changing = main | {"path.run": live, "query.attempt": [1]}
    found |= {name: changing for name in ["run_update", "run_processed", "run_failed", "run_task_started"]}
    found["run_task_finished"] = changing | {"path.task": ["fetch"]}
    found["run_finish"] = main | {"path.run": finishing, "query.attempt": [1]}
    found["run_delete"] = main | {"path.run": doomed, "query.attempt": [1]}
    found["run_expire"] = main | {"path.run": brief, "query.attempt": [1]}
    found["run_retry"] = main | {"path.run": failed, "body.from_attempt": [1]}
    found["run_release"] = main | {"path.id": charge("charged", MANY)}
    found |= {name: {"path.space": RUNS} for name in ["run_start", "run_list", "run_failures_of_hour", "run_quota",
        "run_charge", "run_cleanup"]}
    return found


def of_rules(client):
    def make(name, count):
        ids = [f"{name}-{number}" for number in range(count)]
        for id in ids:
            client.request("PUT", f"/v1/rules/{id}", {"path": f"/{id}", "destination": "https://example.com/"})
        return ids

    client.request("PUT", "/v1/rules/bounded", {"path": "/bounded", "destination": "/over", "maxClicks": 1000000})
    for number in range(MANY):
        client.request("PUT", f"/v1/workers/edge-1/blocks/{number}", {"rule": "bounded", "wanted": 10})
    kept, doomed, replaced = make("kept", MANY), make("doomed", MANY), make("replaced", 1)
    # Whatever a text may be, most of them are no address.
    destinations = ["https://example.com/a", "http://example.com", "/elsewhere"]
    paths = [f"/made/{number}" for number in range(MANY)] + ["/folder/*"]
    rule = {"body.destination": destinations, "body.path": paths, "body.host": ["*", "example.com", "*.example.com"],
        "body.fallback": ["/over"]}
    ids = {"body.id": [f"made-{number}" for number in range(MANY)]}
    return {
        "rule_create": rule | ids,
        # One rule, so that the body's id is mostly that of the path.
        "rule_replace": rule | {"path.id": replaced, "body.id": replaced, "body.path": ["/replaced/*"]},
        "rule_patch": rule | {"path.id": kept, "header.If-Match": ["*"]},
        "rule_get": {"path.id": kept},
        "rule_clicks": {"path.id": kept},
        "worker_block": {"path.worker": ["edge-1"], "body.rule": ["bounded"]},
        "worker_return": {"path.worker": ["edge-1"], "path.number": [str(number) for number in range(MANY)],
            "body.spent": [0, 1]},
        "rule_delete": {"path.id": doomed, "header.If-Match": ["*"]},
        "rule_resolve": {"query.host": ["www.example.com"], "query.path": ["/kept-1", "/none"]},
        "edge_explain": {"query.url": ["https://www.example.com/kept-1", "www.example.com/none"]},
        "edge_owner": {"query.url": ["https://www.example.com/kept-1", "www.example.com/none"]},
    }
