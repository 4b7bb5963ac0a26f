"""A client of the Tidegate server: rate limits, hot pages, sessions and runs of pipelines.

One file, nothing but the standard library, Python 3.9 or later: copy it beside your program.

    import tidegate

    client = tidegate.Client("http://127.0.0.1:8080", deadline=2.0)
    if client.limit("api").take("user_123").is_admitted:
        ...

What it promises:

- **A call ends by its deadline**, whatever the server does, retries included (only the look-up of a host's name is the
  system's). `client.within(0.2)` is the same client with another deadline.
- **Nothing is done twice.** A call is sent again only if that can do no harm: if it may be repeated, since it says
  what shall be or has an id, or if the server cannot have got all of it. Of any other the error says by `may_be_done`
  that nobody knows.
- **A refusal is a value, an error is an exception.** A take that is refused returns a `Decision`, which is false. What
  the server refuses otherwise is a `Problem` with its own words, and no answer is a `NoAnswer`.
- **Texts go as they are**: ids and keys are `str`, never numbers, and come back as they went in.

A `Client` may be used by many threads and after a fork. Connections are kept and used again, one call at a time each.
Proxies in the environment are not used.
"""

from __future__ import annotations

import dataclasses
import http.client
import io
import json
import logging
import os
import random
import select
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
import weakref
from dataclasses import dataclass
from typing import (
    Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union,
)

__all__ = [
    "Ack", "ActiveRun", "ActiveTask", "AllDecision", "BadLine", "BadRequest", "BulkRecorded", "Charged",
    "ChargedLimit", "Claim", "Claims", "Cleaned", "Client", "Conflict", "Counted",
    "DeadlineExceeded", "Decision", "EVERYONE",
    "Edit", "EditInWindow", "Event", "Failure", "FailureNoted", "Held", "Holder", "Hot", "HotPage", "HotPages",
    "HotSpace", "Limit", "LimitInfo", "NoAnswer", "NotFound", "Override", "PageStats", "Problem", "Processed",
    "Quota", "QuotaCharge", "QuotaHour", "QuotaUse", "Recorded", "Reservation", "Reserved", "Run", "RunInList",
    "RunProgress", "RunSpace", "RunStarted", "RunUpdated", "Runs", "ServerFault", "Session", "SessionActivated",
    "SessionCounts", "SessionInList", "SessionSpace", "Sessions", "Task", "TaskStarted", "TidegateError", "TooMany",
    "Unavailable", "UnexpectedAnswer",
]

_log = logging.getLogger("tidegate")

Record = TypeVar("Record")
Result = TypeVar("Result")

# ---------------------------------------------------------------------------------------------------------------------
# Errors


class TidegateError(Exception):
    """Whatever this module raises of its own."""


class Problem(TidegateError):
    """What the server refused, in its words. Subclasses say which kind it is."""

    def __init__(self, status: int, kind: str, detail: str, members: Mapping[str, Any]) -> None:
        super().__init__(f"{detail} ({status} {kind})" if kind else f"{detail} ({status})")
        self.status = status
        self.kind = kind
        """The name of the kind, like `unknown-limit` or `session-gone`; empty if it was not a server of ours."""
        self.detail = detail
        """What was wrong with which value and what is allowed, for people."""
        self.members = members
        """All that the answer said."""

    @property
    def refusal(self) -> Optional[str]:
        """Why nothing was changed, in a word, if the server says it in one: `gone`, `stale`."""
        return self.members.get("refusal")


class BadRequest(Problem):
    """The request is wrong: a value that is not allowed, a body that is too large."""


class NotFound(Problem):
    """There is no such limit, space, session or reservation, or no longer."""


class Conflict(Problem):
    """It is in another state than the call is for."""


class TooMany(Problem):
    """Some bound is reached."""


class Unavailable(Problem):
    """The store is away, or the server was too slow. What can be repeated has been, until the deadline."""


class ServerFault(Problem):
    """The server failed; its log says why."""


class NoAnswer(TidegateError):
    """The server cannot be reached, or has not answered."""

    def __init__(self, detail: str, may_be_done: bool) -> None:
        unknown = "; what was asked may have been done" if may_be_done else ""
        super().__init__(f"{detail}{unknown}")
        self.may_be_done = may_be_done
        """Whether the server may have done what was asked: all of it was sent, once at least."""


class DeadlineExceeded(NoAnswer):
    """The same, because the time was over."""


class UnexpectedAnswer(TidegateError):
    """An answer that no server of ours gives."""


_BY_STATUS: Dict[int, Type[Problem]] = {
    404: NotFound, 409: Conflict, 429: TooMany, 408: Unavailable, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}


# ---------------------------------------------------------------------------------------------------------------------
# What is asked and answered


class Everyone:
    """No subject at all: what a limit counts for everybody together."""

    def __repr__(self) -> str:
        return "EVERYONE"


EVERYONE = Everyone()
"""The key of a limit that everyone shares. `None` is refused: it is what a program has that lost the key."""

Key = Union[str, Everyone]


@dataclass(frozen=True)
class Decision:
    """What a take or a peek was told. It is true if the call may go ahead."""

    outcome: str
    limit: str
    key: Optional[str]
    cost: int
    capacity: int
    remaining: int
    reset_after_ms: int
    window_size_seconds: int
    source: str
    receipt: Optional[str] = None
    retry_after_ms: Optional[int] = None
    remaining_after_waiting: Optional[int] = None
    suppression_factor: Optional[float] = None
    is_allowed: Optional[bool] = None
    kind: str = ""
    detail: str = ""

    @property
    def is_admitted(self) -> bool:
        return self.outcome == "admitted" or (self.outcome == "suppressed" and self.is_allowed is True)

    def __bool__(self) -> bool:
        return self.is_admitted


@dataclass(frozen=True)
class AllDecision:
    """What a take from several limits was told: all of them or none were charged."""

    outcome: str
    key: Optional[str]
    limits: List[Decision]
    retry_after_ms: Optional[int] = None
    kind: str = ""
    detail: str = ""

    @property
    def is_admitted(self) -> bool:
        return self.outcome == "admitted"

    def __bool__(self) -> bool:
        return self.is_admitted


@dataclass(frozen=True)
class Override:
    """A key's own rate, and for how long."""

    key: Optional[str]
    rate: str
    lasting_ms: int


@dataclass(frozen=True)
class Reservation:
    """Permits that are held under an id. In a list all are pending."""

    key: Optional[str]
    id: str
    cost: int
    expires_in_ms: int
    state: str = "pending"


@dataclass(frozen=True)
class Reserved:
    """What became of a reservation: held, or refused as a take is. It is true if it is held."""

    reservation: Optional[Reservation]
    decision: Optional[Decision]
    is_new: bool

    def __bool__(self) -> bool:
        return self.reservation is not None


@dataclass(frozen=True)
class ChargedLimit:
    """Where a limit stands after a charge."""

    limit: str
    cost: int
    capacity: int
    remaining: int
    reset_after_ms: int
    window_size_seconds: int


@dataclass(frozen=True)
class Charged:
    """What became of a charge by an id: charged, or refused as a take is. It is true if it is charged."""

    id: str
    limits: List[ChargedLimit]
    decision: Optional[AllDecision]
    is_new: bool

    def __bool__(self) -> bool:
        return self.decision is None


@dataclass(frozen=True)
class LimitInfo:
    """A limit, with the numbers of its algorithm."""

    limit: str
    algorithm: str
    capacity: int
    window_size_seconds: int
    rate: Optional[str] = None
    coalesce_ms: Optional[int] = None
    hard_capacity: Optional[int] = None
    burst: Optional[int] = None
    refill_ms: Optional[int] = None
    period: Optional[str] = None
    limit_per_period: Optional[int] = None
    safety_buffer: Optional[int] = None
    counter_ttl_ms: Optional[int] = None


@dataclass(frozen=True)
class Edit:
    """An edit of a page. `at` is milliseconds since 1970 or RFC 3339, now unless given."""

    page: str
    id: str
    editor: Optional[str] = None
    byte_change: Optional[int] = None
    at: Union[int, str, None] = None


