"""The command line: every command, for people and as JSON, of a server and of a store, and wrong usage."""

import gzip
import json
import os
import re
import time

from .rules import MADE
from .servers import run
from .sessions import APART_S, AT_ONCE, NOBODY

# Good arguments of every command with an answer, several where the answers differ.
ARGUMENTS = {
    "limit take": [["api", "cli"], ["api", "cli", "--cost", "4"], ["api", "cli", "--cost", "9"],
    ["api", "cli", "--cost", "11"], ["api", "cli", "--rate", "20/d"], ["roomy", "--everyone"],
    ["thinned", "cli", "--cost", "6"], ["bucket", "cli", "--cost", "2"], ["daily", "cli"], ["leased", "cli"],
    ["nope", "cli"], ["api", ""], ["api", "cli", "--cost", "0"], ["api", "cli", "--rate", "x"], ["api", "\u00e4/ %"]],
    "limit take-all": [["api,roomy=5", "cli"], ["api=11,bucket=6", "cli"], ["daily,bucket", "--everyone"],
    ["api,api", "cli"], ["nope", "cli"], ["api=0", "cli"]],
    "limit peek": [["api", "cli"], ["api", "cli", "--cost", "9"], ["api", "cli", "--cost", "11"],
    ["daily", "--everyone"], ["api", "untouched"], ["nope", "cli"]],
    "limit refund": [["api", "cli", "{receipt}"], ["api", "cli", "{receipt}"], ["api", "cli", "1-2-3"],
    ["api", "--everyone", "1-2-3-5f0c8d21b7e3a94c"], ["thinned", "cli", "1-2"]],
    "limit reset": [["api", "cli"], ["roomy", "--everyone"], ["nope", "cli"]],
    "limit set-override": [["api", "cli", "--rate", "50/d", "--lasting", "1h"], ["api", "cli", "--rate", "x",
    "--lasting", "1h"], ["api", "cli", "--rate", "5/s", "--lasting", "99days"], ["roomy", "--everyone", "--rate",
    "5/d", "--lasting", "1h"]],
    "limit get-override": [["api", "cli"], ["api", "untouched"], ["roomy", "--everyone"]],
    "limit clear-override": [["api", "cli"], ["roomy", "--everyone"], ["nope", "cli"]],
    "limit reserve": [["holding", "cli", "r1", "--cost", "2", "--lasting", "1h"], ["holding", "cli", "r1", "--cost",
    "3", "--lasting", "1h"], ["holding", "cli", "r2", "--cost", "9", "--lasting", "1h"],
    ["holding", "cli", "r3", "--lasting", "2h"], ["holding", "cli", "r4", "--lasting", "1h"],
    ["bucket", "cli", "r", "--lasting", "1h"], ["roomy", "--everyone", "r", "--lasting", "1h"]],
    "limit reservation": [["holding", "cli", "r1"], ["holding", "cli", "none"], ["roomy", "--everyone", "r"]],
    "limit commit": [["holding", "cli", "r1"], ["holding", "cli", "none"], ["roomy", "--everyone", "r"]],
    "limit release": [["holding", "cli", "r3"], ["holding", "cli", "r1"], ["holding", "cli", "none"]],
    "limit overrides": [["shared"], ["shared", "--limit", "2"], ["api", "--limit", "0"], ["leased"],
    ["shared", "--cursor", "x"]],
    "limit reservations": [["shared"], ["shared", "--limit", "2"], ["leased"], ["nope"]],
    "limit charge": [["api=2,daily", "cli", "c1"], ["api=2,daily", "cli", "c1"], ["api=3,daily", "cli", "c1"],
    ["api=99", "cli", "c2"], ["daily", "--everyone", "c3"], ["bucket", "cli", "c4"], ["nope", "cli", "c5"]],
    "limit release-charge": [["api,daily", "cli", "c1"], ["api,daily", "cli", "c1"], ["api", "cli", "none"],
    ["daily", "--everyone", "c3"]],
    "limit list": [[]],
    "hot record": [["cli page", "--id", "c1", "--editor", "alice", "--byte-change", "-12"], ["cli page", "--id", "c2",
    "--space", "swapped"], ["cli page", "--id", "c3", "--at", "2015-09-12T00:46:58Z"], ["cli page", "--id", "c4",
    "--at", "1442018818"], ["cli page", "--id", "c5", "--at", "soon"], ["", "--id", "c6"],
    ["p", "--id", "c7", "--space", "nope"]],
    "hot count": [["cli page", "9", "--space", "views"], ["cli page", "--space", "views"], ["p", "0", "--space",
    "views"], ["--space", "views"], ["p"], ["p", "x", "--space", "views"], ["p", "--space", "nope"]],
    "hot stats": [["cli page"], ["never"], ["cli page", "--space", "swapped"], ["p", "--space", "nope"]],
    "hot window": [["cli page"], ["never"], ["cli page", "--from", "2015-09-12T00:46:58Z", "--to", "1442018818772"],
    ["cli page", "--from", "2", "--to", "1"]],
    "hot list": [[], ["--limit", "2"], ["--limit", "1001"], ["--after", "x"], ["--after", "1:1442018818771:p"],
    ["--space", "swapped"]],
    "hot rm": [["cli page"], ["cli page"], ["never"]],
    "hot watch": [["--after", "x"], ["--space", "nope"]],
    "hot cleanup": [[], ["--space", "swapped"], ["--space", "nope"]],
    "hot spaces": [[]],
    "hot top": [["--once"], ["--once", "--limit", "2", "--space", "swapped"], ["--once", "--limit", "101"],
    ["--once", "--space", "nope"]],
    "sessions counts": [[], ["--space", "work"], ["--space", "nope"]],
    "sessions list": [["--state", state] for state in ["active", "disconnected", "orphan", "claimed",
    "dead"]] + [["--max-age", "1h"], ["--max-age", "x"], ["--state", "active", "--limit", "2"], ["--limit", "1001"],
    ["--after", "x"], ["--space", "work"]],
    "sessions show": [["{session}"], ["--broadcaster", "cli"], [NOBODY], ["x"], ["--broadcaster", "nobody"]],
    "sessions claim": [["--space", "work"], ["--space", "work", "--limit", "2"], ["--limit", "0"], []],
    "sessions renew": [["{session}", "--generation", "1", "--attempt", "1"], ["{claimed}", "--generation", "1",
    "--attempt", "1", "--space", "work"], [NOBODY, "--generation", "1", "--attempt", "1"], ["x", "--generation", "1",
    "--attempt", "0"]],
    "sessions ack": [["{session}", "--generation", "1"], ["{claimed}", "--generation", "1", "--space", "work"],
    [NOBODY, "--generation", "1"], ["x", "--generation", "1"]],
    "sessions retry": [["{session}"], [NOBODY], ["x"]],
    "sessions delete": [["{session}"], ["{left}"], [NOBODY], ["x"]],
    "sessions cleanup": [["--dry-run"], ["--no-wait", "--space", "work"], ["--space", "nope"]],
    "sessions spaces": [[]],
    "run start": [["cli run", "--total", "4", "--field", "source=api"], ["cli run"], ["", "--total", "4"],
    ["cli run", "--total", "x"], ["r", "--space", "nope"]],
    "run status": [["cli run"], ["cli run", "--is", "running"], ["cli run", "--is", "paused"], ["never"]],
    "run update": [["cli run", "--state", "processing", "--field", "stage=1"], ["cli run", "--remove", "stage"],
    ["cli run", "--attempt", "99"], ["never"]],
    "run processed": [["cli run", "1", "2"], ["cli run", "2", "3"], ["cli run"], ["never", "1"],
    ["cli run", "1", "--attempt", "99"]],
    "run skip-done": [["cli run"], ["cli run", "--null"], ["never"]],
    "run failed": [["cli run", "4", "--reason", "timed out", "--call", "c1"],
    ["cli run", "4", "--reason", "timed out", "--call", "c1"], ["cli run", "5"], ["never", "1"]],
    "run failures": [["cli run"], ["cli run", "--limit", "1"], ["cli run", "--limit", "0"], ["never"]],
    "run retry-list": [["cli run"], ["cli run", "--null"], ["never"]],
    "run task-started": [["cli run", "download"], ["cli run", "download"], ["never", "t"]],
    "run task-finished": [["cli run", "download"], ["cli run", "never"], ["never", "t"]],
    "run show": [["cli run"], ["never"]],
    "run list": [["--limit", "1"], ["--state", "failed", "--limit", "1"], ["--limit", "0"], ["--space", "nope"]],
    "run finish": [["cli run", "failed"], ["cli run", "failed"], ["cli run"], ["never"]],
    "run retry": [["cli run"], ["cli run", "--from-attempt", "99"], ["never"]],
    "run watch": [["never"], ["cli run", "--interval", "x"]],
    "run expire": [["cli run", "--after", "1h"], ["cli run", "--after", "x"], ["never", "--after", "1h"]],
    "run charge": [["cli 1"], ["cli 1"], ["cli 1", "--cost", "2"], ["cli 2", "--cost", "100"], ["cli 3", "--cost", "0"]],
    "run release": [["cli 1"], ["cli 1"], ["nobody"]],
    "run quota": [[], ["--space", "small"], ["--space", "nope"]],
    "run delete": [["cli run"], ["cli run"], ["never"]],
    "run cleanup": [[], ["--space", "small"], ["--space", "nope"]],
    "run spaces": [[]],
    "health": [[]],
}

