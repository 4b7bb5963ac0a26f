"""Takes, each in every way that one can travel: past the router and through it."""

import gzip
import json

from .client import Connection, chunked

TAKE = "/v1/limits/{limit}/take"
JSON = ("content-type", "application/json")

# A take in its plainest form is answered on the fast path; the others are the same request with
# something that the fast path leaves alone and that changes nothing of the answer.
WAYS = ["fast", "identity", "chunked", "behind"]

BODIES = [
    '{"key":"%s"}',
    '{"key":"%s","cost":1}',
    '{"key":"%s","cost":2.0}',
    '{"key":"%s","cost":3,"rate":"20/d"}',
    '{"key":"%s","rate":"1/d"}',
    '{"key":"%s","cost":10}',
    '{"key":"%s","cost":11}',
    '{"key":"%s","cost":9007199254740991}',
    '{"key":"%s","cost":9007199254740992}',
    '{"key":"%s","cost":0}',
    '{"key":"%s","cost":-1}',
    '{"key":"%s","cost":1.5}',
    '{"key":"%s","cost":1e400}',
    '{"key":"%s","cost":"1"}',
    '{"key":"%s","cost":null}',
    '{"key":"%s","cost":true}',
    '{"key":"%s","cost":[1]}',
    '{"key":"%s","rate":null}',
    '{"key":"%s","rate":5}',
    '{"key":"%s","rate":"5/y"}',
    '{"key":"%s","rate":"0/s"}',
    '{"key":"%s","rate":""}',
    '{"key":"%s","rate":"1.5/d"}',
    '{"key":"%s","rate":"99999999999999999999/s"}',
    '{"key":"%s","cots":1}',
    '{"key":"%s","key":"other"}',
    '{"key":"%s","cost":1,"cost":2}',
    '{"key":"%s"} trailing',
    ' \r\n\t{ "key" : "%s" }\n',
    '{"key":"%s \\u00e4\\n\\u0000 \\" {:}"}',
    '{"key":"%s \\ud83d\\ude00"}',
    '{"key":"%s \\ud83d"}',
    '{"key":"%s',
    '["%s"]',
    '"%s"',
    '{"limit":"%s"}',
]

# Bodies without a key in them.
OTHERS = ["", "{}", "{", "null", "7", "nonsense", "\ufeff{}", '{"key":""}', '{"key":null}', '{"key":7}',
    '{"key":["a"]}']

LINES = [
    [],
    [("Content-Type", "Application/JSON; charset=utf-8")],
    [("content-type", "application/problem+json")],
    [("content-type", "application/x-www-form-urlencoded")],
    [("content-type", "application/x-www-form-urlencoded"), ("origin", "https://elsewhere.example")],
    [JSON, ("origin", "https://elsewhere.example")],
    [("origin", "https://elsewhere.example")],
    [("content-type", "text/plain")],
    [("content-type", "application/x-ndjson")],
    [("content-type", "")],
    [("content-type", "application/\u00e9")],
    [JSON, ("content-type", "text/plain")],
    [("connection", "keep-alive")],
    [("connection", "close")],
    [("connection", "keep-alive, close")],
    [("connection", "upgrade"), ("upgrade", "websocket")],
    [("expect", "")],
    [("te", "trailers")],
    [("content-encoding", "br")],
    [("content-encoding", "gzip")],
    [("content-encoding", "gzip, gzip")],
    [("accept", "text/html")],
    [("accept", "application/json;q=0")],
    [("accept-encoding", "gzip, br")],
    [("authorization", "Bearer x")],
    [("cookie", "session=1")],
    [("x-request-id", "1"), ("x-request-id", "2"), ("traceparent", "00-1-2-00")],
    [("x-empty", "")],
]

