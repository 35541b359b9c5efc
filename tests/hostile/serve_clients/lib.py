"""A server as a process, and clients that speak just enough HTTP and WebSocket."""

import asyncio
import os
import subprocess
import tempfile
from pathlib import Path

GUESTS = Path(__file__).resolve().parents[3] / "examples/guests/prebuilt/wasi"
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


# Guests that wait, and guests with streams and sockets.
CONFIG = """
[node]
drain = "4s"

[engine]
capacity = 6000

[[serve]]
listen = "127.0.0.1:0"

[[serve.route]]
pattern = "/pause"
module = "{guests}/http.wasm"

[[serve.route]]
pattern = "/*"
module = "{guests}/sockets.wasm"
"""


class Server:
    """The program `peers-serving`, which serves `/`, `/slow`, `/events`, `/upload` and `/ws`; or, if its name begins with
    `rusm`, the node, which serves `/`, `/pause`, `/clock` and `/socket` by guests."""

    def __init__(self, program):
        self.is_node = Path(program).name.startswith("rusm")
        if self.is_node:
            self.folder = tempfile.TemporaryDirectory()
            config = Path(self.folder.name) / "rusm.toml"
            config.write_text(CONFIG.format(guests=GUESTS))
            self.log = open(Path(self.folder.name) / "log", "wb")
            environment = {**os.environ, "RUSM_SOCKET_DIR": self.folder.name}
            command = [program, "serve", str(config)]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env=environment)
            self.port = int(self.process.stdout.readline().rsplit(b":", 1)[1])
            return
        command = [program, "serve", "all", "rusm"]
        # Freed memory goes back to the system, so the resident memory is what the server uses.
        environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "65536"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.port = int(self.process.stdout.readline())

    def said(self):
        """Returns what the node has logged."""
        return (Path(self.folder.name) / "log").read_text(errors="replace") if self.is_node else ""

    def path(self, request):
        """Returns a request with the path that this server has for it."""
        if not self.is_node:
            return request
        for path, guest in [(b" /slow ", b" /pause "), (b" /events ", b" /clock "), (b" /ws ", b" /socket ")]:
            request = request.replace(path, guest)
        return request

    def connect(self):
        return asyncio.open_connection("127.0.0.1", self.port)

    def rss(self):
        """Returns the resident memory, in bytes."""
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu(self):
        """Returns the CPU time used so far, in seconds."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def read_head(reader):
    return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()


async def read_response(reader):
    """Reads a response. Returns its head and its body."""
    head = await read_head(reader)
    if "transfer-encoding: chunked" not in head:
        length = next(line for line in head.splitlines() if line.startswith("content-length:"))
        return head, await reader.readexactly(int(length.split(":")[1]))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return head, body


def frame(opcode, payload=b"", final=True, masked=True):
    """Returns a WebSocket frame of a client; the mask is zero."""
    head = bytes([(0x80 if final else 0) | opcode])
    mask_bit, mask = (0x80, b"\0\0\0\0") if masked else (0, b"")
    if len(payload) < 126:
        return head + bytes([mask_bit | len(payload)]) + mask + payload
    return head + bytes([mask_bit | 126]) + len(payload).to_bytes(2, "big") + mask + payload


async def read_frame(reader):
    """Returns the opcode and the payload of a short frame of the server."""
    first, length = await reader.readexactly(2)
    return first & 0x0F, await reader.readexactly(length)


def h2_frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


H2_START = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0)
# :method GET, :path /, :scheme http, :authority a
H2_FIELDS = bytes([0x82, 0x84, 0x86, 0x41, 1]) + b"a"