# Those about rules, which are in a file and not on the store.
RULES = {
    "rules add": [["--id", "cli rule", "--path", "/cli/*", "--append-rest", "https://example.com/"],
    ["--id", "cli rule", "--path", "/cli/*", "--append-rest", "https://example.com/"], ["--path", "/cli/*", "/x"],
    ["--id", "cli over", "--path", "/cli/over", "--code", "301", "--expires-at", "2020-01-01T00:00:00Z", "/x"],
    ["ftp://example.com"], ["--starts-at", "soon", "/x"]],
    "rules get": [["cli rule"], ["cli over"], ["none"], [""]],
    "rules list": [["--path", "/cli/"], ["--path", "/cli/", "--limit", "1"], ["--path", "/cli/", "--state", "ended"],
    ["--tag", "none"], ["--limit", "0"], ["--cursor", "x"]],
    "rules resolve": [["https://www.example.org/cli/a?b"], ["a/cli/over"], ["a/none"], [""]],
    "rules set": [["cli rule", "--note", "two\nlines", "--tag", "cli"], ["cli rule", "--note", "x", "--version", "1"],
    ["cli rule", "--unset", "note"], ["cli rule", "--unset", "note", "--note", "x"], ["none", "--note", "x"],
    ["cli rule", "--code", "303"]],
    "rules import": [["list.csv"], ["list.csv"], ["bad.csv"], ["bad.csv", "--dry-run"], ["bad.csv", "--partial"],
    ["list.csv", "--replace", "--dry-run"], ["list.csv.gz", "--host", "cli.example"], ["-", "--format", "netlify"],
    ["list.txt"], ["-"], ["none.csv"], ["list.csv", "--format", "shlink"], ["list.csv", "--replace", "--partial"]],
    "rules export": [[], ["-", "--format", "jsonl"], ["out.csv"], ["out.txt"], ["none/out.csv"]],
    "rules new-epoch": [[]],
    "rules rm": [["cli rule", "--version", "1"], ["cli rule"], ["cli rule"], ["cli over"]],
}

