#!/usr/bin/env python3
"""Clients and guests that each stay within their limits, and together want more memory than there is.

Usage: memory.py [RUSM] [CASE ...]

Each case starts a node in a control group of 512 MiB. The kernel must not kill it, and another client must be answered
meanwhile. Needs root for the control group, a built `rusm`, and `openssl` for the case `tls`.
"""

import os
import resource
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_BYTES = 512 << 20
GUEST = ROOT / "examples/guests/prebuilt/wasi/sockets.wasm"
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
# A guest that opens streams to itself and fills them, and one that sets timers.
STREAMS = """(module
  (import "rusm" "self" (func $self (result i64)))
  (import "rusm" "sleep" (func $sleep (param i64)))
  (import "rusm" "stream_open" (func $open (param i64 i32) (result i64)))
  (import "rusm" "stream_write" (func $write (param i64 i32 i32) (result i32)))
  (memory (export "memory") 20)
  (func (export "run") (local $stream i64)
    (loop $again
      (local.set $stream (call $open (call $self) (i32.const 1048576)))
      (if (i64.gt_s (local.get $stream) (i64.const 0)) (then
        (drop (call $write (local.get $stream) (i32.const 65536) (i32.const 1048000)))
        (br $again))))
    (call $sleep (i64.const 3600000))))"""
TIMERS = """(module
  (import "rusm" "self" (func $self (result i64)))
  (import "rusm" "sleep" (func $sleep (param i64)))
  (import "rusm" "send_after" (func $after (param i64 i64 i64 i32 i32) (result i64)))
  (memory (export "memory") 2)
  (func (export "run")
    (loop $again
      (br_if $again (i64.gt_s
        (call $after (call $self) (i64.const 3600000) (i64.const 0) (i32.const 0) (i32.const 31)) (i64.const 0))))
    (call $sleep (i64.const 3600000))))"""


class Group:
    """A control group of version 1 or 2."""

    def __init__(self):
        is_first = os.path.isdir("/sys/fs/cgroup/memory")
        base, limit, self.peak_file = (
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes")
            if is_first
            else ("/sys/fs/cgroup", "memory.max", "memory.peak")
        )
        self.path = Path(base) / f"rusm-memory-{os.getpid()}"
        self.path.mkdir()
        (self.path / limit).write_text(str(LIMIT_BYTES))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak_mib(self):
        return int((self.path / self.peak_file).read_text()) >> 20

    def remove(self):
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)


class Node:
    """A node in a control group, with a folder of its own."""

    def __init__(self, rusm, command, settings, files=()):
        self.folder = Path(tempfile.mkdtemp())
        self.is_tls = "certificate" in settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (self.folder / "public").mkdir()
        (self.folder / "public/small").write_text("small")
        with open(self.folder / "public/large", "wb") as large:
            large.truncate(1 << 30)
        for name, text in files:
            (self.folder / name).write_text(text)
        if self.is_tls:
            make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout k.pem -out c.pem"
            subprocess.run(make.split(), cwd=self.folder, check=True, stderr=subprocess.DEVNULL)
        (self.folder / "rusm.toml").write_text(settings.format(port=self.port, guest=GUEST))
        (self.folder / "sockets").mkdir(mode=0o700)
        self.group = Group()
        self.process = subprocess.Popen(
            [rusm, command],
            cwd=self.folder,
            env={**os.environ, "RUSM_SOCKET_DIR": str(self.folder / "sockets")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=self.group.enter,
        )
        for _ in range(200):
            if self.answers():
                return
            time.sleep(0.1)
        raise SystemExit(f"{rusm} {command} does not answer")

    def connect(self):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(4)
        client.connect(("127.0.0.1", self.port))
        return client

    def answers(self):
        """True if a client that behaves well gets its answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=8) as client:
                if self.is_tls:
                    context = ssl.create_default_context()
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                    client = context.wrap_socket(client)
                client.sendall(b"GET /files/small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                return client.recv(100)[9:12] == b"200"
        except OSError:
            return False

    def is_alive(self):
        return self.process.poll() is None

    def end(self):
        self.process.kill()
        self.process.wait()
        self.group.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


FILES = '[[serve.route]]\npattern = "GET /files/*"\nfolder = "public"\n'
LISTEN = '[[serve]]\nlisten = "127.0.0.1:{port}"\n'
SERVE = LISTEN + '[[serve.route]]\npattern = "/*"\nmodule = "{guest}"\n' + FILES
FOLDER = LISTEN + FILES
TLS = LISTEN + 'certificate = "c.pem"\nkey = "k.pem"\n' + FILES
RUN = LISTEN + FILES + '[[process]]\nmodule = "guest.wat"\ncount = {count}\nprofile = "p"\n[profile.p]\n' + (
    'capabilities = ["streams", "timers", "send"]\n'
)


def guests(count):
    return RUN.replace("{count}", str(count))


def many(node, count, act):
    """Lets clients act one after the other, and keeps their connections open."""
    kept = []
    for _ in range(count):
        try:
            client = node.connect()
            act(client)
            kept.append(client)
        except OSError:
            pass  # A client that is refused or cut is of no consequence.
        if not node.is_alive():
            break
    return kept


def post(client):
    client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n" + b"a" * 2_000_000)


def message(client):
    client.sendall(UPGRADE)
    if b" 101 " in client.recv(200)[:20]:
        client.sendall(b"\x82\xff" + struct.pack(">Q", 1_000_000) + bytes(4) + b"a" * 1_000_000)


def download(client):
    client.sendall(b"GET /files/large HTTP/1.1\r\nHost: a\r\n\r\n")


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def window_of_zero(client):
    def field(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    fields = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/files/large"), (b":authority", b"a")]
    head = b"".join(field(*pair) for pair in fields)
    settings = frame(4, 0, 0, struct.pack(">HI", 4, 0))
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
    client.sendall(b"".join(frame(1, 5, 1 + 2 * number, head) for number in range(100)))


def unfinished_hello(client):
    hello = b"\x01\x00\xff\xf0\x03\x03" + b"a" * 65_000
    parts = [hello[at : at + 16_000] for at in range(0, 64_000, 16_000)]
    client.sendall(b"".join(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part for part in parts))


def wait(seconds):
    return lambda node: time.sleep(seconds)


# Name: command, settings, files, what happens.
CASES = {
    "responses": ("serve", SERVE, (), lambda node: many(node, 1_100, post)),
    "messages": ("serve", SERVE, (), lambda node: many(node, 1_100, message)),
    "files": ("serve", FOLDER, (), lambda node: many(node, 9_900, download)),
    "http2": ("serve", FOLDER, (), lambda node: many(node, 200, window_of_zero)),
    "tls": ("serve", TLS, (), lambda node: many(node, 8_000, unfinished_hello)),
    "streams": ("run", guests(30), (("guest.wat", STREAMS),), wait(8)),
    "timers": ("run", guests(40), (("guest.wat", TIMERS),), wait(8)),
}


def main():
    rusm = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/rusm").resolve()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    passed, names = 0, sys.argv[2:] or list(CASES)
    for name in names:
        command, settings, files, attack = CASES[name]
        node = Node(rusm, command, settings, files)
        try:
            kept = attack(node)
            answers = node.answers()
            is_ok = node.is_alive() and answers
            state = "alive" if node.is_alive() else f"ended with {node.process.poll()}"
            print(f"{name}: {state}, others are {'' if answers else 'NOT '}answered, peak {node.group.peak_mib()} MiB", flush=True)
            passed += is_ok
            del kept
        finally:
            node.end()
    print(f"{len(names)} cases tried, {passed} passed")
    return 0 if passed == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
