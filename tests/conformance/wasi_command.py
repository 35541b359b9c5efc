#!/usr/bin/env python3
"""Runs a guest as a command: `wasi_command.py RUSM WORLD GRANTS FILE [ARGS]`, with variables and a folder as JSON.

A guest of rusm writes to the log of its node, and its exit code is part of its exit reason. This program writes the lines of
the guest to its own output, and ends with the guest's exit code. A server writes its address to the error output.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """
[profile.suite]
capabilities = ["timers", "random", "crypto", "network", "http"]
hosts = ["*"]
environment = {{ {variables} }}
folders = {{ {folders} }}
"""
RUN = """
[modules]
{name} = {module}

[[process]]
module = {name}
profile = "suite"
restart = "temporary"
args = {args}
"""
SERVE = """
[[serve]]
listen = "127.0.0.1:0"
health = false

[[serve.route]]
pattern = "/*"
module = {module}
profile = "suite"
"""


def command(argv):
    node = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    code = None
    for line in node.stderr:
        line = line.decode(errors="replace").rstrip("\n")
        try:
            event = json.loads(line)
        except ValueError:
            print(line, file=sys.stderr)
            continue
        fields = event["fields"]
        if event["target"] == "rusm::guest":
            print(fields["message"], file=sys.stdout if event["level"] == "INFO" else sys.stderr, flush=True)
        elif reason := re.fullmatch(r"exit\((\d+)\)", fields.get("reason", "")):
            code = int(reason[1])
    return node.wait() if code is None else code


def main():
    program, world, grants, path, *args = sys.argv[1:]
    grants = json.loads(grants)
    variables = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in grants["environment"].items()]
    root = grants["root"]
    folders = f'"/" = {{ path = {json.dumps(root)}, write = true }}' if root else ""
    text = CONFIG.format(variables=", ".join(variables), folders=folders)
    is_server = world == "wasi:http/service"
    # The suite kills a server by its process id, so that its folder stays.
    folder = tempfile.mkdtemp() if is_server else tempfile.TemporaryDirectory()
    config = Path(folder if is_server else folder.name) / "rusm.toml"
    os.environ["RUSM_SOCKET_DIR"] = str(config.parent)
    if is_server:
        config.write_text(text + SERVE.format(module=json.dumps(str(Path(path).resolve()))))
        os.dup2(2, 1)
        os.execvp(program, [program, "serve", "--log", "warn", str(config)])
    # Programs of the suite expect the name of their file as their first argument.
    name, module = json.dumps(Path(path).name), json.dumps(str(Path(path).resolve()))
    config.write_text(text + RUN.format(name=name, module=module, args=json.dumps(args)))
    sys.exit(command([program, "run", "--log-format", "json", str(config)]))


if __name__ == "__main__":
    main()