@dataclass(frozen=True)
class Recorded:
    """What became of an edit. `dropped` and `unknown` are told, not raised: send it again, it counts once."""

    outcome: str
    page: str
    id: str
    replaced: Optional[str] = None
    hint: Optional[str] = None


@dataclass(frozen=True)
class Counted:
    """What became of counts of a page. `dropped` and `unknown` are told, not raised: what is `unknown` may have been
    counted, and sent again it may count twice."""

    outcome: str
    page: str
    count: int
    replaced: Optional[str] = None


@dataclass(frozen=True)
class BadLine:
    line: int
    detail: str


@dataclass(frozen=True)
class BulkRecorded:
    """What became of edits or counts in bulk. An edit that was sent again since an answer was lost is counted as `duplicate`."""

    lines: int
    good: int
    bad: int
    outcomes: Dict[str, int]
    bad_lines: List[BadLine]
    hint: Optional[str] = None

    @property
    def is_complete(self) -> bool:
        """Whether all of them are recorded or counted."""
        return self.bad == 0 and not any(self.outcomes.get(it) for it in ("dropped", "unknown", "corrupt"))


@dataclass(frozen=True)
class PageStats:
    """What is known of a page."""

    is_hot: bool
    is_trending: bool
    is_spiking: bool
    edits_last_hour: int
    edits_last_5_minutes: int
    covered_ms: int
    grain_ms: int
    unique_editors: int
    members: int
    last_byte_change: int
    total_edits: int
    first_seen_ms: Optional[int]
    last_seen_ms: Optional[int]


@dataclass(frozen=True)
class HotPage:
    """A page in the list of the hottest."""

    page: str
    edits: int
    last_seen_ms: int
    stats: Optional[PageStats] = None


@dataclass(frozen=True)
class HotPages:
    """The hottest pages; `count` is how many are hot in all."""

    count: int
    window_ms: int
    pages: List[HotPage]
    next: Optional[str]


@dataclass(frozen=True)
class EditInWindow:
    id: str
    at_ms: int
    editor: str
    byte_change: int


@dataclass(frozen=True)
class Event:
    """Something that happened to a page; `missed` is of none."""

    kind: str
    page: str
    edits: int
    at_ms: int
    cursor: str


@dataclass(frozen=True)
class HotSpace:
    """A space of hot pages and what it is bounded by."""

    space: str
    max_tracked: int
    promotion_threshold: int
    window_ms: int
    max_members_per_page: int
    hot_threshold: int
    cleanup_interval_ms: int
    when_full: str
    spike_ratio: float
    spike_minimum: int
    max_activity: int
    max_bytes: int
    partitions: int
    # A server that does not say so has no such spaces.
    only_counts: bool = False
    count_slots: Optional[int] = None
    gather_ms: int = 0


@dataclass(frozen=True)
class SessionActivated:
    """The session of a broadcaster; `found` is what it had: `nothing`, `disconnected` or `active`."""

    id: str
    generation: int
    until_ms: int
    found: str


@dataclass(frozen=True)
class Holder:
    holder: str
    until_ms: int


@dataclass(frozen=True)
class Session:
    """A session as it is. `config` and `value` are JSON values."""

    id: str
    broadcaster: str
    config: Any
    value: Any
    state: str
    generation: int
    ref_count: int
    holders: List[Holder]
    held_until_ms: Optional[int]
    last_disconnect_ms: Optional[int]
    last_update_ms: int
    last_seen_ms: int
    attempts: int


@dataclass(frozen=True)
class Held:
    """A holder's hold on a session: it must give a sign of life before `until_ms`."""

    id: str
    holder: str
    generation: int
    until_ms: int


@dataclass(frozen=True)
class SessionInList:
    id: str
    at_ms: int


@dataclass(frozen=True)
class SessionCounts:
    active: int
    disconnected: int
    orphans: int
    claimed: int
    dead: int
    lag_ms: int
    held_until_ms: Optional[int]


@dataclass(frozen=True)
class Claim:
    """An orphan, claimed until `until_ms`. `id` and `generation` are the token of its side effects."""

    id: str
    generation: int
    broadcaster: str
    config: Any
    value: Any
    since_ms: int
    attempt: int
    until_ms: int


@dataclass(frozen=True)
class Claims:
    """What a claim found. With `retry_after_ms` a hold runs: ask again after it."""

    claims: List[Claim]
    lapsed: int
    buried: int
    missing: int
    invalid: int
    lag_ms: int
    is_more: bool
    held_until_ms: Optional[int]
    retry_after_ms: Optional[int]


@dataclass(frozen=True)
class Ack:
    """What became of an acknowledgement: `deleted`, `gone`, `stale` or `not_claimed`."""

    id: str
    generation: int
    outcome: str


@dataclass(frozen=True)
class Cleaned:
    """What a cleanup did, or with `dry_run` would do."""

    deleted: int
    lapsed: int
    buried: int
    missing: int
    invalid: int
    lag_ms: int
    held_until_ms: Optional[int]
    retry_after_ms: Optional[int]
    dry_run: bool = False


@dataclass(frozen=True)
class SessionSpace:
    """A space of sessions and how they live."""

    space: str
    grace_ms: int
    holder_lease_ms: int
    session_ttl_ms: int
    retention_ms: int
    batch: int
    cleanup_interval_ms: int
    reap: str
    claim_lease_ms: int
    max_attempts: int
    max_holders: int
    max_sessions: int
    migration_lease_ms: int
    reconcile_interval_ms: int


@dataclass(frozen=True)
class RunStarted:
    """A run that was started, retried or finished, by this call or before it."""

    run: str
    attempt: int
    state: str
    is_new: bool


@dataclass(frozen=True)
class RunUpdated:
    run: str
    attempt: int
    state: str
    ends_at_ms: int


@dataclass(frozen=True)
class Run:
    """A run as it is."""

    run: str
    state: str
    attempt: int
    started_at_ms: int
    attempt_started_at_ms: int
    updated_at_ms: int
    finished_at_ms: Optional[int]
    ends_at_ms: int
    total: Optional[int]
    fields: Dict[str, str]


@dataclass(frozen=True)
class RunInList:
    run: str
    state: str
    attempt: int
    started_at_ms: int
    updated_at_ms: int
    finished_at_ms: Optional[int]
    ends_at_ms: int
    total: Optional[int]


@dataclass(frozen=True)
class Processed:
    """How many items had not been processed before, and how many are."""

    new: int
    processed: int


@dataclass(frozen=True)
class RunProgress:
    """How far a run is."""

    processed: int
    failed: int
    to_retry: int
    total: Optional[int]
    rate_per_second: float
    estimated_end_ms: Optional[int]
    lost_at_ms: Optional[int] = None
    """When the store was last found to have lost writes since the run was started: what was noted before may be missing."""


@dataclass(frozen=True)
class TaskStarted:
    task: str
    started_at_ms: int
    is_new: bool


@dataclass(frozen=True)
class Task:
    task: str
    attempt: int
    started_at_ms: int
    finished_at_ms: Optional[int]
    duration_ms: Optional[int]


@dataclass(frozen=True)
class FailureNoted:
    """How often an item has failed, and which was dropped to make room for it."""

    item: str
    count: int
    is_new: bool
    dropped: Optional[str]


@dataclass(frozen=True)
class Failure:
    """An item that failed."""

    run: str
    item: str
    reason: str
    count: int
    first_at_ms: int
    last_at_ms: int
    to_retry: bool


@dataclass(frozen=True)
class QuotaCharge:
    """What became of a charge. It is true if the calls may be made."""

    id: str
    cost: int
    is_charged: bool
    remaining: int
    is_new: bool = False
    retry_after_ms: Optional[int] = None
    by: str = ""
    detail: str = ""

    def __bool__(self) -> bool:
        return self.is_charged


@dataclass(frozen=True)
class QuotaUse:
    capacity: int
    used: int
    remaining: int
    resets_in_ms: int


