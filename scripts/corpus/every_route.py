"""What every route answers to what it does not expect: methods, parameters, encodings, types, bodies."""

import gzip

from .client import Connection, request_bytes
from .routes import EMPTY_NAMES, ENDLESS, METHODS, ROUTES, WITH_BODY, filled

JSON = ("content-type", "application/json")
NOBODY = "67e55044-10b1-426f-9247-bb680e5fe0c8"


def at(path, **names):
    """The route with names of this file's own in it."""
    is_session = path.startswith("/v1/sessions")
    space = "sessions" if is_session else "main" if path.startswith("/v1/runs") else "pages"
    own = {"limit": "roomy", "key": "every", "id": NOBODY if is_session else "every", "space": space, "page": "every",
        "run": "every", "task": "every"}
    return filled(path, **{**own, **names})


def record(rec):
    rec.normal.literal(NOBODY)
    methods(rec)
    parameters(rec)
    names(rec)
    kinds_of_bodies(rec)
    about_the_server(rec)


def request(rec, method, target, path, body=None, headers=()):
    """A request; of an answer without an end, the beginning is written down."""
    if path not in ENDLESS or method != "GET":
        return rec.request(method, target, body, headers, route=path)
    with Connection(rec.port) as connection:
        connection.send(request_bytes(method, target, headers, body))
        answer = connection.head()
        if answer.status != 200:
            answer.body = connection.read_until(lambda data: len(data) >= int(answer.header("content-length")))
    rec.coverage.count(method, path, answer.status)
    sent = {"method": method, "target": target, "headers": [": ".join(it) for it in headers],
        "route": f"{method} {path}"}
    rec.write("http", sent, rec._response(answer))
    return answer


def methods(rec):
    rec.section = "every method"
    for path in [*ROUTES, *EMPTY_NAMES]:
        for method in METHODS + ["TRACE", "BREW", "get"]:
            body = b"{}" if method in ("POST", "PUT", "PATCH") else None
            request(rec, method, at(path), path, body, [JSON] if body else [])
    for target in ["*", "/nope", "/v1", "/v1/", "/v1/nope", "/v2/limits", "/metrics/", "/healthz/", "/index.html"]:
        for method in ["GET", "OPTIONS", "POST", "HEAD"]:
            rec.request(method, target)


def parameters(rec):
    rec.section = "every parameter"
    for path, allowed in {**ROUTES, **EMPTY_NAMES}.items():
        for method in allowed:
            body = b"{}" if method in ("POST", "PUT") else None
            for query in ["?nope=1", "?nope", "?" + "n" * 100 + "=1", "?a=1&a=2", "?%6Eope=%FF", "?%zz=1",
                    "?limit=1&limit=1", "?=1", "?&"]:
                request(rec, method, at(path) + query, path, body, [JSON] if body else [])


def names(rec):
    """Names that nobody has, or that cannot be read, in each place of each path."""
    rec.section = "every name"
    for path, allowed in ROUTES.items():
        for place in ["limit", "space", "key", "id", "page", "holder", "broadcaster", "run", "task", "hour", "worker",
                "number"]:
            if "{" + place + "}" not in path:
                continue
            for name in ["nope", "%FF", "%4", "%61%2F", "x" * 300, "%E4%BD%A0"]:
                for method in allowed:
                    body = b"{}" if method in ("POST", "PUT") else None
                    request(rec, method, at(path, **{place: name}), path, body, [JSON] if body else [])


def kinds_of_bodies(rec):
    rec.section = "every body"
    packed = gzip.compress(b"{}", mtime=0)
    large = b'{"x":"' + b"y" * 70_000 + b'"}'
    cases = [
        (None, [JSON]), (None, []), (b"", [JSON]), (b"{}", []), (b"{}", [("content-type", "text/plain")]),
        (b"{}", [("content-type", "application/xml")]),
        (b"{}", [("content-type", "application/vnd.x+json")]),
        (b"{}", [("content-type", "application/x-www-form-urlencoded")]),
        (b"{}", [("content-type", "application/x-www-form-urlencoded"), ("origin", "https://e.example")]),
        (b"{}", [("content-type", "multipart/form-data; boundary=x")]),
        (b"{}", [JSON, ("accept", "text/html")]), (b"{", [JSON]), (b"[]", [JSON]), (b" [1]", [JSON]),
        (b"null", [JSON]), (b'"x"', [JSON]), (b"7", [JSON]), (b'{"unknown":1}', [JSON]),
        (b"{}{}", [JSON]), (b"\xff\xfe", [JSON]), (b'{"a":"\xff"}', [JSON]), (large, [JSON]),
        (packed, [JSON, ("content-encoding", "gzip")]), (packed[:10], [JSON, ("content-encoding", "gzip")]),
        (gzip.compress(large, mtime=0), [JSON, ("content-encoding", "gzip")]),
        (b"{}", [JSON, ("content-encoding", "deflate")]),
    ]
    for method, path in WITH_BODY:
        for body, headers in cases:
            rec.request(method, at(path), body, headers, route=path)


def about_the_server(rec):
    rec.section = "about the server"
    accepts = ["application/openmetrics-text", "application/openmetrics-text; version=1.0.0",
        "text/plain;version=0.0.4;q=0.3, Application/OpenMetrics-Text;q=0.6",
        "text/plain, application/openmetrics-text;q=0.5", "application/openmetrics-text;q=0", "*/*",
        "text/html,*/*;q=0.8", ""]
    for accept in accepts:
        for path in ["/readyz", "/healthz", "/", "/v1/limits"]:
            rec.request("GET", path, None, [("accept", accept)], route=path)


def metrics(rec):
    """At the end, when everything has been counted."""
    rec.section = "metrics"
    for accept in ["*/*", "application/openmetrics-text", "text/plain, application/openmetrics-text;q=0.5"]:
        for method in ["GET", "HEAD"]:
            rec.request(method, "/metrics", None, [("accept", accept)], route="/metrics")