# Those that walk through a store, which they need.
WALKS = {
    "sessions migrate": [["--dry-run"], ["--dry-run", "--space", "work"], [], ["--verbose"]],
    "sessions reconcile": [[], ["--verbose", "--space", "work"]],
    "sessions compare": [[], ["--max-age", "1h"], ["--space", "work"], ["--max-age", "x"]],
    "doctor": [["--keys-per-second", "0"], ["--keys-per-second", "0", "--fix"]],
    "declare": [[], ["--replace"], ["--replace", "--set", "limits.declared.rate=5/s"],
    ["--replace", "--set", "limits.declared.rate=6/s"], ["--set", "limits.declared.rate=x"]],
}

EDITS = [
    {"channel": "#en", "page": "Tide", "time": "2015-09-12T00:46:58.771Z", "user": "alice", "delta": 12},
    {"channel": "#en", "page": "Tide", "time": "2015-09-12T00:47:58.771Z", "user": "bob", "delta": -3},
    {"channel": "#en", "page": "Tide", "time": "2015-09-12T00:48:58.771Z", "user": "alice", "delta": 1},
    {"channel": "#de", "page": "Ebbe", "time": "2015-09-12T00:48:59.000Z", "user": "carol", "delta": 7},
    {"channel": "#de", "page": "Ebbe", "time": 1442018940000, "user": "carol", "delta": 7},
    {"channel": "#de", "page": "", "time": "soon"},
    {"channel": "#de", "page": "Far", "time": "2019-09-12T00:48:59.000Z"},
]

