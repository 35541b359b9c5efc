"""The 200 requests: each is the bytes that a client sends, and what it does between them."""

from dataclasses import dataclass, field


@dataclass
class Case:
    name: str
    steps: list
    # Method of each request that a response is read for.
    methods: list = field(default_factory=lambda: ["GET"])
    # Sent after the response 100.
    after_continue: bytes = b""
    # The body is random.
    mask_body: bool = False
    # The client closes the connection without reading.
    leaves: bool = False


def request(method="GET", target="/", fields=(), body=b"", version="HTTP/1.1", host=True):
    lines = [f"{method} {target} {version}"] + (["Host: a"] if host else []) + list(fields)
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def one(name, **of):
    return Case(name, [request(**of)], [of.get("method", "GET")])


def echo(name, body, fields=None, method="POST", target="/echo"):
    fields = [f"Content-Length: {len(body)}"] if fields is None else fields
    return Case(name, [request(method, target, fields, body)], [method])


def chunked(body, size, extension="", trailers="", upper=False):
    parts = []
    for start in range(0, len(body), size):
        part = body[start : start + size]
        number = f"{len(part):X}" if upper else f"{len(part):x}"
        parts.append(f"{number}{extension}\r\n".encode() + part + b"\r\n")
    return b"".join(parts) + f"0\r\n{trailers}\r\n".encode()


