"""Hot pages: edits one by one and in bulk, what is read of them, and events."""

import gzip
import json
import random
import re

from .client import Connection, chunked, request_bytes, unchunked
from .routes import EMPTY_NAMES

EDITS = "/v1/hot/{space}/edits"
COUNTS = "/v1/hot/{space}/counts"
PAGE = "/v1/hot/{space}/pages/{page}"
NDJSON = ("content-type", "application/x-ndjson")

# Edits are as old as that when a recording begins, and lie behind one another from there on.
BEGIN_MS = -90_000


class Edits:
    """Edits at moments that no other edit has: what is hot is never a matter of speed."""

    def __init__(self, rec):
        self.rec, self.count = rec, 0

    def next(self, page, **more):
        self.count += 1
        at = self.rec.normal.at(BEGIN_MS + self.count)
        return {"page": page, "id": f"rev-{self.count}", "editor": f"e{self.count % 3}", "byte_change": self.count,
            "at": at, **more}


def record(rec):
    edits = Edits(rec)
    one_by_one(rec, edits)
    bad_edits(rec, edits)
    questions(rec)
    in_bulk(rec, edits)
    counts(rec)
    events(rec, edits)
    over(rec)
    any_order(rec, edits)


def one_by_one(rec, edits):
    for space in ["pages", "swapped"]:
        rec.section = f"edits of {space}"
        for page in ["A", "A", "A", "B", "B", "C", "C", "D", "D", "E", "E", "F", "F", "A", "A", "A", "B", "F"]:
            rec.request("POST", f"/v1/hot/{space}/edits", edits.next(page), route=EDITS)
        for page in ["A", "C", "F", "never"]:
            rec.request("GET", f"/v1/hot/{space}/pages/{page}", route=PAGE)
            rec.request("GET", f"/v1/hot/{space}/pages/{page}/window", route=PAGE + "/window")
        for query in ["", "?limit=1", "?stats=true", "?limit=2&stats=true"]:
            rec.request("GET", f"/v1/hot/{space}{query}", route="/v1/hot/{space}")
        place = ""
        for _ in range(6):
            answer = rec.request("GET", f"/v1/hot/{space}?limit=2{place}", route="/v1/hot/{space}").json()
            if answer["next"] is None:
                break
            place = "&after=" + answer["next"].replace(":", "%3A")
        same = edits.next("A")
        for _ in range(2):
            rec.request("POST", f"/v1/hot/{space}/edits", same, route=EDITS)
        rec.request("DELETE", f"/v1/hot/{space}/pages/A", route=PAGE)
        rec.request("DELETE", f"/v1/hot/{space}/pages/A", route=PAGE)
        rec.request("POST", f"/v1/hot/{space}/edits", edits.next("A"), route=EDITS)
        rec.request("DELETE", f"/v1/hot/{space}/pages/A", route=PAGE)
        rec.request("POST", f"/v1/hot/{space}/cleanup", route="/v1/hot/{space}/cleanup")
        rec.request("POST", f"/v1/hot/{space}/cleanup", {}, route="/v1/hot/{space}/cleanup")


def bad_edits(rec, edits):
    rec.section = "bad edits"
    good = {"page": "bad", "id": "x"}
    bodies = [
        {**good, "at": "2015-09-12T00:46:58.771Z"}, {**good, "at": 1442018818771}, {**good, "at": 1442018818},
        {**good, "at": "1442018818"}, {**good, "at": "2015-09-12T02:46:58+02:00"}, {**good, "at": 0},
        {**good, "at": -1},
        {**good, "at": 1.5}, {**good, "at": "soon"}, {**good, "at": ""}, {**good, "at": True},
        {**good, "at": 9007199254740992},
        {**good, "at": "9999-12-31T23:59:59Z"}, {**good, "at": {"ms": 1}}, {**good, "at": "2015-09-12"},
        {"id": "x"}, {"page": "p"}, {}, {**good, "page": ""}, {**good, "id": ""}, {**good, "page": "x" * 256},
        {**good, "id": "x" * 256},
        {**good, "editor": "x" * 256}, {**good, "page": 5}, {**good, "id": None}, {**good, "editor": 5},
        {**good, "byte_change": "1"},
        {**good, "byte_change": 1.5}, {**good, "byte_change": 9223372036854775808},
        {**good, "byte_change": -9223372036854775809},
        {**good, "who": "me"}, [good], "bad", None,
    ]
    for body in bodies:
        data = json.dumps(body)
        rec.request("POST", "/v1/hot/pages/edits", data, [("content-type", "application/json")], route=EDITS)
    for number, body in enumerate([
        {"editor": ""}, {"editor": None}, {"byte_change": -9223372036854775808}, {"byte_change": 9223372036854775807},
        {"byte_change": None}, {"at": None}, {"page": "\u00e4 \u0000 \" \U0001f600"}, {"page": "x" * 255},
        {"id": "y" * 255}, {"editor": "z" * 255},
    ]):
        rec.request("POST", "/v1/hot/swapped/edits", {**edits.next(f"good {number}"), **body}, route=EDITS)
    for lines in [[("content-type", "text/plain")], [("content-type", "application/x-www-form-urlencoded")], [],
            [("origin", "https://e.example")], [("content-type", "application/json"), ("content-encoding", "br")]]:
        rec.request("POST", "/v1/hot/pages/edits", json.dumps(edits.next("types")), lines, route=EDITS)
    rec.request("POST", "/v1/hot/nope/edits", good, route=EDITS)
    rec.request("POST", "/v1/hot/pages/edits?a=b", good, route=EDITS)


