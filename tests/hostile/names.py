#!/usr/bin/env python3
"""Starts nodes with one name, against frozen nodes, stale sockets and successors. Usage: names.py [ROUNDS] [RUSM]"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
RUSM = sys.argv[2] if len(sys.argv) > 2 else "target/debug/rusm"


def start(folder, *flags):
    environment = {"XDG_RUNTIME_DIR": folder, "PATH": os.environ["PATH"]}
    return subprocess.Popen(
        [os.path.abspath(RUSM), "node", "--name", "one", *flags],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )


def end(nodes):
    for node in nodes:
        if node.poll() is None:
            node.send_signal(signal.SIGCONT)
            node.terminate()
    for node in nodes:
        node.communicate(timeout=60)


def path(folder):
    return os.path.join(folder, "rusm", "one.sock")


def stale(folder):
    """Four nodes find a stale socket: one must start, three must fail with one line each."""
    os.mkdir(os.path.join(folder, "rusm"), 0o700)
    left = socket.socket(socket.AF_UNIX)
    left.bind(path(folder))
    left.close()
    nodes = [start(folder) for _ in range(4)]
    lines = [node.stderr.readline() for node in nodes]
    up = sum("node is up" in line for line in lines)
    refused = sum("is in use by a running node" in line for line in lines)
    end(nodes)
    return (up, refused) == (1, 3) and sorted(node.returncode for node in nodes) == [0, 1, 1, 1]


def frozen(folder):
    """A node is frozen with a full queue: a second one must fail within seconds, and SIGTERM must end a third."""
    first = start(folder)
    first.stderr.readline()
    first.send_signal(signal.SIGSTOP)
    queue = []
    while True:
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        queue.append(client)
        try:
            client.connect(path(folder))
        except BlockingIOError:
            break
    began = time.monotonic()
    second = start(folder)
    line = second.communicate(timeout=20)[1]
    refused = second.returncode == 1 and "which does not answer" in line and line.count("\n") == 1
    third = start(folder)
    time.sleep(0.1)
    third.terminate()
    third.communicate(timeout=20)
    end([first])
    for client in queue:
        client.close()
    return refused and time.monotonic() - began < 15


def successor(folder):
    """A node starts while its predecessor stops: the predecessor must not remove the files of its successor."""
    first = start(folder, "--listen", "127.0.0.1:0")
    first.stderr.readline()
    first.terminate()
    second = start(folder)
    line = second.stderr.readline()
    while "is in use" in line:
        second.communicate(timeout=20)
        second = start(folder)
        line = second.stderr.readline()
    first.communicate(timeout=60)
    is_there = os.path.exists(path(folder)) and second.poll() is None
    end([second])
    return "node is up" in line and is_there and os.listdir(os.path.join(folder, "rusm")) == []


def main():
    tried = passed = 0
    for case in (stale, frozen, successor):
        good = 0
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                good += case(folder)
        tried, passed = tried + ROUNDS, passed + good
        print(f"{'ok' if good == ROUNDS else 'FAILED':7} {case.__name__}: {good} of {ROUNDS}")
    print(f"tried {tried}, passed {passed}")
    return 0 if tried == passed else 1


sys.exit(main())
