#!/usr/bin/env python3
"""Runs of scenarios that want more memory than there is, by a client with the control role.

Usage: runs.py [RUSM] [SCENARIO ...]

Each case starts a node in a control group of 512 MiB, and one run with parameters at the upper end of what the node
offers. The run must be refused or end with an error, or go on within the limit; the node must answer afterwards, and
end by SIGTERM with exit code 0. Needs root for the control group, and a built `rusm`.
"""

import base64
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memory import ROOT, Group

MANY = {"keys": "1000000", "goroutines": "100000"}
# Scenario, parameters.
CASES = (
    ("topic-firehose", {"keep": "68719476736", "payload": "10000000"}),
    ("topic-firehose", {"keep": "68719476736", "payload": "1024", "publishers": "1000"}),
    ("topic-throughput", {"payload": "10000000", "batch": "1000", "gather": "10000", "outstanding": "1000000"}),
    ("topic-mix", {"payload": "10000000", "publishers": "1000", "subscriptions": "1000", "consumers": "1000"}),
    ("topic-herd", {"herd": "100000", "publishers": "guests"}),
    ("parked", {"processes": "10000000", "renew": "no"}),
    ("parked", {"processes": "10000000", "renew": "no", "body": "empty-module"}),
    ("spawn-storm", {"live-cap": "1000000", "burst": "1000000", "spawners": "1024"}),
    ("fault-recovery", {"supervisors": "10000", "children": "10000", "strategy": "one-for-all"}),
    ("fan-in", {"producers": "100000", "payload": "1048576"}),
    ("kv-storm", {"writers": "100000", "value": "1048576", "keys": "1000000"}),
    ("kv-versus", {"writers": "100000", "value": "1048576", "keys": "1000000"}),
    ("timer-tasks", {"most": "100000"}),
    ("counter-vsa", MANY),
    ("counter-crdt", {**MANY, "replicas": "1024"}),
    ("counter-batch", {**MANY, "batch_size": "65536"}),
    ("counter-redb", {"goroutines": "100000"}),
    ("counter-token", {"goroutines": "100000", "replicas": "1024"}),
    ("counter-sweep", {"keys": "1000000"}),
)


class Client:
    """An observer with the control role, over the node's socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(15)
        self.socket.connect(str(path))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: rusm.v1\r\n\r\n".encode()
        )
        self.file = self.socket.makefile("rb")
        while self.file.readline() not in (b"\r\n", b""):
            pass

    def send(self, command):
        text = json.dumps(command).encode()
        # The mask is zero.
        length = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + struct.pack(">H", len(text))
        self.socket.sendall(b"\x81" + length + bytes(4) + text)

    def receive(self):
        head = self.file.read(2)
        if len(head) < 2:
            raise ConnectionError("the node has closed the connection")
        length = head[1] & 127
        if length == 126:
            (length,) = struct.unpack(">H", self.file.read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.file.read(8))
        data = self.file.read(length)
        return json.loads(data) if head[0] & 15 == 1 else {"type": ""}


def ended_run(client):
    """Watches a run for 12 s; returns the error of the command or of the run."""
    until = time.time() + 12
    while time.time() < until:
        message = client.receive()
        if message["type"] == "error":
            return message.get("message", "refused")
        error = message["type"] == "tick" and message["frame"].get("run_error")
        if error:
            return error
    return None


def attempt(rusm, scenario, params):
    """Returns what was wrong, or nothing, and the error of the run."""
    group = Group()
    with tempfile.TemporaryDirectory() as folder:
        sockets = Path(folder) / "sockets"
        sockets.mkdir(mode=0o700)
        node = subprocess.Popen(
            [rusm, "node", "--name", "runs"],
            cwd=folder,
            env={**os.environ, "RUSM_SOCKET_DIR": str(sockets), "TMPDIR": folder, "HOME": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=group.enter,
        )
        try:
            while not (sockets / "runs.sock").exists():
                time.sleep(0.05)
            error = None
            try:
                client = Client(sockets / "runs.sock")
                client.send({"type": "run", "id": 1, "scenario": scenario, "params": params, "profile": "max"})
                error = ended_run(client)
                Client(sockets / "runs.sock").receive()
            except OSError as problem:
                return f"it does not answer: {problem}, exit code {node.poll()}", error
            node.send_signal(signal.SIGTERM)
            try:
                code = node.wait(60)
            except subprocess.TimeoutExpired:
                return "it does not end", error
            return (f"it ended with {code}" if code else None), error
        finally:
            node.kill()
            node.wait()
            group.remove()


def main():
    rusm = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/rusm").resolve()
    cases = [case for case in CASES if case[0] in sys.argv[2:] or not sys.argv[2:]]
    passed = 0
    for scenario, params in cases:
        problem, error = attempt(rusm, scenario, params)
        print(f"{scenario} {params}: {problem or 'ok'}; {error or 'the run goes on'}", flush=True)
        passed += problem is None
    print(f"{len(cases)} cases tried, {passed} passed")
    return 0 if passed == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
