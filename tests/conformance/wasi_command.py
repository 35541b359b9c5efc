#!/usr/bin/env python3
"""Runs a guest as a command: `wasi_command.py RUSM WORLD VARIABLES FILE [ARGS]`, with the variables as JSON.

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
config = {{ {variables} }}
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
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    code = ended.returncode
    for line in ended.stderr.decode(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            print(line, file=sys.stderr)
            continue
        fields = event["fields"]
        if event["target"] == "rusm::guest":
            print(fields["message"], file=sys.stdout if event["level"] == "INFO" else sys.stderr)
        elif reason := re.fullmatch(r"exit\((\d+)\)", fields.get("reason", "")):
            code = int(reason[1])
    return code


def main():
    program, world, variables, path, *args = sys.argv[1:]
    pairs = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in json.loads(variables).items()]
    text = CONFIG.format(variables=", ".join(pairs))
    is_server = world == "wasi:http/service"
    # The suite kills a server by its process id, so that its folder stays.
    folder = tempfile.mkdtemp() if is_server else tempfile.TemporaryDirectory()
    config = Path(folder if is_server else folder.name) / "rusm.toml"
    os.environ["RUSM_SOCKET_DIR"] = str(config.parent)
    if is_server:
        config.write_text(text + SERVE.format(module=json.dumps(str(Path(path).resolve()))))
        os.dup2(2, 1)
        os.execvp(program, [program, "serve", "--log", "warn", str(config)])
    config.write_text(text)
    argv = [program, "run", path, "--config", str(config), "--profile", "suite", "--restart", "temporary"]
    sys.exit(command([*argv, "--log-format", "json", "--", *args]))


if __name__ == "__main__":
    main()
