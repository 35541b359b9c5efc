#!/usr/bin/env python3
"""Measures rusm-top for the README: time to the first screen, response time to a key, CPU time and memory.

    benches/peers/screen.py [--starts 10] [--seconds 20] [--bin target/release]

Starts its own node, and rusm-top in a pseudo-terminal of 140x45. The time to the first screen runs from the start of
the program to the first output with live figures. The response time to a key runs from the key press, during a pause of
the output, to the first byte of the new screen. Both are measured on an idle node and during a spawn storm. Then, with
a million parked processes: resident memory of the node per process, and CPU time of rusm-top in the Processes view
during --seconds.
"""

import argparse
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
MILLION = 1_000_000


class Top:
    """rusm-top in a terminal."""

    def __init__(self, program, folder, view):
        self.terminal, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 140, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "RUSM_SOCKET_DIR": folder}
        environment.pop("SSH_CONNECTION", None)
        self.began = time.perf_counter()
        arguments = [program, "screen", "--tab", view]
        self.process = subprocess.Popen(
            arguments, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, env=environment
        )
        os.close(inner)

    def has_output(self, seconds):
        return bool(select.select([self.terminal], [], [], seconds)[0])

    def drain(self, seconds):
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            if self.has_output(0.01):
                try:
                    os.read(self.terminal, 65536)
                except OSError:  # The program has exited.
                    return

    def shows(self, text):
        """Returns the seconds from its start until it has shown this text."""
        seen = b""
        while text not in seen:
            if not self.has_output(10):
                raise SystemExit(f"rusm-top shows nothing: {seen[-300:]!r}")
            seen += os.read(self.terminal, 65536)
        return time.perf_counter() - self.began

    def answers(self, key):
        """Presses a key; returns the seconds until the first byte of output."""
        while self.has_output(0.002):
            os.read(self.terminal, 65536)
        pressed = time.perf_counter()
        os.write(self.terminal, key)
        if not self.has_output(10):
            raise SystemExit("rusm-top does not answer")
        return time.perf_counter() - pressed

    def close(self):
        os.write(self.terminal, b"q")
        self.drain(0.2)
        self.process.wait(timeout=10)
        os.close(self.terminal)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--bin", type=Path, default=ROOT / "target" / "release")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments.bin.resolve(), folder, arguments.starts, arguments.seconds)


def measure(programs, folder, starts, seconds):
    top = str(programs / "rusm-top")
    node = subprocess.Popen(
        [programs / "rusm", "node", "--name", "screen"],
        env={**os.environ, "RUSM_SOCKET_DIR": folder},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        next(line for line in node.stderr if "node is up" in line)
        time.sleep(2)
        print(f"idle node, no client attached: {cpu_pct(node.pid, seconds):.2f} % of a core", flush=True)
        screens("idle node", top, folder, starts)
        once(top, folder, "spawn-storm")
        screens("spawn storm", top, folder, starts)
        once(top, folder, "parked")
        until = time.perf_counter() + 60
        while alive(top, folder) < MILLION:
            if time.perf_counter() > until:
                raise SystemExit("fewer than a million processes after a minute")
        print(f"a million parked: {rss(node.pid) / MILLION:.0f} bytes of RSS each, including the memory of the node itself", flush=True)
        watcher = Top(top, folder, "processes")
        watcher.shows(b"waiting")
        watcher.drain(2)
        used = cpu_pct(watcher.process.pid, seconds, watcher)
        print(f"rusm-top on a million at 140x45: {used:.2f} % of a core", flush=True)
        watcher.close()
    finally:
        node.terminate()
        node.communicate()


def screens(what, top, folder, starts):
    first, keys = [], []
    for _ in range(starts):
        watcher = Top(top, folder, "node")
        first.append(watcher.shows(b"live"))
        for key in [b"3", b"4", b"5", b"1"] * 3:
            # Vary the wait, so that keys are pressed at different times between two frames.
            watcher.drain(0.15 + 0.013 * len(keys) % 0.1)
            keys.append(watcher.answers(key))
        watcher.close()
    for name, times in [("first screen", first), ("a key", keys)]:
        median, most = statistics.median(times) * 1e3, max(times) * 1e3
        print(f"{what}, {name}: median {median:.1f} ms, maximum {most:.1f} ms of {len(times)}", flush=True)


def once(top, folder, scenario):
    """Runs a scenario on the node."""
    command = [top, "screen", "--once", "--run", scenario]
    subprocess.run(command, env={**os.environ, "RUSM_SOCKET_DIR": folder}, check=True, stdout=subprocess.DEVNULL)


def alive(top, folder):
    command = [top, "screen", "--once", "--json"]
    seen = subprocess.run(command, env={**os.environ, "RUSM_SOCKET_DIR": folder}, check=True, capture_output=True)
    return json.loads(seen.stdout)["frame"]["observer"]["process_count"]


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def cpu_pct(pid, seconds, watcher=None):
    before, began = cpu_ticks(pid), time.perf_counter()
    if watcher:
        watcher.drain(seconds)
    else:
        time.sleep(seconds)
    return 100 * (cpu_ticks(pid) - before) / TICKS / (time.perf_counter() - began)


def rss(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


if __name__ == "__main__":
    main()
