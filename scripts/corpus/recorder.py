"""Sends requests, and writes down each with its answer."""

import json
import time

from .client import Connection, request_bytes
from .normal import Normal
from .routes import Coverage

WAIT_S = 90


def shown(data, most=600):
    """Bytes as text that JSON can have; of long ones the beginning and how long they are."""
    text = data.decode("utf-8", "backslashreplace")
    return text if len(text) <= most else f"{text[:most]}… ({len(data)} bytes)"


class Recorder:
    """Writes a line of JSON for each request."""

    def __init__(self, port, store):
        self.port, self.store = port, store
        self.normal, self.coverage = Normal(), Coverage()
        self.lines, self.numbers, self.ways = [], {}, {}

    @property
    def section(self):
        """What the requests are about now: lines and names are counted by it."""
        return self.normal.section

    @section.setter
    def section(self, name):
        self.normal.section = name

    @property
    def is_redis(self):
        return self.store == "redis"

    def write(self, kind, request, response):
        """One line. Its id is the section and a number in it."""
        number = self.numbers[self.section] = self.numbers.get(self.section, 0) + 1
        line = {"id": f"{self.section} {number}", "kind": kind, "request": request, "response": response}
        self.lines.append(line)
        return line

    def _response(self, answer, leave_out=()):
        body = answer.body.decode("utf-8", "backslashreplace")
        kind = answer.header("content-type") or ""
        if "openmetrics-text" in kind or "version=0.0.4" in kind:
            body = self.normal.metrics(body)
        body = self.normal.text(body)
        for pattern, name in leave_out:
            body = pattern.sub(name, body)
        headers = self.normal.headers(answer)
        for pattern, name in leave_out:
            headers = [pattern.sub(name, header) for header in headers]
        return {"status": f"{answer.version} {answer.status} {answer.reason}", "headers": headers, "body": body}

    def request(self, method, target, body=None, headers=(), *, route=None, leave_out=(), connection=None, sent=None,
                way=None):
        """A request on a connection of its own, unless one is given; writes down what is answered.

        `body` is bytes, text, or whatever JSON is to be made of; `sent` is how it travels, if that is
        not how it is. `leave_out` are patterns of what more differs from run to run here.
        """
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body, ensure_ascii=False)
            headers = [("content-type", "application/json"), *headers]
        if isinstance(body, str):
            body = body.encode("utf-8", "surrogatepass")
        travels = sent if sent is not None else body
        own = connection or Connection(self.port)
        try:
            own.send(request_bytes(method, target, headers, travels))
            answer = own.answer(method)
        finally:
            if connection is None:
                own.close()
        request = {"method": method, "target": self.normal.text(target), "headers": [": ".join(it) for it in headers]}
        if body is not None:
            request["body"] = self.normal.text(shown(body))
        if way:
            request["way"] = way
        if route:
            request["route"] = f"{method} {route}"
            self.coverage.count(method, route, answer.status)
        response = self._response(answer, leave_out)
        self.write("http", request, response)
        return answer

    def quietly(self, method, target, body=None):
        """A request that is not written down."""
        data = None if body is None else json.dumps(body).encode()
        with Connection(self.port) as connection:
            connection.send(request_bytes(method, target, [("content-type", "application/json")], data))
            return connection.answer(method)

    def wait_until(self, what, is_so):
        """Waits until it is so."""
        until = time.monotonic() + WAIT_S
        while not is_so():
            if time.monotonic() > until:
                raise SystemExit(f"answers: in {self.section}: still not so after {WAIT_S} s: {what}")
            time.sleep(0.02)

    def raw(self, name, data, *, port=None, last=b""):
        """Sends bytes as they are, then `last`, and writes down all that comes until the end."""
        with Connection(port or self.port) as connection:
            connection.send(data + last)
            answers = self.all_answers(connection)
        return self.write("raw", {"what": name, "bytes": self.normal.text(shown(data))}, answers)

    def all_answers(self, connection):
        """Every answer that comes until the connection ends."""
        answers = []
        while connection.buffer or connection.more():
            try:
                answers.append(self._response(connection.answer()))
            except EOFError as ended:
                answers.append({"ended": self.normal.text(shown(ended.args[0]))})
                break
        return answers

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            for line in self.lines:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
