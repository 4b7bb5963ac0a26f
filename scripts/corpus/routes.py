"""The routes of the HTTP API, and what a recording has seen of them."""

import re
from collections import defaultdict

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]

_SUBJECT = {
    "": ["GET", "DELETE"],
    "/override": ["GET", "PUT", "DELETE"],
    "/reservations/{id}": ["GET", "PUT", "DELETE"],
    "/reservations/{id}/commit": ["POST"],
}

_RUN = {
    "/update": ["POST"],
    "/finish": ["POST"],
    "/retry": ["POST"],
    "/expire": ["POST"],
    "/progress": ["GET"],
    "/processed": ["POST"],
    "/is_processed": ["POST"],
    "/tasks": ["GET"],
    "/tasks/{task}": ["PUT"],
    "/tasks/{task}/finish": ["POST"],
    "/failures": ["GET", "POST"],
    "/retry_list": ["GET"],
}

# Every path with the methods that it has; `HEAD` comes with `GET`, `OPTIONS` with all.
ROUTES = {
    "/": ["GET"],
    "/healthz": ["GET"],
    "/readyz": ["GET"],
    "/docs": ["GET"],
    "/openapi.json": ["GET"],
    "/metrics": ["GET"],
    "/v1/health/store": ["GET"],
    "/v1/charges": ["POST"],
    "/v1/charges/release": ["POST"],
    "/v1/limits": ["GET"],
    "/v1/limits/take": ["POST"],
    "/v1/limits/{limit}": ["GET"],
    "/v1/limits/{limit}/take": ["POST"],
    "/v1/limits/{limit}/refund": ["POST"],
    "/v1/limits/{limit}/overrides": ["GET"],
    "/v1/limits/{limit}/reservations": ["GET"],
    **{"/v1/limits/{limit}/keys/{key}" + below: methods for below, methods in _SUBJECT.items()},
    **{"/v1/limits/{limit}/everyone" + below: methods for below, methods in _SUBJECT.items()},
    "/v1/hot": ["GET"],
    "/v1/hot/{space}": ["GET"],
    "/v1/hot/{space}/edits": ["POST"],
    "/v1/hot/{space}/counts": ["POST"],
    "/v1/hot/{space}/events": ["GET"],
    "/v1/hot/{space}/cleanup": ["POST"],
    "/v1/hot/{space}/pages/{page}": ["GET", "DELETE"],
    "/v1/hot/{space}/pages/{page}/window": ["GET"],
    "/v1/sessions": ["GET"],
    "/v1/sessions/{space}": ["GET", "POST"],
    "/v1/sessions/{space}/counts": ["GET"],
    "/v1/sessions/{space}/dead": ["GET"],
    "/v1/sessions/{space}/dead/{id}/retry": ["POST"],
    "/v1/sessions/{space}/claims": ["POST"],
    "/v1/sessions/{space}/claims/{id}": ["PUT"],
    "/v1/sessions/{space}/acks": ["POST"],
    "/v1/sessions/{space}/cleanup": ["POST"],
    "/v1/sessions/{space}/broadcasters/{broadcaster}": ["GET"],
    "/v1/sessions/{space}/{id}": ["GET", "DELETE"],
    "/v1/sessions/{space}/{id}/value": ["PUT"],
    "/v1/sessions/{space}/{id}/holders/{holder}": ["PUT", "DELETE"],
    "/v1/sessions/{space}/{id}/holders/{holder}/heartbeat": ["POST"],
    "/v1/runs": ["GET"],
    "/v1/runs/{space}": ["GET"],
    "/v1/runs/{space}/cleanup": ["POST"],
    "/v1/runs/{space}/failures/{hour}": ["GET"],
    "/v1/runs/{space}/quota": ["GET"],
    "/v1/runs/{space}/quota/charges/{id}": ["PUT", "DELETE"],
    "/v1/runs/{space}/runs/{run}": ["GET", "PUT", "DELETE"],
    **{"/v1/runs/{space}/runs/{run}" + below: methods for below, methods in _RUN.items()},
    "/v1/rules": ["GET", "POST"],
    "/v1/rules/bulk": ["POST"],
    "/v1/rules/import": ["POST"],
    "/v1/rules/export": ["GET"],
    "/v1/rules/changes": ["GET"],
    "/v1/rules/snapshot": ["GET"],
    "/v1/rules/resolve": ["GET"],
    "/v1/rules/position": ["GET"],
    "/v1/rules/new_epoch": ["POST"],
    "/v1/rules/{id}": ["GET", "PUT", "PATCH", "DELETE"],
    "/v1/rules/{id}/clicks": ["GET"],
    "/v1/workers": ["GET"],
    "/v1/workers/{worker}/applied": ["PUT"],
    "/v1/workers/{worker}/blocks/{number}": ["PUT"],
    "/v1/workers/{worker}/blocks/{number}/return": ["POST"],
    "/v1/workers/{worker}/clicks/{number}": ["PUT"],
}

# Answers without an end, of which the beginning is written down.
ENDLESS = ["/v1/hot/{space}/events", "/v1/rules/changes"]

