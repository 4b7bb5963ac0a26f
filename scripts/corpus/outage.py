"""What is answered while the store is away, after it forgot, and while the server stops."""

import json

from . import hot
from .client import Connection, request_bytes
from .limits import LEASED, LIMITS, UNCERTAIN
from .routes import ROUTES
from .every_route import at, request
from .servers import Later


def ready(rec):
    return rec.quietly("GET", "/readyz").json()


def every_question(rec):
    """Each route once, with what it needs to be answered."""
    bodies = {
        "/v1/limits/{limit}/take": {"key": "away"},
        "/v1/limits/take": {"key": "away", "limits": [{"limit": "api"}, {"limit": "closed"}]},
        "/v1/limits/{limit}/refund": {"key": "away", "receipt": "1-2-3-5f0c8d21b7e3a94c"},
        "/v1/limits/{limit}/keys/{key}/override": {"rate": "5/s", "lasting": "1h"},
        "/v1/limits/{limit}/everyone/override": {"rate": "5/s", "lasting": "1h"},
        "/v1/limits/{limit}/keys/{key}/reservations/{id}": {"lasting": "1h"},
        "/v1/limits/{limit}/everyone/reservations/{id}": {"lasting": "1h"},
        "/v1/hot/{space}/edits": {"page": "away", "id": "1"},
        "/v1/hot/{space}/counts": {"page": "away"},
        "/v1/charges": {"id": "away", "key": "away", "limits": [{"limit": "api"}]},
        "/v1/charges/release": {"id": "away", "key": "away", "limits": ["api"]},
        "/v1/runs/{space}/runs/{run}/finish": {"state": "failed"},
        "/v1/runs/{space}/runs/{run}/retry": {"from_attempt": 1},
        "/v1/runs/{space}/runs/{run}/expire": {"lasting": "1h"},
        "/v1/runs/{space}/runs/{run}/processed": {"items": ["1"]},
        "/v1/runs/{space}/runs/{run}/is_processed": {"items": ["1"]},
        "/v1/runs/{space}/runs/{run}/failures": {"item": "1", "reason": "", "id": "1"},
        "/v1/sessions/{space}": {"broadcaster": "away", "config": {}},
        "/v1/sessions/{space}/{id}/value": {"value": 1},
        "/v1/sessions/{space}/acks": {"acks": [{"id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "generation": 1}]},
    }
    for path, methods in ROUTES.items():
        if path in ("/metrics", "/v1/hot/{space}/events"):
            continue
        query = "?generation=1&attempt=1" if path.endswith("/claims/{id}") else ""
        for method in methods:
            body = bodies.get(path, {}) if method in ("POST", "PUT") else None
            data = None if body is None else json.dumps(body).encode()
            request(rec, method, at(path) + query, path, data, [("content-type", "application/json")] if data else [])


def every_limit(rec):
    """Takes and peeks by every policy."""
    for limit in [it for it in LIMITS if it not in UNCERTAIN]:
        leave_out = LEASED if limit == "leased" else ()
        for cost in [1, 3, 100, 100_001]:
            rec.request("POST", f"/v1/limits/{limit}/take", {"key": "gone", "cost": cost},
                route="/v1/limits/{limit}/take", leave_out=leave_out)
        rec.request("GET", f"/v1/limits/{limit}/keys/gone", route="/v1/limits/{limit}/keys/{key}", leave_out=leave_out)
    for limits in [["api", "roomy"], ["closed", "refusing"], ["refusing", "shared"], ["closed"]]:
        rec.request("POST", "/v1/limits/take", {"key": "gone", "limits": [{"limit": it} for it in limits]},
            route="/v1/limits/take")


def corrupt(rec, redis):
    """Somebody else has written where we do."""
    rec.section = "corrupt keys"
    session = rec.normal.literal("5f0c8d21-10b1-426f-9247-bb680e5fe0c8")
    for words in [
        ("SET", "trypema:api:absolute:h:corrupt", "x"),
        ("LPUSH", "tidegate:bucket:token:corrupt", "x"),
        ("LPUSH", "trypema:api:override:corrupt override", "x"),
        ("SET", "trypema:api:reservations:corrupt reservation", "x"),
        ("LPUSH", "activity:corrupt", "x"),
        ("SET", f"session:{session}", "x"),
    ]:
        redis.command(*words)
    for limit in ["api", "bucket"]:
        at = f"/v1/limits/{limit}/keys/corrupt"
        rec.request("POST", f"/v1/limits/{limit}/take", {"key": "corrupt"}, route="/v1/limits/{limit}/take")
        rec.request("POST", "/v1/limits/take", {"key": "corrupt", "limits": [{"limit": "roomy"}, {"limit": limit}]},
            route="/v1/limits/take")
        rec.request("GET", at, route="/v1/limits/{limit}/keys/{key}")
        rec.request("DELETE", at, route="/v1/limits/{limit}/keys/{key}")
        rec.request("GET", at, route="/v1/limits/{limit}/keys/{key}")
    at = "/v1/limits/api/keys/corrupt%20"
    rec.request("GET", at + "override", route="/v1/limits/{limit}/keys/{key}")
    rec.request("GET", at + "override/override", route="/v1/limits/{limit}/keys/{key}/override")
    rec.request("GET", at + "reservation/reservations/r", route="/v1/limits/{limit}/keys/{key}/reservations/{id}")
    rec.request("PUT", at + "reservation/reservations/r", {"lasting": "1h"},
        route="/v1/limits/{limit}/keys/{key}/reservations/{id}")
    rec.request("POST", "/v1/hot/pages/edits", {"page": "corrupt", "id": "c"}, route=hot.EDITS)
    rec.request("DELETE", "/v1/hot/pages/pages/corrupt", route=hot.PAGE)
    for method, below in [("GET", ""), ("PUT", "/holders/h"), ("POST", "/holders/h/heartbeat"),
            ("DELETE", "/holders/h"), ("DELETE", "")]:
        rec.request(method, f"/v1/sessions/sessions/{session}{below}")


def away(rec, redis, command_line):
    rec.section = "store away"
    redis.stop()
    rec.wait_until("the store is known to be away",
        lambda: [it["reason"] for it in ready(rec)["store"]["away"]] == ["refused"])
    rec.wait_until("it is known to be unhealthy", lambda: not rec.quietly("GET", "/v1/health/store").json()["healthy"])
    rec.request("GET", "/readyz", route="/readyz")
    every_question(rec)
    every_limit(rec)
    body = b"".join(b'{"page":"away","id":"%d"}\n' % number for number in range(3))
    rec.request("POST", "/v1/hot/pages/edits", body, [hot.NDJSON], route=hot.EDITS)
    command_line()
    rec.section = "store forgot"
    redis.start()
    rec.wait_until("the store is back", lambda: not ready(rec)["store"]["away"])
    for limit in ["closed", "holding"]:
        # It is known when the marker has been read.
        is_held = lambda: "store-loss" in rec.quietly("POST", f"/v1/limits/{limit}/take",
            {"key": "probe"}).json().get("type", "")
        rec.wait_until(f"{limit} refuses after the loss", is_held)
    rec.request("GET", "/readyz", route="/readyz")
    every_limit(rec)


def stopping(rec, server):
    """Stopping: not ready, and what never ends by itself does."""
    rec.section = "stopping"
    edits = Connection(rec.port)
    edit = b'{"page":"stop","id":"s1"}\n'
    headers = [hot.NDJSON, ("transfer-encoding", "chunked")]
    edits.send(request_bytes("POST", "/v1/hot/pages/edits", headers, b"%x\r\n%s\r\n" % (len(edit), edit)))
    events = Connection(rec.port)
    events.send(b"GET /v1/hot/pages/events HTTP/1.1\r\nhost: t\r\n\r\n")
    begun = events.head()
    server.terminate()
    rec.wait_until("it says that it is not ready", lambda: not ready(rec)["ready"])
    rec.request("GET", "/readyz", route="/readyz")
    rec.request("GET", "/healthz", route="/healthz")
    rec.request("POST", "/v1/limits/roomy/take", {"key": "stopping"}, route="/v1/limits/{limit}/take")
    rec.request("GET", "/v1/limits/roomy", route="/v1/limits/{limit}")
    begun.body = Later(events.read_to_end).wait()
    rec.write("raw", {"what": "edits that are under way"}, rec.all_answers(edits))
    begun.body = b"ends" if begun.body.rstrip().endswith(b"0") else b"is cut"
    rec.write("raw", {"what": "events, at their end"}, rec._response(begun))
    edits.close()
    events.close()
    status = server.process.wait(timeout=60)
    rec.write("raw", {"what": "the server's exit status"}, {"status": str(status)})
