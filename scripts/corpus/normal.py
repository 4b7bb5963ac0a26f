"""What differs from run to run, replaced by what kind of thing it is.

An answer has moments, lengths of time, ids, receipts, positions, addresses. They are replaced one by
one, so that where they stand and what they look like is still compared. What was named before has
the same name again: `<id 3 of claims>` is the third session id that the section of claims has met,
wherever it stands. Counted by section, one more or fewer shows where it is, not in all that follows.
"""

import datetime
import re
import time
from collections import Counter

# Members that say how long something takes, lasts or took, or when it was.
TIMED = (
    "reset_after_ms retry_after_ms lasting_ms expires_in_ms lag_ms away_ms held_until_ms until_ms at_ms since_ms"
    " last_disconnect_ms last_update_ms last_seen_ms first_seen_ms used_ms covered_ms duration_ms resets_in_ms"
    " rate_per_second connection_attempts connection_failures consecutive_failures success_rate operations"
    " operation_failures operation_success_rate average_response_ms p99_response_ms memory_bytes peak_hour_operations"
).split()

# Moments that are written in help and in requests, and mean themselves.
LITERAL_TIMES = ("2026-11-15T12:30:00Z", "2026-11-15T12:00:00Z")

# Receipts that nobody has answered, from help and requests.
MADE_UP = ("1-2-3-5f0c8d21b7e3a94c", "191439518785-0-1-5f0c8d21b7e3a94c")

SPAN = r"(?:\d+(?:\.\d+)?(?:years?|months?|weeks?|days?|h|m|s|ms|us|µs|ns)\b ?)+(?<! )"

UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-f])")
POSITION = re.compile(r"\b\d+-\d+-\d{6,20}\b")
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
HOUR = re.compile(r"\b20\d\d-\d\d-\d\d_\d\d\b")
MOMENT = re.compile(r"(?<![\d.])1\d{12}(?!\d)")
MEMBER = re.compile(r'"(%s)":( ?)(\d+(?:\.\d+)?)' % "|".join(TIMED))
RECEIPT = re.compile(r"\b\d+-\d+-\d+-[0-9a-f]{16}\b")
CHANCE = re.compile(r'"suppression_factor":(\d+(?:\.\d+)?(?:e-?\d+)?)')
SENTENCES = [
    (re.compile(r"\b(fits in|try again in) \d+ ms"), r"\1 <n> ms"),
    (re.compile(r"`from` is \d+ ms after"), "`from` is <n> ms after"),
    (re.compile(r"\b(for another|all free again in|will fit in|first due for|try again in|over in|ends in) " + SPAN),
    r"\1 <span>"),
    (re.compile(r"\b\d+ % of calls"), "<n> % of calls"),
    # Nobody sets such a length of time.
    (re.compile(r"\b\d+(?:years?|months?|days?|h|m|s)(?: \d+(?:days?|h|m|s|ms|us|ns))+\b"), "<span>"),
    # What depends on chance and time of a database of rules.
    (re.compile(r'"(epoch|watermark)":"[0-9a-f]{16}'), r'"\1":"<epoch>'),
    (re.compile(r'"digest":"[0-9a-f]{32}"'), '"digest":"<digest>"'),
    (re.compile(r"\b[0-9a-f]{16}:(\d+):[0-9a-f]{32}\b"), r"<epoch>:\1:<digest>"),
    (re.compile(r"\btidegate/[0-9.]+ on \S+"), "<who>"),
]


