#!/usr/bin/env python3
"""Replaces the component of a server under load. Usage: reload.py RUSM [RELOADS] [RATE]

RUSM is the built node. It serves a component, which is replaced by another one RELOADS (50) times, half of the times with
SIGHUP and half of the times by `--watch`. Meanwhile `rusm loadtest` sends RATE (5,000) requests a second in an open loop.
Each new component must answer within 30 s, and no request may fail.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GUESTS = Path(__file__).resolve().parents[2] / "examples/guests/prebuilt/wasi"
# Two components, and what each of them answers.
COMPONENTS = [(GUESTS / "http.wasm", b"hello from /"), (GUESTS / "sockets.wasm", b"GET / from a")]
CONFIG = """
[[serve]]
listen = "127.0.0.1:0"

[[serve.route]]
pattern = "/*"
module = "app.wasm"
"""


def replace(component, app):
    """Replaces the file in one step, as a build does."""
    fresh = app.with_suffix(".new")
    shutil.copyfile(component, fresh)
    fresh.rename(app)


def answer(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        parts = []
        while part := connection.recv(4096):
            parts.append(part)
        return b"".join(parts)


def reload(program, watch, reloads, rate):
    """Returns the number of reloads that were seen, and the report of the load."""
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder) / "app.wasm"
        replace(COMPONENTS[0][0], app)
        config = Path(folder) / "rusm.toml"
        config.write_text(CONFIG)
        environment = {**os.environ, "RUSM_SOCKET_DIR": folder}
        command = [program, "serve", str(config)] + (["--watch"] if watch else [])
        with open(Path(folder) / "log", "wb") as log:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        port = int(server.stdout.readline().rsplit(b":", 1)[1])
        load_command = [program, "loadtest", "http", f"http://127.0.0.1:{port}/", "--rate", str(rate), "--runs", "1"]
        load_command += ["--warm-up", "1s", "--for", f"{reloads + 5}s", "--json", "--no-history"]
        load = subprocess.Popen(load_command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        time.sleep(2)
        seen, slowest = 0, 0.0
        for number in range(1, reloads + 1):
            component, text = COMPONENTS[number % 2]
            began = time.monotonic()
            replace(component, app)
            if not watch:
                server.send_signal(signal.SIGHUP)
            while text not in answer(port):
                if time.monotonic() - began > 30:
                    print(f"  reload {number} is not seen\n{(Path(folder) / 'log').read_text()[-2000:]}")
                    break
                time.sleep(0.02)
            else:
                seen += 1
            took = time.monotonic() - began
            slowest = max(slowest, took)
            time.sleep(max(0.0, 0.9 - took))
        ends_under_load = load.poll() is None
        report, log = load.communicate()
        server.terminate()
        server.wait()
        run = json.loads(report)["runs"][0]
        return seen, slowest, ends_under_load, run, log.decode(errors="replace")


def main():
    program = sys.argv[1]
    reloads = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    rate = int(sys.argv[3]) if len(sys.argv) > 3 else 5000
    is_good = True
    for watch in [False, True]:
        count = reloads // 2 if watch else reloads - reloads // 2
        seen, slowest, ends_under_load, run, log = reload(program, watch, count, rate)
        errors, answered = run["errors_total"], run["ops_total"]
        way = "--watch" if watch else "SIGHUP"
        print(
            f"{way}: {seen} of {count} reloads seen, the slowest after {slowest:.2f} s; {answered} requests answered, "
            f"{run['ops_per_sec']['median']:.0f}/s, {errors} errors"
        )
        if not ends_under_load:
            print("  the load ended before the last reload")
        if errors:
            print(log[-2000:])
        is_good &= seen == count and errors == 0 and answered > 0 and ends_under_load
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
