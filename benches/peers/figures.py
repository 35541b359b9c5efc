#!/usr/bin/env python3
"""Measures the figures of the README and of comparable systems, and prints them as tables.

    benches/peers/figures.py [GROUP...] [--rounds 6] [--seconds 1] [--build DIR] [--no-build]

Groups: core, supervision, calls, guests, topics, store, counters; by default all. Each round of a row runs rusm,
then each of its peers, so that disturbances affect all systems alike. A cell has the median and the range of its runs
in operations per second, and the median CPU time per operation. Rows of limiters have only CPU time, and their ratio
is that of the CPU times. A peer whose tools are missing (erlc, go, java, lunatic, redis-server) is skipped, and the
row says so.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Commands that a peer needs besides the one that starts it.
TOOLS = {"Lunatic": "lunatic", "Redis": "redis-server", "Redis, appendfsync always": "redis-server"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--build", type=Path, default=ROOT / "target" / "peers")
    parser.add_argument("--no-build", action="store_true", help="use the programs of an earlier build")
    arguments = parser.parse_args()
    built = arguments.build.resolve()
    tables = groups(built, arguments.seconds)
    unknown = [name for name in arguments.groups if name not in tables]
    if unknown:
        parser.error(f"unknown group {unknown[0]!r}: use {', '.join(tables)}")
    if not arguments.no_build:
        build(built)
    for name in arguments.groups or tables:
        print(f"\n## {name}, {arguments.rounds} rounds of {arguments.seconds} s\n", flush=True)
        print("| operation | rusm | CPU per operation | peers | ratio |\n|---|---|---|---|---|", flush=True)
        for row in tables[name]:
            measure(*row, rounds=arguments.rounds)


def build(directory):
    """Builds rusm, and the peers whose tools are installed."""
    directory.mkdir(parents=True, exist_ok=True)
    run(["cargo", "build", "--release", "--locked"], cwd=ROOT)
    restart = ["cargo", "build", "--release", "--locked", "-p", "rusm-benches", "--bin", "restart"]
    run([*restart, "--target-dir", str(directory / "runtime")], cwd=ROOT)
    for crate in ["tokio", "call", "governor"]:
        run(["cargo", "build", "--release", "--target-dir", str(directory / "rust")], cwd=HERE / crate)
    if shutil.which("erlc"):
        run(["erlc", "-o", str(directory), str(HERE / "beam.erl"), str(HERE / "call.erl")])
    if shutil.which("go"):
        for package in ["go", "brokers"]:
            run(["go", "build", "-o", str(directory / f"peers-{package}"), "."], cwd=HERE / package)


def run(command, cwd=None):
    subprocess.run(command, cwd=cwd, check=True)


def groups(built, seconds):
    """Returns the rows of each group: label, command of rusm, commands of the peers."""
    window = str(seconds)

    def ours(scenario, *parameters, each=1):
        command = [str(ROOT / "target/release/rusm"), "bench", "run", scenario, "--for", f"{seconds}s", "--profile", "max", "--runs", "1", "--json"]
        for parameter in parameters:
            command += ["--param", parameter]
        return "rusm", command, lambda text: from_report(text, each)

    def from_table(scenario, row, rate, cpu, *parameters, name="rusm"):
        """Reads a row of a table in the report of a scenario; `row` holds the first cells of the row."""
        _, command, _ = ours(scenario, *parameters)
        return name, command, lambda text: from_row(text, row, rate, cpu)

    def restarts(line, schedulers=2):
        # `line` must be a whole label, for example "restart, 1 supervisor, exit", so that it matches only one line.
        command = [str(built / "runtime/release/restart"), str(schedulers), line, "1"]
        return "rusm", command, lambda text: from_line(text, r"(\d+) /s +([\d.]+) ns CPU")

    def figures(name, *command):
        return name, list(command), lambda text: from_line(text, r"ops_per_s=([\d.]+)\s+cpu_ns_per_op=([\d.]+)")

    def tokio(scenario, workers=2, name=None):
        name = name or (f"tokio, {workers} workers" if workers else "tokio, 1 thread")
        return figures(name, str(built / "rust/release/peers-tokio"), scenario, window, str(workers))

    def go(scenario):
        return figures("Go", str(built / "peers-go"), scenario, window)

    def beam(scenario, module="beam", name="BEAM"):
        words = [module, "main", scenario] if scenario else [module, "main"]
        return figures(name, "erl", "-noshell", "+P", "2000000", "-pa", str(built), "-s", *words, window)

    def call(peer):
        return figures(peer, str(built / "rust/release/peers-call"), peer, window)

    def broker(name, system, count):
        return figures(name, str(built / "peers-brokers"), system, str(count), window)

    def nats(subscribers):
        return broker("NATS", "nats", subscribers)

    def redis(subscribers):
        return broker("Redis", "redis", subscribers)

    def updates(row, name):
        return from_table("kv-versus", [row], "updates/s", "cpu/update", "writers=64", name=name)

    def counter(scenario, *parameters):
        return from_table(scenario, [], "ops/s", "cpu/op", "keys=128", "threshold=192", *parameters)

    def long_adder():
        command = ["java", str(HERE / "LongAdder.java"), "2", window]
        return "Java's LongAdder, 2 threads", command, lambda text: (1e6 * float(re.search(r"LongAdder, 2 threads: ([\d.]+)", text)[1]), None)

    def question(row, threads):
        """Measures a check of a limiter, by its CPU time only."""
        governor = [str(built / "rust/release/peers-governor"), str(threads), window]
        pattern = rf"governor\t{row}\t.*cpu_ns_per_op=([\d.]+)"
        ours_is = from_table("counter-micro", [f"limiter, {row}", threads], None, "cpu/op")
        return ours_is, [("governor", governor, lambda text: (None, float(re.search(pattern, text)[1])))]

    def lunatic(scenario):
        return figures("Lunatic", str(HERE / "lunatic/run.sh"), scenario)

    return {
        "core": [
            ("a process spawned, run, ended and reaped", ours("spawn-storm", "spawners=2"), [tokio("spawn-storm"), go("spawn-storm"), beam("spawn-storm")]),
            ("ping-pong round trips, 1 pair", ours("ping-pong", "pairs=1", each=2), [tokio("ping-pong", 0), beam("ping-pong"), go("ping-pong")]),
            ("ping-pong round trips, 64 pairs", ours("ping-pong", "pairs=64", each=2), [tokio("ping-pong-64"), beam("ping-pong-64"), go("ping-pong-64")]),
            ("ping-pong round trips, 1 pair on two schedulers", ours("ping-pong", "pairs=1", "placement=other", each=2), []),
            ("fan-in of 64 producers, messages received", ours("fan-in"), [tokio("fan-in"), go("fan-in"), beam("fan-in")]),
        ],
        "supervision": [
            ("a restart, 1 supervisor, cause exit", restarts("restart, 1 supervisor, exit"), [beam("supervisor", name="BEAM, supervisor"), beam("respawn", name="BEAM, bare"), go("respawn")]),
            ("a restart, 16 supervisors, cause exit", restarts("restart, 16 supervisors, exit"), [beam("supervisor-16", name="BEAM, supervisor"), beam("respawn-16", name="BEAM, bare"), go("respawn-16")]),
            ("a restart, 1 supervisor, cause panic", restarts("restart, 1 supervisor, panic"), [tokio("respawn")]),
            ("a monitored process ended, its down received", restarts("down of a monitored child"), [tokio("down"), beam("down"), go("down")]),
            ("the same restarts by `fault-recovery`, 1 supervisor", ours("fault-recovery", "supervisors=1"), []),
            ("16 supervisors", ours("fault-recovery", "supervisors=16"), []),
            ("1 supervisor, cause panic", ours("fault-recovery", "supervisors=1", "cause=panic"), []),
        ],
        "calls": [
            ("a call and its reply, 1 pair", restarts("call, 1 pair", 1), [call("ractor"), call("actix"), call("kameo"), call("tokio"), beam("", module="call")]),
        ],
        "guests": [
            ("`module-storm` without memory", ours("module-storm", "memory=0"), [lunatic("spawn")]),
            ("`module-storm` with a page", ours("module-storm", "memory=1"), []),
            ("`component-storm` without memory", ours("component-storm", "memory=0"), []),
            ("`component-storm` with a page", ours("component-storm", "memory=1"), []),
            ("`ping-pong` round trips of modules", ours("ping-pong", "body=module", "pairs=1", each=2), [lunatic("pingpong")]),
            ("`ping-pong` round trips, native, the same bytes", ours("ping-pong", "payload=16", "pairs=1", each=2), []),
            ("`crypto-ops`", ours("crypto-ops"), []),
        ],
        "topics": [
            ("a delivery to one of 1,000 subscribers", ours("pubsub-fanout", "subscribers=1000"), [tokio("broadcast", name="tokio broadcast"), tokio("async-broadcast", name="async-broadcast"), go("fan-out")]),
            ("a delivery of 1 KB to one of 50, nothing lost", ours("topic-fanout", "subscribers=50"), [tokio("async-broadcast-50", name="async-broadcast"), nats(50), redis(50)]),
            ("the same, 500 subscribers", ours("topic-fanout", "subscribers=500"), []),
            ("1 KB published and delivered; rusm also acknowledges it", ours("topic-throughput"), [tokio("mpsc", name="tokio mpsc"), nats(1), redis(1)]),
            ("the same in batches of 100", ours("topic-throughput", "batch=100"), []),
            ("1 KB published without subscribers; rusm copies and keeps it", ours("topic-firehose"), [nats(0), redis(0)]),
            ("a thousand publishers that start, publish and end", ours("topic-herd"), [tokio("herd", name="tokio tasks and mpsc")]),
            ("the same as guests", ours("topic-herd", "publishers=guests"), []),
        ],
        "store": [
            ("an update of one of 10,000 keys, synced, 64 writers", updates("store, processes", "rusm"), [updates("redb grouped", "redb grouped"), updates("redb alone", "redb alone"), broker("Redis, appendfsync always", "redis-incr", 64)]),
            ("`kv-storm`, 64 writers", ours("kv-storm", "writers=64"), []),
            ("`topic-durable`, 64 publishers", ours("topic-durable", "publishers=64"), []),
        ],
        "counters": [
            ("`counter-vsa`, 128 keys, rounds of 100 million", counter("counter-vsa", "ops=100000000"), [long_adder()]),
            ("the same with a write delay of 50 µs", counter("counter-vsa", "ops=100000000", "write_delay=50us"), []),
            *((f"`counter-{variant}`, 128 keys", counter(f"counter-{variant}", "ops=10000000"), []) for variant in ["atomic", "batch", "crdt", "token", "leaky"]),
            *((f"`counter-{variant}` with a write delay of 50 µs", counter(f"counter-{variant}", "write_delay=50us"), []) for variant in ["atomic", "token", "leaky"]),
            *((f"a limiter that {row}, threads: {threads}", *question(row, threads)) for threads in [1, 2] for row in ["admits", "denies"]),
        ],
    }


def from_report(text, each):
    """Returns operations per second and CPU nanoseconds per operation of a report. An operation of the row counts as
    `each` operations of the report."""
    report = json.loads(text)["runs"][0]
    cpu = report["cpu_ns_per_op"]
    return report["ops_per_sec"]["median"] / each, cpu * each if cpu is not None else None


def from_row(text, row, rate, cpu):
    """Returns the rate and the CPU time in the first row that begins with these cells, in any table of a report."""
    for table in json.loads(text)["runs"][0]["tables"]:
        names = [column["name"] for column in table["columns"]]
        cells = next((cells for cells in table["rows"] if cells[: len(row)] == row), None)
        if cpu in names and cells:
            return cells[names.index(rate)] if rate else None, cells[names.index(cpu)]
    raise KeyError(row)


def from_line(text, pattern):
    found = re.search(pattern, text)
    return float(found[1]), float(found[2])


def measure(what, ours, peers, rounds):
    """Runs the commands of a row in turn and prints the row."""
    runs = {}
    for _ in range(rounds):
        for name, command, parse in [ours, *peers]:
            if not shutil.which(TOOLS.get(name, command[0])):
                continue
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                figures = parse(done.stdout)
            except (AttributeError, TypeError, ValueError, KeyError, IndexError):
                last = (done.stderr.strip().splitlines() or ["no error output"])[-1]
                print(f"{' '.join(command)}: exit {done.returncode}: {last}", file=sys.stderr)
                continue
            runs.setdefault(name, []).append(figures)
    if ours[0] not in runs:
        print(f"| {what} | did not run | | | |", flush=True)
        return
    own = runs.pop(ours[0])
    cells = [f"{name}: {cell(values)}{cpu(values, ', ')}" for name, values in runs.items()]
    missing = [name for name, command, _ in peers if name not in runs]
    cells += [f"{name}: not measured" for name in missing]
    ratios = [f"{median(own) / median(values) if rates(own) else cpu_of(values) / cpu_of(own):.3g}" for values in runs.values()]
    print(f"| {what} | {cell(own)} | {cpu(own)} | {' · '.join(cells)} | {' · '.join(ratios)} |", flush=True)


def rates(values):
    return [rate for rate, _ in values if rate is not None]


def median(values):
    return statistics.median(rates(values))


def cpu_of(values):
    return statistics.median(time for _, time in values if time is not None)


def cell(values):
    if not rates(values):
        return ""
    middle = median(values)
    unit, name = next(((unit, name) for unit, name in [(1e9, " G"), (1e6, " M"), (1e3, " k")] if middle >= unit), (1, ""))
    low, high = (pick(rates(values)) / unit for pick in (min, max))
    return f"{middle / unit:.3g}{name} ({low:.3g}–{high:.3g})"


def cpu(values, before=""):
    has_cpu = any(time is not None for _, time in values)
    return f"{before if rates(values) else ''}{cpu_of(values):.4g} ns" if has_cpu else ""


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"{' '.join(map(str, failed.cmd))}: exit {failed.returncode}")
    except KeyboardInterrupt:
        sys.exit(130)
