#!/usr/bin/env python3
"""Measures what rusm-top costs on each of its views, over a node with a million processes, and in storms.

    benches/peers/observers/views.py [--bin target/release] [--processes 1000000] [--seconds 10] [--parts P,...] [--views V,...]

Parts: rest (a million waiting processes: CPU of the node and of rusm-top, bytes to the terminal), storm (the same under
a storm), keys (first screen, sorting and filtering), many (32 observers). CPU of the node is a difference between
windows without and with the observer, in the order off, on, on, off; the median of --rounds is printed.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from websockets.sync.client import unix_connect

from terminal import Terminal, cpu_ns, end, rss_bytes

ROOT = Path(__file__).resolve().parents[3]
VIEWS = "node bench processes tree events wasm time store topics cpu sched serve cluster".split()
STORMS = {"spawn-storm": {}, "fault-recovery": {}, "ping-pong": {"pairs": "64"}}


class Node:
    def __init__(self, programs, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.top = str(programs / "rusm-top")
        self.variables = {"RUSM_SOCKET_DIR": self.folder.name, "XDG_CONFIG_HOME": self.folder.name}
        self.process = subprocess.Popen(
            [programs / "rusm", "node", "--name", "views", *options],
            env={**os.environ, **self.variables},
            stderr=subprocess.PIPE,
            text=True,
        )
        next(line for line in self.process.stderr if "node is up" in line)
        self.socket = next(Path(self.folder.name).glob("**/*.sock"))

    def run(self, scenario, params, alive=0):
        with unix_connect(str(self.socket), "ws://localhost/", subprotocols=["rusm.v1"], max_size=None) as console:
            console.send(json.dumps({"type": "run", "scenario": scenario, "params": params}))
            until = time.perf_counter() + 120
            while time.perf_counter() < until:
                message = json.loads(console.recv(timeout=10))
                if message["type"] == "error":
                    raise SystemExit(message["message"])
                if message["type"] == "tick" and message["frame"]["scenario"] == scenario:
                    if message["frame"]["observer"]["process_count"] >= alive:
                        return
        raise SystemExit(f"{scenario} has not started")

    def cpu(self):
        return cpu_ns([self.process.pid])

    def watch(self, view, *options):
        return Terminal([self.top, "--tab", view, *options], self.variables)

    def close(self):
        end(self.process)
        self.folder.cleanup()


def has_rows(lines):
    return sum(bool(re.search(r"\w", line)) for line in lines) > 5 and any("live" in line for line in lines[:3])


def window(node, seconds, watcher=None):
    """Returns the CPU of the node and of the observer in per cent of a core, and bytes per second to the terminal."""
    began, used = time.perf_counter(), node.cpu()
    if not watcher:
        time.sleep(seconds)
        return 100 * (node.cpu() - used) / (time.perf_counter() - began) / 1e9, 0, 0
    wrote, own = watcher.bytes, cpu_ns([watcher.process.pid])
    watcher.read(seconds)
    took = time.perf_counter() - began
    return (
        100 * (node.cpu() - used) / took / 1e9,
        100 * (cpu_ns([watcher.process.pid]) - own) / took / 1e9,
        (watcher.bytes - wrote) / took,
    )


def paired(node, view, seconds, rounds, fps="10"):
    """Off, on, on, off: returns medians of the added CPU of the node, CPU of rusm-top, and bytes per second."""
    added, own, wrote = [], [], []
    for _ in range(rounds):
        before = window(node, seconds)[0]
        watcher = node.watch(view, "--fps", fps)
        watcher.read(3)
        shown = [window(node, seconds, watcher) for _ in range(2)]
        watcher.close()
        time.sleep(1)
        after = window(node, seconds)[0]
        added.append(sum(cpu for cpu, _, _ in shown) / 2 - (before + after) / 2)
        own += [cpu for _, cpu, _ in shown]
        wrote += [rate for _, _, rate in shown]
    return statistics.median(added), statistics.median(own), statistics.median(wrote)


def rest(node, views, arguments):
    print("| view | node, added | rusm-top at 10 fps | bytes/s |\n|---|---|---|---|", flush=True)
    for view in views:
        added, own, wrote = paired(node, view, arguments.seconds, arguments.rounds)
        print(f"| {view} | {added:.2f} % | {own:.2f} % | {wrote:,.0f} |", flush=True)


def storm(node, views, arguments):
    for name, params in STORMS.items():
        node.run(name, params)
        time.sleep(3)
        print(f"{name}\n| view | rusm-top at 10 fps | bytes/s, most of {arguments.rounds} |\n|---|---|---|", flush=True)
        for view in views:
            watcher = node.watch(view, "--fps", "10")
            watcher.read(3)
            seen = [window(node, arguments.seconds / 2, watcher) for _ in range(arguments.rounds)]
            watcher.close()
            print(f"| {view} | {statistics.median(s[1] for s in seen):.2f} % | {max(s[2] for s in seen):,.0f} |", flush=True)


def keys(node, views, arguments):
    print("| view | first screen, least of 5 |\n|---|---|", flush=True)
    for view in views:
        times = []
        for _ in range(5):
            watcher = node.watch(view)
            times.append(watcher.until(has_rows, watcher.began, 5))
            watcher.close()
        known = [took for took in times if took is not None]
        print(f"| {view} | {f'{1e3 * min(known):.0f} ms' if known else 'none'} |", flush=True)
    print("| key | rows in their order, least and most of 5 |\n|---|---|", flush=True)
    watcher = node.watch("processes")
    watcher.draw(watcher.read(3))
    for key, what in [(b"M", "sort by memory"), (b"Q", "by mailbox"), (b"C", "by CPU"), (b"A", "by age"), (b"P", "by pid"), (b"N", "by name"), (b"R", "by reductions"), (b"G", "last page"), (b"g", "first page")]:
        times = []
        for _ in range(5):
            if key in b"Gg":
                watcher.press(b"g" if key == b"G" else b"G")
            else:
                watcher.press(b"P" if key != b"P" else b"M")
            watcher.draw(watcher.read(2.5))
            old = rows(watcher.lines())
            pressed = watcher.press(key)
            times.append(watcher.until(lambda lines: rows(lines) != old and len(rows(lines)) > 10, pressed, 6))
        known = [took for took in times if took is not None]
        print(f"| {what} | " + (f"{1e3 * min(known):.0f} to {1e3 * max(known):.0f} ms" if known else "no change") + f" ({len(known)}) |", flush=True)
    watcher.close()


def rows(lines):
    return [found[0] for line in lines if (found := re.search(r"<\d+\.\d+\.\d+>", line))]


def many(node, views, arguments):
    print("| 32 observers | node, added, of a core |\n|---|---|", flush=True)
    for view in views:
        before = window(node, arguments.seconds)[0]
        watchers = [node.watch(view, "--fps", "10") for _ in range(32)]
        for watcher in watchers:
            watcher.read(0.2)
        began, used = time.perf_counter(), node.cpu()
        while time.perf_counter() - began < arguments.seconds:
            for watcher in watchers:
                watcher.read(0.005)
        during = 100 * (node.cpu() - used) / (time.perf_counter() - began) / 1e9
        for watcher in watchers:
            watcher.process.terminate()
        for watcher in watchers:
            watcher.close()
        time.sleep(1)
        after = window(node, arguments.seconds)[0]
        print(f"| {view} | {during - (before + after) / 2:.2f} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "target" / "release")
    parser.add_argument("--processes", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parts", default="rest,keys,many,storm")
    parser.add_argument("--views", default=",".join(VIEWS))
    arguments = parser.parse_args()
    parts = {"rest": rest, "storm": storm, "keys": keys, "many": many}
    node = Node(arguments.bin.resolve())
    try:
        node.run("parked", {"processes": str(arguments.processes), "renew": "no"}, arguments.processes)
        time.sleep(5)
        print(f"{arguments.processes:,} processes, {rss_bytes([node.process.pid]) >> 20} MiB", flush=True)
        for part in arguments.parts.split(","):
            parts[part](node, arguments.views.split(","), arguments)
    finally:
        node.close()


if __name__ == "__main__":
    main()
