"""Damaged, swapped, old and foreign files; strange paths and kinds of files; output to strange places."""

import os
import random
import signal
import socket
import subprocess
import time

from .lib import Node, Run, copy, damage, everywhere, expect, promised, rows, store

STRANGE = [
    "a\nb.redb", "a\x1b[31mred\x1b[0m.redb", "a\u202ebder.redb", "a\x9b2J.redb", "-rf.redb", "a b'\"$(x)`.redb",
    "\udcff\udcfe.redb", "a\r2026-01-01T00:00:00Z  INFO forged.redb", "a\x07\x7f.redb", "ä" * 100 + ".redb",
    "n" * 240 + ".redb", "n" * 250, "..redb", "node.redb.", "%s%n.redb", "\u2066x\u2069.redb", "x\t.redb", "a-journal",
]
COMMANDS = ("check", "export", "repair")


def all_commands(folder, path, codes=(0, 1, 2, 5)):
    dash = ["--"] if str(path).startswith("-") else []
    return [store(folder, command, *dash, path, codes=codes) for command in COMMANDS]


def strange_path(stores, chance, folder):
    """A name with control characters, reversed text, bytes that are not text, or of the greatest length."""
    name = chance.choice(STRANGE)
    whole = os.path.join(folder, name)
    acked = stores.copy(stores.closed, folder, name)
    how = chance.randrange(5)
    if how == 0:
        damage(whole, chance)
    elif how == 1:
        os.truncate(whole, chance.randrange(1, os.path.getsize(whole)))
    elif how == 2 and len(os.fsencode(name)) < 240:
        os.mkfifo(whole + "-journal")
    elif how == 3:
        os.unlink(whole)
        chance.choice([os.mkfifo, os.mkdir, lambda path: os.symlink("gone\x1b\n", path)])(whole)
    results = all_commands(folder, name)
    for result in results:
        for line in (result.err + result.out).splitlines():
            expect(line.startswith(("{", "rusm: ", "bucket ", "damaged: ", "table ")) or ": " in line, f"a forged line {line!r}")
    if how == 4 and len(os.fsencode(name)) < 240:
        expect(all(result.code == 0 for result in results), [result.err for result in results])
        expect(acked <= rows(folder, whole)[1], "rows are lost")


def by_another_name(stores, chance, folder):
    """Symbolic links, hard links, relative paths with `..`, and a link on another file system."""
    real = os.path.join(folder, "real")
    os.mkdir(real)
    is_killed = chance.random() < 0.5
    acked = stores.copy(stores.killed if is_killed else stores.closed, real)
    how = chance.choice(["link", "links", "dots", "folder", "shm", "hard", "absolute"])
    path = "link.redb"
    if how == "link":
        os.symlink("real/node.redb", os.path.join(folder, path))
    elif how == "links":
        os.symlink("real/../one.redb", os.path.join(folder, path))
        os.symlink("real/node.redb", os.path.join(folder, "one.redb"))
    elif how == "dots":
        path = "real/.././real/../real//node.redb"
    elif how == "folder":
        os.symlink("real", os.path.join(folder, "other"))
        path = "other/node.redb"
    elif how == "shm":
        path = f"/dev/shm/rusm-{os.getpid()}.redb"
        os.path.lexists(path) and os.unlink(path)
        os.symlink(os.path.join(real, "node.redb"), path)
    elif how == "hard":
        path = "real/hard.redb"
        os.link(os.path.join(real, "node.redb"), os.path.join(folder, path))
    else:
        path = os.path.join(real, "node.redb")
    try:
        if chance.random() < 0.6 and not (how == "hard" and is_killed):
            damage(os.path.join(real, "node.redb"), chance)
            intact = rows(folder, path)[1]
            result = store(folder, "repair", path)
            # The journal may have what was damaged in the file, or the page was free.
            expect(result.code == 5 or intact >= acked, f"{how}: exit code {result.code}: {result.err}")
            if how != "hard":
                expect(rows(real)[1] == intact, "the repaired store has other rows")
            promised(folder, intact, path)
        elif how == "hard" and is_killed:
            # Its journal is beside the other name.
            code, keys = rows(folder, path)
            expect(code == 5 or keys >= acked, "rows are lost silently")
            node = Node(folder, 90_000_000, 90_000_001, path).end()
            expect(not node.acked or rows(folder, path)[1] >= acked, "rows are lost silently")
            expect(rows(real)[1] >= acked, "the store is lost by its other name")
        else:
            promised(folder, acked, path)
    finally:
        if how == "shm":
            for name in os.listdir("/dev/shm"):
                if name.startswith(f"rusm-{os.getpid()}.redb"):
                    os.unlink(os.path.join("/dev/shm", name))


