"""The kinds of hostile clients: each is a function of a fresh connection."""

import asyncio
import os
import socket
import struct

from serve_clients.lib import H2_FIELDS, H2_START, REQUEST, UPGRADE, frame, h2_frame, read_head

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /upload HTTP/1.1\r\nHost: a\r\n"


def sends(name, data):
    """Returns a kind that sends bytes, and waits for the answer and the end."""

    async def kind(reader, writer):
        writer.write(data)
        await writer.drain()
        await reader.read()

    kind.__name__ = name
    return kind


def floods(name, start, part, pause=0.0):
    """Returns a kind that sends a part again and again, without reading."""

    async def kind(_reader, writer):
        writer.write(start)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)

    kind.__name__ = name
    return kind


def in_socket(name, data, reads=True):
    """Returns a kind that upgrades to a WebSocket, and then sends bytes."""

    async def kind(reader, writer):
        writer.write(UPGRADE)
        await read_head(reader)
        writer.write(data)
        await writer.drain()
        await (reader.read() if reads else asyncio.sleep(15))

    kind.__name__ = name
    return kind


def socket_flood(name, part, first=b""):
    async def kind(reader, writer):
        writer.write(UPGRADE)
        await read_head(reader)
        writer.write(first)
        while True:
            writer.write(part)
            await writer.drain()

    kind.__name__ = name
    return kind


async def resets_the_connection(_reader, writer):
    writer.write(REQUEST)
    await writer.drain()
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def closes_at_once(_reader, _writer):
    return


async def closes_its_half(reader, writer):
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    writer.write_eof()
    await reader.read()


async def says_nothing(reader, _writer):
    await reader.read()


async def leaves_during_a_request(_reader, writer):
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    await writer.drain()
    await asyncio.sleep(0.01)


async def random_bytes(reader, writer):
    writer.write(os.urandom(4096) + b"\r\n\r\n")
    await writer.drain()
    await reader.read()


async def h2_window_that_stays_closed(reader, writer):
    writer.write(H2_START + h2_frame(4, 0, 0, b"\0\4\0\0\0\0"))
    writer.write(b"".join(h2_frame(1, 5, stream, H2_FIELDS) for stream in range(1, 200, 2)))
    await writer.drain()
    await asyncio.sleep(15)


async def h2_rapid_reset(_reader, writer):
    writer.write(H2_START)
    for stream in range(1, 200_000, 2):
        writer.write(h2_frame(1, 5, stream, H2_FIELDS) + h2_frame(3, 0, stream, b"\0\0\0\x08"))
        await writer.drain()


LONG = b"x" * 4000

KINDS = [
    floods("slow_head", b"GET / HTTP/1.1\r\n", b"a", 0.5),
    floods("slow_body", POST + b"Content-Length: 100000\r\n\r\n", b"a", 0.5),
    floods("requests_whose_answers_are_not_read", b"", REQUEST * 50),
    floods("head_without_end", HEAD, b"X: " + LONG + b"\r\n"),
    floods("field_without_end", HEAD + b"X: ", LONG),
    floods("target_without_end", b"GET /", LONG),
    floods("chunk_extension_without_end", POST + b"Transfer-Encoding: chunked\r\n\r\n1;", LONG),
    floods("body_beyond_the_limit", POST + b"Transfer-Encoding: chunked\r\n\r\n", b"fa0\r\n" + LONG + b"\r\n"),
    floods("empty_lines", b"", b"\r\n" * 1000),
    sends("many_fields", HEAD + b"A: b\r\n" * 5000 + b"\r\n"),
    sends("long_body_announced", POST + b"Content-Length: 1099511627776\r\n\r\n"),
    sends("negative_length", POST + b"Content-Length: -1\r\n\r\n"),
    sends("two_lengths", POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    sends("length_and_chunks", POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x"),
    sends("chunk_size_overflow", POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"),
    sends("expects_100_and_sends_nothing", POST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"),
    sends("bare_line_feeds", b"GET / HTTP/1.1\nHost: a\nX: a\rb\n\n"),
    sends("nul_in_a_field", HEAD + b"X: a\0b\r\n\r\n"),
    sends("space_before_the_colon", HEAD + b"X : a\r\n\r\n"),
    sends("http_0_9", b"GET /\r\n"),
    sends("unknown_method", b"\x7f\x80 / HTTP/1.1\r\n\r\n"),
    sends("tls_on_a_plain_port", bytes([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]) + b"\0" * 500),
    sends("traversal", b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n"),
    sends("h2_garbage", H2_START + os.urandom(2000)),
    floods("h2_settings", H2_START, h2_frame(4, 0, 0) * 100),
    floods("h2_pings", H2_START, h2_frame(6, 0, 0, b"12345678") * 100),
    floods("h2_continuations", H2_START + h2_frame(1, 1, 1, H2_FIELDS), h2_frame(9, 0, 1, b"\0\1a\x7f\x40" + b"b" * 191)),
    floods("h2_empty_data", H2_START + h2_frame(1, 4, 1, H2_FIELDS), h2_frame(0, 0, 1) * 100),
    h2_rapid_reset,
    h2_window_that_stays_closed,
    in_socket("ws_without_mask", frame(1, b"a", masked=False)),
    in_socket("ws_reserved_opcode", frame(3, b"a")),
    in_socket("ws_long_frame_announced", bytes([0x82, 0xFF]) + (1 << 40).to_bytes(8, "big") + b"\0" * 4),
    in_socket("ws_that_is_not_read", frame(2, b"x" * 60_000) * 200, reads=False),
    socket_flood("ws_fragments_without_end", frame(0, b"b" * 1000, final=False) * 100, frame(1, b"a", final=False)),
    socket_flood("ws_pings_without_reading", frame(9, b"p" * 125) * 100),
    floods("events_that_are_not_read", b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n", b"", 1),
    resets_the_connection,
    closes_at_once,
    closes_its_half,
    says_nothing,
    leaves_during_a_request,
    random_bytes,
]