# How fast it was, how long it took, where it was put.
REPLAY = [
    (re.compile(r"\b\d[\d,.]* (edits|lines)?(/s| per second| a second)"), r"<n> \1\2"),
    (re.compile(r'"(seconds|elapsed_ms|took_ms|edits_per_second|rate|namespace)":("?)[^,"}]+'), r'"\1":\2<n>'),
    (re.compile(r"\bin (?:\d+(?:\.\d+)?(?:h|m|s|ms|us|µs|ns) ?)+"), "in <span>"),
    (re.compile(r"replay-<moment>-\d+"), "<namespace>"),
]

AGE = [
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:h|m|min|s|ms) ago\b"), "<span> ago"),
    (re.compile(r"[ \t]{2,}"), "  "),
]


def in_a_space(command, arguments):
    """With the space of this recording that the part has, unless one is named."""
    space = {"hot": "pages", "sessions": "sessions"}.get(command.split()[0])
    if space is None or command.endswith("spaces") or "--space" in arguments:
        return arguments
    return [*arguments, "--space", space]


class CommandLine:
    def __init__(self, rec, binary, folder, server, store_url):
        self.rec, self.binary, self.folder = rec, binary, folder
        self.server, self.store_url = server, store_url
        self.seen = set()

    def run(self, arguments, stdin=b"", leave_out=(), command=None):
        code, out, error = run(self.binary, arguments, self.folder, stdin)
        if command:
            self.seen.add(command)
        texts = [self.rec.normal.text(text) for text in (out, error)]
        for pattern, name in leave_out:
            texts = [pattern.sub(name, text) for text in texts]
        request = {"command": " ".join(self.rec.normal.text(it) if it else "''" for it in arguments)}
        self.rec.write("cli", request, {"exit": code, "stdout": texts[0], "stderr": texts[1]})
        return out

    def targets(self):
        """A server, and a store: this one's, or one of the command's own."""
        yield "server", ["--server", f"http://{self.server.address}"]
        if self.rec.is_redis:
            yield "store", ["--store", self.store_url, *PATIENT]
        else:
            # What is in memory ends with the command: it begins with nothing.
            yield "store", ["--store", "memory:", "--config", self.server.config]

    def record(self):
        commands = self.help()
        self.answers()
        self.rules()
        self.walks()
        self.replays()
        self.watches()
        self.wrong_usage(commands)
        self.serve()
        return [it for it in commands if it not in self.seen]

    def help(self):
        """The help of every command, found by reading it; the commands that have none below them."""
        self.rec.section = "help"
        found, below = [], [[]]
        self.run(["--version"])
        self.run(["help", "limit", "take"])
        while below:
            words = below.pop(0)
            text = self.run([*words, "--help"])
            self.run([*words, "-h"])
            listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.M)
            names = re.findall(r"^  (\S+)", listed[1], re.M) if listed else []
            below += [[*words, name] for name in names if name != "help"]
            if not names:
                found.append(" ".join(words))
        return found

    def names(self):
        """What commands are about, made anew for each target."""
        rec = self.rec
        receipt = rec.quietly("POST", "/v1/limits/api/take", {"key": "cli"}).json().get("receipt") or "1-2-3"
        rec.normal.receipt(receipt)
        sessions = {}
        for name, space, is_left in [("session", "sessions", False), ("left", "sessions", True),
                ("claimed", "work", True)]:
            body = {"broadcaster": "cli" if name == "session" else f"cli {name}", "config": {"of": "cli"},
                "holder": "h"}
            time.sleep(APART_S)
            sessions[name] = rec.normal.known(rec.quietly("POST", f"/v1/sessions/{space}", body).json()["id"])
            if is_left:
                rec.quietly("DELETE", f"/v1/sessions/{space}/{sessions[name]}/holders/h")
        rec.quietly("POST", "/v1/sessions/work/claims", {"limit": 1000})
        rec.quietly("DELETE", "/v1/runs/main/runs/cli%20run")
        return {"receipt": receipt, **sessions}

    def answers(self):
        for target, flags in self.targets():
            for as_json in [[], ["--json"]]:
                self.rec.section = f"command line, {target}{', JSON' if as_json else ''}"
                self.rec.quietly("DELETE", "/v1/limits/api/keys/cli")
                names = self.names()
                for command, variants in ARGUMENTS.items():
                    for arguments in variants:
                        filled = [names.get(it[1:-1], it) if it.startswith("{") else it for it in arguments]
                        filled = in_a_space(command, filled)
                        leave_out = [*AGE, *CURSOR, *(AT_ONCE if arguments[:2] == ["--state", "claimed"] else ()),
                            *(LEASED_TEXT if arguments[:1] == ["leased"] else ()),
                            *(COUNTED if command == "health" else RUNS if command.startswith("run ") else ())]
                        self.run([*command.split(), *filled, *flags, *as_json], leave_out=leave_out, command=command)

                # Of the space that is meant if none is named.
                for words in [["hot", "list"], ["hot", "stats", "A"], ["sessions", "counts"], ["sessions", "list"]]:
                    self.run([*words, *flags, *as_json], leave_out=AGE)

    def rules(self):
        """Of a server, and of a file that no server has."""
        file = f"sqlite:{os.path.join(self.folder, 'cli-rules.db')}"
        good = "id,path,destination\ncli list,/cli/list,/x\n"
        bad = "id,path,destination,expiresAt\ncli bad,/cli/bad,/x,1\nb,b,/x,\ncli bad,/c,/x,\n"
        for name, text in [("list.csv", good.encode()), ("bad.csv", bad.encode()),
                ("list.csv.gz", gzip.compress(b"id,path,destination\ncli packed,/cli/packed,/x\n", mtime=0))]:
            with open(os.path.join(self.folder, name), "wb") as written:
                written.write(text)
        for target, flags in [("server", ["--server", f"http://{self.server.address}"]), ("file", ["--rules", file])]:
            for as_json in [[], ["--json"]]:
                self.rec.section = f"rules on the command line, {target}{', JSON' if as_json else ''}"
                for command, variants in RULES.items():
                    for arguments in variants:
                        words = [*command.split(), *arguments, *flags, *as_json]
                        self.run(words, leave_out=[*MADE, *CURSOR], command=command)

    def walks(self):
        self.rec.section = "walks"
        for command, variants in WALKS.items():
            for arguments in variants:
                for as_json in [[], ["--json"]]:
                    words = [*command.split(), "--store", self.store_url, *in_a_space(command, arguments), *as_json]
                    words += PATIENT if self.rec.is_redis else []
                    self.run(words, leave_out=COUNTED if command == "doctor" else WALKED, command=command)

    def replays(self):
        self.rec.section = "replays"
        lines = "".join(json.dumps(it) + "\n" for it in EDITS) + "nonsense\n"
        with open(os.path.join(self.folder, "edits.jsonl"), "w", encoding="utf-8") as file:
            file.write(lines)
        with open(os.path.join(self.folder, "edits.gz"), "wb") as file:
            file.write(gzip.compress(lines.encode(), mtime=0))
        at = f"http://{self.server.address}"
        for arguments in [
            ["edits.jsonl"], ["edits.gz", "--page-field", "channel,page", "--top", "1"],
            ["edits.jsonl", "--page-field", "nope"], ["edits.jsonl", "--set", "hot.pages.hot_threshold=1",
            "--max-gap", "3000days"], ["-"],
            ["edits.jsonl", "--time-field", "at", "--editor-field", "e", "--delta-field", "d", "--id-field", "time",
            "--join", "/"], ["missing.jsonl"], ["edits.jsonl", "--top", "1001"], ["edits.jsonl", "--space", "other"],
            ["edits.jsonl", "--store", self.store_url],
            ["edits.jsonl", "--rate", "1000", "--server", at, "--space", "swapped"], ["edits.jsonl", "--rate", "1000",
            "--server", at, "--space", "nope"], ["edits.jsonl", "--server", at], ["edits.jsonl", "--rate", "0"],
            ["edits.jsonl", "--rate", "1000", "--store", "memory:"],
        ]:
            for as_json in [[], ["--json"]]:
                self.run(["hot", "replay", *arguments, *as_json], stdin=lines.encode(), leave_out=[*REPLAY, *AGE],
                    command="hot replay")

    def watches(self):
        """What has happened before, as it is kept."""
        self.rec.section = "watches"
        for target, flags in self.targets():
            if target == "store" and not self.rec.is_redis:
                continue
            for as_json in [[], ["--json"]]:
                self.run(["hot", "watch", "--space", "pages", "--after", "0-0", "--count", "5", *flags, *as_json],
                    leave_out=AGE, command="hot watch")

    def wrong_usage(self, commands):
        self.rec.section = "wrong usage"
        for command in commands:
            words = command.split()
            if command in ("serve", ""):
                continue
            self.run([*words, "--nope"])
            if command in ARGUMENTS:
                good = [NOBODY if it.startswith("{") else it for it in ARGUMENTS[command][0]]
                for wrong in [["--server", "nonsense"], ["--server", "http://127.0.0.1:1"], ["--server", "https://"],
                        ["--store", "nonsense"], ["--config", "x.yaml"], ["--set", "a=b"],
                        ["--store", "memory:", "--set", "a"], ["--store", "memory:", "--set", "nope=1"],
                        ["--store", "memory:", "--config", "missing.yaml"], ["--json=1"],
                        ["--server", "http://127.0.0.1:1", "--store", "memory:"]]:
                    self.run([*words, *good, *wrong])
                self.run([*words, *good, "one", "more", "word"])
            if ARGUMENTS.get(command, [[]])[0] or command in WALKS or command == "hot replay":
                self.run(words)
            if command in WALKS:
                for wrong in [["--store", "nonsense"], ["--store", "redis://127.0.0.1:1"], ["--store", "memory:"],
                        ["--store", self.store_url, "--space", "not a name"]]:
                    self.run([*words, *wrong])
        for words in [["nope"], ["limit", "nope"], ["hot"], ["limit"], ["sessions"], ["limit", "take", "api", "k",
                "--everyone"], ["limit", "take", "api"], ["limit", "take", "api", "k", "--cost", "x"],
                ["sessions", "list", "--state", "nope"], ["sessions", "list", "--state", "dead", "--max-age", "1s"],
                ["sessions", "show", NOBODY, "--broadcaster", "b"], ["hot", "top", "--interval", "x"],
                ["hot", "watch", "--count", "x"]]:
            self.run(words)

    def serve(self):
        """Settings that are refused: no server is started by any of these."""
        self.rec.section = "settings"
        for setting in [
            "listen=nonsense", "listen=0.0.0.0:0", "store.url=nonsense", "store.deadline=0s", "store.deadline=x",
            "store.partitions=0", "limits.a b.rate=5/s", "limits.api.rate=x", "limits.api.rate=", "limits.api.nope=1",
            "limits.api=1", "limits.api.window=1ms", "limits.api.coalesce=2h",
            "limits.api.algorithm=nope", "limits.api.burst=5", "limits.api.outage=local", "limits.api.outage=x",
            "limits.api.local_share=2", "limits.api.lease_duration=1s", "limits.api.max_keys=0",
            "limits.api.closed_status=500", "limits.api.period=day", "hot.pages.max_tracked=0",
            "hot.pages.window_duration=1ms",
            "hot.pages.max_bytes=1", "hot.pages.spike_ratio=0", "hot.pages.when_full=x", "hot.p q.max_tracked=1",
            "sessions.s.grace=x", "sessions.s.grace=100days", "sessions.s.batch=1001", "sessions.s.max_attempts=0",
            "sessions.s.reap=x", "http.max_body_bytes=0", "http.max_body_bytes=99999999999",
            "http.request_timeout=2h",
            "http.readiness=x", "http.backlog=70000", "log.level=loud", "log.format=xml", "declarations=x", "nope=1",
            "store=1", "a.b.c.d=1",
        ]:
            self.run(["serve", "--set", setting], command="serve")
        files = {"empty": "", "list": "- a", "broken": "limits: [", "unknown": "limits: {api: {rat: 5/s}}",
            "typed": "limits: {api: {rate: [1]}}",
            "calendar": "limits: {api: {algorithm: calendar, limit: 5, safety_buffer: 5}}",
            "twice": "listen: a\nlisten: b"}
        for name, text in files.items():
            with open(os.path.join(self.folder, f"{name}.yaml"), "w", encoding="utf-8") as file:
                file.write(text)
            # Those that are good are not served, since that address is nobody's.
            self.run(["serve", "--config", f"{name}.yaml", "--listen", "nonsense"])
        self.run(["serve", "--config", "missing.yaml"])
        self.run(["--listen", "nonsense"])
        self.run(["serve", "--store", "nonsense"])
        self.run(["serve", "--set", "x"])

    def while_away(self):
        """The store of this recording is not there."""
        self.rec.section = "command line, store away"
        for words in [["limit", "take", "api", "k"], ["limit", "peek", "closed", "k"], ["hot", "list"],
                ["sessions", "counts"], ["run", "list"], ["run", "charge", "away"], ["health"]]:
            for _, flags in self.targets():
                for as_json in [[], ["--json"]]:
                    self.run([*words, *flags, *as_json], leave_out=COUNTED if words == ["health"] else ())
        for words in [["sessions", "compare"], ["declare"], ["doctor"]]:
            self.run([*words, "--store", self.store_url])


