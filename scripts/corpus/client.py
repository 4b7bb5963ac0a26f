"""HTTP/1.1 as bytes: requests are sent as they are written, answers are read to their end."""

import json
import socket

# Long enough for a machine that is busy with something else.
WAIT_S = 60


class Answer:
    """One response, as it came."""

    def __init__(self, version, status, reason, headers, body):
        self.version, self.status, self.reason = version, status, reason
        self.headers, self.body = headers, body

    def header(self, name):
        return next((value for known, value in self.headers if known == name), None)

    def json(self):
        return json.loads(self.body)


class Connection:
    """A connection to a server on this machine."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            # It was refused before its end: the answer is there.
            pass

    def more(self):
        """Reads some; whether there was any."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def read_until(self, is_enough):
        """Reads until `is_enough` says so of all that was read; hands it over."""
        while not is_enough(self.buffer) and self.more():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def read_to_end(self):
        while self.more():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def _line(self):
        while b"\r\n" not in self.buffer:
            if not self.more():
                raise EOFError(self.buffer)
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _exactly(self, length):
        while len(self.buffer) < length:
            if not self.more():
                raise EOFError(self.buffer)
        data, self.buffer = self.buffer[:length], self.buffer[length:]
        return data

    def head(self):
        """The head of the next response, without its body."""
        version, status, *reason = self._line().decode("latin-1").split(" ", 2)
        headers = []
        while line := self._line():
            name, value = line.decode("latin-1").split(":", 1)
            headers.append((name.lower(), value.strip()))
        return Answer(version, int(status), " ".join(reason), headers, b"")

    def answer(self, method="GET"):
        """The next response."""
        answer = self.head()
        if method == "HEAD" or answer.status in (204, 304) or answer.status < 200:
            return answer
        if answer.header("transfer-encoding") == "chunked":
            while size := int(self._line().split(b";")[0], 16):
                answer.body += self._exactly(size)
                self._line()
            while self._line():
                pass
        elif (length := answer.header("content-length")) is not None:
            answer.body = self._exactly(int(length))
        else:
            answer.body = self.read_to_end()
        return answer


def request_bytes(method, target, headers, body):
    """A request in its plainest form; `headers` come behind those that every request has."""
    lines = [f"{method} {target} HTTP/1.1", "host: tidegate.test"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + (body or b"")


def chunked(body, sizes=(5,)):
    """`body` in chunks of these sizes, the rest in one."""
    out, rest = b"", body
    for size in sizes:
        piece, rest = rest[:size], rest[size:]
        if piece:
            out += b"%x\r\n%s\r\n" % (len(piece), piece)
    if rest:
        out += b"%x\r\n%s\r\n" % (len(rest), rest)
    return out + b"0\r\n\r\n"


def unchunked(data):
    """What chunks say, as far as they have come."""
    out = b""
    while b"\r\n" in data:
        size, rest = data.split(b"\r\n", 1)
        length = int(size.split(b";")[0], 16)
        if length == 0 or len(rest) < length + 2:
            break
        out, data = out + rest[:length], rest[length + 2 :]
    return out
