"""Little room, few permissions, huge files, and files that change under a node that runs."""

import os
import resource
import signal
import subprocess
import time

from .lib import Node, copy, damage, everywhere, expect, promised, rows, store

IS_ROOT = os.geteuid() == 0
NOBODY = 65534


def limited(kind, value):
    def before():
        resource.setrlimit(kind, (value, value))
    return before


def little_room(stores, chance, folder):
    """RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_AS or RLIMIT_CPU is small while a store is repaired or checked."""
    stores.copy(stores.killed, folder)
    damage(os.path.join(folder, "node.redb"), chance)
    intact = rows(folder)[1]
    kind, values = chance.choice([
        (resource.RLIMIT_FSIZE, [0, 1, 4096, 8192, 50_000, 65_536, 100_000, 150_000]),
        (resource.RLIMIT_NOFILE, [3, 4, 5, 6, 7, 8]),
    ])
    command = chance.choice(["repair", "repair", "check", "export"])
    limit = limited(kind, chance.choice(values))
    store(folder, command, "node.redb", preexec_fn=limit, codes=(0, 1, 2, 5, 127))
    expect(not [name for name in os.listdir(folder) if "-new-" in name], "a partial file is left")
    expect(everywhere(folder) >= intact, "rows are lost")
    result = store(folder, "repair", "node.redb")
    expect(result.code in (0, 5), result.err)
    expect(rows(folder)[1] == intact, "rows are lost by the repair")
    promised(folder, intact)