def not_a_file(stores, chance, folder):
    """A pipe, socket, device, folder, dangling link or loop in place of the store or the journal."""
    acked = stores.copy(stores.killed, folder)
    place = os.path.join(folder, "node.redb" + chance.choice(["", "-journal"]))
    os.rename(place, place + ".aside")

    def bind(path):
        left = socket.socket(socket.AF_UNIX)
        left.bind(os.path.relpath(path))
        left.close()

    makers = {
        "pipe": os.mkfifo, "socket": bind, "folder": os.mkdir,
        "null": lambda path: os.symlink("/dev/null", path), "zero": lambda path: os.symlink("/dev/zero", path),
        "full": lambda path: os.symlink("/dev/full", path), "dangling": lambda path: os.symlink("gone", path),
        "loop": lambda path: os.symlink(os.path.basename(path), path), "empty": lambda path: open(path, "w").close(),
        "itself": lambda path: os.symlink("node.redb", path), "proc": lambda path: os.symlink("/proc/self/mem", path),
        "kmsg": lambda path: os.symlink("/proc/sys/kernel/osrelease", path),
    }
    kind = chance.choice(list(makers))
    if place.endswith("node.redb") and kind == "itself":
        kind = "loop"
    makers[kind](place)
    results = [store(folder, command, "node.redb") for command in ("check", "export")]
    node = Node(folder, 0, 3).end()
    expect(not node.acked and node.code in (1, 2), f"{kind}: a node writes to it")
    expect(not os.path.exists(os.path.join(folder, "gone")), "the target of a dangling link was created")
    results.append(store(folder, "repair", "node.redb"))
    expect(all(result.code in (1, 5) for result in results), [result.code for result in results])
    # A journal on a disk that is not mounted may have acknowledged data, so the store is refused and left alone.
    if place.endswith("node.redb") or kind == "dangling":
        expect(all(result.code == 1 for result in results), [result.code for result in results])
        os.rename(place, place + ".strange")
    else:
        os.rename(os.path.join(folder, "node.redb.damaged"), os.path.join(folder, "node.redb"))
        kept = os.path.join(folder, "node.redb.damaged-journal")
        # An empty one is removed.
        found = [path for path in (kept, place) if os.path.lexists(path)]
        expect(found or kind in ("empty", "proc", "null"), f"{kind}: it is gone")
        found and os.rename(found[0], place + ".strange")
    os.rename(place + ".aside", place)
    promised(folder, acked)


