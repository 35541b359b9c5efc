"""A client that sends the bytes of a case as they are, and reads responses of HTTP/1.1 without repairing them."""

import hashlib
import re
import socket
import time

PATIENCE_S = 5.0
# Time without a byte after which a connection counts as open.
QUIET_S = 0.15


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Ended(Exception):
    """The server has closed the connection."""


class Reader:
    def __init__(self, connection):
        self.connection, self.buffer = connection, b""

    def fill(self):
        try:
            more = self.connection.recv(1 << 18)
        except TimeoutError:
            raise
        except OSError:
            more = b""
        if not more:
            raise Ended
        self.buffer += more

    def until(self, end):
        while end not in self.buffer:
            self.fill()
        part, self.buffer = self.buffer.split(end, 1)
        return part

    def exactly(self, count):
        parts, missing = [self.buffer[:count]], count - len(self.buffer[:count])
        self.buffer = self.buffer[count:]
        while missing > 0:
            self.fill()
            parts.append(self.buffer[:missing])
            self.buffer = self.buffer[missing:]
            missing = count - sum(map(len, parts))
        return b"".join(parts)

    def rest(self):
        parts = [self.buffer]
        self.buffer = b""
        try:
            while True:
                self.fill()
                parts.append(self.buffer)
                self.buffer = b""
        except Ended:
            return b"".join(parts)


def chunks(reader):
    """Reads a chunked body. Returns the body and its trailers; the sizes of the chunks are the server's choice."""
    body = []
    while True:
        size = int(reader.until(b"\r\n").split(b";")[0], 16)
        if size == 0:
            break
        body.append(reader.exactly(size))
        if reader.exactly(2) != b"\r\n":
            raise ValueError("a chunk does not end")
    trailers = []
    while line := reader.until(b"\r\n"):
        trailers.append(line.decode("latin-1"))
    return b"".join(body), sorted(trailers)


def shown(body):
    text = body.decode("latin-1")
    if len(body) <= 200:
        return repr(text)
    return f"{len(body)} bytes, sha256 {hashlib.sha256(body).hexdigest()[:16]}"


def response(reader, method, mask_body):
    """Reads one response. Returns a text with all that is compared."""
    lines = reader.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ")[1])
    fields = sorted((name.lower(), value.strip()) for name, value in (line.split(":", 1) for line in lines[1:]))
    fields = [(name, value) for name, value in fields if name != "date"]
    of = dict(fields)
    text = f"{lines[0].split(' ')[0]} {status} {fields}"
    if 100 <= status < 200:
        return text, False
    body, trailers = b"", []
    try:
        if method == "HEAD" or status in (204, 304):
            pass
        elif of.get("transfer-encoding") == "chunked":
            body, trailers = chunks(reader)
        elif "content-length" in of:
            body = reader.exactly(int(of["content-length"]))
        else:
            body = reader.rest()
    except Ended:
        return f"{text} cut", True
    if mask_body:
        return f"{status} and a body", True
    return f"{text} {shown(body)} {trailers}", True


def without_framing(seen):
    """Leaves out how the end of a body is announced: a server may send a length or chunks (RFC 9112, section 6.3)."""
    return [re.sub(r"\('(content-length|transfer-encoding)', '[^']*'\)(, )?", "", text).replace(", ]", "]") for text in seen]


def send(connection, steps):
    """Sends the parts of a case. A number is a pause in seconds, `shut` closes this side."""
    for step in steps:
        if step == "shut":
            connection.shutdown(socket.SHUT_WR)
        elif isinstance(step, float):
            time.sleep(step)
        else:
            connection.sendall(step)


def answer(port, case):
    """Returns what the server has answered: a text for each response, and how the connection is afterwards."""
    seen = []
    with connect(port) as connection:
        reader = Reader(connection)
        try:
            send(connection, case.steps)
        except OSError:
            # The server has refused before it has read everything.
            pass
        if case.leaves:
            connection.close()
            # The server goes on with others.
            with connect(port) as another:
                another.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                return [response(Reader(another), "GET", False)[0]]
        try:
            for method in case.methods:
                is_last = False
                while not is_last:
                    text, is_last = response(reader, method, case.mask_body)
                    seen.append(text)
                    if text.startswith("HTTP/1.1 100") and case.after_continue:
                        connection.sendall(case.after_continue)
            connection.settimeout(QUIET_S)
            rest = reader.rest()
            seen.append(f"closed after {shown(rest)}")
        except Ended:
            seen.append(f"closed after {shown(reader.buffer)}")
        except TimeoutError:
            seen.append(f"open after {shown(reader.buffer)}")
        except (ValueError, IndexError) as fault:
            seen.append(f"not HTTP: {fault}")
    return seen
