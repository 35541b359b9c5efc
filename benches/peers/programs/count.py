#!/usr/bin/env python3
"""Counts the lines of the same programs in several libraries: without empty lines, comments and `#![…]`.

The table in examples/README.md has its output.
"""

from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE / "../../../examples"
COLUMNS = {
    "rusm": lambda program: EXAMPLES / f"{program}.rs",
    "kameo": lambda program: HERE / f"src/bin/{program}_kameo.rs",
    "actix": lambda program: HERE / f"src/bin/{program}_actix.rs",
    "ractor": lambda program: HERE / f"src/bin/{program}_ractor.rs",
    "Elixir": lambda program: HERE / f"elixir/{program}.exs",
}


def count(path):
    if not path.exists():
        return None
    lines = (line.strip() for line in path.read_text().splitlines())
    return sum(1 for line in lines if line and not line.startswith(("//", "#!", "# ")))


print("| Program | " + " | ".join(COLUMNS) + " |")
print("|---" * (len(COLUMNS) + 1) + "|")
for program in ("chat", "cache", "breaker", "job_queue"):
    counts = (count(path(program)) for path in COLUMNS.values())
    print(f"| `{program}` | " + " | ".join("–" if lines is None else str(lines) for lines in counts) + " |")