# Paths that exist to say that a name is missing; they have no good answer.
EMPTY_NAMES = {
    "/v1/limits/{limit}/keys/": ["GET", "DELETE"],
    "/v1/hot/{space}/pages/": ["GET", "DELETE"],
    "/v1/hot/{space}/pages//window": ["GET"],
    "/v1/sessions/{space}/broadcasters/": ["GET"],
    "/v1/sessions/{space}/{id}/holders/": ["PUT", "DELETE"],
    "/v1/runs/{space}/runs/": ["GET", "PUT", "DELETE"],
    "/v1/runs/{space}/runs/{run}/tasks/": ["PUT"],
    "/v1/rules/": ["GET", "PUT", "PATCH", "DELETE"],
}

# Paths with a body.
WITH_BODY = [
    ("POST", "/v1/limits/{limit}/take"),
    ("POST", "/v1/limits/take"),
    ("POST", "/v1/limits/{limit}/refund"),
    ("PUT", "/v1/limits/{limit}/keys/{key}/override"),
    ("PUT", "/v1/limits/{limit}/keys/{key}/reservations/{id}"),
    ("PUT", "/v1/limits/{limit}/everyone/override"),
    ("PUT", "/v1/limits/{limit}/everyone/reservations/{id}"),
    ("POST", "/v1/limits/{limit}/keys/{key}/reservations/{id}/commit"),
    ("POST", "/v1/limits/{limit}/everyone/reservations/{id}/commit"),
    ("POST", "/v1/hot/{space}/edits"),
    ("POST", "/v1/hot/{space}/counts"),
    ("POST", "/v1/hot/{space}/cleanup"),
    ("POST", "/v1/sessions/{space}"),
    ("PUT", "/v1/sessions/{space}/{id}/value"),
    ("PUT", "/v1/sessions/{space}/{id}/holders/{holder}"),
    ("POST", "/v1/sessions/{space}/{id}/holders/{holder}/heartbeat"),
    ("POST", "/v1/sessions/{space}/claims"),
    ("PUT", "/v1/sessions/{space}/claims/{id}"),
    ("POST", "/v1/sessions/{space}/acks"),
    ("POST", "/v1/sessions/{space}/cleanup"),
    ("POST", "/v1/sessions/{space}/dead/{id}/retry"),
    ("POST", "/v1/charges"),
    ("POST", "/v1/charges/release"),
    ("POST", "/v1/runs/{space}/cleanup"),
    ("PUT", "/v1/runs/{space}/quota/charges/{id}"),
    ("PUT", "/v1/runs/{space}/runs/{run}"),
    *[(method, "/v1/runs/{space}/runs/{run}" + below) for below, methods in _RUN.items()
    for method in methods if method != "GET"],
    ("POST", "/v1/rules"),
    ("POST", "/v1/rules/bulk"),
    ("POST", "/v1/rules/import"),
    ("POST", "/v1/rules/new_epoch"),
    ("PUT", "/v1/rules/{id}"),
    ("PATCH", "/v1/rules/{id}"),
    ("PUT", "/v1/workers/{worker}/applied"),
    ("PUT", "/v1/workers/{worker}/blocks/{number}"),
    ("POST", "/v1/workers/{worker}/blocks/{number}/return"),
    ("PUT", "/v1/workers/{worker}/clicks/{number}"),
]


def allowed(path):
    """The methods that a path has."""
    methods = {**ROUTES, **EMPTY_NAMES}[path]
    return methods + (["HEAD"] if "GET" in methods else []) + ["OPTIONS"]


def filled(path, **names):
    """A path with these names in it; what is not named is what everything has."""
    names = {"limit": "api", "key": "k", "id": "r", "space": "pages", "page": "p", "holder": "h", "broadcaster": "b",
        "run": "r", "task": "t", "hour": "2015-09-12_00", "worker": "w", "number": "1", **names}
    return path.format(**names)


def listed_by(index):
    """What `GET /` lists: pairs of method and path."""
    found = re.findall(r"^([A-Z]+) +(/\S*)", index, re.M)
    return [(method, path.split("?")[0]) for method, path in found]


class Coverage:
    """Which statuses each method of each route has answered."""

    def __init__(self):
        self.seen = defaultdict(lambda: defaultdict(int))

    def count(self, method, path, status):
        self.seen[method, path][status] += 1

    def missing(self, index):
        """What was never reached: a method that has no answer at all, or one of the route's own without a good one."""
        out = []
        for path, methods in {**ROUTES, **EMPTY_NAMES}.items():
            for method in METHODS:
                statuses = self.seen[method, path]
                if not statuses:
                    out.append(f"{method} {path}: never requested")
                elif method in allowed(path) and path in ROUTES and not any(200 <= it < 300 for it in statuses):
                    out.append(f"{method} {path}: never answered well")
        known = {(method, path) for path, methods in ROUTES.items() for method in methods}
        out += [f"{method} {path}: listed by GET /, and not known to this tool" for method,
            path in listed_by(index) if (method, path) not in known]
        return out

    def table(self):
        lines = []
        for path in sorted({**ROUTES, **EMPTY_NAMES}):
            for method in METHODS:
                statuses = self.seen[method, path]
                counts = "  ".join(f"{status}×{statuses[status]}" for status in sorted(statuses))
                lines.append(f"{method:<8}{path:<62}{counts}")
        return "\n".join(lines)
