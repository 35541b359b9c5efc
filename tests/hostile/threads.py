#!/usr/bin/env python3
"""Nodes whose control group lets them start no further thread: they stop in order, and a server answers before that.

Usage: threads.py [RUSM]

Each case starts a node in a control group for its number of threads, which is then set to the number it has. Needs root
for the control group, and a built `rusm` [default: target/debug/rusm].
"""

import concurrent.futures
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# A guest that waits for messages.
PARKED = """(module
  (import "rusm" "sleep" (func $sleep (param i64)))
  (memory (export "memory") 1)
  (func (export "run") (call $sleep (i64.const 3600000))))"""
REQUESTS = 200
STOP_WITHIN = 20


class Node:
    """A node in a control group, with a folder of its own."""

    def __init__(self, rusm, command, settings):
        self.folder = Path(tempfile.mkdtemp())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (self.folder / "public").mkdir()
        (self.folder / "public/small").write_text("small")
        (self.folder / "parked.wat").write_text(PARKED)
        (self.folder / "rusm.toml").write_text(settings.format(port=self.port))
        (self.folder / "sockets").mkdir(mode=0o700)
        is_first = os.path.isdir("/sys/fs/cgroup/pids")
        self.group = Path("/sys/fs/cgroup/pids" if is_first else "/sys/fs/cgroup") / f"rusm-threads-{os.getpid()}"
        self.group.mkdir()
        self.log = self.folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [rusm, command],
                cwd=self.folder,
                env={**os.environ, "RUSM_SOCKET_DIR": str(self.folder / "sockets"), "RUST_BACKTRACE": "0"},
                stdout=log,
                stderr=log,
                preexec_fn=lambda: (self.group / "cgroup.procs").write_text(str(os.getpid())),
            )

    def wait_until_it_runs(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not list((self.folder / "sockets").glob("*.sock")):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        assert list((self.folder / "sockets").glob("*.sock")), self.log.read_text()
        time.sleep(0.5)

    def allow_no_thread(self):
        threads = len(os.listdir(f"/proc/{self.process.pid}/task"))
        (self.group / "pids.max").write_text(str(threads))
        return threads

    def get(self, _):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/small", timeout=20) as response:
                return response.read() == b"small"
        except OSError:
            return False

    def stop(self):
        """Returns the exit code and the time until the end."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.group.rmdir()
        return code, time.monotonic() - began


STORE = "[store]\npath = \"kv.redb\"\n"
CASES = {
    "node": ("node", STORE),
    "run": ("run", STORE + "[[process]]\nmodule = \"parked.wat\"\ncount = 20\n"),
    "serve": (
        "serve",
        "[[serve]]\nlisten = \"127.0.0.1:{port}\"\n[[serve.route]]\npattern = \"GET /*\"\nfolder = \"public\"\n",
    ),
}


def main():
    rusm = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/rusm")
    passed = 0
    for name, (command, settings) in CASES.items():
        node = Node(rusm, command, settings)
        node.wait_until_it_runs()
        threads = node.allow_no_thread()
        answered = None
        if command == "serve":
            with concurrent.futures.ThreadPoolExecutor(50) as clients:
                answered = sum(clients.map(node.get, range(REQUESTS)))
        code, seconds = node.stop()
        log = node.log.read_text()
        is_good = code == 0 and "panicked" not in log and answered in (None, REQUESTS)
        requests = "" if answered is None else f", {answered} of {REQUESTS} requests answered"
        print(f"{name}: {threads} threads{requests}, exit code {code} after {seconds:.1f} s: {'ok' if is_good else 'FAILED'}")
        if not is_good:
            print(log[-2000:])
        passed += is_good
    print(f"{len(CASES)} cases tried, {passed} passed")
    return 0 if passed == len(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