# A store that is busy is waited for: only what is answered is of interest.
PATIENT = ["--set", "store.deadline=20s", "--set", "store.connect_timeout=20s"]

CURSOR = [(re.compile(r"(--cursor |\"next\":\")\d{13}-[0-9a-f]+|(--cursor |\"next\":\")<moment>-[0-9a-f]+"),
    r"\1\2<cursor>")]

LEASED_TEXT = [
    (re.compile(r"\b\d+ of 1000 left"), "<n> of 1000 left"),
    (re.compile(r'"remaining":\d+'), '"remaining":<n>'),
    (re.compile(r'"source":"(?:store|lease)"'), '"source":"<store or lease>"'),
]

# Numbers that are counts of all that has happened so far, and bytes.
COUNTED = [(re.compile(r"\d[\d.]*"), "<n>"), (re.compile(r"<n> [KMG]?i?B\b"), "<n> bytes"), (re.compile(r" +"), " ")]

# How fast a run is, and when it may end.
RUNS = [
    (re.compile(r"\b\d+(?:\.\d+)?/s"), "<n>/s"),
    (re.compile(r"<span>m?s\b|\b(?:\d+s )?\d+ms\b|\b\d+s\b"), "<span>"),
]

# How long a walk took, and who declared something.
WALKED = [
    (re.compile(r'"took_ms":[0-9.e-]+'), '"took_ms":<n>'),
    (re.compile(r"\b[0-9.]+ m?s\)"), "<n> ms)"),
    (re.compile(r"\bin (?:\d+(?:\.\d+)?(?:h|m|s|ms|us|µs|ns) ?)+"), "in <span>"),
    (re.compile(r"\bby \S+:\d+\b"), "by <who>"),
    (re.compile(r'"by":"[^"]+"'), '"by":"<who>"'),
]