@dataclass(frozen=True)
class QuotaHour:
    """An hour of UTC, like `2026-11-16_08`, and the most that was used in it."""

    hour: str
    first_charge_at_ms: int
    most_aligned: Optional[int]
    most_sliding: Optional[int]


@dataclass(frozen=True)
class Quota:
    """Where a quota stands, by the store's clock."""

    prefix: str
    kind: str
    at_ms: int
    limit: int
    safety_buffer: int
    remaining: int
    aligned: Optional[QuotaUse]
    sliding: Optional[QuotaUse]
    hours: List[QuotaHour]
    peak_hour: Optional[str]


@dataclass(frozen=True)
class RunSpace:
    """A space of runs and how they live."""

    space: str
    prefix: str
    state_ttl_ms: int
    max_runs: int
    max_fields: int
    max_field_name_bytes: int
    max_field_value_bytes: int
    max_processed: int
    max_failures: int
    max_reason_bytes: int
    max_tasks: int
    cleanup_interval_ms: int
    batch: int


@dataclass(frozen=True)
class PartHealth:
    """How the operations of one part on the store fared: `limit`, `hot`, `sessions` or `runs`."""

    part: str
    operations: int
    operation_failures: int
    operation_success_rate: Optional[float]
    average_response_ms: Optional[float]
    p99_response_ms: Optional[float]


@dataclass(frozen=True)
class StoreServer:
    """A server of the store; `max_memory_bytes` is None if its memory is not bounded."""

    server: str
    memory_bytes: int
    max_memory_bytes: Optional[int]


@dataclass(frozen=True)
class StoreHealth:
    """How the store has been doing, as the server has seen it. `success_rate` is of connections; response times are of
    the last minutes. Of what there was none, None is told."""

    healthy: bool
    consecutive_failures: int
    unhealthy_after: int
    connection_attempts: int
    connection_failures: int
    success_rate: Optional[float]
    operations: int
    operation_failures: int
    operation_success_rate: Optional[float]
    average_response_ms: Optional[float]
    p99_response_ms: Optional[float]
    parts: List[PartHealth]
    memory_bytes: Optional[int]
    servers: List[StoreServer]
    peak_hour: Optional[str]
    peak_hour_operations: Optional[int]


def _record(kind: Type[Record], members: Any, /, **read: Any) -> Record:
    """`members` as a dataclass, with those in `read` as they are there. What it does not know is left out, so that a
    server may say more than this module knows; what is missing is an error."""
    if not isinstance(members, dict):
        raise UnexpectedAnswer(f"{kind.__name__}: an object is expected, not {members!r:.100}")
    values = {}
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        if each.name in read:
            values[each.name] = read[each.name]
        elif each.name in members:
            values[each.name] = members[each.name]
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise UnexpectedAnswer(f"{kind.__name__}: the answer has no {each.name!r}: {members!r:.200}")
    return kind(**values)


def _records(kind: Type[Record], members: Any, name: str) -> List[Record]:
    if not isinstance(members, dict) or not isinstance(members.get(name), list):
        raise UnexpectedAnswer(f"the answer has no list {name!r}: {members!r:.200}")
    return [_record(kind, each) for each in members[name]]


def _text(what: str, value: object) -> str:
    """A text, and never a number: 007 and 7 are two keys."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}: {value!r:.100}")
    return value


def _segment(what: str, value: object) -> str:
    """A part of a path, whatever is in it. Dots too, so that no part is `..`."""
    text = _text(what, value)
    if not text:
        raise ValueError(f"{what} must not be empty")
    return urllib.parse.quote(text, safe="").replace(".", "%2E")


def _query(path: str, **parameters: Union[str, int, bool, None]) -> str:
    def shown(value: Union[str, int, bool]) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    given = [(name, shown(value)) for name, value in parameters.items() if value is not None]
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _given(**members: Any) -> Dict[str, Any]:
    """Those that are not `None`."""
    return {name: value for name, value in members.items() if value is not None}


def _json(value: Any) -> bytes:
    # Not escaped: half a surrogate pair is then an error here, and not something else at the other end.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


# ---------------------------------------------------------------------------------------------------------------------
# One exchange on a connection

# No answer of a server of ours is longer.
_MAX_ANSWER_BYTES = 64 << 20

# An endless answer has a sign of life every 15 s.
_SILENCE_S = 60.0


class _Failed(Exception):
    """An attempt without an answer. What was not `sent` to its end has not been done."""

    def __init__(self, detail: str, sent: bool, late: bool) -> None:
        super().__init__(detail)
        self.sent, self.late = sent, late


class _Reader(io.RawIOBase):
    """Bytes of a socket, of which none is waited for longer than the connection's deadline."""

    def __init__(self, sock: socket.socket, connection: "_Connection") -> None:
        self._sock, self._connection = sock, connection
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(self._connection.left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Readable:
    """What `HTTPResponse` takes for a socket."""

    def __init__(self, sock: socket.socket, connection: "_Connection") -> None:
        self._sock, self._connection = sock, connection

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._connection))


