"""Requests as bytes: several on one connection, and heads that RFC 9112 has a server refuse."""

from .client import Connection
from .servers import Later

TAKE = "POST /v1/limits/roomy/take HTTP/1.1\r\nhost: t\r\n"
JSON = "content-type: application/json\r\n"
BODY = '{"key":"heads"}'

# Comes last: who still listens answers it, and hangs up.
LAST = "GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n"


def take(lines="", body=BODY):
    return f"{TAKE}{lines}content-length: {len(body.encode())}\r\n\r\n{body}"


def plain(body=BODY):
    return take(JSON, body)


def line(first):
    return plain().replace("POST /v1/limits/roomy/take HTTP/1.1", first, 1)


def host(field):
    return plain().replace("host: t\r\n", field)


LINES = [
    "expect: something\r\n", "expect: 100-continue, something\r\n", "expect: 100-continue\r\n", "expect:\r\n",
    "host: t\r\n", "host: u\r\n", "Host: t\r\nhOST: t\r\n",
    "transfer-encoding: chunked\r\n", "transfer-encoding: gzip, chunked\r\n", "transfer-encoding: identity\r\n",
    "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "content-length: 15\r\n", "content-length: 16\r\n", "x-folded: a\r\n b\r\n", "no-colon\r\n", "bad name: x\r\n",
    "bad-name : x\r\n", ": x\r\n", "x: \x01\r\n", "x: a\x00b\r\n", "x: caf\u00e9\r\n",
    "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n", "connection: close\r\n",
    "connection: keep-alive\r\nconnection: close\r\n", "authorization: Bearer x\r\n", "cookie: a=b\r\n",
    "x: y\r\n" * 30, "x: y\r\n" * 40, "x: y\r\n" * 95, "x: y\r\n" * 101, "x: " + "y" * 4_000 + "\r\n",
    "x: " + "y" * 15_000 + "\r\n", "x: " + "y" * 20_000 + "\r\n", "x" * 20_000 + ": y\r\n",
]

FIRST = [
    "POST /v1/limits/roomy/take HTTP/1.0", "POST /v1/limits/roomy/take HTTP/1.2",
    "POST /v1/limits/roomy/take HTTP/2.0", "POST /v1/limits/roomy/take HTTP/0.9",
    "POST /v1/limits/roomy/take HTTP/1.", "POST /v1/limits/roomy/take http/1.1",
    "POST /v1/limits/roomy/take", "POST  /v1/limits/roomy/take HTTP/1.1", "POST /v1/limits/roomy/take  HTTP/1.1",
    "POST\t/v1/limits/roomy/take\tHTTP/1.1", "PRI * HTTP/2.0", "\r\nPOST /v1/limits/roomy/take HTTP/1.1",
    "\n\nPOST /v1/limits/roomy/take HTTP/1.1",
    "POST /v1/limits/roomy/take#a HTTP/1.1", "POST v1/limits/roomy/take HTTP/1.1",
    "POST http://t/v1/limits/roomy/take HTTP/1.1", "POST http://u:1/v1/limits/roomy/take HTTP/1.1",
    "CONNECT t:80 HTTP/1.1", "CONNECT /v1/limits HTTP/1.1", "OPTIONS * HTTP/1.1", "GET * HTTP/1.1",
    "post /v1/limits/roomy/take HTTP/1.1", "P\u00f6ST / HTTP/1.1", "P(ST / HTTP/1.1", "GET /\x01 HTTP/1.1",
    "GET /\u00e4 HTTP/1.1", "GET /<> HTTP/1.1", "GET /" + "x" * 17_000 + " HTTP/1.1", "M" * 17_000 + " / HTTP/1.1",
    "\x16\x03\x01\x02\x00\x01\x00", "GET", "", " ",
    "GET /v1/limits/roomy HTTP/1.1", "HEAD /v1/limits/roomy HTTP/1.1", "BREW / HTTP/1.1", "GET / HTTP/1.1",
]

HOSTS = ["", "host:\r\n", "host: [::1]:8080\r\n", "host: [::1]\r\n", "host: t/x\r\n", "host: t:x\r\n",
    "host: me@t\r\n", "host: a b\r\n", "host: t:\r\n", "host: \u00e4\r\n", "host: t, u\r\n", "host: t:99999\r\n",
    "host: %41\r\n", "host: a_b.example:8080\r\n"]