def put(folder, data, name="node.redb-journal"):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def journal_of_chance(stores, chance, folder):
    """The journal is truncated, doubled, mutated, swapped in halves, of another store, or missing."""
    which = chance.randrange(len(stores.killed))
    acked = stores.copy(stores.killed, folder, which=which)
    path = os.path.join(folder, "node.redb-journal")
    data = bytearray(open(path, "rb").read())
    used = len(data.rstrip(b"\0")) or 1
    how = chance.choice(["cut", "cut zero", "flip", "flips", "foreign", "gone", "halves", "zeros", "append", "shift",
                         "ones", "twice", "text", "store", "block", "block twice"])
    block = chance.randrange(max(1, used // 4096)) * 4096
    is_same = False
    if how == "cut":
        del data[chance.randrange(used):]
    elif how == "cut zero":
        at = chance.randrange(used)
        data[at:] = bytes(len(data) - at)
    elif how in ("flip", "flips"):
        for _ in range(1 if how == "flip" else 40):
            data[chance.randrange(used)] ^= 1 << chance.randrange(8)
    elif how == "foreign":
        other = stores.killed[(which + 1) % len(stores.killed)][0]
        data = open(os.path.join(other, "node.redb-journal"), "rb").read()
    elif how == "halves":
        half = 16 * 1024 * 1024
        data = data[half:] + data[:half]
    elif how == "zeros":
        data = bytes(len(data))
    elif how == "append":
        data, is_same = data + random.Random(1).randbytes(chance.randrange(1, 9000)), True
    elif how == "shift":
        data = data[chance.choice([1, 512, 4096]):]
    elif how == "ones":
        data[block:block + 4096] = b"\xff" * 4096
    elif how == "twice":
        data[used // 4096 * 4096 + 4096:] = data[:used]
    elif how == "text":
        data = b"2026-01-01 INFO forged \x1b[31m\n" * 500
    elif how == "store":
        data = open(os.path.join(folder, "node.redb"), "rb").read()
    elif how == "block":
        data[block:block + 4096] = data[0:4096] if block else data[4096:8192]
    elif how == "block twice":
        data[block:block] = data[block:block + 4096]
    put(folder, data)
    if how == "gone":
        os.unlink(path)
    before = (open(os.path.join(folder, "node.redb"), "rb").read(), how == "gone" or open(path, "rb").read())
    checked = store(folder, "check", "node.redb")
    code, keys = rows(folder)
    # A tail of zeros, or a block as it was before, is a write that the disk has lost: the store cannot notice it, but
    # then it is as it was at an earlier time.
    session = {key for key in acked if key < "1"}
    is_earlier = (
        how in ("cut zero", "block") and acked - session <= keys
        and min(session - keys, default="") > max(session & keys, default="")
    )
    expect(acked <= keys or code != 0 or is_earlier, f"{how}: {len(acked - keys)} rows are lost silently")
    expect(checked.code == code, f"{how}: check {checked.code}, export {code}")
    now = (open(os.path.join(folder, "node.redb"), "rb").read(), how == "gone" or open(path, "rb").read())
    expect(before == now, f"{how}: a check or an export has changed a file")
    node = Node(folder, 90_000_000, 90_000_003).end()
    if node.acked:
        expect(acked & keys <= rows(folder)[1], f"{how}: a node lost rows silently")
        promised(folder, acked & keys | node.acked)
    else:
        expect(not is_same or code == 5, f"{how}: it was refused")
        expect(everywhere(folder) >= keys, f"{how}: a refusal has lost rows")
        result = store(folder, "repair", "node.redb")
        expect(result.code == 5, f"{how}: repair: exit code {result.code}, {result.err}")
        promised(folder, rows(folder)[1])
        os.path.exists(path) and expect(os.path.getsize(path) == 0, f"{how}: the old journal is still there")


def of_another_time(stores, chance, folder):
    """Store and journal of different states of one store: never a wrong value, never a node that dies."""
    node = Node(folder, 0, 50_000_000)
    states = []
    for state in range(2):
        node.wait_for(chance.randrange(20, 400) * (state + 1))
        node.run.signal(signal.SIGSTOP)
        time.sleep(0.02)
        acked = set(node.acked)
        for end in ("", "-journal"):
            copy(os.path.join(folder, "node.redb" + end), os.path.join(folder, f"state{state}{end}"))
        states.append(acked)
        node.run.signal(signal.SIGCONT)
    node.end(signal.SIGKILL)
    which = chance.randrange(2)
    mixed = os.path.join(folder, "mixed")
    os.mkdir(mixed)
    copy(os.path.join(folder, f"state{which}"), os.path.join(mixed, "node.redb"))
    copy(os.path.join(folder, f"state{1 - which}-journal"), os.path.join(mixed, "node.redb-journal"))
    code, keys = rows(mixed)
    # The older of both states is whole if it is accepted.
    expect(code != 0 or keys >= states[0], f"{len(states[0] - keys)} rows of the older state are lost silently")
    promised(mixed, keys, may_be_refused=True)
    promised(folder, states[1] | node.acked)


def swapped(stores, chance, folder):
    """Two stores, or their journals, exchange their names between a check and a repair, or at any time."""
    first = stores.copy(stores.killed, folder, which=0)
    second = stores.copy(stores.killed, folder, "other.redb", which=1)
    damage(os.path.join(folder, "node.redb"), chance)
    intact, others = rows(folder)[1], rows(folder, "other.redb")[1]
    expect(second <= others, "rows of a copy are lost")
    slow = ["strace", "-f", "-q", "-o", "/dev/null", "-e", "inject=fsync:delay_exit=200000", "-e", "trace=fsync"]
    repair = Run(folder, "store", "repair", "node.redb", prefix=slow)
    time.sleep(chance.random() * 0.7)
    ends = chance.choice([("",), ("-journal",), ("", "-journal")])
    names = [os.path.join(folder, name + end) for end in ends for name in ("node.redb", "other.redb")]
    for one, two in zip(names[::2], names[1::2]):
        if os.path.exists(one) and os.path.exists(two):
            os.rename(one, one + ".swap")
            os.rename(two, one)
            os.rename(one + ".swap", two)
    repair.end()
    found = everywhere(folder)
    # A store without its own journal lacks rows, and says so; the files themselves are all there.
    files = [os.path.join(folder, name) for name in os.listdir(folder)]
    expect(sum(os.path.getsize(name) == 32 << 20 for name in files) >= 2, "a journal is gone")
    if len(ends) == 2:
        expect(found >= intact | second, f"{len((intact | second) - found)} rows are in no file")
    for name in ("node.redb", "other.redb"):
        Node(folder, 90_000_000, 90_000_001, name).end()
    del first


def flipped(stores, chance, folder):
    """Bits flipped and ranges zeroed in a closed or killed store: the rows are right, or somebody is told."""
    is_killed = chance.random() < 0.5
    acked = stores.copy(stores.killed if is_killed else stores.closed, folder)
    path = os.path.join(folder, "node.redb")
    data = bytearray(open(path, "rb").read())
    for _ in range(chance.choice([1, 1, 1, 2, 30])):
        at = chance.choice([chance.randrange(len(data)), chance.randrange(4096)])
        how = chance.randrange(4)
        if how < 2:
            data[at] ^= 1 << chance.randrange(8)
        elif how == 2:
            data[at // 512 * 512:at // 512 * 512 + 512] = bytes(512)
        else:
            data[at // 4096 * 4096:at // 4096 * 4096 + 4096] = data[4096:8192]
    if chance.random() < 0.15:
        del data[chance.randrange(len(data)):]
    put(folder, data, "node.redb")
    results = all_commands(folder, "node.redb")
    if not os.path.getsize(path):
        return
    code, keys = rows(folder)
    if all(result.code == 0 for result in results):
        expect(acked <= keys, f"{len(acked - keys)} rows are lost silently")
    if results[2].code in (0, 5):
        expect(code == 0, f"a repaired store: exit code {code}")
        promised(folder, keys)
    else:
        promised(folder, set(), may_be_refused=True)


def printed_elsewhere(stores, chance, folder):
    """Output to the store itself, its journal, an existing file, a full device, a closed pipe, or a slow reader."""
    acked = stores.copy(stores.killed, folder)
    how = chance.choice(["itself", "journal", "full", "closed", "pipe", "output", "output journal", "output dangling",
                         "output itself", "output folder", "output fifo", "output gone", "output empty", "other journal"])
    path = os.path.join(folder, "node.redb")
    command = chance.choice(COMMANDS)
    if how in ("itself", "journal"):
        with open(path + ("-journal" if how == "journal" else ""), "ab") as file:
            result = store(folder, command, "node.redb", stdout=file)
        expect(result.code == 2, f"{how}: exit code {result.code}")
    elif how == "full":
        with open("/dev/full", "wb") as file:
            result = store(folder, command, "node.redb", stdout=file)
        expect(result.code == 1, f"{how}: exit code {result.code}")
    elif how == "closed":
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "wb") as file:
            store(folder, command, "node.redb", stdout=file)
    elif how == "pipe":
        run = Run(folder, "store", "export", "node.redb")
        time.sleep(0.2)
        expect(run.end().code == 0, "a slow reader")
    else:
        other = {"output": "new.redb", "output journal": "node.redb-journal", "output dangling": "dangling",
                 "output itself": "./node.redb", "output folder": "folder", "output fifo": "fifo",
                 "output gone": "gone/new.redb", "output empty": "", "other journal": "other.redb-journal"}[how]
        os.symlink("nowhere", os.path.join(folder, "dangling"))
        os.mkdir(os.path.join(folder, "folder"))
        os.mkfifo(os.path.join(folder, "fifo"))
        stores.copy(stores.closed, folder, "other.redb")
        if how == "output journal" and chance.random() < 0.5:
            stores.copy(stores.closed, folder)
            os.unlink(path + "-journal")
            acked = rows(folder)[1]
        result = store(folder, "repair", "node.redb", "--output", other)
        expect((result.code == 0) == (how == "output"), f"{how}: exit code {result.code}: {result.err}")
        expect(not os.path.lexists(os.path.join(folder, "nowhere")), "the target of a link was created")
        if how == "output":
            expect(rows(folder, "new.redb")[1] >= acked, "the new file lacks rows")
    promised(folder, acked)


CASES = (
    (strange_path, 60), (by_another_name, 50), (not_a_file, 50), (journal_of_chance, 120), (of_another_time, 20),
    (swapped, 30), (flipped, 120), (printed_elsewhere, 50),
)
