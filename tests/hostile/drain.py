#!/usr/bin/env python3
"""Ends servers by SIGTERM while clients of all kinds are connected. Usage: drain.py PROGRAM [ROUNDS] [EACH]

PROGRAM is the built `benches/peers/serving`, or `rusm`, which serves guests. In each round, EACH (1,000) connections of HTTP, as many streams of events
and as many WebSockets are open. Half of the connections of HTTP send requests all the time. A round fails if a request
or stream is cut, a WebSocket gets another close code than 1001, or the server ends later than its drain and 0.5 s.
"""

import asyncio
import resource
import signal
import socket
import sys
import time
import traceback

from serve_clients.lib import REQUEST, UPGRADE, Server, frame, read_frame, read_head, read_response

# A state of TCP: the other side has closed the connection.
CLOSE_WAIT = 8
DRAIN_S = 4.0
LATE_S = 0.5
SLOW = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
EVENTS = b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n"


async def busy(server, reader, writer):
    """Sends requests until a response announces the end. Each one must be answered."""
    connection = writer.get_extra_info("socket")
    while True:
        # The server may close a connection between two requests.
        if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == CLOSE_WAIT:
            return
        writer.write(server.path(SLOW))
        head, _ = await read_response(reader)
        if "connection: close" in head:
            return


async def idle(_server, reader, _writer):
    rest = await reader.read(1)
    assert rest == b"", rest


async def events(_server, reader, _writer):
    last = b""
    while chunk := await reader.read(4096):
        last = (last + chunk)[-5:]
    assert last == b"0\r\n\r\n", f"a stream was cut after {last}"


async def web_socket(_server, reader, writer):
    while (received := await read_frame(reader)) == (1, b"tick"):
        pass  # A guest says this when it has waited for a second.
    opcode, payload = received
    assert (opcode, payload[:2]) == (8, b"\x03\xe9"), (opcode, payload)
    writer.write(frame(8, payload[:2]))
    assert await reader.read(1) == b"", "bytes after the close frame"


async def opened(server, start):
    reader, writer = await server.connect()
    writer.write(server.path(start))
    if start is UPGRADE:
        assert " 101 " in await read_head(reader)
        writer.write(frame(1, b"hello"))
        assert await read_frame(reader) == (1, b"hello")
    elif start is EVENTS:
        assert " 200 " in await read_head(reader)
    else:
        await read_response(reader)
    return reader, writer


async def play(kind, server, client, faults):
    try:
        await kind(server, *client)
    except Exception as fault:
        line = traceback.extract_tb(fault.__traceback__)[1].lineno
        faults.append(f"{kind.__name__}, line {line}: {type(fault).__name__} {fault}")
    client[1].close()


async def one_round(program, each):
    server = Server(program)
    plan = [(busy, REQUEST)] * (each // 2) + [(idle, REQUEST)] * (each - each // 2)
    plan += [(events, EVENTS)] * each + [(web_socket, UPGRADE)] * each
    faults, clients = [], []
    for start in range(0, len(plan), 200):
        clients += await asyncio.gather(*(opened(server, first) for _, first in plan[start : start + 200]))
    players = [asyncio.ensure_future(play(kind, server, client, faults)) for (kind, _), client in zip(plan, clients)]
    await asyncio.sleep(0.3)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(server.process.wait)
    took = time.monotonic() - began
    await asyncio.wait_for(asyncio.gather(*players), 60)
    if code != 0:
        faults.append(f"exit code {code}\n{server.said()[-2000:]}")
    if took > DRAIN_S + LATE_S:
        faults.append(f"ended after {took:.2f} s")
    return took, faults


def main():
    program = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    each = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    passed, slowest = 0, 0.0
    for number in range(1, rounds + 1):
        took, faults = asyncio.run(one_round(program, each))
        slowest = max(slowest, took)
        passed += not faults
        for fault in sorted(set(faults)):
            print(f"  round {number}: {fault} ({faults.count(fault)} times)", flush=True)
    print(f"{passed} of {rounds} rounds passed, {3 * each} clients each, slowest end {slowest:.2f} s")
    sys.exit(passed != rounds)


if __name__ == "__main__":
    main()