LENGTHS = ["+15", "-1", "0x0f", "15 ", "015", "0000000015", "15, 15", "15, 16", "", "a", "1.5", "70001", "9999999",
    "18446744073709551615", "99999999999999999999", "\u0661"]

CHUNKS = [
    "f\r\n" + BODY + "\r\n0\r\n\r\n", "F\r\n" + BODY + "\r\n0\r\n\r\n", "00f\r\n" + BODY + "\r\n0\r\n\r\n",
    "f;x=y\r\n" + BODY + "\r\n0\r\n\r\n", 'f;x="y\r\n" + BODY + "\r\n0\r\n\r\n',
    "5\r\n" + BODY[:5] + "\r\na\r\n" + BODY[5:] + "\r\n0\r\n\r\n", "f\r\n" + BODY + "\r\n0\r\nx: y\r\n\r\n",
    "f\r\n" + BODY + "\r\n0\r\ncontent-length: 3\r\n\r\n", "f\n" + BODY + "\r\n0\r\n\r\n",
    "f\r\n" + BODY + "0\r\n\r\n",
    "z\r\n", "-1\r\n", "+f\r\n" + BODY, " f\r\n" + BODY + "\r\n0\r\n\r\n", "ffffffffffffffffff\r\n", "0\r\n\r\n",
    "\r\n", "f\r\n" + BODY + "\r\n0\r\n" + "x: y\r\n" * 200 + "\r\n",
    "f" + ";x" * 20_000 + "\r\n" + BODY + "\r\n0\r\n\r\n",
]


def record(rec):
    rec.section = "heads"
    chunked = f"{TAKE}{JSON}transfer-encoding: chunked\r\n\r\n"
    cases = [("a field", take(JSON + it)) for it in LINES]
    cases += [("a field, of another route",
        "GET /v1/limits/roomy HTTP/1.1\r\nhost: t\r\n" + it + "\r\n") for it in LINES]
    cases += [("a first line", line(it)) for it in FIRST]
    cases += [("a host", host(it)) for it in HOSTS]
    cases += [("a host of HTTP/1.0", host(it).replace("HTTP/1.1", "HTTP/1.0")) for it in HOSTS]
    cases += [("a length", f"{TAKE}content-length: {it}\r\n\r\n{BODY}") for it in LENGTHS]
    cases += [("chunks", chunked + it) for it in CHUNKS]
    cases += [("chunks of edits", chunked.replace("limits/roomy/take", "hot/pages/edits").replace("application/json",
        "application/x-ndjson") + it) for it in CHUNKS]
    cases += [
        ("LF alone", plain().replace("\r\n", "\n")), ("LF alone, once", plain().replace("\r\n", "\n", 1)),
        ("LF alone at the end", plain().replace("\r\n\r\n", "\r\n\n")), ("CR alone", plain().replace("\r\n", "\r")),
        ("a length and chunks",
        f"{TAKE}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\nf\r\n{BODY}\r\n0\r\n\r\n"),
        ("chunks and a length",
        f"{TAKE}transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nf\r\n{BODY}\r\n0\r\n\r\n"),
        ("chunks of HTTP/1.0", chunked.replace("HTTP/1.1", "HTTP/1.0") + CHUNKS[0]),
        ("HTTP/1.0, kept", "GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"), ("HTTP/1.0, a take, kept",
        host("connection: keep-alive\r\n").replace("HTTP/1.1", "HTTP/1.0")),
        ("no length", f"{TAKE}{JSON}\r\n"), ("shorter than said", f"{TAKE}content-length: 9\r\n\r\n{BODY}"),
        ("a take thrice", plain() * 3), ("a take forty times", plain() * 40), ("a take, a peek, a take",
        plain() + line("GET /v1/limits/roomy/keys/heads HTTP/1.1") + plain()),
        ("one that is wrong, one that is last, one more",
        plain() + plain("{") + take("connection: close\r\n") + plain()),
        ("a take, one without a host", plain() + host("")), ("something else, LF alone, a take",
        line("GET /healthz HTTP/1.1") + plain().replace("\r\n", "\n") + plain()), ("chunks, then nonsense",
        chunked + CHUNKS[0] + "nonsense\r\n\r\n"), ("chunks, then a take", chunked + CHUNKS[3] + plain()),
        ("a body too large, then a take", f"{TAKE}{JSON}content-length: 80000\r\n\r\n" + "x" * 80_000 + plain()),
        ("every route in a row", "".join(f"GET {path} HTTP/1.1\r\nhost: t\r\n\r\n" for path in ["/v1/limits",
        "/v1/hot", "/v1/sessions", "/readyz", "/nope", "/v1/limits/api/keys/x?y=z"])),
        ("HEAD, then a take", "HEAD /v1/limits HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n" + plain()),
    ]
    for name, text in cases:
        send(rec, name, text)
    pieces(rec)


