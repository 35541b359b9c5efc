"""Differences by design: the case, its reason, and how each part of rusm's answer begins.

The answers of wasmtime in `RACES` depend on which of its tasks is faster, so they may be equal.
"""

ROUTE = "a pattern of a route begins with a slash, so that no route has this target"
HOST = "a request of HTTP/1.0 may have no host (RFC 9112, section 3.2); wasmtime answers 500"
ONE_HOST = "a request without exactly one host gets 400 (RFC 9112, section 3.2)"
CONTINUE = "100 is sent when the guest reads the body; wasmtime may begin the response before, and then sends no 100"
UNREAD = "the client may still send the body that nobody has read, so the connection is closed"
ERROR = "the text of an error is the server's own"
CUT = "a response that is not whole is cut; wasmtime ends it as if it were whole"
BAD_BODY = "a body that is not valid gets 400, or its response is cut; wasmtime ends the response as if it were whole"
EARLY = "the connection is closed, before or after the head of the response"
TWO_LENGTHS = "the connection is closed after a request with two lengths (RFC 9112, section 6.1)"
HALF = "a client that has closed its side counts as gone, unless the answer is ready before the server sees it"

OK, CLOSED, OPEN = "HTTP/1.1 200 ", "closed after ''", "open after ''"

KNOWN = {
    "target *": (ROUTE, ["HTTP/1.1 404 ", OPEN]),
    "target without a slash": (ROUTE, ["HTTP/1.1 404 ", OPEN]),
    "refused: no host": (ONE_HOST, ["HTTP/1.1 400 "]),
    "refused: two hosts": (ONE_HOST, ["HTTP/1.1 400 "]),
    "a trap": (ERROR, ["HTTP/1.1 500 ", OPEN]),
    "a trap in the body": (CUT, ["HTTP/1.1 200 [] cut", CLOSED]),
    "an error instead of a response": (ERROR, ["HTTP/1.1 500 ", OPEN]),
    "refused: length and chunks": (TWO_LENGTHS, [OK, CLOSED]),
}

# wasi:http 0.2 only.
KNOWN_2 = {
    "HTTP/1.0 without a host": (HOST, ["HTTP/1.0 200 ", CLOSED]),
    "the body ends early": (CUT, ["HTTP/1.1 200 [] cut", CLOSED]),
    "a chunk ends early": (CUT, ["HTTP/1.1 200 [] cut", CLOSED]),
    "refused: a chunk longer than its size": (CUT, ["HTTP/1.1 200 [] cut", CLOSED]),
    "refused: a chunk size that is no number": (BAD_BODY, []),
    "refused: a chunk size of 17 digits": (BAD_BODY, []),
}

# wasi:http 0.3 only: the guest refuses these, as its set_status_code does.
KNOWN_3 = {
    "status 600": (ERROR, ["HTTP/1.1 500 ", OPEN]),
    "status 999": (ERROR, ["HTTP/1.1 500 ", OPEN]),
}

RACES = {
    "this side is closed after the request": (HALF, []),
    "a trap, and this side is closed": (HALF, []),
    "100-continue": (CONTINUE, ["HTTP/1.1 100 []", "HTTP/1.1 200 [] 'hello'", OPEN]),
    "100-continue in capitals": (CONTINUE, ["HTTP/1.1 100 []", "HTTP/1.1 200 [] 'hello'", OPEN]),
    "100-continue with chunks": (CONTINUE, ["HTTP/1.1 100 []", "HTTP/1.1 200 [] 'hello'", OPEN]),
    "100-continue and the body at once": (CONTINUE, ["HTTP/1.1 "]),
    "100-continue without a reader": (UNREAD, [OK]),
    "refused: a chunk size that is no number": (EARLY, []),
    "refused: a chunk size of 17 digits": (EARLY, []),
}


def reason(component, case):
    """Returns why the answers may differ, how rusm's begins, and whether they must differ; None if they must be equal."""
    by_version = KNOWN_3 if b"wasi:http/handler@0.3" in component.read_bytes() else KNOWN_2
    if found := KNOWN.get(case) or by_version.get(case):
        return *found, True
    if found := RACES.get(case):
        return *found, False
    return None
