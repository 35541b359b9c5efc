#!/usr/bin/env python3
"""Measures rusm-top and other observers, each over a node of its own kind with the same number of processes.

    benches/peers/observers/run.py [--only rusm-top,...] [--sizes 1000,...] [--rounds 3] [--starts 5] [--seconds 20]

The README beside this file says how each program is had, and in which variable its place is told. Printed as tables:
the time from the start of the observer until its screen has rows, the time from a key that changes the order until
the rows have changed, bytes per second to the terminal, CPU of the observer, and what the observer adds to the CPU of
the node (the difference between windows without and with it, in the order off, on, on, off).
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from terminal import Terminal, cpu_ns, end, family, rss_bytes

HERE = Path(__file__).resolve().parent
NODES = Path(os.environ.get("OBSERVERS_NODES", HERE / "target" / "release"))
ERLANG = os.environ.get("OBSERVERS_ERLANG", "")
PYTHON = os.environ.get("OBSERVERS_PYTHON", "python3")
PORT = "39217"
READY = 180


def beam(*arguments):
    paths = [str(path) for path in Path(ERLANG).glob("*/ebin")]
    return ["erl", "-setcookie", "observers", "-hidden", "-pa", *paths, *arguments]


class Rival:
    """A kind of node and its observer. `rows` matches a row, its group the process; `order` is a key that sorts anew."""

    limit = 1_000_000
    least = 20
    opening = ()
    typed = b""
    order = b""
    title = ""

    def __init__(self, folder):
        self.folder = folder
        self.variables = {name: folder for name in ["HOME", "RUSM_SOCKET_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"]}
        self.variables["ERL_CRASH_DUMP_SECONDS"] = "0"

    def start(self, count):
        """Returns the seconds until the node has its processes, or None if that takes too long."""
        began = time.perf_counter()
        self.process = subprocess.Popen(
            self.node(count),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **self.variables},
            start_new_session=True,
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        said = ""
        while time.perf_counter() - began < READY:
            said += (self.process.stdout.read() or b"").decode()
            if "ready" in said and said.endswith("\n"):
                self.said = said
                self.pids = family(self.process.pid)
                return time.perf_counter() - began
            if self.process.poll() is not None:
                return None
            time.sleep(0.05)
        return None

    def stop(self):
        for pid in family(self.process.pid)[1:]:
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        end(self.process)

    def watch(self):
        return Terminal(self.observer(), self.variables, self.typed)

    def matched(self, lines):
        return [found[1] for line in lines if (found := re.search(self.rows, line))]

    def has_rows(self, lines):
        return len(self.matched(lines)) >= self.least


class Ours(Rival):
    name = "rusm-top"
    rows = r"(<\d+\.\d+\.\d+>)"
    order = b"i"

    def node(self, count):
        return [NODES / "processes", str(count), "observed"]

    def observer(self):
        program = os.environ.get("OBSERVERS_RUSM_TOP", "rusm-top")
        return [program, "--tab", "processes", "--sort", "pid"]


class ObserverCli(Rival):
    name = "observer_cli"
    rows = r"(<\d+\.\d+\.\d+>)"
    order = b"r\n"
    title = "proc_count(reductions"  # The echo of the key moves the rows already.
    host = f"observed{os.getpid()}@127.0.0.1"
    typed = f"observer_cli:start('{host}', observers).\n".encode()

    def node(self, count):
        return beam("+P", "2000000", "-noshell", "-name", self.host, "-run", "node", "main", str(count))

    def observer(self):
        return beam("-name", f"observer{os.getpid()}@127.0.0.1")


class TokioConsole(Rival):
    """Its subscriber takes about 27 KiB a task, so that a million do not fit here."""

    name = "tokio-console"
    limit = 100_000
    rows = r"(\d+)\s+\S+\s+(?:waiting|ticking)\b"
    order = b"i"

    def node(self, count):
        return [NODES / "tasks", str(count)]

    def observer(self):
        return [os.environ.get("OBSERVERS_TOKIO_CONSOLE", "tokio-console")]


class KameoConsole(Rival):
    name = "kameo-console"
    rows = r"(\d+)\b.*(?:Waiting|Ticking)"
    order = b"i"

    def node(self, count):
        return [NODES / "actors", str(count), PORT]

    def observer(self):
        return [os.environ.get("OBSERVERS_KAMEO_CONSOLE", "kameo-console"), f"127.0.0.1:{PORT}"]


class MonarchTui(Rival):
    """The tree is closed at first: the actors of the one process show after it was opened, twice."""

    name = "monarch-tui"
    limit = 10_000
    rows = r"(\d+ procs\)|waiting_\d+)"
    least = 1
    opening = b"\t", b"\t"

    def node(self, count):
        return [PYTHON, HERE / "mesh.py", str(count)]

    def observer(self):
        url = re.search(r"http\S+", self.said)[0]
        return [shutil.which("monarch-tui", path=f"{Path(PYTHON).parent}:{os.environ['PATH']}"), "--addr", url]


RIVALS = [Ours, ObserverCli, TokioConsole, KameoConsole, MonarchTui]


def cpu_pct(used_ns, seconds):
    return 100 * used_ns / 1e9 / seconds


def window(rival, seconds, watcher=None):
    """Returns per cent of a core of the node and of the observer, and bytes per second."""
    began, node = time.perf_counter(), cpu_ns(rival.pids)
    if not watcher:
        time.sleep(seconds)
        return cpu_pct(cpu_ns(rival.pids) - node, time.perf_counter() - began), 0, 0
    pids, wrote = family(watcher.process.pid), watcher.bytes
    own = cpu_ns(pids)
    watcher.read(seconds)
    took = time.perf_counter() - began
    return cpu_pct(cpu_ns(rival.pids) - node, took), cpu_pct(cpu_ns(pids) - own, took), (watcher.bytes - wrote) / took


def opened(rival, limit=60):
    """Starts the observer; returns it and the seconds until it showed rows."""
    watcher = rival.watch()
    first = watcher.until(rival.has_rows, watcher.began, limit)
    return watcher, first


def answer(rival, watcher):
    """Presses the key that orders the rows anew, or those that open a closed tree; returns how long the last one took."""
    for key in rival.opening[:-1]:
        watcher.press(key)
        watcher.draw(watcher.read(3))
    old = rival.matched(watcher.lines())
    pressed = watcher.press(rival.opening[-1] if rival.opening else rival.order)

    def is_new(lines):
        new = rival.matched(lines)
        return new != old and len(new) >= 20 and any(rival.title in line for line in lines)

    return watcher.until(is_new, pressed, 20)


def measure(rival, arguments):
    firsts, answers, added, own, wrote, memory = [], [], [], [], [], []
    for _ in range(arguments.starts):
        watcher, first = opened(rival)
        firsts.append(first)
        if os.environ.get("OBSERVERS_SHOW"):
            watcher.draw(watcher.read(3))
            print("\n".join(watcher.lines()))
        if first is not None:
            watcher.draw(watcher.read(2))
            answers.append(answer(rival, watcher))
        watcher.close()
        if first is None:
            return firsts, answers, added, own, wrote, memory
    for _ in range(arguments.rounds):
        before = window(rival, arguments.seconds / 2)[0]
        watcher, _ = opened(rival)
        if rival.opening:
            answer(rival, watcher)
        watcher.draw(watcher.read(3))
        seen = [window(rival, arguments.seconds / 2, watcher) for _ in range(2)]
        memory.append(rss_bytes(family(watcher.process.pid)))
        if os.environ.get("OBSERVERS_SHOW"):
            watcher.draw(watcher.read(1))
            print("\n".join(watcher.lines()))
        watcher.close()
        time.sleep(1)
        after = window(rival, arguments.seconds / 2)[0]
        added.append((seen[0][0] + seen[1][0] - before - after) / 2)
        own += [cpu for _, cpu, _ in seen]
        wrote += [rate for _, _, rate in seen]
    return firsts, answers, added, own, wrote, memory


def text(numbers, form, choose=statistics.median):
    known = [number for number in numbers if number is not None]
    return form(choose(known)) if known else "–"


def time_text(seconds):
    return f"{seconds * 1e3:,.0f} ms" if seconds < 10 else f"{seconds:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(rival.name for rival in RIVALS))
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    print("| processes | observer | first rows | order changed by a key | bytes/s | CPU of the observer | CPU added to the node | its memory | memory of the node |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for size in map(int, arguments.sizes.split(",")):
        for kind in RIVALS:
            if kind.name in chosen:
                one(kind, size, arguments)


def one(kind, size, arguments):
    with tempfile.TemporaryDirectory() as folder:
        rival = kind(folder)
        if size > rival.limit:
            print(f"| {size:,} | {rival.name} | – | – | – | – | – | – | not tried |", flush=True)
            return
        started = rival.start(size)
        try:
            if started is None:
                print(f"| {size:,} | {rival.name} | – | – | – | – | – | – | not started in {READY} s |", flush=True)
                return
            time.sleep(3)
            firsts, answers, added, own, wrote, memory = measure(rival, arguments)
            cells = [
                f"{size:,}",
                rival.name,
                text(firsts, time_text, min),
                text(answers, time_text, min),
                text(wrote, lambda rate: f"{rate:,.0f}"),
                text(own, lambda cpu: f"{cpu:.2f} %"),
                text(added, lambda cpu: f"{cpu:.2f} %"),
                text(memory, lambda size: f"{size / 2**20:,.0f} MiB"),
                f"{rss_bytes(family(rival.process.pid)) / 2**20:,.0f} MiB",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)
        finally:
            rival.stop()


if __name__ == "__main__":
    main()