def questions(rec):
    rec.section = "questions about pages"
    for query in ["limit=0", "limit=1000", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1&limit=2",
            "stats=false", "stats=1", "stats=", "stats=true&limit=100", "stats=true&limit=101", "after=", "after=x",
            "after=1:2", "after=1:2:", "after=1:1442018818771:p", "after=9007199254740992:1:p", "after=1%3A2%3A%FF",
            "nope=1", "&&", "limit", "%6Cimit=1", "limit=1&x%zz=2"]:
        rec.request("GET", f"/v1/hot/pages?{query}", route="/v1/hot/{space}")
    moment = rec.normal.at(BEGIN_MS + 3)
    for query in [f"from={moment}", f"to={moment}", f"from={moment}&to={moment}", f"from={moment + 1}&to={moment}",
            "from=0&to=0", "from=x", "to=", "from=2015-09-12T00:46:58Z", "from=2015-09-12T00:46:58+02:00",
            "to=9007199254740991", "to=9007199254740992", "from=1&from=2", "limit=1"]:
        rec.normal.at(BEGIN_MS + 4)
        rec.request("GET", f"/v1/hot/pages/pages/A/window?{query}", route=PAGE + "/window")
    for page in ["a%2Fb", "%C3%A4", "%FF", "%zz", "%00", "x" * 255, "x" * 256, "..", "a+b"]:
        for method, below in [("GET", ""), ("DELETE", ""), ("GET", "/window")]:
            rec.request(method, f"/v1/hot/pages/pages/{page}{below}", route=PAGE + below)
    for path in [it for it in EMPTY_NAMES if it.startswith("/v1/hot")]:
        for method in ["GET", "DELETE", "PUT", "HEAD"]:
            for space in ["pages", "nope"]:
                rec.request(method, path.format(space=space), route=path)
    for path in ["/v1/hot", "/v1/hot/", "/v1/hot/nope", "/v1/hot/nope/pages/p", "/v1/hot/nope/pages/p/window",
            "/v1/hot/nope/events", "/v1/hot/%FF", "/v1/hot/pages/", "/v1/hot/pages/pages", "/v1/hot/pages/pages/a/b"]:
        rec.request("GET", path)
    rec.request("POST", "/v1/hot/nope/cleanup", {})
    for body in ['{"a":1}', "[]", "x", "null"]:
        rec.request("POST", "/v1/hot/pages/cleanup", body, [("content-type", "application/json")],
            route="/v1/hot/{space}/cleanup")


def lines_of(edits, pages):
    return "".join(json.dumps(edits.next(page)) + "\n" for page in pages).encode()


