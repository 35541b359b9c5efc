#!/usr/bin/env python3
"""Attacks a server with 40 kinds of clients at once. Usage: clients.py PROGRAM [SECONDS]

PROGRAM is the built `benches/peers/serving`. Good clients send 200 requests a second, without attack for 5 s, and then
beside it. The run fails if more than 5 % of their requests fail or take over a second, if the server's resident memory
grows by more than 16 MiB, or if it has ended.
"""

import asyncio
import resource
import sys
import time

from serve_clients import kinds
from serve_clients.lib import REQUEST, Server, read_response

GOOD_CLIENTS = 20
GOOD_INTERVAL_S = 0.1
LATE_S = 1.0
RSS_MAX = 16 * 1024 * 1024
LOST_MAX = 0.05
PER_KIND = 2


class Good:
    """Clients that behave well, and what became of their requests."""

    def __init__(self, server):
        self.server, self.latencies, self.lost = server, [], 0

    async def client(self, until):
        connection = None
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                connection = connection or await asyncio.wait_for(self.server.connect(), LATE_S)
                connection[1].write(REQUEST)
                head, _ = await asyncio.wait_for(read_response(connection[0]), LATE_S)
                assert " 200 " in head
                self.latencies.append(time.monotonic() - began)
            except Exception:
                self.lost += 1
                if connection:
                    connection[1].close()
                connection = None
            await asyncio.sleep(max(0.0, GOOD_INTERVAL_S - (time.monotonic() - began)))

    async def run(self, seconds):
        self.latencies, self.lost = [], 0
        until = time.monotonic() + seconds
        await asyncio.gather(*(self.client(until) for _ in range(GOOD_CLIENTS)))
        self.latencies.sort()
        return self.lost / max(1, self.lost + len(self.latencies))

    def p99_ms(self):
        return self.latencies[len(self.latencies) * 99 // 100] * 1000 if self.latencies else float("inf")


async def attack(server, kind, until, counts):
    while time.monotonic() < until:
        try:
            left = until - time.monotonic()
            reader, writer = await server.connect()
            try:
                await asyncio.wait_for(kind(reader, writer), min(left, 15))
            finally:
                writer.transport.abort()
        except Exception:  # a refusal is what a hostile client deserves
            pass
        counts[kind.__name__] = counts.get(kind.__name__, 0) + 1
        await asyncio.sleep(0.02)


async def run(program, seconds):
    server = Server(program)
    good = Good(server)
    lost_before = await good.run(5)
    p99_before, rss_before = good.p99_ms(), server.rss()
    counts, rss_most = {}, [rss_before]

    async def watch(until):
        while time.monotonic() < until:
            rss_most[0] = max(rss_most[0], server.rss())
            await asyncio.sleep(0.2)

    until = time.monotonic() + seconds
    attackers = [
        asyncio.ensure_future(attack(server, kind, until, counts)) for kind in kinds.KINDS for _ in range(PER_KIND)
    ]
    watcher = asyncio.ensure_future(watch(until))
    lost = await good.run(seconds)
    await asyncio.gather(*attackers, watcher)
    grown = rss_most[0] - rss_before
    for name in sorted(counts):
        print(f"  {name}: {counts[name]} times")
    print(f"{len(kinds.KINDS)} kinds, {PER_KIND} clients each, {seconds} s, {server.cpu():.1f} s of CPU")
    print(f"good clients: {lost_before:.2%} lost before, {lost:.2%} beside; p99 {p99_before:.1f} ms, {good.p99_ms():.1f} ms")
    print(f"resident memory: {rss_before / 2**20:.1f} MiB before, at most {grown / 2**20:+.1f} MiB")
    alive = server.process.poll() is None
    server.process.kill()
    return alive and lost <= LOST_MAX and grown <= RSS_MAX


def main():
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    passed = asyncio.run(run(sys.argv[1], seconds))
    print("ok" if passed else "FAILED")
    sys.exit(not passed)


if __name__ == "__main__":
    main()