TARGETS = [
    "/v1/limits/api/take?",
    "/v1/limits/api/take?cost=2",
    "/v1/limits/%61pi/take",
    "/v1/limits/api/take/",
    "/v1/limits//take",
    "/v1/limits/nope/take",
    "/v1/limits/API/take",
    "/v1/limits/a%2Fb/take",
    "/v1/limits/%FF/take",
    "/v1/limits/%zz/take",
    "/v1/limits/%/take",
    "/v1/limits/" + "x" * 300 + "/take",
    "//v1/limits/api/take",
    "/v1/limits/api/take/../take",
    "http://elsewhere.example/v1/limits/api/take",
]


def take(rec, way, limit, body, lines=(JSON,), target=None, leave_out=()):
    """One take in one way."""
    target = target or f"/v1/limits/{limit}/take"
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    headers, sent, connection = list(lines), None, None
    if way == "identity":
        headers += [("content-encoding", "identity")]
    elif way == "chunked":
        headers += [("transfer-encoding", "chunked")]
        sent = chunked(data)
    elif way == "behind":
        connection = Connection(rec.port)
        connection.send(b"GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n")
        connection.answer()
    try:
        answer = rec.request(
            "POST", target, data, headers, route=TAKE, sent=sent, connection=connection, way=way, leave_out=leave_out
        )
    finally:
        if connection:
            connection.close()
    return answer


def key_of(way):
    """What keys begin with that are taken from in this way: as long in each, since errors name columns."""
    return way[:4] + "-"


def alike(rec, name, of_way):
    """The request in every way; that all are answered alike is seen to here, whatever the answer is."""
    answers = {}
    for way in WAYS:
        of_way(way)
        response = json.dumps(rec.lines[-1]["response"], ensure_ascii=False)
        answers[way] = response.replace(key_of(way), "")
    for way in WAYS[1:]:
        if answers[way].split("<receipt")[0] != answers["fast"].split("<receipt")[0]:
            rec.ways[f"{name}, {way}"] = (answers["fast"], answers[way])


def record(rec):
    rec.section = "take"
    for number, body in enumerate(BODIES):
        text = body if "%s" in body else body + "%s"
        # Three of each on a key of its own: the last may be refused by what is left.
        for turn in range(3):
            alike(rec, f"{body} {turn}", lambda way: take(rec, way, "api",
                text.replace("%s", f"{key_of(way)}b{number}")))
    for body in OTHERS:
        for way in WAYS:
            take(rec, way, "roomy", body)
    rec.section = "take from each limit"
    for limit in ["api", "roomy", "shared", "closed", "refusing", "holding", "bucket", "daily"]:
        for cost in [1, 3, 100_001]:
            alike(rec, limit, lambda way: take(rec, way, limit, '{"key":"%s","cost":%d}' % (f"{key_of(way)}each",
                cost)))
    rec.section = "take from a limit without room for more keys"
    for limit in ["few", "together"]:
        for turn in range(3):
            for way in WAYS:
                take(rec, way, limit, '{"key":"%s"}' % f"{key_of(way)}room {turn}")
    rec.section = "take by its fields"
    for number, lines in enumerate(LINES):
        body = '{"key":"%s"}' % f"lines-{number}"
        for way in WAYS:
            take(rec, way, "roomy", body, lines)
    packed = gzip.compress(b'{"key":"packed"}', mtime=0)
    for body in [packed, packed[:-4], b"not gzip", b"", gzip.compress(b'{"key":"' + b"x" * 200_000, mtime=0)]:
        take(rec, "fast", "roomy", body, [JSON, ("content-encoding", "gzip")])
        take(rec, "fast", "roomy", body, [JSON, ("content-encoding", "identity, X-GZIP")])
    for length in [254, 255, 256, 4_000, 4_096, 5_000, 65_536, 69_988, 69_989, 69_990, 70_000, 200_000]:
        for way in WAYS:
            take(rec, way, "roomy", '{"key":"%s"}' % ("x" * length))
    rec.section = "take by its target"
    for target in TARGETS:
        for way in WAYS:
            take(rec, way, "", '{"key":"target"}', target=target)