def send(rec, name, text):
    # As Latin-1 where that is meant to be one byte, as UTF-8 where there is no such byte.
    try:
        data = text.encode("latin-1")
    except UnicodeEncodeError:
        data = text.encode()
    if "HEAD " in text[:10]:
        # Whether there is a body is only known by who knows the method.
        with Connection(rec.port) as connection:
            connection.send(data + LAST.encode())
            answers = [rec._response(connection.answer("HEAD")), *rec.all_answers(connection)]
        rec.write("raw", {"what": name, "bytes": rec.normal.text(text[:300])}, answers)
        return
    rec.raw(name, data, last=LAST.encode())


def pieces(rec):
    """The same bytes, cut where it hurts; and connections that end early."""
    rec.section = "pieces"
    for text in [plain(), line("GET /v1/limits/roomy/keys/heads HTTP/1.1"), plain().replace("roomy", "nope"),
            f"{TAKE}{JSON}transfer-encoding: chunked\r\n\r\n{CHUNKS[5]}"]:
        data = text.encode()
        for at in [1, 20, data.index(b"\r\n\r\n") + 2, data.index(b"\r\n\r\n") + 4, len(data) - 1]:
            with Connection(rec.port) as connection:
                connection.send(data[:at])
                # Another request is answered meanwhile, so the first piece has been read.
                rec.quietly("GET", "/healthz")
                connection.send(data[at:] + LAST.encode())
                answers = rec.all_answers(connection)
            rec.write("raw", {"what": f"in two pieces, at {at}", "bytes": text}, answers)
            with Connection(rec.port) as connection:
                connection.send(data[:at])
                connection.socket.shutdown(1)
                answers = rec.all_answers(connection)
            # Whether the end was seen before the answer was written is a matter of moments.
            for answer in answers:
                answer["headers"] = [it for it in answer.get("headers", []) if it != "connection: close"]
            rec.write("raw", {"what": f"ended after {at}", "bytes": text}, answers)
    with Connection(rec.port) as connection:
        connection.send(take(JSON + "expect: 100-continue\r\n").replace(BODY, "").encode())
        answers = [rec._response(connection.answer())]
        connection.send(BODY.encode() + LAST.encode())
        answers += rec.all_answers(connection)
    rec.write("raw", {"what": "waits to be told to go on"}, answers)


def impatient(rec, port):
    """A server that waits for nobody: what is cut off, and with which words."""
    rec.section = "too slow"
    head = "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n" + JSON
    edits = "POST /v1/hot/pages/edits HTTP/1.1\r\nhost: t\r\ncontent-type: application/x-ndjson\r\n"
    edit = '{"page":"slow","id":"1"}\n'
    cases = [
        ("half a head", head), ("nothing", ""), ("half a body", head + "content-length: 100\r\n\r\n{"),
        ("half a body, chunked", head + "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"),
        ("half a body of another route", head.replace("limits/api/take",
        "sessions/sessions") + "content-length: 100\r\n\r\n{"), ("a take, then half a head",
        take(JSON).replace("roomy", "api") + "POST /v1"),
        ("half the edits", edits + f"content-length: 1000\r\n\r\n{edit}"), ("half the edits, chunked",
        edits + f"transfer-encoding: chunked\r\n\r\n{len(edit):x}\r\n{edit.replace('slow', 'late')}\r\n"),
    ]
    # All at once: each waits for its end.
    waiting = []
    for name, text in cases:
        connection = Connection(port)
        connection.send(text.encode())
        waiting.append((name, text, Later(lambda connection=connection: rec.all_answers(connection)), connection))
    for name, text, later, connection in waiting:
        answers = later.wait()
        connection.close()
        rec.write("raw", {"what": name, "bytes": text}, answers)
