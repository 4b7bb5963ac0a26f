"""Rules: made, read, replaced, changed and deleted, with conditions and without; lists, many at once, what answers a
request, who follows; and every refusal."""

import gzip
import re

from .routes import EMPTY_NAMES

ALL = "/v1/rules"
ONE = ALL + "/{id}"
BULK = ALL + "/bulk"
RESOLVE = ALL + "/resolve"
POSITION = ALL + "/position"
IMPORT = ALL + "/import"
EXPORT = ALL + "/export"
CLICKS = ONE + "/clicks"
WORKER = "/v1/workers/{worker}"

# What the database has made.
MADE = [
    (re.compile(r"(a new epoch: )[0-9a-f]{16}"), r"\1<epoch>"),
    (re.compile(r'"id":"[0-9A-Za-z]{7}"'), '"id":"<made>"'),
    (re.compile(r'"path":"/[0-9A-Za-z]{7}"'), '"path":"/<made>"'),
    # What is left of it when it is asked for again.
    (re.compile(r'"lifeMs":\d+'), '"lifeMs":<n>'),
]

# What comes back as it went in.
TEXTS = ["100000000000001", "007", "a:b", "a/b", "..", "\"quoted\"", "\u00e4 \U0001f600", "%41", "null"]


def record(rec):
    lives(rec)
    conditions(rec)
    texts(rec)
    bodies(rec)
    lists(rec)
    many(rec)
    resolved(rec)
    imports(rec)
    workers(rec)
    # Nobody knows where those stand in a list whose ids were made.
    for each in rec.quietly("GET", f"{ALL}?limit=1000").json()["rules"]:
        if re.fullmatch("[0-9A-Za-z]{7}", each["id"]):
            rec.quietly("DELETE", f"{ALL}/{each['id']}")
    exports(rec)


def send(rec, method, target, body=None, headers=(), *, route):
    return rec.request(method, target, body, headers, route=route, leave_out=MADE)


def escaped(text):
    return "".join(f"%{byte:02X}" for byte in text.encode())


def rule(path, destination="https://example.com/", **more):
    return {"path": path, "destination": destination, **more}


def lives(rec):
    """One rule, from its making to its end, and what is in its way."""
    rec.section = "rules"
    one = f"{ALL}/life"
    send(rec, "GET", one, route=ONE)
    for body in [rule("/life", id="life"), rule("/life", id="life"), rule("/other", id="life"), rule("/life", id="else"),
            {"destination": "https://example.com/short"}, rule("/life/2"),
            rule("/life/ended", code=301, expiresAt=1, fallback="/over", id="life ended")]:
        send(rec, "POST", ALL, body, route=ALL)
    for method in ["GET", "HEAD"]:
        send(rec, method, one, route=ONE)
        send(rec, method, POSITION, route=POSITION)
    for body in [rule("/life", "/moved"), rule("/life", "/moved"), rule("/life/ended"), rule("/life", id="else")]:
        send(rec, "PUT", one, body, route=ONE)
    for body in [{"note": "n", "tags": ["b", "a"]}, {"note": None}, {}, {"path": "/life/ended"}, {"path": "/renamed"}]:
        send(rec, "PATCH", one, body, route=ONE)
    for method in ["DELETE", "DELETE", "PATCH", "GET"]:
        send(rec, method, one, {"note": "x"} if method == "PATCH" else None, route=ONE)
    send(rec, "POST", f"{ALL}/new_epoch", route=f"{ALL}/new_epoch")
    for method in EMPTY_NAMES[ALL + "/"]:
        send(rec, method, ALL + "/", route=ALL + "/")


def conditions(rec):
    rec.section = "versions of rules"
    one = f"{ALL}/version"
    for field, value in [("if-match", "*"), ("if-match", '"1"'), ("if-none-match", "*"), ("if-none-match", "*"),
            ("if-match", '"1"'), ("if-match", '"7"'), ("if-match", "1"), ("if-match", 'W/"1"'), ("if-match", '"1", "2"'),
            ("if-none-match", '"1"'), ("if-match", '"99999999999999999999"')]:
        for destination in ["/x", "/y"]:
            send(rec, "PUT", one, rule("/version", destination), [(field, value)], route=ONE)
    send(rec, "PUT", one, rule("/version", "/z"), [("if-match", "*"), ("if-none-match", "*")], route=ONE)
    for method in ["PATCH", "DELETE"]:
        for value in ['"1"', "x", "*"]:
            send(rec, method, one, {"note": value} if method == "PATCH" else None, [("if-match", value)], route=ONE)


