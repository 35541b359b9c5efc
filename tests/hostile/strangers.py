#!/usr/bin/env python3
"""Strangers that use up what a node has only once: its file descriptors and its threads for name lookups.

Usage: strangers.py [RUSM] [CASE ...]

`few_files` starts nodes of a cluster with 16 to 64 file descriptors. `port` opens more connections to the port of a
cluster than the node has descriptors; when they are closed, another node must be able to join. `clients` opens more
connections to a server than it has descriptors; an observer must be answered meanwhile. `requests` and `lookups`
send requests whose guests ask a server, or look up names at one, that never answers; other routes must answer meanwhile.

Needs a `rusm` that can join others (`cargo build --features rusm-node/cluster`), and root for `lookups`, which mounts a
file over /etc/resolv.conf in a mount namespace of its own.
"""

import ctypes
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUSM = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/debug/rusm")
GUEST = ROOT / "examples/guests/prebuilt/wasi/http.wasm"
DESCRIPTORS = 256
CLIENTS = 300
# With as many connections to other servers, nearly all of the descriptors.
ASKING_CLIENTS = 450
ASKED_DESCRIPTORS = 1000
ATTACK_SECONDS = 20
SILENT_RESOLVER = "127.0.0.9"
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_BIND = 0x20000, 0x4000, 0x40000, 0x1000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder, *arguments, before=None):
    log = open(os.path.join(folder, f"{time.monotonic_ns()}.log"), "w+b")
    environment = {"XDG_RUNTIME_DIR": folder, "HOME": folder, "PATH": os.environ["PATH"]}
    process = subprocess.Popen(
        [os.path.abspath(RUSM), *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
        stderr=log, preexec_fn=before,
    )
    process.log = log
    return process


def end(process):
    """Ends a process; returns its exit code and what it wrote."""
    process.terminate()
    try:
        code = process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    process.log.seek(0)
    return code, process.log.read().decode(errors="replace")


def open_files(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def few_files(folder):
    for limit in range(16, 65, 2):
        address = f"127.0.0.1:{free_port()}"
        node = start(folder, "node", "--name", "few", "--cluster", "--cluster-listen", address, before=open_files(limit))
        try:
            node.wait(2)
        except subprocess.TimeoutExpired:
            pass
        code, text = end(node)
        # A node that starts ends by SIGTERM without an error. One that cannot start says so in one line, beside warnings.
        errors = text.count("rusm: ")
        yield f"{limit} descriptors", "panic" not in text and (code, errors) in ((0, 0), (1, 1))


def port(folder):
    address = ("127.0.0.1", free_port())
    listen = f"127.0.0.1:{address[1]}"
    first = start(folder, "node", "--name", "a", "--cluster", "--cluster-listen", listen, before=open_files(DESCRIPTORS))
    wait_for(lambda: peers(folder, "a") is not None, 20)
    is_over = threading.Event()
    held = []

    def connect():
        while not is_over.is_set():
            try:
                held.append(socket.create_connection(address, timeout=1))
            except OSError:
                time.sleep(0.05)

    strangers = [threading.Thread(target=connect) for _ in range(2)]
    for stranger in strangers:
        stranger.start()
    time.sleep(4)
    join = ("--cluster-listen", f"127.0.0.1:{free_port()}", "--join", listen)
    second = start(folder, "node", "--name", "b", "--cluster", *join)
    time.sleep(8)
    is_over.set()
    for stranger in strangers:
        stranger.join()
    for connection in held:
        connection.close()
    has_joined = wait_for(lambda: "b" in (peers(folder, "a") or []), 40)
    texts = end(second)[1] + end(first)[1]
    yield f"{len(held)} silent connections, then a node joins", has_joined and "panic" not in texts


def peers(folder, name):
    """The nodes that a node on this machine is connected to; None if it does not answer."""
    environment = {"XDG_RUNTIME_DIR": folder, "HOME": folder, "PATH": os.environ["PATH"]}
    command = [os.path.abspath(RUSM), "cluster", "status", "--json", "--name", name]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)
    if answer.returncode != 0:
        return None
    return [peer["name"] for peer in json.loads(answer.stdout)["peers"] if peer["state"] == "up"]


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.5)
    return False