def in_bulk(rec, edits):
    rec.section = "edits in bulk"
    long_line = json.dumps({"page": "p", "id": "x", "editor": "y" * 9000}).encode() + b"\n"
    bad = [b"{\n", b"[1]\n", b'{"page":"p"}\n', b'{"page":"","id":"x"}\n', b'{"page":"p","id":"x","at":"soon"}\n',
        b"\xff\n", b'"x"\n', b'{"page":"p","id":"x","more":1}\n']
    bodies = [
        lines_of(edits, "AABBCC"),
        lines_of(edits, "A") [:-1],
        b"", b"\n\n  \n", b"\r\n" + lines_of(edits, "Z").replace(b"\n", b"\r\n"),
        lines_of(edits, "AB") + b"".join(bad) + lines_of(edits, "AB"),
        b"nonsense\n" * 30, long_line + lines_of(edits, "A"), long_line[:-1],
        json.dumps({"page": "p", "id": "old", "at": 1442018818}).encode() + b"\n",
        lines_of(edits, [f"many {number % 40}" for number in range(1200)]),
        lines_of(edits, [f"big {number % 3}" for number in range(3000)]),
    ]
    for body in bodies:
        rec.request("POST", "/v1/hot/swapped/edits", body, [NDJSON], route=EDITS)
        for kind in ["application/ndjson", "APPLICATION/JSONL; charset=utf-8"]:
            rec.request("POST", "/v1/hot/swapped/edits", body, [("content-type", kind)], route=EDITS)
        rec.request("POST", "/v1/hot/swapped/edits", body, [NDJSON, ("transfer-encoding", "chunked")],
            sent=chunked(body, (7, 100, 1000)), route=EDITS)
        packed = gzip.compress(body, mtime=0)
        rec.request("POST", "/v1/hot/swapped/edits", body, [NDJSON, ("content-encoding", "gzip")], sent=packed,
            route=EDITS)
    # Without a moment of now in them: how far half of it goes is how well it packs.
    lines = [b'{"page":"half","id":"%d","at":1442018818771}\n' % number for number in range(900)]
    packed = gzip.compress(b"".join(lines), mtime=0)
    for part in [0.1, 0.5, 0.9]:
        rec.request("POST", "/v1/hot/swapped/edits", packed[: int(len(packed) * part)],
            [NDJSON, ("content-encoding", "gzip")], route=EDITS)
    rec.request("POST", "/v1/hot/swapped/edits", b"x", [NDJSON, ("content-encoding", "gzip")], route=EDITS)
    rec.request("POST", "/v1/hot/swapped/edits", b"x", [NDJSON, ("content-encoding", "zstd")], route=EDITS)
    rec.request("POST", "/v1/hot/nope/edits", bodies[0], [NDJSON], route=EDITS)
    rec.request("POST", "/v1/hot/swapped/edits?x=y", bodies[0], [NDJSON], route=EDITS)
    rec.request("GET", "/v1/hot/swapped", route="/v1/hot/{space}")


def counts(rec):
    """A space that only counts."""
    rec.section = "counts"
    for count in [1, 8, 1, None, 10**9, 2.0]:
        rec.request("POST", "/v1/hot/views/counts", {"page": "V", **({} if count is None else {"count": count})},
            route=COUNTS)
    for page in ["W", "X", "Y", "Y"]:
        rec.request("POST", "/v1/hot/views/counts", {"page": page, "count": 10}, route=COUNTS)
    for body in [{"page": "V", "count": 0}, {"page": "V", "count": 10**9 + 1}, {"page": "V", "count": -1},
            {"page": "V", "count": "1"}, {"page": "V", "count": 1.5}, {"page": "V", "count": None}, {"page": ""}, {},
            {"page": "x" * 256}, {"page": "V", "id": "1"}, [{"page": "V"}], None]:
        rec.request("POST", "/v1/hot/views/counts", json.dumps(body), [("content-type", "application/json")],
            route=COUNTS)
    lines = [b"", b'{"page":"V"}\n' * 3, b'{"page":"W","count":5}\n{"page":"V","count":0}\n\n[1]\n{"page":"X"}',
        b"".join(b'{"page":"many %d","count":2}\n' % (number % 40) for number in range(1200))]
    for body in lines:
        rec.request("POST", "/v1/hot/views/counts", body, [NDJSON], route=COUNTS)
        rec.request("POST", "/v1/hot/pages/counts", body, [NDJSON], route=COUNTS)
        rec.request("POST", "/v1/hot/views/edits", body, [NDJSON], route=EDITS)
    rec.request("POST", "/v1/hot/views/edits", {"page": "V", "id": "1"}, route=EDITS)
    for space in ["pages", "nope"]:
        rec.request("POST", f"/v1/hot/{space}/counts", {"page": "V"}, route=COUNTS)
    for page in ["V", "Y", "never"]:
        rec.request("GET", f"/v1/hot/views/pages/{page}", route=PAGE)
        rec.request("GET", f"/v1/hot/views/pages/{page}/window", route=PAGE + "/window")
    rec.request("GET", "/v1/hot/views", route="/v1/hot/{space}")
    for page in ["V", "V"]:
        rec.request("DELETE", f"/v1/hot/views/pages/{page}", route=PAGE)