class Normal:
    """Names for what a recording has met so far."""

    def __init__(self):
        self.ids, self.receipts, self.moments, self.places = {}, {}, {}, []
        self.section, self.counts = "", Counter()
        self.started_ms = int(time.time() * 1000)

    def at(self, offset_ms):
        """A moment that the recording itself names, as milliseconds since 1970."""
        ms = self.started_ms + offset_ms
        self.moments[ms] = f"<start{offset_ms:+d}>"
        return ms

    def place(self, text, name):
        """From now on `text`, an address or a folder, is called `name`."""
        self.places.insert(0, (text, f"<{name}>"))

    def known(self, uuid):
        """An id that was answered, named in the order in which they are made."""
        if uuid not in self.ids:
            self.ids[uuid] = f"<id {self._number('id')} of {self.section}>"
        return uuid

    def _number(self, kind):
        self.counts[kind, self.section] += 1
        return self.counts[kind, self.section]

    def literal(self, uuid):
        """An id that the recording has made up is itself."""
        self.ids[uuid] = uuid
        return uuid

    def receipt(self, receipt):
        """A receipt by its number, unless it is a made-up one."""
        if receipt in MADE_UP:
            return receipt
        if receipt not in self.receipts:
            self.receipts[receipt] = f"<receipt {self._number('receipt')} of {self.section}>"
        return self.receipts[receipt]

    def _id(self, match):
        return self.ids[self.known(match[0])]

    def _moment(self, match):
        ms = int(match[0])
        if ms in self.moments:
            return self.moments[ms]
        # Whatever is about now; other numbers of that length are themselves.
        return "<moment>" if self._is_about_now(ms) else match[0]

    def _time(self, match):
        at = datetime.datetime.fromisoformat(match[0].replace("Z", "+00:00")).timestamp() * 1000
        return "<time>" if self._is_about_now(at) and match[0] not in LITERAL_TIMES else match[0]

    def _hour(self, match):
        try:
            hour = datetime.datetime.strptime(match[0] + "+0000", "%Y-%m-%d_%H%z")
        except ValueError:
            return match[0]
        return "<hour>" if self._is_about_now(hour.timestamp() * 1000) else match[0]

    def _is_about_now(self, ms):
        return abs(ms - self.started_ms) < 100 * 86_400_000

    def _member(self, match):
        name, space, value = match.groups()
        if float(value) > 1e12 and not self._is_about_now(float(value)):
            return match[0]
        # Nothing is nothing, except where it only says that it was quick.
        if value == "0" and name not in ("lag_ms", "away_ms", "duration_ms"):
            return match[0]
        # An hour is covered whole, or as far as edits go back.
        if name == "covered_ms" and value == "3600000":
            return match[0]
        if name.endswith("_ms") and int(float(value)) in self.moments:
            return match[0]
        return f'"{name}":{space}<n>'

    def text(self, text):
        """What is the same in every run, of a body, a target or a terminal's output."""
        for known, name in self.places:
            text = text.replace(known, name)
        text = RECEIPT.sub(lambda it: self.receipt(it[0]), text)
        text = UUID.sub(self._id, text)
        text = POSITION.sub("<position>", text)
        text = TIME.sub(self._time, text)
        text = HOUR.sub(self._hour, text)
        text = MEMBER.sub(self._member, text)
        text = MOMENT.sub(self._moment, text)
        text = CHANCE.sub(lambda it: '"suppression_factor":' + (it[1] if it[1] in ("0.0", "1.0") else "<share>"),
            text)
        for pattern, name in SENTENCES:
            text = pattern.sub(name, text)
        return text

    def headers(self, answer):
        """Names and values, in no order; what has no fixed value says whether it is right."""
        out = []
        for name, value in answer.headers:
            if name == "date":
                continue
            if name == "content-length":
                is_right = not answer.body or int(value) == len(answer.body)
                value = "<length>" if is_right else f"{value}, of {len(answer.body)}"
            elif name == "ratelimit":
                value = re.sub(r";t=[1-9]\d*", ";t=<s>", value)
            elif name == "retry-after" and value != "1":
                value = "<s>"
            out.append(f"{name}: {self.text(value)}")
        return sorted(out)

    @staticmethod
    def metrics(text):
        """The names, labels and types of metrics, not their values nor their order."""
        lines = set()
        for line in text.splitlines():
            lines.add(line if line.startswith("#") else re.sub(r" \S+$", "", line.split(" # ")[0]))
        return "\n".join(sorted(lines))