def site(folder, listen, hosts):
    """A file for a server of static files and of a component that sends requests to some hosts."""
    os.mkdir(os.path.join(folder, "pub"))
    Path(folder, "pub", "one.txt").write_text("one\n")
    Path(folder, "rusm.toml").write_text(
        f'[[serve]]\nlisten = "127.0.0.1:{listen}"\n[profile.fetch]\ncapabilities = ["http"]\nhosts = ["{hosts}"]\n'
        f'[[serve.route]]\npattern = "/fetch/*"\nprofile = "fetch"\nmodule = "{GUEST}"\n'
        f'[[serve.route]]\npattern = "/count"\nmodule = "{GUEST}"\n'
        '[[serve.route]]\npattern = "GET /files/*"\nfolder = "pub"\n'
    )


def attacked(server, listen, clients, target, seconds):
    """Lets clients ask for targets, each for some seconds, while others ask for what needs nobody else."""
    wait_for(lambda: get(listen, "/files/one.txt", 2) == 200, 30)
    is_over = threading.Event()

    def client(number):
        while not is_over.is_set():
            get(listen, f"/fetch/{target(number)}", seconds)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    results = {"/files/one.txt": [], "/count": []}
    until = time.monotonic() + ATTACK_SECONDS
    while time.monotonic() < until:
        for path, codes in results.items():
            codes.append(get(listen, path, 5))
        time.sleep(0.5)
    is_over.set()
    for thread in threads:
        thread.join()
    code, text = end(server)
    for path, codes in results.items():
        yield f"{path} beside {clients} clients: {codes.count(200)} of {len(codes)}", set(codes) == {200}
    yield f"exit code {code}", code == 0 and "panic" not in text


def clients(folder):
    listen = free_port()
    site(folder, listen, "a.test")
    server = start(folder, "serve", "rusm.toml", before=open_files(DESCRIPTORS))
    wait_for(lambda: get(listen, "/files/one.txt", 2) == 200, 30)
    held = [socket.create_connection(("127.0.0.1", listen)) for _ in range(2 * DESCRIPTORS)]
    time.sleep(1)
    is_observed = all(observe(folder) for _ in range(10))
    for connection in held:
        connection.close()
    is_served = wait_for(lambda: get(listen, "/files/one.txt", 2) == 200, 10)
    code, text = end(server)
    yield f"an observer beside {len(held)} idle clients", is_observed
    yield "a request after they have left", is_served
    yield f"exit code {code}", code == 0 and "panic" not in text


def observe(folder):
    """Returns true if the node takes an observer."""
    with socket.socket(socket.AF_UNIX) as observer:
        observer.settimeout(5)
        try:
            # A node has the name of its application's folder.
            observer.connect(str(next(Path(folder, "rusm").glob("*.sock"))))
            observer.sendall(
                b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            return observer.recv(64).startswith(b"HTTP/1.1 101 ")
        except (OSError, StopIteration):
            return False


def requests(folder):
    listen = free_port()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as silent:
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        site(folder, listen, target)
        server = start(folder, "serve", "rusm.toml", before=open_files(ASKED_DESCRIPTORS))
        yield from attacked(server, listen, ASKING_CLIENTS, lambda _: target, 8)


def lookups(folder):
    listen = free_port()
    site(folder, listen, "*.slow.test")
    Path(folder, "resolv.conf").write_text(f"nameserver {SILENT_RESOLVER}\n")
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind((SILENT_RESOLVER, 53))
    libc = ctypes.CDLL(None, use_errno=True)

    def own_resolver():
        assert libc.unshare(CLONE_NEWNS) == 0
        assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        assert libc.mount(os.path.join(folder, "resolv.conf").encode(), b"/etc/resolv.conf", None, MS_BIND, None) == 0

    server = start(folder, "serve", "rusm.toml", before=own_resolver)
    yield from attacked(server, listen, CLIENTS, lambda number: f"n{number}.slow.test", 1)
    silent.close()


def get(listen, path, seconds):
    """The status of a request, or None if there is none within some seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", listen, timeout=seconds)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


CASES = {"few_files": few_files, "port": port, "clients": clients, "requests": requests, "lookups": lookups}


def main():
    tried = passed = 0
    for name in sys.argv[2:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            for what, is_good in CASES[name](folder):
                tried, passed = tried + 1, passed + is_good
                print(f"{'ok' if is_good else 'FAILED':7} {name}: {what}", flush=True)
    print(f"tried {tried}, passed {passed}")
    return 0 if tried == passed else 1


sys.exit(main())