def texts(rec):
    rec.section = "texts of rules"
    for number, text in enumerate([*TEXTS, "bulk", "resolve", "position", "x" * 128, "x" * 129, "a\nb"]):
        one = f"{ALL}/{escaped(text)}"
        send(rec, "PUT", one, rule(f"/texts/{number}", note=text, tags=[text[:64]]), route=ONE)
        send(rec, "GET", one, route=ONE)
        send(rec, "DELETE", one, route=ONE)


def bodies(rec):
    rec.section = "bodies of rules"
    wrong = [{}, [], 7, {"path": "/b"}, rule(""), rule("b"), rule("/b*c"), rule("/b?c"), rule("/b", "ftp://x"),
        rule("/b", "//x"), rule("/b", "/b"), rule("/b", "a b"), rule("/b", code=303), rule("/b", code="301"),
        rule("/b", host="a b"), rule("/b", host="*.*"), rule("/b", query="x"), rule("/b", appendRest=True),
        rule("/b", startsAt=2, expiresAt=1), rule("/b", expiresAt=-1), rule("/b", expiresAt=1.5),
        rule("/b", maxClicks=0), rule("/b", fallback="/x"), rule("/b", maxAge=99999999), rule("/b", tags=[""]),
        rule("/b", tags=["t"] * 40), rule("/b", note="\u0000"), rule("/b", starts_at=1), rule("/b", id="")]
    for body in wrong:
        send(rec, "POST", ALL, body, route=ALL)
        send(rec, "PUT", f"{ALL}/wrong", body, route=ONE)
        send(rec, "PATCH", f"{ALL}/life%20ended", body, route=ONE)
    send(rec, "POST", ALL, b"{", [("content-type", "application/json")], route=ALL)


def lists(rec):
    rec.section = "lists of rules"
    for number in range(5):
        send(rec, "PUT", f"{ALL}/list-{number}", rule(f"/list/{number}", f"https://{number % 2}.example/",
            host=["list.example", "*.list.example"][number % 2], tags=["list", str(number)], enabled=number != 3),
            route=ONE)
    for query in ["tag=list", "tag=list&limit=2", "host=list.example", "host=*.list.example", "path=/list/", "path=list",
            "destination=https://1.", "tag=list&state=disabled", "tag=list&state=live", "state=nope", "limit=0",
            "limit=1001", "cursor=x", "cursor=7b7d", "host=a%20b", "tag=%00", "tag=none"]:
        send(rec, "GET", f"{ALL}?{query}", route=ALL)


def many(rec):
    rec.section = "many rules"
    changes = [{"upsert": rule("/many/a", id="many a")}, {"upsert": rule("/many/b")}, {"delete": "many a", "version": 7},
        {"delete": "many a"}, {"delete": "many a"}, {"upsert": {}}, {}, [], 7, {"upsert": rule("/many/c"), "version": 1},
        {"upsert": rule("/list/1", id="many c", host="*.list.example")}]
    send(rec, "POST", BULK, changes, route=BULK)
    send(rec, "POST", BULK, changes[:1], route=BULK)
    for body in [{}, [], [{"delete": "x"}] * 1001]:
        send(rec, "POST", BULK, body, route=BULK)
    lines = b'{"delete":"many a"}\n\nnonsense\n{"delete":"many a"}'
    send(rec, "POST", BULK, lines, [("content-type", "application/x-ndjson")], route=BULK)
    send(rec, "POST", BULK, lines, [("content-type", "text/csv")], route=BULK)


def resolved(rec):
    rec.section = "which rule answers"
    send(rec, "PUT", f"{ALL}/answer", rule("/answer/*", "https://example.org/a?x=1", host="*.answer.example",
        appendRest=True, query="merge", code=308, maxAge=60), route=ONE)
    for query in ["host=www.answer.example&path=/answer/b/c&query=x%3D2", "host=ANSWER.example:81&path=/answer",
            "host=a&path=/life/ended", "host=a&path=/none", "host=a", "path=/", "host=a%20b&path=/", "host=a&path=x",
            "host=a&path=/x%3Fy"]:
        for method in ["GET", "HEAD"]:
            send(rec, method, f"{RESOLVE}?{query}", route=RESOLVE)


