"""Makes stores by a real node, runs `rusm` on them, and compares what they hold with what was acknowledged."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

RUSM = os.path.abspath(os.environ.get("RUSM", "target/debug/rusm"))
TIMEOUT = 10
HAS_STRACE = shutil.which("strace") is not None
# Control characters other than the line end and the tab, C1, and marks that reverse the text.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
MANIFEST = """[node]
name = "NAME"
[store]
path = STORE
[[process]]
name = "writer"
module = "writer.wat"
profile = "keeper"
restart = "temporary"
[profile.keeper]
capabilities = ["kv", "timers"]
buckets = ["acked"]
"""
# Puts the keys from START to END, each with itself 25 times as its value, and logs each one when it is acknowledged.
# Gives up after 100 refusals.
WRITER = """(module
  (import "rusm" "log" (func $log (param i32 i32 i32)))
  (import "rusm" "sleep" (func $sleep (param i64)))
  (import "rusm" "kv_put" (func $put (param i32 i32 i32 i32 i32 i32 i64) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "acked")
  (data (i32.const 100) "ack 00000000")
  (func $digits (param $n i32)
    (local $i i32)
    (local.set $i (i32.const 8))
    (loop $more
      (local.set $i (i32.sub (local.get $i) (i32.const 1)))
      (i32.store8 (i32.add (i32.const 104) (local.get $i))
        (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
      (local.set $n (i32.div_u (local.get $n) (i32.const 10)))
      (br_if $more (local.get $i))))
  (func (export "run")
    (local $n i32) (local $j i32) (local $refused i32)
    (local.set $n (i32.const START))
    (loop $next
      (call $digits (local.get $n))
      (local.set $j (i32.const 0))
      (loop $fill
        (i64.store (i32.add (i32.const 1024) (local.get $j)) (i64.load (i32.const 104)))
        (local.set $j (i32.add (local.get $j) (i32.const 8)))
        (br_if $fill (i32.lt_u (local.get $j) (i32.const 200))))
      (i32.store8 (i32.const 100) (i32.const 97))
      (if (call $put (i32.const 16) (i32.const 5) (i32.const 104) (i32.const 8)
                     (i32.const 1024) (i32.const 200) (i64.const -1))
        (then (i32.store8 (i32.const 100) (i32.const 78)) (call $sleep (i64.const 20))
              (local.set $refused (i32.add (local.get $refused) (i32.const 1))))
        (else (local.set $n (i32.add (local.get $n) (i32.const 1)))))
      (call $log (i32.const 2) (i32.const 100) (i32.const 12))
      (br_if $next (i32.and (i32.lt_u (local.get $refused) (i32.const 100))
                            (i32.lt_u (local.get $n) (i32.const END)))))))
"""


class Failed(Exception):
    """A promise that a case has found broken."""


def expect(is_true, what):
    if not is_true:
        raise Failed(what)


class Run:
    """A command that runs, or has ended."""

    def __init__(self, folder, *args, prefix=(), stdout=subprocess.PIPE, **more):
        self.name = " ".join(str(arg) for arg in args[:2])
        self.began = time.monotonic()
        environment = {"PATH": os.environ["PATH"], "RUSM_SOCKET_DIR": sockets()}
        self.process = subprocess.Popen(
            [*prefix, RUSM, *args], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=stdout, stderr=subprocess.PIPE, start_new_session=True, **more,
        )

    def pids(self):
        """The pids of the program itself, also below strace."""
        found, queue = [], [self.process.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            try:
                queue += map(int, open(f"/proc/{pid}/task/{pid}/children").read().split())
            except OSError:
                pass
        return found[1:] or found

    def signal(self, number):
        # A stop may have met strace before it had started the program.
        for pid in self.pids() + ([self.process.pid] if number == signal.SIGCONT else []):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def end(self, timeout=TIMEOUT, codes=(0, 1, 2, 5), lines_max=None):
        """Waits, and checks the exit code and what was printed."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            raise Failed(f"{self.name}: still runs after {timeout} s") from None
        self.code = self.process.returncode
        self.out, self.err = ((text or b"").decode("utf-8", "replace") for text in (out, err))
        for text in (self.out, self.err):
            expect("panicked" not in text and "RUST_BACKTRACE" not in text, f"{self.name}: a panic: {text[-300:]}")
            raw = RAW.search(text)
            expect(not raw, f"{self.name}: a raw character {raw and raw.group()!r}")
        expect(codes is None or self.code in codes, f"{self.name}: exit code {self.code}: {self.err[-300:]}")
        if self.code in (1, 2):
            expect(1 <= self.err.count("\n") <= (lines_max or 1), f"{self.name}: not one line: {self.err[:400]!r}")
        return self


_sockets = None


def sockets():
    global _sockets
    if _sockets is None:
        _sockets = tempfile.mkdtemp(prefix="rusm-hostile-")
    return _sockets


def store(folder, *args, **more):
    """Runs `rusm store` to its end."""
    ends = {key: more.pop(key) for key in ("timeout", "codes", "lines_max") if key in more}
    return Run(folder, "store", *args, **more).end(**ends)


_numbers = iter(range(10**9))


class Node:
    """A node with a guest that writes to a store; `acked` are the keys that were acknowledged."""

    def __init__(self, folder, start, end, path="node.redb", prefix=(), **more):
        self.number = next(_numbers)
        home = os.path.join(folder, f".home-{self.number}")
        os.makedirs(home)
        with open(os.path.join(home, "writer.wat"), "w") as file:
            file.write(WRITER.replace("START", str(start)).replace("END", str(end)))
        with open(os.path.join(home, "rusm.toml"), "w") as file:
            where = path if os.path.isabs(path) else os.path.join(os.path.abspath(folder), path)
            file.write(MANIFEST.replace("NAME", f"n{os.getpid()}-{self.number}").replace("STORE", json.dumps(where)))
        self.acked, self.refused, self.lines = set(), 0, []
        self.run = Run(folder, "run", os.path.join(home, "rusm.toml"), "--drain", "1", prefix=prefix, **more)
        self.err, self.run.process.stderr = self.run.process.stderr, None
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.err:
            line = line.decode("utf-8", "replace")
            found = re.search(r" (ack|Nck) (\d{8}) pid=", line)
            if not found:
                self.lines.append(line)
            elif found[1] == "ack":
                self.acked.add(found[2])
            else:
                self.refused += 1

    def wait_for(self, count, seconds=TIMEOUT):
        """Waits until this many keys were acknowledged, or the node has ended."""
        until = time.monotonic() + seconds
        while len(self.acked) < count and self.run.process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)

    def end(self, number=None, codes=(0, 1, 2), timeout=TIMEOUT + 5):
        """Sends a signal if one is given, waits, and checks the exit code and the other lines."""
        if number is not None:
            self.run.signal(number)
        try:
            self.run.process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.run.process.pid, signal.SIGKILL)
            raise Failed(f"node: still runs {timeout} s after it should have ended") from None
        finally:
            self.thread.join()
        self.code = self.run.process.returncode
        text = "".join(self.lines)
        expect("panicked" not in text, f"node: a panic: {text[-300:]}")
        raw = RAW.search(text)
        expect(not raw, f"node: a raw character {raw and raw.group()!r}")
        if number != signal.SIGKILL:
            expect(self.code in codes, f"node: exit code {self.code}: {text[-300:]}")
        self.is_up = "node is up" in text or bool(self.acked) or bool(self.refused)
        if self.code in (1, 2) and not self.is_up:
            expect(len(self.lines) == 1, f"node: not one line: {text[:400]!r}")
        return self


def rows(folder, path="node.redb", **more):
    """Exports a store; checks that no value is wrong; returns the exit code and the keys."""
    result = store(folder, "export", path, lines_max=1, **more)
    keys = set()
    for line in result.out.splitlines():
        row = json.loads(line)
        expect(row["value"] == row["key"] * 25, f"a wrong value: {line[:200]}")
        keys.add(row["key"])
    return result.code, keys


def promised(folder, acked, path="node.redb", may_be_refused=False):
    """Checks that a store has all these keys, or, if allowed, that it says what is lost; a node must open it, too."""
    code, keys = rows(folder, path)
    missing = set(acked) - keys
    expect(not missing or code != 0, f"{len(missing)} acknowledged rows are lost and nothing says so")
    expect(may_be_refused or code == 0, f"export of a store that nobody damaged: exit code {code}")
    node = Node(folder, 90_000_000, 90_000_002, path).end()
    if node.code == 0 and node.acked:
        new_code, new = rows(folder, path)
        expect(new >= (keys | node.acked), f"{len((keys | node.acked) - new)} rows are gone after a start")
        expect(new_code == 0, f"exit code {new_code} after a start")
    else:
        expect(may_be_refused, f"no node opens it: {node.lines[-1:]}")
    return keys


def everywhere(folder):
    """The keys of all store files of a folder."""
    found = set()
    for name in sorted(os.listdir(folder)):
        whole = os.path.join(folder, name)
        if ".redb" in name and not name.endswith("-journal") and os.path.isfile(whole) and os.path.getsize(whole):
            found |= rows(folder, name)[1]
    return found


def damage(path, chance, values=True):
    """Flips a bit of a value, or any bit; returns its position."""
    data = bytearray(open(path, "rb").read())
    places = [found.start() for found in re.finditer(rb"(\d{8})\1{20}", data)] if values else range(len(data))
    at = chance.choice(places) + (chance.randrange(100) if values else 0)
    data[at] ^= 1 << chance.randrange(8)
    with open(path, "r+b") as file:
        file.write(data)
    return at


def copy(path, to):
    subprocess.run(["cp", "-p", "--sparse=always", path, to], check=True)


class Stores:
    """Stores that were closed or killed; cases get copies."""

    def __init__(self, chance, closed=3, killed=6):
        self.folder, self.chance = tempfile.mkdtemp(prefix="rusm-stores-"), chance
        self.closed = [self.make(300 + 200 * each, False) for each in range(closed)]
        self.killed = [self.make(chance.randrange(1, 600), True) for _ in range(killed)]

    def make(self, count, is_killed):
        folder = tempfile.mkdtemp(dir=self.folder)
        before = Node(folder, 10_000_000, 10_000_200).end().acked if self.chance.random() < 0.5 else set()
        node = Node(folder, 0, 60_000_000 if is_killed else count)
        node.wait_for(count, 60)
        node.end(signal.SIGKILL if is_killed else None, timeout=60)
        expect(len(node.acked) >= count, f"only {len(node.acked)} of {count} rows were written: {node.lines[-1:]}")
        return folder, frozenset(node.acked | before)

    def copy(self, kind, to, name="node.redb", which=None):
        folder, acked = (self.chance.choice(kind) if which is None else kind[which])
        for end in ("", "-journal"):
            if os.path.exists(os.path.join(folder, "node.redb" + end)):
                copy(os.path.join(folder, "node.redb" + end), os.path.join(to, name + end))
        return set(acked)

    def remove(self):
        shutil.rmtree(self.folder)