def pattern(count):
    """Bytes of every value, in an order that a shifted copy does not have."""
    block = bytes(range(256)) * 3 + b"rusm!"
    return (block * (count // len(block) + 1))[:count]


CHUNKED = ["Transfer-Encoding: chunked"]


def methods():
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE", "get", "M-SEARCH", "QUERY"]:
        yield one(f"method {method}", method=method)
    for target in ["/trailers", "/stream", "/headers", "/status/404"]:
        yield one(f"HEAD {target}", method="HEAD", target=target)
    for method in ["PUT", "PATCH", "DELETE", "GET", "OPTIONS"]:
        yield echo(f"{method} with a body", b"some body", method=method)
    yield echo("HEAD with a body", b"some body", method="HEAD")


def targets():
    for target in [
        "/?", "/?a=b&c=d", "/a%20b", "/%C3%A9", "//", "//a", "/a//b", "/a/./b", "/a/../b", "/..", "/%2e%2e/b", "/a;b=c", "/a+b", "/~a",
        "/a?b?c", "/a%zz", "/a%", "/a\\b", "/a|b", "/a^b", "/a{b}", "/a\"b", "/a<b", "/a#b", "/\xe9", "/" + "a" * 4000, "/?" + "q=1&" * 1000,
    ]:
        shown = target if len(target) < 20 else f"{target[:4]}… of {len(target)} bytes"
        yield one(f"target {shown}", target=target)
    yield one("target in absolute form", target="http://a/b?c")
    yield one("target in absolute form without a path", target="http://a")
    yield one("target *", method="OPTIONS", target="*")
    yield one("target without a slash", target="a")


def statuses():
    for status in [200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 410, 411, 415, 418]:
        yield one(f"status {status}", target=f"/status/{status}")
    for status in [422, 425, 428, 429, 431, 451, 500, 501, 502, 503, 504, 511, 599, 600, 999]:
        yield one(f"status {status}", target=f"/status/{status}")
    for status in [200, 204, 304, 404]:
        yield one(f"HEAD status {status}", method="HEAD", target=f"/status/{status}")


def bodies():
    for count in [0, 1, 2, 100, 1023, 1024, 4095, 4096, 8192, 16384, 65535, 65536, 65537, 1 << 20, 16 << 20]:
        yield echo(f"a body of {count} bytes", pattern(count))
    for count, size in [(0, 1), (1, 1), (100, 7), (4096, 1024), (65536, 4096), (100000, 65536), (1 << 20, 9999), (16 << 20, 1 << 16)]:
        yield echo(f"a chunked body of {count} bytes by {size}", chunked(pattern(count), size), CHUNKED)
    yield echo("chunks with extensions", chunked(pattern(100), 10, extension=";a=b;c"), CHUNKED)
    yield echo("chunk sizes in capitals", chunked(pattern(200), 171, upper=True), CHUNKED)
    yield echo("chunk sizes with zeros", b"0005\r\nhello\r\n000\r\n\r\n", CHUNKED)
    yield echo("trailers of a request", chunked(pattern(100), 10, trailers="X-Sum: 1\r\n"), ["Trailer: X-Sum", *CHUNKED])
    yield echo("Transfer-Encoding in capitals", chunked(b"hello", 5), ["TRANSFER-ENCODING: Chunked"])
    yield echo("a body without a length", b"", [])
    yield Case("a body in pieces", [request("POST", "/echo", ["Content-Length: 10"]), 0.05, b"01234", 0.05, b"56789"], ["POST"])
    head = request("POST", "/echo", CHUNKED)
    yield Case("chunks in pieces", [head, 0.02, b"5\r", 0.02, b"\nhel", 0.02, b"lo\r\n", 0.02, b"0\r\n", 0.02, b"\r\n"], ["POST"])
    yield Case("a head in pieces", [b"GE", 0.02, b"T / HTT", 0.02, b"P/1.1\r\nHo", 0.02, b"st: a\r", 0.02, b"\n\r\n"])
    yield echo("a body that nobody reads", pattern(1000), target="/")
    yield echo("a long body that nobody reads", pattern(1 << 20), target="/")


def fields():
    listed = "/headers"
    for name, lines in {
        "no fields": [],
        "odd case": ["x-ODD-cAsE: VaLuE"],
        "an empty value": ["X-Empty:"],
        "spaces around a value": ["X-Space:   a b   "],
        "a tab in a value": ["X-Tab: a\tb"],
        "no space before a value": ["X-Tight:a"],
        "the same field twice": ["X-Twice: a", "X-Twice: b"],
        "the same field in two cases": ["X-Twice: a", "x-twice: b"],
        "bytes beyond ASCII": ["X-Latin: \xe9\xff"],
        "cookies": ["Cookie: a=b", "Cookie: c=d"],
        "a name of all characters": ["a!#$%&'*+-.^_`|~9: b"],
        "a value of 8,000 bytes": ["X-Long: " + "v" * 8000],
        "a name of 500 bytes": ["X-" + "n" * 498 + ": v"],
        "50 fields": [f"X-{number}: {number}" for number in range(50)],
        "98 fields": [f"X-{number}: {number}" for number in range(98)],
        "content fields": ["Content-Type: text/plain", "Content-Encoding: gzip", "Content-Language: en"],
        "conditions": ["If-None-Match: \"a\"", "If-Modified-Since: Thu, 26 Nov 2026 00:00:00 GMT", "Range: bytes=0-1"],
        "proxy fields": ["X-Forwarded-For: 10.0.0.1", "Forwarded: for=10.0.0.1", "Via: 1.1 a"],
        "authorization": ["Authorization: Basic YTpi"],
        "accept": ["Accept: */*", "Accept-Encoding: gzip, br", "Accept-Language: de"],
        "traceparent": ["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
        "Keep-Alive": ["Connection: keep-alive", "Keep-Alive: timeout=5"],
        "TE": ["TE: trailers", "Connection: TE"],
        "Upgrade": ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="],
        "Upgrade to h2c": ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"],
        "Proxy-Connection": ["Proxy-Connection: keep-alive"],
        "a host with a port": ["X-Other: host"],
    }.items():
        yield one(f"fields: {name}", target=listed, fields=lines)


def connections():
    get = request()
    yield one("Connection: close", fields=["Connection: close"])
    yield one("Connection: CLOSE", fields=["Connection: CLOSE"])
    yield one("HTTP/1.0", version="HTTP/1.0")
    yield one("HTTP/1.0 without a host", version="HTTP/1.0", host=False)
    yield one("HTTP/1.0 that stays", version="HTTP/1.0", fields=["Connection: keep-alive"])
    yield one("HTTP/1.0 and a stream", version="HTTP/1.0", target="/stream")
    yield one("HTTP/1.0 and trailers", version="HTTP/1.0", target="/trailers")
    yield Case("two requests at once", [get * 2], ["GET"] * 2)
    yield Case("ten requests at once", [get * 10], ["GET"] * 10)
    yield Case("two requests, one after the other", [get, 0.05, get], ["GET"] * 2)
    several = request(target="/a") + request("HEAD", "/b") + request("POST", "/echo", ["Content-Length: 3"], b"abc") + request(target="/status/204")
    yield Case("different requests at once", [several], ["GET", "HEAD", "POST", "GET"])
    echoes = request("POST", "/echo", CHUNKED, chunked(b"hello", 2)) + request("POST", "/echo", ["Content-Length: 0"]) + get
    yield Case("bodies and then a request", [echoes], ["POST", "POST", "GET"])
    yield Case("the last of three closes", [get * 2 + request(fields=["Connection: close"])], ["GET"] * 3)
    yield Case("requests after the last", [request(fields=["Connection: close"]) + get])
    yield Case("an empty line before a request", [b"\r\n" + get])
    yield Case("this side is closed after the request", [get, "shut"])


def continues():
    expect = ["Content-Length: 5", "Expect: 100-continue"]
    yield Case("100-continue", [request("POST", "/echo", expect)], ["POST"], after_continue=b"hello")
    yield Case("100-continue in capitals", [request("POST", "/echo", ["Content-Length: 5", "Expect: 100-Continue"])], ["POST"], after_continue=b"hello")
    yield Case("100-continue and the body at once", [request("POST", "/echo", expect, b"hello")], ["POST"])
    yield Case("100-continue without a reader", [request("POST", "/", expect), 0.1, b"hello"], ["POST"])
    yield Case("100-continue with chunks", [request("POST", "/echo", [*CHUNKED, "Expect: 100-continue"])], ["POST"], after_continue=chunked(b"hello", 5))
    yield one("100-continue without a body", fields=["Expect: 100-continue"])


def responses():
    yield one("a stream", target="/stream")
    yield one("trailers", target="/trailers", fields=["TE: trailers"])
    yield one("trailers that nobody asked for", target="/trailers")
    yield one("a trap", target="/trap")
    yield one("a trap in the body", target="/trap-late")
    yield one("an error instead of a response", target="/refuse")
    yield one("work after the response", target="/after")
    yield Case("a random number", [request(target="/random")], mask_body=True)
    yield Case("a trap, and this side is closed", [request(target="/trap"), "shut"])


def aborted():
    yield Case("leaves in the head", [b"GET / HTTP/1.1\r\nHo"], leaves=True)
    yield Case("leaves in the body", [request("POST", "/echo", ["Content-Length: 100"], b"half")], leaves=True)
    yield Case("leaves in a chunk", [request("POST", "/echo", CHUNKED, b"ff\r\nhalf")], leaves=True)
    yield Case("leaves before the response", [request(target="/pause")], leaves=True)
    yield Case("leaves a stream", [request(target="/stream"), 0.03], leaves=True)
    yield Case("the body ends early", [request("POST", "/echo", ["Content-Length: 100"], b"half"), 0.05, "shut"], ["POST"])
    yield Case("a chunk ends early", [request("POST", "/echo", CHUNKED, b"ff\r\nhalf"), 0.05, "shut"], ["POST"])


def refused():
    for name, bytes_ in {
        "no version": b"GET /\r\n\r\n",
        "version 2.0": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        "version 1.2": b"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        "a method with a space": b"G ET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "a method with a bracket": b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "a field without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nX-No\r\n\r\n",
        "a space before the colon": b"GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n",
        "a folded field": b"GET /headers HTTP/1.1\r\nHost: a\r\nX-A: b\r\n c\r\n\r\n",
        "a zero byte in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n",
        "ends of lines without CR": b"GET /headers HTTP/1.1\nHost: a\nX-A: b\n\n",
        "no host": b"GET / HTTP/1.1\r\n\r\n",
        "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "a negative length": request("POST", "/echo", ["Content-Length: -1"]),
        "a length that is no number": request("POST", "/echo", ["Content-Length: abc"]),
        "a length with a sign": request("POST", "/echo", ["Content-Length: +5"], b"hello"),
        "two lengths": request("POST", "/echo", ["Content-Length: 5", "Content-Length: 6"], b"hello!"),
        "the same length twice": request("POST", "/echo", ["Content-Length: 5", "Content-Length: 5"], b"hello"),
        "length and chunks": request("POST", "/echo", ["Content-Length: 5", *CHUNKED], chunked(b"hello", 5)),
        "an unknown coding": request("POST", "/echo", ["Transfer-Encoding: gzip"], b"hello"),
        "chunked is not the last coding": request("POST", "/echo", ["Transfer-Encoding: chunked, gzip"], chunked(b"hello", 5)),
        "a chunk size that is no number": request("POST", "/echo", CHUNKED, b"xyz\r\nhello\r\n0\r\n\r\n"),
        "a chunk longer than its size": request("POST", "/echo", CHUNKED, b"3\r\nhello\r\n0\r\n\r\n"),
        "a chunk size of 17 digits": request("POST", "/echo", CHUNKED, b"11111111111111111\r\nhello\r\n0\r\n\r\n"),
        "a length of 30 digits": request("POST", "/echo", ["Content-Length: " + "9" * 30]),
        "chunks in HTTP/1.0": request("POST", "/echo", CHUNKED, chunked(b"hello", 5), version="HTTP/1.0"),
        "TLS on a plain port": bytes([22, 3, 1, 0, 5, 1, 0, 0, 1, 0]),
    }.items():
        yield Case(f"refused: {name}", [bytes_], ["POST" if bytes_.startswith(b"POST") else "GET"])


def cases():
    for group in [methods, targets, statuses, bodies, fields, connections, continues, responses, aborted, refused]:
        yield from group()