# One of each format, and what is wrong with others.
LISTS = [
    ("csv", "id,path,destination,code\ni-csv,/i/csv,/n,301\n"), ("jsonl", '{"id":"i-jsonl","path":"/i/j","destination":"/n"}'),
    ("nginx", "location = /i/nginx { return 301 /n; }\nrewrite ^/i/(.*)$ /n permanent;\n"),
    ("apache", "Redirect 301 /i/apache /n\nRedirectMatch ^/i/.*$ /n\n"), ("netlify", "/i/netlify /n 302\n/i/:x /n\n"),
    ("cloudflare", "i.example/c,https://n.example/,302\nx\n"), ("vercel", '[{"source":"/i/vercel","destination":"/n"},{}]'),
    ("shlink", "shortUrl,longUrl\nhttps://i.example/s,https://n.example/\n"), ("yourls", "keyword,url\ni-y,https://n.example/\n"),
]


def imports(rec):
    rec.section = "imports of rules"
    for format, text in LISTS:
        for flags in ["&dry_run=true", "", "&partial=true", ""]:
            send(rec, "POST", f"{IMPORT}?format={format}{flags}", text, route=IMPORT)
    wrong = "id,path,destination\na,/i/a,/x\na,/i/b,/x\nc,/i/a,/x\nd,d,/x\ne,/i/e\ni f,/life/ended,/x\n"
    for query in ["?format=csv", "?format=csv&dry_run=true", "", "?format=x", "?format=csv&mode=x", "?format=csv&host=a%20b",
            "?format=csv&mode=replace&partial=true", "?format=csv&partial=1", "?format=csv&host=I.example&dry_run=true"]:
        send(rec, "POST", IMPORT + query, wrong, route=IMPORT)
    for body in ["", "path,destination\n", "no,header\n", '"', "\ufeffpath,destination\n/i/x,/y\n"]:
        send(rec, "POST", f"{IMPORT}?format=csv&mode=replace&dry_run=true", body, route=IMPORT)
    packed = gzip.compress(LISTS[0][1].encode(), mtime=0)
    for body in [packed, packed[:-1], b"x"]:
        send(rec, "POST", f"{IMPORT}?format=csv", body, [("content-encoding", "gzip")], route=IMPORT)
    for kind in ["text/csv", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]:
        for origin in [[], [("origin", "https://e.example")]]:
            send(rec, "POST", f"{IMPORT}?format=csv", "", [("content-type", kind), *origin], route=IMPORT)


def exports(rec):
    rec.section = "exports of rules"
    for query in ["", "?format=csv", "?format=jsonl", "?format=nginx"]:
        for method in ["GET", "HEAD"]:
            send(rec, method, EXPORT + query, route=EXPORT)
    for query in ["", "?fields=keys", "?fields=x", "?from=x"]:
        send(rec, "GET", f"{ALL}/snapshot{query}", route=f"{ALL}/snapshot")


def workers(rec):
    rec.section = "workers"
    at = "/v1/workers/edge-1"
    send(rec, "PUT", f"{ALL}/few%20clicks", rule("/few", maxClicks=20), route=ONE)
    for number in ["1", "1", "2", "x"]:
        for body in [{"rule": "few clicks", "wanted": 5}, {"rule": "none", "wanted": 1}, {"rule": "few clicks"}]:
            send(rec, "PUT", f"{at}/blocks/{number}", body, route=f"{WORKER}/blocks/{{number}}")
    for number, spent in [("1", 99), ("1", 1), ("1", 1), ("9", 1), ("2", -1)]:
        send(rec, "POST", f"{at}/blocks/{number}/return", {"spent": spent}, route=f"{WORKER}/blocks/{{number}}/return")
    for number, clicks in [("1", {"life ended": 3, "none": 1}), ("1", {"life ended": 3}), ("2", {"life ended": -1}), ("x", {})]:
        send(rec, "PUT", f"{at}/clicks/{number}", {"clicks": clicks}, route=f"{WORKER}/clicks/{{number}}")
    for number, made in [("3", {"life ended": 1}), ("4", {"life ended": -1}), ("4", 1)]:
        body = {"clicks": {"life ended": 3}, "createdAt": made}
        send(rec, "PUT", f"{at}/clicks/{number}", body, route=f"{WORKER}/clicks/{{number}}")
    for body in [{"seq": 1}, {"seq": -1}, {}]:
        send(rec, "PUT", f"{at}/applied", body, route=f"{WORKER}/applied")
    for method in ["GET", "HEAD"]:
        for id in ["life%20ended", "few%20clicks", "none"]:
            send(rec, method, f"{ALL}/{id}/clicks", route=CLICKS)
        send(rec, method, "/v1/workers", route="/v1/workers")