def full_disk(stores, chance, folder):
    """A small tmpfs is full while a store is repaired, exported or opened there."""
    if not IS_ROOT:
        return
    room = os.path.join(folder, "room")
    os.mkdir(room)
    size = chance.choice([1000, 2000, 5000, 9000])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", room], check=True)
    try:
        # The journal of a killed store is a hole that may not fit; a closed one has none.
        acked = stores.copy(stores.closed, room)
        if chance.random() < 0.7:
            damage(os.path.join(room, "node.redb"), chance)
        intact = rows(room)[1]
        left = os.statvfs(room)
        fill = max(0, left.f_bavail * left.f_frsize - chance.choice([0, 0, 4096, 20_000, 60_000, 130_000]))
        with open(os.path.join(room, "fill"), "wb") as file:
            file.write(bytes(fill))
        result = store(room, "repair", "node.redb")
        if result.code == 1:
            expect(rows(room)[1] == intact, "a repair that failed has lost rows")
            expect(sorted(os.listdir(room)) == ["fill", "node.redb"], f"files are left: {os.listdir(room)}")
        # The folder of its own files has room.
        node = Node(folder, 1_000_000, 1_000_100, os.path.join(room, "node.redb"))
        node.wait_for(5, 1.5)
        node.end(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        os.unlink(os.path.join(room, "fill"))
        size < 9000 and subprocess.run(["mount", "-o", "remount,size=40m", room], check=True)
        expect(everywhere(room) >= intact | node.acked, "rows are lost")
        if rows(room)[0] != 0:
            store(room, "repair", "node.redb")
        promised(room, rows(room)[1] | node.acked)
        del acked
    finally:
        subprocess.run(["umount", "-l", room], check=True)


def without_permission(stores, chance, folder):
    """Another user: files, or folders, that it may not read, write or enter; a read-only mount."""
    if not IS_ROOT:
        return
    room = os.path.join(folder, "room")
    os.mkdir(room)
    os.chmod(folder, 0o755)
    acked = stores.copy(stores.killed, room)
    is_damaged = chance.random() < 0.5
    if is_damaged:
        damage(os.path.join(room, "node.redb"), chance)
    code, intact = rows(room)
    # The journal may have what was damaged in the file, or the page was free.
    is_damaged = code != 0
    path, journal = os.path.join(room, "node.redb"), os.path.join(room, "node.redb-journal")
    for name in (path, journal, room):
        os.chown(name, NOBODY, NOBODY)
    how = chance.choice(["folder", "enter", "file", "journal", "write", "read-only", "root"])
    modes = {"folder": (room, 0o500), "enter": (room, 0o600), "file": (path, 0), "journal": (journal, 0), "write": (path, 0o400)}
    if how in modes:
        os.chmod(*modes[how])
    if how == "read-only":
        subprocess.run(["mount", "--bind", room, room], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", room], check=True)
    who = {} if how in ("root", "read-only") else {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        for command in ("check", "export", "repair"):
            result = store(folder, command, "room/node.redb", **who)
            if command == "repair" and how in ("folder", "enter", "file", "read-only") and is_damaged:
                expect(result.code == 1, f"{how}: exit code {result.code}")
    finally:
        if how == "read-only":
            subprocess.run(["umount", room], check=True)
    os.chmod(room, 0o755)
    found = os.stat(path)
    expect(found.st_uid == NOBODY, f"{how}: the repaired file belongs to {found.st_uid}")
    expect(found.st_mode & 0o777 == (modes[how][1] if how in ("file", "write") else 0o600), f"{how}: mode {found.st_mode:o}")
    for name in os.listdir(room):
        os.chmod(os.path.join(room, name), 0o600)
    expect(everywhere(room) >= intact, "rows are lost")
    if rows(room)[0] == 0:
        promised(room, rows(room)[1] if how == "journal" or is_damaged else acked)
    expect(is_damaged or how == "journal" or rows(room)[1] >= acked, f"{how}: acknowledged rows are lost")


def huge(stores, chance, folder):
    """Sparse files of up to a tebibyte: zeros, or a store or a journal that was extended."""
    path = os.path.join(folder, "node.redb")
    acked, how = set(), chance.choice(["zeros", "store", "journal", "both", "magic", "killed"])
    if how in ("store", "both", "journal"):
        acked = stores.copy(stores.closed if how != "journal" else stores.killed, folder)
    elif how == "killed":
        acked = stores.copy(stores.killed, folder)
    elif how == "magic":
        with open(path, "wb") as file:
            file.write(b"redb\x1a\x0a\xa9\x0d\x0a" + bytes(4087))
    else:
        open(path, "wb").close()
    size = chance.choice([1 << 30, (5 << 30) + 1, 1 << 40, (1 << 40) + 12_345])
    for name in ([path] if how != "journal" else []) + ([path + "-journal"] if how in ("journal", "both") else []):
        with open(name, "ab") as file:
            os.truncate(file.fileno(), max(size, os.path.getsize(name)))
    memory = limited(resource.RLIMIT_AS, 3 << 30)
    for command in ("check", "export", "repair"):
        result = store(folder, command, "node.redb", preexec_fn=memory)
    if acked:
        expect(rows(folder)[1] >= acked, f"{how}: rows are lost")
        promised(folder, acked)
    else:
        expect(result.code == 1, f"{how}: exit code {result.code}")
        Node(folder, 0, 2).end()


def under_a_node(stores, chance, folder):
    """Files are moved, replaced, removed or linked under a node that writes; another node starts in its place."""
    acked = stores.copy(stores.closed, folder)
    path = os.path.join(folder, "node.redb")
    node = Node(folder, 1_000_000, 1_900_000)
    node.wait_for(chance.choice([1, chance.randrange(1, 100)]))
    how = chance.choice(["moved", "journal moved", "both moved", "linked", "commands", "replaced", "old back", "stopped"])
    if how == "moved":
        os.rename(path, path + ".moved.redb")
    elif how == "journal moved" and os.path.exists(path + "-journal"):
        os.rename(path + "-journal", path + ".aside-journal")
    elif how == "both moved":
        os.rename(path, path + ".moved.redb")
        if os.path.exists(path + "-journal"):
            os.rename(path + "-journal", path + ".moved.redb-journal")
    elif how == "linked":
        os.link(path, os.path.join(folder, "link.redb"))
    elif how == "replaced":
        os.rename(path, path + ".moved.redb")
        stores.copy(stores.closed, folder)
    elif how == "old back":
        os.rename(path, path + ".moved.redb")
        stores.copy(stores.killed, folder, "new.redb")
        os.rename(os.path.join(folder, "new.redb"), path)
    elif how == "stopped":
        node.run.signal(signal.SIGSTOP)
    for command in ("check", "export", "repair"):
        if os.path.exists(path):
            result = store(folder, command, "node.redb")
            expect(how in ("replaced", "old back") or "is already open" in result.err, f"{how}: {result.err}{result.out[-99:]}")
    if how == "linked":
        store(folder, "repair", "link.redb", codes=(1,))
    second = Node(folder, 3_000_000, 3_900_000)
    second.wait_for(20, 0.7)
    node.run.signal(signal.SIGCONT)
    time.sleep(0.1)
    for each in chance.sample([node, second], 2):
        each.end(chance.choice([signal.SIGKILL, signal.SIGTERM]))
    # Put the names back: what each node acknowledged must be in the file that it had.
    mine = path if how in ("linked", "commands", "stopped", "journal moved") else path + ".moved.redb"
    if how == "journal moved" and os.path.exists(path + ".aside-journal"):
        if os.path.exists(path + "-journal"):
            os.unlink(path + "-journal")
        os.rename(path + ".aside-journal", path + "-journal")
    elif how in ("moved", "replaced", "old back"):
        if os.path.exists(path + "-journal") and not second.acked:
            os.rename(path + "-journal", mine + "-journal")
    code, keys = rows(folder, os.path.basename(mine))
    expect(keys >= acked | node.acked, f"{how}: {len((acked | node.acked) - keys)} of {len(node.acked)} rows are lost, code {code}")
    if second.acked:
        expect(rows(folder)[1] >= second.acked, f"{how}: the second node's rows are lost")


def at_another_time(stores, chance, folder):
    """The clock of the files is set back or forward, and extended attributes and modes are odd."""
    acked = stores.copy(stores.killed, folder)
    for name in os.listdir(folder):
        when = chance.choice([0, 1, 2**31, 2**33, time.time() + 10**7])
        os.utime(os.path.join(folder, name), (when, when))
        os.chmod(os.path.join(folder, name), chance.choice([0o600, 0o644, 0o4755, 0o1666]))
    if chance.random() < 0.5:
        damage(os.path.join(folder, "node.redb"), chance)
        intact = rows(folder)[1]
        store(folder, "repair", "node.redb", codes=(0, 5))
        promised(folder, intact)
    else:
        promised(folder, acked)


CASES = (
    (little_room, 60), (full_disk, 30), (without_permission, 50), (huge, 25), (under_a_node, 60), (at_another_time, 15),
)
