"""Repairs that are killed, delayed or failed at each change of a name, and commands that overlap on one file."""

import os
import signal
import time

from .lib import Failed, Node, Run, damage, everywhere, expect, promised, rows, store

NAMES = ("renameat2", "rename", "linkat", "link", "unlink", "flock", "fsync", "fdatasync", "ftruncate", "pwrite64", "openat")


def strace(*rules):
    words = ["strace", "-f", "-q", "-o", "/dev/null", "-e", "trace=" + ",".join(NAMES)]
    for rule in rules:
        words += ["-e", "inject=" + rule]
    return words


def begin(stores, chance, folder):
    """A damaged store: closed, or killed with a journal. Returns the keys that are still intact."""
    if chance.random() < 0.5:
        stores.copy(stores.closed, folder)
        damage(os.path.join(folder, "node.redb"), chance)
    else:
        stores.copy(stores.killed, folder)
        if chance.random() < 0.5:
            damage(os.path.join(folder, "node.redb-journal"), chance)
        else:
            damage(os.path.join(folder, "node.redb"), chance)
    return rows(folder)[1]


def settle(folder, intact):
    """After an interrupted repair: no intact row is gone, and a second repair works."""
    expect(everywhere(folder) >= intact, f"{len(intact - everywhere(folder))} intact rows are in no file")
    for round in range(3):
        result = store(folder, "repair", "node.redb")
        if result.code not in (1, 2):
            break
        expect("already exists" in result.err, result.err)
        os.rename(os.path.join(folder, "node.redb.repaired"), os.path.join(folder, f"aside-{round}.redb"))
    else:
        raise Failed("it cannot be repaired")
    expect(everywhere(folder) >= intact, "intact rows are in no file after the second repair")
    code, keys = rows(folder)
    expect(code == 0, f"exit code {code} after a repair")
    # What only the journal had may be in the kept file.
    expect(keys <= intact and (keys == intact or everywhere(folder) >= intact), "rows are lost")
    promised(folder, keys)


def killed_at_a_name(stores, chance, folder):
    """SIGKILL at the n-th call of one kind, with and without an exchange of names."""
    intact = begin(stores, chance, folder)
    call, number = chance.choice(NAMES), chance.randrange(1, 9)
    rules = [f"{call}:signal=SIGKILL:when={number}"]
    if call != "renameat2" and chance.random() < 0.4:
        rules.append("renameat2:error=EINVAL")
    if call != "linkat" and chance.random() < 0.2:
        rules.append("linkat:error=EPERM:when=2+")
    Run(folder, "store", "repair", "node.redb", prefix=strace(*rules)).end(codes=None)
    settle(folder, intact)


def failed_at_a_call(stores, chance, folder):
    """The n-th call of one kind fails with an error of the system."""
    intact = begin(stores, chance, folder)
    call, number = chance.choice(NAMES), chance.choice(["1", "2", "3", "4", "5", "1+", "2+"])
    error = chance.choice(["EIO", "ENOSPC", "EACCES", "EROFS", "EINTR", "EDQUOT", "ENOLCK", "EMFILE"])
    if error == "EINTR" and number.endswith("+"):
        number = "1"
    if call == "openat":
        number = str(chance.randrange(4, 12))
    Run(folder, "store", "repair", "node.redb", prefix=strace(f"{call}:error={error}:when={number}")).end(
        codes=(0, 1, 2, 5, 127)
    )
    settle(folder, intact)


def started_meanwhile(stores, chance, folder):
    """A node starts, writes and is killed while a repair is delayed at each of its steps."""
    intact = begin(stores, chance, folder)
    call = chance.choice(["renameat2", "renameat2", "rename", "rename", "linkat", "unlink", "flock", "fsync"])
    side = chance.choice(["enter", "exit"])
    rules = [f"{call}:delay_{side}=1500000:when={chance.choice(['1', '1', '2', '3', '1+2'])}"]
    if call != "renameat2" and chance.random() < 0.3:
        rules.append("renameat2:error=EINVAL")
    repair = Run(folder, "store", "repair", "node.redb", prefix=strace(*rules))
    acked, first = set(), 1_000_000
    while repair.process.poll() is None:
        node = Node(folder, first, 2_000_000)
        node.wait_for(chance.randrange(1, 60), 2)
        node.end(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        acked, first = acked | node.acked, first + 100_000
    repair.end()
    expect(acked <= rows(folder)[1], f"{len(acked - rows(folder)[1])} rows that a node acknowledged are lost")
    code, keys = rows(folder)
    if code != 0:
        settle(folder, intact | acked)
    else:
        expect(everywhere(folder) >= intact | acked, "intact rows are in no file")
        promised(folder, acked | keys)


def overlapping(stores, chance, folder):
    """Commands and nodes overlap on one file in random order; some are stopped for a while, some are killed."""
    intact = begin(stores, chance, folder) if chance.random() < 0.8 else stores.copy(stores.killed, folder)
    running, nodes = [], []
    for step in range(chance.randrange(4, 9)):
        what = chance.choice(["check", "export", "repair", "repair", "repair", "node", "node", "output"])
        if what == "node":
            node = Node(folder, 1_000_000 * (step + 1), 1_000_000 * (step + 1) + 500_000)
            nodes.append(node)
            running.append(node.run)
        else:
            args = ["repair", "node.redb", "--output", f"out-{chance.randrange(3)}.redb"] if what == "output" else [what, "node.redb"]
            prefix = strace(f"{chance.choice(NAMES)}:delay_exit={chance.randrange(60000)}") if chance.random() < 0.5 else ()
            running.append(Run(folder, "store", *args, prefix=prefix))
        time.sleep(chance.random() * 0.15)
        victim = chance.choice(running)
        if victim.process.poll() is None:
            number = chance.choice([signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGCONT])
            if number in (signal.SIGKILL, signal.SIGTERM):
                victim.signal(signal.SIGCONT)
                victim.was_killed = True
            victim.signal(number)
    for run in running:
        run.signal(signal.SIGCONT)
    time.sleep(chance.random() * 0.2)
    for node in nodes:
        node.end(chance.choice([signal.SIGKILL, signal.SIGTERM]), codes=(0, 1, 2, -15, -9))
    for run in running:
        if run not in [node.run for node in nodes]:
            run.end(codes=None if hasattr(run, "was_killed") else (0, 1, 2, 5), timeout=15)
    acked = set().union(*(node.acked for node in nodes))
    expect(everywhere(folder) >= intact | acked, f"{len((intact | acked) - everywhere(folder))} rows are in no file")
    code, keys = rows(folder)
    if code == 0:
        # Those acknowledged before a repair may be in the kept file only if the repair said so.
        expect(acked <= keys, f"{len(acked - keys)} acknowledged rows are lost silently")
        promised(folder, keys)
    else:
        settle(folder, intact | acked)


CASES = ((killed_at_a_name, 100), (failed_at_a_call, 100), (started_meanwhile, 50), (overlapping, 60))