def stream(rec, name, headers=(), query="", meanwhile=None, until=b"\n\n"):
    """Follows events until `until` has come; returns the positions that came."""
    with Connection(rec.port) as connection:
        connection.send(request_bytes("GET", f"/v1/hot/swapped/events{query}", headers, None))
        answer = connection.head()
        rec.coverage.count("GET", "/v1/hot/{space}/events", answer.status)
        if answer.status == 200:
            begun = connection.read_until(lambda data: b"\n\n" in unchunked(data))
            if meanwhile:
                meanwhile()
            connection.buffer = begun

            def is_enough(data):
                text = unchunked(data)
                return until in text and text.endswith(b"\n\n")

            answer.body = unchunked(connection.read_until(is_enough))
        else:
            answer.body = connection.read_until(lambda data: len(data) >= int(answer.header("content-length")))
    positions = re.findall(r"^id: (\S+)", answer.body.decode(), re.M)
    request = {"what": name, "headers": [f"{key}: {rec.normal.text(value)}" for key, value in headers],
        "query": rec.normal.text(query)}
    rec.write("events", request, rec._response(answer))
    return positions


def events(rec, edits):
    rec.section = "events"

    def heat(pages):
        for page in pages:
            rec.quietly("POST", "/v1/hot/swapped/edits", edits.next(page))

    def what_happens():
        # Two have room: the third is promoted in place of the coldest.
        heat(["W"] * 2 + ["X"] * 5 + ["Y"] * 5)
        rec.quietly("DELETE", "/v1/hot/swapped/pages/Y")

    rec.quietly("DELETE", "/v1/hot/swapped/pages/W")
    for row in rec.quietly("GET", "/v1/hot/swapped").json()["pages"]:
        rec.quietly("DELETE", "/v1/hot/swapped/pages/" + row["page"].replace(" ", "%20"))
    # One reader reads for all: what was before has been read when a stream begins.
    removed = b'"kind":"removed","page":"Y"'
    positions = stream(rec, "as it happens", meanwhile=what_happens, until=removed)
    stream(rec, "from the first on", [("last-event-id", positions[0])], until=removed)
    stream(rec, "from the third on", [("last-event-id", positions[2])], until=removed)
    stream(rec, "by the query", query=f"?after={positions[1]}", until=removed)
    stream(rec, "the header wins", [("last-event-id", positions[3])], query=f"?after={positions[0]}", until=removed)
    ahead = f"{int(positions[0].split('-')[0]) + 86_400_000}-0-{positions[0].split('-')[2]}"
    for wrong in ["x", "", "1-2-3-4", ahead, "-", "1442018818771-0-1442018818771000"]:
        stream(rec, "a wrong position", [("last-event-id", wrong)], until=removed)
        stream(rec, "a wrong position", query=f"?after={wrong}", until=removed)
    stream(rec, "an unknown parameter", query="?x=y")
    stream(rec, "accepting JSON alone", [("accept", "application/json")])
    rec.request("HEAD", "/v1/hot/swapped/events", route="/v1/hot/{space}/events")


def over(rec):
    """A space whose windows last a second: what was hot is not any more."""
    rec.section = "what is over"
    for number in range(3):
        rec.quietly("POST", "/v1/hot/brief/edits", {"page": "short", "id": f"s{number}"})
    rec.wait_until("the page is not hot", lambda: not rec.quietly("GET",
        "/v1/hot/brief/pages/short").json()["is_hot"])
    rec.request("GET", "/v1/hot/brief/pages/short", route=PAGE)
    rec.request("POST", "/v1/hot/brief/cleanup", {}, route="/v1/hot/{space}/cleanup")
    rec.request("POST", "/v1/hot/brief/cleanup", {}, route="/v1/hot/{space}/cleanup")
    rec.request("GET", "/v1/hot/brief", route="/v1/hot/{space}")


def any_order(rec, edits):
    """Whatever comes to a space, in an order that is drawn once and for all."""
    rec.section = "pages in any order"
    draw = random.Random(20261117)
    for _ in range(300):
        page = draw.choice("ABCDEFGH")
        what = draw.choice(["edit", "edit", "edit", "edit", "stats", "window", "list", "remove"])
        if what == "edit":
            rec.request("POST", "/v1/hot/pages/edits", edits.next(page), route=EDITS)
        elif what == "stats":
            rec.request("GET", f"/v1/hot/pages/pages/{page}", route=PAGE)
        elif what == "window":
            rec.request("GET", f"/v1/hot/pages/pages/{page}/window", route=PAGE + "/window")
        elif what == "list":
            rec.request("GET", f"/v1/hot/pages?limit={draw.randrange(7)}&stats=true", route="/v1/hot/{space}")
        elif draw.random() < 0.3:
            rec.request("DELETE", f"/v1/hot/pages/pages/{page}", route=PAGE)