class _Connection(http.client.HTTPConnection):
    """One connection, with or without TLS. `until` bounds each step of what is under way."""

    def __init__(self, host: str, port: int, context: Optional[ssl.SSLContext]) -> None:
        super().__init__(host, port)
        self.until = 0.0
        self.idle_since = 0.0
        self._context = context

    def left(self) -> float:
        left = self.until - time.monotonic()
        if left <= 0:
            raise socket.timeout("timed out")
        return left

    def connect(self) -> None:
        failed: Optional[OSError] = None
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(self.left())
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._context is not None:
                    sock = self._context.wrap_socket(sock, server_hostname=self.host)
                self.sock = sock
                return
            except OSError as error:
                sock.close()
                failed = error
        raise failed or OSError(f"{self.host} has no address")

    def send(self, data: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(self.left())
        super().send(data)

    def response_class(  # type: ignore[override]
        self, sock: Any, *args: Any, **kwargs: Any
    ) -> http.client.HTTPResponse:
        return http.client.HTTPResponse(_Readable(sock, self), *args, **kwargs)  # type: ignore[arg-type]

    def is_usable(self) -> bool:
        """Whether the other side has kept it open, as far as that is known here."""
        if self.sock is None:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        # Nothing can be there to read unless it is its end.
        return not poll.poll(0)


@dataclass(frozen=True)
class _Answer:
    status: int
    media_type: str
    body: bytes
    was_unsure: bool = False
    """Whether an attempt before this one may have been done."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise UnexpectedAnswer(f"no JSON in an answer of status {self.status}: {self.body[:100]!r}") from error

    def problem(self) -> Problem:
        try:
            members = json.loads(self.body)
        except ValueError:
            members = None
        if not isinstance(members, dict) or not isinstance(members.get("detail"), str):
            detail = f"an answer of no server of ours: {self.body[:200].decode('utf-8', 'replace')!r}"
            return _problem_class(self.status)(self.status, "", detail, {})
        kind = str(members.get("type", "")).rsplit(":", 1)[-1].rsplit("#", 1)[-1]
        return _problem_class(self.status)(self.status, kind, members["detail"], members)


def _problem_class(status: int) -> Type[Problem]:
    return _BY_STATUS.get(status, ServerFault if status == 500 else BadRequest)


class _Transport:
    """Connections to one server: those that nobody uses are kept, up to a number and an age."""

    def __init__(self, url: str, context: Optional[ssl.SSLContext], max_idle: int, max_idle_s: float) -> None:
        parts = urllib.parse.urlsplit(url)
        is_more = parts.query or parts.fragment or parts.username
        if parts.scheme not in ("http", "https") or not parts.hostname or is_more:
            raise ValueError(f"{url!r} is not a server: http://HOST:PORT and https://HOST:PORT are")
        is_tls = parts.scheme == "https"
        self.url = url
        self._host, self._port = parts.hostname, parts.port or (443 if is_tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if is_tls else None
        self._max_idle, self._max_idle_s = max_idle, max_idle_s
        self._lock = threading.Lock()
        self._idle: List[_Connection] = []
        self._is_closed = False
        _transports.add(self)

    def forget(self) -> None:
        """What is open is the process's that this one was forked from, which goes on to use it; and its lock may be
        held by a thread that is not here."""
        idle, self._idle, self._lock = self._idle, [], threading.Lock()
        for connection in idle:
            connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for connection in idle:
            connection.close()

    def _take(self) -> _Connection:
        now = time.monotonic()
        while True:
            with self._lock:
                if self._is_closed:
                    raise TidegateError("this client is closed")
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return _Connection(self._host, self._port, self._context)
            if now - connection.idle_since < self._max_idle_s and connection.is_usable():
                return connection
            connection.close()

    def _keep(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        with self._lock:
            if not self._is_closed and len(self._idle) < self._max_idle:
                self._idle.append(connection)
                return
        connection.close()

    def begin(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str], until: float
    ) -> Tuple[_Connection, http.client.HTTPResponse]:
        """Sends a request and reads the head of its answer."""
        connection = self._take()
        connection.until = until
        sent = False
        try:
            if connection.sock is None:
                connection.connect()
            connection.request(method, self._prefix + path, body, dict(headers))
            # Until here the server has not got all of it, and so has done nothing.
            sent = True
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _failed(self.url, error, sent) from error
        except BaseException:
            connection.close()
            raise

    def exchange(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str], until: float
    ) -> _Answer:
        """A request and the whole of its answer."""
        connection, response = self.begin(method, path, body, headers, until)
        try:
            read = _whole(response)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _failed(self.url, error, True) from error
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        media_type = response.headers.get("content-type", "")
        return _Answer(response.status, media_type, read)


def _whole(response: http.client.HTTPResponse) -> bytes:
    """A body to its end: one that ends before the length that was announced is none."""
    pieces: List[bytes] = []
    size = 0
    while True:
        piece = response.read(1 << 16)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise UnexpectedAnswer(f"an answer of more than {_MAX_ANSWER_BYTES} bytes")
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(pieces)


def _failed(url: str, error: Exception, sent: bool) -> _Failed:
    why = str(error) or type(error).__name__
    return _Failed(f"no answer from {url}: {why}", sent, isinstance(error, socket.timeout))


_transports: "weakref.WeakSet[_Transport]" = weakref.WeakSet()


def _after_fork() -> None:
    # Two processes on one connection would read each other's answers.
    for transport in list(_transports):
        transport.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---------------------------------------------------------------------------------------------------------------------
# Calls

# The pause before the first repetition is up to this long, and of each further one up to twice as long.
_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 1.0

# What these say may be over in a moment.
_PASSING = {"store-unavailable", "request-timeout", "stopping", ""}


class Client:
    """A server, and how long its answers may take."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        deadline: float = 5.0,
        attempt: Optional[float] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        max_idle: int = 16,
        max_idle_seconds: float = 30.0,
    ) -> None:
        """`deadline` is how many seconds a call may take with all its repetitions, `attempt` how many one attempt of
        a call that can be repeated may take (a third of the deadline). Connections are kept for `max_idle_seconds`,
        which must be less than `http.idle_timeout` of the server."""
        self._transport = _Transport(url, ssl_context, max_idle, max_idle_seconds)
        self._set(deadline, attempt)

    def _set(self, deadline: float, attempt: Optional[float]) -> None:
        for name, value in (("deadline", deadline), ("attempt", attempt)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{name} of {value} seconds is not allowed: it must be above 0 and finite")
        self._deadline, self._attempt = deadline, attempt

    def within(self, deadline: float, attempt: Optional[float] = None) -> "Client":
        """The same client, on the same connections, with another deadline."""
        other = object.__new__(type(self))
        other._transport = self._transport
        other._set(deadline, attempt)
        return other

    def close(self) -> None:
        """Closes what is kept open. A closed client cannot be used again, nor those made `within` it."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def limit(self, name: str) -> "Limit":
        return Limit(self, name)

    def hot(self, space: str = "main") -> "Hot":
        return Hot(self, space)

    def sessions(self, space: str = "main") -> "Sessions":
        return Sessions(self, space)

    def runs(self, space: str = "main") -> "Runs":
        return Runs(self, space)

    def limits(self) -> List[LimitInfo]:
        """All limits and their numbers."""
        return _records(LimitInfo, self._get("/v1/limits"), "limits")

    def hot_spaces(self) -> List[HotSpace]:
        return _records(HotSpace, self._get("/v1/hot"), "spaces")

    def session_spaces(self) -> List[SessionSpace]:
        return _records(SessionSpace, self._get("/v1/sessions"), "spaces")

    def run_spaces(self) -> List[RunSpace]:
        return _records(RunSpace, self._get("/v1/runs"), "spaces")

    def is_ready(self) -> bool:
        """Whether requests should be sent to this server."""
        answer = self._call("GET", "/readyz")
        if answer.status not in (200, 503):
            raise answer.problem()
        return answer.status == 200

    def store_health(self) -> StoreHealth:
        """How the store has been doing; also while it is away."""
        found = self._get("/v1/health/store")
        parts, servers = _records(PartHealth, found, "parts"), _records(StoreServer, found, "servers")
        return _record(StoreHealth, found, parts=parts, servers=servers)

    def take_all(self, key: Key, limits: Iterable[Union[str, Tuple[str, int]]]) -> AllDecision:
        """Charges a key under several limits, each by its name or with its cost, or under none of them.
        Never sent twice: if there is no answer it may have been charged."""
        body = {**_key_member(key), "limits": _costs(limits)}
        answer = self._call("POST", "/v1/limits/take", body, repeatable=False)
        return _all_decided(answer)

    def charge(self, key: Key, limits: Iterable[Union[str, Tuple[str, int]]], *, id: Optional[str] = None) -> Charged:
        """The same by an id, one of its own unless given: it is charged once however often it is sent, and can be given
        back. An id that was given back, or is of something else, is a `Conflict`."""
        chosen = uuid.uuid4().hex if id is None else _text("an id", id)
        body = {"id": chosen, **_key_member(key), "limits": _costs(limits)}
        answer = self._call("POST", "/v1/charges", body)
        if answer.is_success:
            charged = _records(ChargedLimit, answer.json(), "limits")
            return Charged(chosen, charged, None, answer.status == 201 or answer.was_unsure)
        return Charged(chosen, [], _all_decided(answer), False)

    def release(self, key: Key, limits: Iterable[str], id: str) -> bool:
        """Gives back what was charged by an id under these limits: whether this call did it."""
        names = [_text("a limit", limit) for limit in limits]
        body = {"id": _text("an id", id), **_key_member(key), "limits": names}
        answer = self._call("POST", "/v1/charges/release", body)
        if not answer.is_success:
            raise answer.problem()
        return bool(answer.json()["is_new"]) or answer.was_unsure

    # What parts ask by.

    def _repeat(
        self, attempt: Callable[[float], Tuple[Result, Optional[Problem]]], repeatable: bool
    ) -> Tuple[Result, bool]:
        """The result of `attempt`, which may be repeated while it fails or says that it was no good, and whether one
        before it may have been done."""
        until = time.monotonic() + self._deadline
        each_s = self._attempt or self._deadline / 3
        pause_s = _FIRST_PAUSE_S
        unsure = False
        told: Optional[Problem] = None
        error: TidegateError
        cause: Optional[BaseException]
        while True:
            try:
                result, passing = attempt(min(until, time.monotonic() + each_s) if repeatable else until)
                if passing is None:
                    return result, unsure
                error, cause, again = passing, None, repeatable
                unsure, told = True, passing
            except _Failed as failed:
                unsure = unsure or failed.sent
                again = repeatable or not failed.sent
                error = (DeadlineExceeded if failed.late else NoAnswer)(str(failed), unsure)
                cause = failed.__cause__
                # There was no time left for more than what the server has said.
                if failed.late and told is not None:
                    error = told
            chosen_s = random.uniform(0, pause_s)
            if not again or time.monotonic() + chosen_s >= until:
                raise error from cause
            time.sleep(chosen_s)
            pause_s = min(pause_s * 2, _MAX_PAUSE_S)

    def _call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        repeatable: bool = True,
        media_type: str = "application/json",
    ) -> _Answer:
        """An answer, whatever its status. `body` is JSON, or bytes of another type."""
        sent = body if body is None or isinstance(body, bytes) else _json(body)
        headers = {"content-type": media_type} if sent is not None else {}

        def attempt(until: float) -> Tuple[_Answer, Optional[Problem]]:
            answer = self._transport.exchange(method, path, sent, headers, until)
            if repeatable and answer.status in (408, 502, 503, 504):
                problem = answer.problem()
                return answer, problem if problem.kind in _PASSING else None
            return answer, None

        answer, unsure = self._repeat(attempt, repeatable)
        return dataclasses.replace(answer, was_unsure=unsure)

    def _done(self, method: str, path: str, body: Any = None, *, repeatable: bool = True) -> Any:
        """What a successful answer says; a problem is raised."""
        answer = self._call(method, path, body, repeatable=repeatable)
        if not answer.is_success:
            raise answer.problem()
        return answer.json() if answer.body else None

    def _get(self, path: str) -> Any:
        return self._done("GET", path)

    def _delete(self, path: str, gone: str, *, repeatable: bool = True) -> None:
        """Deletes. If it may have been done before, and the answer was lost, that it is gone is a success."""
        answer = self._call("DELETE", path, repeatable=repeatable)
        if not answer.is_success:
            problem = answer.problem()
            if not (answer.was_unsure and problem.kind == gone):
                raise problem

    def _pages(self, path: str, cursor: str, name: str, kind: Type[Record], **parameters: Any) -> Iterator[Record]:
        """All of a list, page by page."""
        after: Optional[str] = None
        while True:
            page = self._get(_query(path, limit=1000, **{cursor: after}, **parameters))
            yield from _records(kind, page, name)
            after = page.get("next")
            if after is None:
                return

    def _lines(self, path: str, after: Optional[str]) -> Iterator[str]:
        """The lines of an answer that has no end, until it ends all the same."""
        headers = {"last-event-id": after} if after is not None else {}

        def attempt(until: float) -> Tuple[Tuple[_Connection, http.client.HTTPResponse], Optional[Problem]]:
            connection, response = self._transport.begin("GET", path, None, headers, until)
            if response.status == 200:
                return (connection, response), None
            try:
                problem = _Answer(response.status, "", _whole(response)).problem()
            except (OSError, http.client.HTTPException) as error:
                raise _failed(self._transport.url, error, True) from error
            finally:
                connection.close()
            if problem.status in (408, 502, 503, 504) and problem.kind in _PASSING:
                return (connection, response), problem
            raise problem

        (connection, response), _ = self._repeat(attempt, True)
        try:
            while True:
                connection.until = time.monotonic() + _SILENCE_S
                line = response.readline(1 << 20)
                if not line.endswith(b"\n"):
                    return
                yield line.decode("utf-8").rstrip("\r\n")
        except (OSError, http.client.HTTPException):
            # It has ended, in whatever way: who reads it goes on from where it was.
            return
        finally:
            response.close()
            connection.close()


def _key_member(key: Key) -> Dict[str, str]:
    if isinstance(key, Everyone):
        return {}
    if key is None:
        raise TypeError("a key must be a str or EVERYONE, not None")
    return {"key": _text("a key", key)}


def _refused(members: Mapping[str, Any]) -> Dict[str, str]:
    kind = str(members.get("type", "")).rsplit(":", 1)[-1].rsplit("#", 1)[-1]
    return {"kind": kind, "detail": str(members.get("detail", ""))}


def _decided(answer: _Answer) -> Dict[str, Any]:
    """The members of a decision; a refusal is one too."""
    if answer.is_success:
        members = answer.json()
    else:
        problem = answer.problem()
        if "outcome" not in problem.members:
            raise problem
        members = dict(problem.members)
    if not isinstance(members, dict):
        raise UnexpectedAnswer(f"a decision is expected, not {members!r:.100}")
    return members


def _all_decided(answer: _Answer) -> AllDecision:
    members = _decided(answer)
    decisions = [_decision(each) for each in members["limits"]] if isinstance(members.get("limits"), list) else []
    return _record(AllDecision, members, limits=decisions, **_refused(members))


def _costs(limits: Iterable[Union[str, Tuple[str, int]]]) -> List[Dict[str, Any]]:
    """Limits by their names, each with its cost unless that is 1."""
    named = [(each, 1) if isinstance(each, str) else each for each in limits]
    return [{"limit": _text("a limit", limit), "cost": cost} for limit, cost in named]


def _decision(members: Any) -> Decision:
    if not isinstance(members, dict):
        raise UnexpectedAnswer(f"a decision is expected, not {members!r:.100}")
    return _record(Decision, members, **_refused(members))


class Limit:
    """One limit."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._path = client, f"/v1/limits/{_segment('a limit', name)}"

    def _of(self, key: Key) -> str:
        if isinstance(key, Everyone):
            return f"{self._path}/everyone"
        if key is None:
            raise TypeError("a key must be a str or EVERYONE, not None")
        return f"{self._path}/keys/{_segment('a key', key)}"

    def info(self) -> LimitInfo:
        return _record(LimitInfo, self._client._get(self._path))

    def take(self, key: Key, cost: int = 1, *, rate: Optional[str] = None) -> Decision:
        """Charges a key, if it fits. Never sent twice: if there is no answer it may have been charged. What must be
        charged exactly once is charged by an id: `Client.charge`."""
        body = {**_key_member(key), "cost": cost, **_given(rate=rate)}
        return _decision(_decided(self._client._call("POST", f"{self._path}/take", body, repeatable=False)))

    def peek(self, key: Key, cost: int = 1) -> Decision:
        """What a take would be told; charges nothing."""
        return _decision(self._client._get(_query(self._of(key), cost=cost)))

    def refund(self, key: Key, receipt: str) -> int:
        """Gives back what a take has charged: how much that was."""
        body = {**_key_member(key), "receipt": _text("a receipt", receipt)}
        refunded = self._client._done("POST", f"{self._path}/refund", body)
        return int(refunded["refunded"])

    def reset(self, key: Key) -> None:
        """Forgets what a key has used."""
        self._client._done("DELETE", self._of(key))

    def set_override(self, key: Key, rate: str, lasting_ms: int) -> Override:
        """Judges a key by a rate of its own for a while."""
        body = {"rate": rate, "lasting_ms": lasting_ms}
        return _record(Override, self._client._done("PUT", f"{self._of(key)}/override", body))

    def override(self, key: Key) -> Optional[Override]:
        try:
            return _record(Override, self._client._get(f"{self._of(key)}/override"))
        except NotFound as problem:
            if problem.kind != "no-override":
                raise
            return None

    def clear_override(self, key: Key) -> None:
        self._client._done("DELETE", f"{self._of(key)}/override")

    def overrides(self) -> Iterator[Override]:
        """Those of all keys, the first to end first."""
        return self._client._pages(f"{self._path}/overrides", "cursor", "overrides", Override)

    def reserve(self, key: Key, id: str, cost: int = 1, *, lasting_ms: int) -> Reserved:
        """Holds permits under an id until they are committed or released. Sent again it holds them once."""
        path = f"{self._of(key)}/reservations/{_segment('an id', id)}"
        answer = self._client._call("PUT", path, {"cost": cost, "lasting_ms": lasting_ms})
        if answer.is_success:
            # What was repeated is new although it was there.
            is_new = answer.status == 201 or answer.was_unsure
            return Reserved(_record(Reservation, answer.json()), None, is_new)
        return Reserved(None, _decision(_decided(answer)), False)

    def reservation(self, key: Key, id: str) -> Optional[Reservation]:
        path = f"{self._of(key)}/reservations/{_segment('an id', id)}"
        try:
            return _record(Reservation, self._client._get(path))
        except NotFound as problem:
            if problem.kind != "no-reservation":
                raise
            return None

    def commit(self, key: Key, id: str) -> Reservation:
        """Spends what is held."""
        path = f"{self._of(key)}/reservations/{_segment('an id', id)}/commit"
        return _record(Reservation, self._client._done("POST", path))

    def release(self, key: Key, id: str) -> Reservation:
        """Gives back what is held."""
        path = f"{self._of(key)}/reservations/{_segment('an id', id)}"
        return _record(Reservation, self._client._done("DELETE", path))

    def reservations(self) -> Iterator[Reservation]:
        """The pending ones of all keys, the first to end first."""
        return self._client._pages(f"{self._path}/reservations", "cursor", "reservations", Reservation)


class Hot:
    """A space of hot pages."""

    # So many edits travel together.
    _BATCH = 5000

    def __init__(self, client: Client, space: str) -> None:
        self._client, self._path = client, f"/v1/hot/{_segment('a space', space)}"

    def _page(self, page: str) -> str:
        return f"{self._path}/pages/{_segment('a page', page)}"

    def record(self, edit: Edit) -> Recorded:
        """Records an edit. Sent again it counts once."""
        return _record(Recorded, self._client._done("POST", f"{self._path}/edits", _edit(edit)))

    def record_many(self, edits: Iterable[Edit]) -> BulkRecorded:
        """Records edits, 5000 at a time; each time has the deadline of a call."""
        return self._bulk("edits", (_edit(each) for each in edits), repeatable=True)

    def count(self, page: str, count: int = 1) -> Counted:
        """Counts so many of a page, in a space that only counts. It is not sent again if its answer was lost: it may have
        been counted."""
        body = {"page": _text("a page", page), "count": count}
        return _record(Counted, self._client._done("POST", f"{self._path}/counts", body, repeatable=False))

    def count_many(self, counts: Union[Mapping[str, int], Iterable[Tuple[str, int]]]) -> BulkRecorded:
        """Counts so many of each page, 5000 pages at a time; each time has the deadline of a call. If one of them fails
        those before have been counted."""
        pairs = counts.items() if isinstance(counts, Mapping) else counts
        lines = ({"page": _text("a page", page), "count": count} for page, count in pairs)
        return self._bulk("counts", lines, repeatable=False)

    def _bulk(self, what: str, items: Iterable[Dict[str, Any]], *, repeatable: bool) -> BulkRecorded:
        lines = good = bad = 0
        outcomes: Dict[str, int] = {}
        bad_lines: List[BadLine] = []
        hint: Optional[str] = None
        for batch in _batches(items, self._BATCH):
            body = b"".join(_json(each) + b"\n" for each in batch)
            answer = self._client._call("POST", f"{self._path}/{what}", body, repeatable=repeatable,
                media_type="application/x-ndjson")
            if not answer.is_success:
                raise answer.problem()
            told = answer.json()
            bad_lines += [BadLine(each.line + lines, each.detail) for each in _records(BadLine, told, "bad_lines")]
            lines, good, bad = lines + told["lines"], good + told["good"], bad + told["bad"]
            hint = hint or told.get("hint")
            for outcome, count in told["outcomes"].items():
                outcomes[outcome] = outcomes.get(outcome, 0) + count
        return BulkRecorded(lines, good, bad, outcomes, bad_lines, hint)

    def stats(self, page: str) -> PageStats:
        return _record(PageStats, self._client._get(self._page(page)))

    def remove(self, page: str) -> str:
        """Forgets a page; what it had been: `hot`, `remembered` or `unknown`."""
        return str(self._client._done("DELETE", self._page(page))["was"])

    def window(
        self, page: str, start: Union[int, str, None] = None, end: Union[int, str, None] = None
    ) -> List[EditInWindow]:
        """The edits in a page's window, oldest first; both ends are included."""
        path = _query(f"{self._page(page)}/window", **{"from": start, "to": end})
        return _records(EditInWindow, self._client._get(path), "edits")

    def list(self, limit: int = 20, *, after: Optional[str] = None, stats: bool = False) -> HotPages:
        """The hottest pages; `next` of one list is the `after` of the next."""
        found = self._client._get(_query(self._path, limit=limit, after=after, stats=stats or None))
        pages = []
        for each in found.get("pages", []):
            known = each.get("stats")
            pages.append(_record(HotPage, each, stats=None if known is None else _record(PageStats, known)))
        return _record(HotPages, found, pages=pages)

    def cleanup(self) -> int:
        """Drops what is over, now: how many pages that were."""
        return int(self._client._done("POST", f"{self._path}/cleanup")["expired"])

    def events(self, after: Optional[str] = None) -> Iterator[Event]:
        """What happens, from now on or from behind a cursor. It never ends by itself: a connection that ends is made
        anew and goes on where it was, and a server that cannot be reached within the deadline is an error."""
        while True:
            for line in self._client._lines(f"{self._path}/events", after):
                if line.startswith("id: "):
                    after = line[4:]
                elif line.startswith("data: "):
                    yield _record(Event, json.loads(line[6:]))


def _edit(edit: Edit) -> Dict[str, Any]:
    members = {"page": _text("a page", edit.page), "id": _text("an id", edit.id)}
    return {**members, **_given(editor=edit.editor, byte_change=edit.byte_change, at=edit.at)}


def _batches(items: Iterable[Record], size: int) -> Iterator[List[Record]]:
    batch: List[Record] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class Sessions:
    """A space of sessions. A `generation` that is given is the only one that a call is for."""

    def __init__(self, client: Client, space: str) -> None:
        self._client, self._path = client, f"/v1/sessions/{_segment('a space', space)}"

    def _one(self, id: str) -> str:
        return f"{self._path}/{_segment('an id', id)}"

    def _holder(self, id: str, holder: str) -> str:
        return f"{self._one(id)}/holders/{_segment('a holder', holder)}"

    def activate(self, broadcaster: str, config: Any, holder: Optional[str] = None) -> SessionActivated:
        """The session of a broadcaster, active: the one it has, or a new one. If an answer was lost and it was sent
        again, `found` is `active`."""
        body = {"broadcaster": _text("a broadcaster", broadcaster), "config": config, **_given(holder=holder)}
        return _record(SessionActivated, self._client._done("POST", self._path, body))

    def get(self, id: str) -> Optional[Session]:
        return self._found(self._one(id))

    def find(self, broadcaster: str) -> Optional[Session]:
        """The session that a broadcaster last activated."""
        return self._found(f"{self._path}/broadcasters/{_segment('a broadcaster', broadcaster)}")

    def _found(self, path: str) -> Optional[Session]:
        try:
            found = self._client._get(path)
        except NotFound as problem:
            if problem.kind != "session-gone":
                raise
            return None
        return _record(Session, found, holders=_records(Holder, found, "holders"))

    def update(self, id: str, value: Any, generation: Optional[int] = None) -> int:
        """Sets the value of a session: the generation that it is in."""
        body = {"value": value, **_given(generation=generation)}
        return int(self._client._done("PUT", f"{self._one(id)}/value", body)["generation"])

    def delete(self, id: str) -> None:
        """Deletes a session that nobody holds."""
        self._client._delete(self._one(id), "session-gone")

    def connect(self, id: str, holder: str, generation: Optional[int] = None) -> Held:
        """One more holder of an active session."""
        path = _query(self._holder(id, holder), generation=generation)
        return _record(Held, self._client._done("PUT", path))

    def resume(self, id: str, holder: str, generation: Optional[int] = None) -> Held:
        """The same, also of a disconnected one, which is active again then. Of a generation that is given it is not
        repeated: the first one begins another."""
        path = _query(self._holder(id, holder), resume=True, generation=generation)
        return _record(Held, self._client._done("PUT", path, repeatable=generation is None))

    def heartbeat(self, id: str, holder: str, generation: Optional[int] = None) -> Held:
        path = _query(f"{self._holder(id, holder)}/heartbeat", generation=generation)
        return _record(Held, self._client._done("POST", path))

    def disconnect(self, id: str, holder: str, generation: Optional[int] = None) -> str:
        """The holder leaves; the session is `active` or `disconnected` then."""
        path = _query(self._holder(id, holder), generation=generation)
        return str(self._client._done("DELETE", path)["state"])

    def list(self, state: str = "disconnected") -> Iterator[SessionInList]:
        """Those in a state, by time."""
        return self._client._pages(self._path, "after", "sessions", SessionInList, state=state)

    def left_for(self, max_age: str) -> Iterator[SessionInList]:
        """Those that were left for at least so long, like `30s`."""
        return self._client._pages(self._path, "after", "sessions", SessionInList, max_age=max_age)

    def counts(self) -> SessionCounts:
        return _record(SessionCounts, self._client._get(f"{self._path}/counts"))

    def claim(self, limit: Optional[int] = None) -> Claims:
        """Claims orphans, to run their side effects. Never sent twice: claims whose answer was lost return by
        themselves when they end."""
        found = self._client._done("POST", f"{self._path}/claims", _given(limit=limit), repeatable=False)
        return _record(Claims, found, claims=_records(Claim, found, "claims"))

    def renew(self, claim: Claim) -> int:
        """Keeps a claim: until when."""
        path = f"{self._path}/claims/{_segment('an id', claim.id)}"
        path = _query(path, generation=claim.generation, attempt=claim.attempt)
        return int(self._client._done("PUT", path)["until_ms"])

    def ack(self, claims: Sequence[Claim]) -> List[Ack]:
        """Says that the side effects have run: they are deleted. What was sent again since an answer was lost may say
        `gone` of what it has deleted."""
        acks: List[Ack] = []
        for batch in _batches(claims, 1000):
            body = {"acks": [{"id": each.id, "generation": each.generation} for each in batch]}
            acks += _records(Ack, self._client._done("POST", f"{self._path}/acks", body), "acks")
        return acks

    def cleanup(self, *, dry_run: bool = False) -> Cleaned:
        """Deletes orphans, where nothing must happen for them."""
        path = _query(f"{self._path}/cleanup", dry_run=dry_run or None)
        return _record(Cleaned, self._client._done("POST", path))

    def dead(self) -> Iterator[SessionInList]:
        """Those whose claims ended too often."""
        return self._client._pages(f"{self._path}/dead", "after", "sessions", SessionInList)

    def retry(self, id: str) -> None:
        """Has a dead session claimed again. Not repeated: it is dead only once."""
        self._client._done("POST", f"{self._path}/dead/{_segment('an id', id)}/retry", repeatable=False)


class Runs:
    """A space of runs. An `attempt` that is given is the only one that a call is for: a worker that is late changes
    nothing of the next. Who gives none means the current one, and what would then do harm twice is not repeated."""

    # So many items travel together, and so many bytes of them whatever has to be escaped.
    _BATCH = 10_000
    _BATCH_BYTES = 600 * 1024

    def __init__(self, client: Client, space: str) -> None:
        self._client, self._path = client, f"/v1/runs/{_segment('a space', space)}"

    def _of(self, run: str) -> str:
        return f"{self._path}/runs/{_segment('a run', run)}"

    def run(
        self,
        run: str,
        *,
        total: Optional[int] = None,
        fields: Optional[Mapping[str, str]] = None,
        retry_ended: bool = False,
    ) -> "ActiveRun":
        """A run for a `with`: started, or under way already, and at its end succeeded; failed if an exception leaves
        it, cancelled if that is an interrupt or an exit. One that has ended is refused, or with `retry_ended` led on
        in another attempt.

            with client.runs().run("nightly-2026-11-16") as run:
                for item in run.not_processed(items):
                    work(item)
                    run.processed([item])
        """
        try:
            started = self.start(run)
        except Conflict as problem:
            if problem.refusal != "ended" or not retry_ended:
                raise
            started = self.retry(run, int(problem.members["attempt"]))
        active = ActiveRun(self, run, started.attempt, started.is_new)
        if total is not None or fields:
            active.update(total=total, fields=fields)
        return active

    def join(self, run: str, attempt: Optional[int] = None) -> "ActiveRun":
        """A run that somebody else has started and will finish, in that attempt or the one that it is in. Not for a
        `with`."""
        if attempt is None:
            found = self.get(run)
            if found is None:
                raise NotFound(404, "run-unknown", "there is no such run: start it", {"refusal": "unknown"})
            attempt = found.attempt
        return ActiveRun(self, run, attempt, False)

    def start(self, run: str) -> RunStarted:
        """Starts a run; one that is live goes on. If an answer was lost and it was sent again, `is_new` is still
        right if nobody else has started it meanwhile."""
        answer = self._client._call("PUT", self._of(run))
        if not answer.is_success:
            raise answer.problem()
        return _record(RunStarted, answer.json())

    def retry(self, run: str, from_attempt: int) -> RunStarted:
        """Begins another attempt of a run that has ended. Sent again it begins one."""
        return _record(RunStarted, self._client._done("POST", f"{self._of(run)}/retry", {"from_attempt": from_attempt}))

    def get(self, run: str) -> Optional[Run]:
        try:
            return _record(Run, self._client._get(self._of(run)))
        except NotFound as problem:
            if problem.kind != "run-unknown":
                raise
            return None

    def list(self, state: Optional[str] = None) -> Iterator[RunInList]:
        """All of them, or those in a state, the newest first."""
        return self._client._pages(self._path, "cursor", "runs", RunInList, state=state)

    def update(
        self,
        run: str,
        *,
        state: Optional[str] = None,
        fields: Optional[Mapping[str, Optional[str]]] = None,
        total: Optional[int] = None,
        attempt: Optional[int] = None,
    ) -> RunUpdated:
        """Sets the state, a live one, fields (`None` removes one) or the total. Without any it says that the run is
        alive."""
        body = _given(state=state, total=total)
        if fields:
            body["fields"] = {
                _text("a field", name): None if value is None else _text(f"the field {name!r}", value)
                for name, value in fields.items()
            }
        path = _query(f"{self._of(run)}/update", attempt=attempt)
        return _record(RunUpdated, self._client._done("POST", path, body, repeatable=attempt is not None))

    def finish(self, run: str, state: str = "succeeded", *, attempt: Optional[int] = None) -> RunStarted:
        """Ends a run: `succeeded`, `failed` or `cancelled`."""
        path = _query(f"{self._of(run)}/finish", attempt=attempt)
        done = self._client._done("POST", path, {"state": state}, repeatable=attempt is not None)
        return _record(RunStarted, done)

    def expire(self, run: str, lasting_ms: int, *, attempt: Optional[int] = None) -> int:
        """Lets a run be gone after so long at the latest: when."""
        path = _query(f"{self._of(run)}/expire", attempt=attempt)
        done = self._client._done("POST", path, {"lasting_ms": lasting_ms}, repeatable=attempt is not None)
        return int(done["ends_at_ms"])

    def delete(self, run: str, *, attempt: Optional[int] = None) -> None:
        """Deletes a run; its next start is another attempt."""
        path = _query(self._of(run), attempt=attempt)
        self._client._delete(path, "run-unknown", repeatable=attempt is not None)

    def processed(self, run: str, items: Iterable[str], *, attempt: Optional[int] = None) -> Processed:
        """Notes items as processed, 10,000 at a time, each time within the deadline of a call. Sent again they are
        noted once; of those whose answer was lost `new` does not tell, `processed` does. A run that ends in between is
        a `Conflict`, as is one that had ended; how many were noted before is in its `members["taken"]`."""
        new = processed = 0
        is_first = True
        for batch in self._batches(items):
            path = _query(f"{self._of(run)}/processed", attempt=attempt)
            try:
                noted = _record(Processed, self._client._done("POST", path, {"items": batch}))
            except Problem as problem:
                # Of this batch and those before it.
                problem.members = {**problem.members, "taken": new + int(problem.members.get("taken") or 0)}
                raise
            new, processed, is_first = new + noted.new, noted.processed, False
        if is_first:
            # There are none: how many there were is told all the same, and that there is such a run.
            processed = self.progress(run).processed
        return Processed(new, processed)

    def is_processed(self, run: str, items: Iterable[str]) -> List[bool]:
        """Of each item whether it is processed."""
        answers: List[bool] = []
        for batch in self._batches(items):
            answers += self._are_processed(run, batch)
        return answers

    def not_processed(self, run: str, items: Iterable[str]) -> Iterator[str]:
        """Those that are not, in their order: what a worker that was restarted has left to do."""
        for batch in self._batches(items):
            for item, is_done in zip(batch, self._are_processed(run, batch)):
                if not is_done:
                    yield item

    def _are_processed(self, run: str, batch: List[str]) -> List[bool]:
        told = self._client._done("POST", f"{self._of(run)}/is_processed", {"items": batch}).get("processed")
        if not isinstance(told, list) or len(told) != len(batch):
            raise UnexpectedAnswer(f"{len(batch)} items were asked, and the answer is {told!r:.100}")
        return told

    def _batches(self, items: Iterable[str]) -> Iterator[List[str]]:
        if isinstance(items, str):
            raise TypeError("items must be several, not one str")
        batch: List[str] = []
        size = 0
        for item in items:
            batch.append(_text("an item", item))
            size += len(item.encode("utf-8"))
            if len(batch) == self._BATCH or size >= self._BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def progress(self, run: str) -> RunProgress:
        return _record(RunProgress, self._client._get(f"{self._of(run)}/progress"))

    def task_started(self, run: str, task: str, *, attempt: Optional[int] = None) -> TaskStarted:
        """Says that a task has begun. One that was started in this attempt is left alone, finished or not: what is done
        several times has a name for each time."""
        path = f"{self._of(run)}/tasks/{_segment('a task', task)}"
        return _record(TaskStarted, self._client._done("PUT", _query(path, attempt=attempt)))

    def task_finished(self, run: str, task: str, *, attempt: Optional[int] = None) -> int:
        """How many milliseconds it took."""
        path = _query(f"{self._of(run)}/tasks/{_segment('a task', task)}/finish", attempt=attempt)
        return int(self._client._done("POST", path)["duration_ms"])

    def tasks(self, run: str) -> List[Task]:
        return _records(Task, self._client._get(f"{self._of(run)}/tasks"), "tasks")

    def failed(
        self, run: str, item: str, reason: str = "", *, id: Optional[str] = None, attempt: Optional[int] = None
    ) -> FailureNoted:
        """Notes that an item failed. By its `id`, one of its own unless given, it counts once however often it is
        sent."""
        body = {
            "item": _text("an item", item),
            "reason": _text("a reason", reason),
            "id": uuid.uuid4().hex if id is None else _text("an id", id),
        }
        path = _query(f"{self._of(run)}/failures", attempt=attempt)
        return _record(FailureNoted, self._client._done("POST", path, body))

    def failures(self, run: str) -> Iterator[Failure]:
        """What failed in a run, the latest first."""
        return self._client._pages(f"{self._of(run)}/failures", "cursor", "failures", Failure)

    def failures_of_hour(self, hour: str) -> Iterator[Failure]:
        """What failed in an hour of UTC, like `2026-11-16_08`, in all runs."""
        path = f"{self._path}/failures/{_segment('an hour', hour)}"
        return self._client._pages(path, "cursor", "failures", Failure)

    def retry_list(self, run: str) -> Iterator[Failure]:
        """Items that failed and were not processed since."""
        return self._client._pages(f"{self._of(run)}/retry_list", "cursor", "failures", Failure)

    def quota(self) -> Quota:
        """What is left of the quota, when there is more, and the most of each hour."""
        found = self._client._get(f"{self._path}/quota")
        uses = {name: _record(QuotaUse, found[name]) for name in ("aligned", "sliding") if found.get(name) is not None}
        return _record(Quota, found, hours=_records(QuotaHour, found, "hours"), **uses)

    def charge(self, cost: int = 1, *, id: Optional[str] = None) -> QuotaCharge:
        """Charges calls to the quota, if they fit. By its `id`, one of its own unless given, it is charged once
        however often it is sent, and can be given back: ids are remembered for an hour. An id of your own is of one
        call: what is called again, because it failed or by another try, is charged by another id, or it is called for
        free. What is refused is a value, and false; an id that was given back is a `Conflict`."""
        chosen = uuid.uuid4().hex if id is None else _text("an id", id)
        path = f"{self._path}/quota/charges/{_segment('an id', chosen)}"
        answer = self._client._call("PUT", path, {"cost": cost})
        if answer.is_success:
            return _record(QuotaCharge, answer.json(), is_charged=True)
        problem = answer.problem()
        if problem.kind != "run-quota-exceeded":
            raise problem
        told = {"id": chosen, "cost": cost, "is_charged": False, "is_new": False}
        return _record(QuotaCharge, dict(problem.members), **told)

    def release(self, id: str) -> bool:
        """Gives back what was charged by an id: whether this call did it. Nothing is known of an id: `NotFound`."""
        path = f"{self._path}/quota/charges/{_segment('an id', id)}"
        answer = self._client._call("DELETE", path)
        if not answer.is_success:
            raise answer.problem()
        return bool(answer.json()["is_new"]) or answer.was_unsure

    def cleanup(self) -> int:
        """Removes runs that are over, now: how many."""
        return int(self._client._done("POST", f"{self._path}/cleanup")["removed"])


class ActiveRun:
    """A run, in the attempt that its worker belongs to."""

    def __init__(self, runs: Runs, id: str, attempt: int, is_new: bool) -> None:
        self._runs = runs
        self.id, self.attempt = id, attempt
        self.is_new = is_new
        """Whether this worker has started it."""

    def __enter__(self) -> "ActiveRun":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], _: object) -> None:
        if error is None:
            self.finish("succeeded")
            return
        is_told_to_stop = isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit))
        try:
            self.finish("cancelled" if is_told_to_stop else "failed")
        except TidegateError as unfinished:
            # What went wrong first is what is raised.
            _log.error("the run %r could not be finished: %s", self.id, unfinished)

    def update(
        self,
        *,
        state: Optional[str] = None,
        fields: Optional[Mapping[str, Optional[str]]] = None,
        total: Optional[int] = None,
    ) -> RunUpdated:
        return self._runs.update(self.id, state=state, fields=fields, total=total, attempt=self.attempt)

    def finish(self, state: str = "succeeded") -> RunStarted:
        return self._runs.finish(self.id, state, attempt=self.attempt)

    def processed(self, items: Iterable[str]) -> Processed:
        return self._runs.processed(self.id, items, attempt=self.attempt)

    def is_processed(self, items: Iterable[str]) -> List[bool]:
        return self._runs.is_processed(self.id, items)

    def not_processed(self, items: Iterable[str]) -> Iterator[str]:
        return self._runs.not_processed(self.id, items)

    def failed(self, item: str, reason: str = "", *, id: Optional[str] = None) -> FailureNoted:
        return self._runs.failed(self.id, item, reason, id=id, attempt=self.attempt)

    def charge(self, cost: int = 1, *, id: Optional[str] = None) -> QuotaCharge:
        """Charges the quota that all runs of the family share, whatever the attempt: a call that was made is made. See
        `Runs.charge` for what an id may be."""
        return self._runs.charge(cost, id=id)

    def failures(self) -> Iterator[Failure]:
        return self._runs.failures(self.id)

    def retry_list(self) -> Iterator[Failure]:
        return self._runs.retry_list(self.id)

    def progress(self) -> RunProgress:
        return self._runs.progress(self.id)

    def task(self, name: str) -> "ActiveTask":
        """A task for a `with`: started, and finished at its end. One that an exception leaves is not finished."""
        return ActiveTask(self, name)


class ActiveTask:
    """A task of a run. How long it took is in `duration_ms` once it is finished."""

    def __init__(self, run: ActiveRun, name: str) -> None:
        self._run, self.name = run, name
        self.duration_ms: Optional[int] = None

    def __enter__(self) -> "ActiveTask":
        self._run._runs.task_started(self._run.id, self.name, attempt=self._run.attempt)
        return self

    def __exit__(self, _: object, error: Optional[BaseException], __: object) -> None:
        if error is None:
            self.duration_ms = self._run._runs.task_finished(self._run.id, self.name, attempt=self._run.attempt)
