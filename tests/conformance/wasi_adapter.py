"""Adapter of rusm for the suite of WASI (github.com/WebAssembly/wasi-testsuite, branch prod/testsuite-base).

    RUSM=target/release/rusm WASI-TESTSUITE/run-tests -r tests/conformance/wasi_adapter.py \\
        -e tests/conformance/wasi_expectations.toml

The suite needs Python 3.12 and the packages colorama and requests. Tests that fail are in `wasi_expectations.toml`, by name and
with the reason.
"""

import json
import os
import sys
from pathlib import Path

RUSM = os.getenv("RUSM", "rusm")
COMMAND = Path(__file__).with_name("wasi_command.py")


def get_name():
    return "rusm"


def get_version():
    return "0.1.0"


def get_wasi_versions():
    return ["wasm32-wasip1", "wasm32-wasip3"]


def get_wasi_worlds():
    return ["wasi:cli/command", "wasi:http/service"]


def remove_links(root):
    """Removes the links that earlier tests left: the runner removes only their files and folders."""
    for path in Path(root).glob("**/*.cleanup") if root else []:
        if path.is_symlink():
            path.unlink()


def compute_argv(test_path, args_env_root, proposals, wasi_world, wasi_version):
    args, env, root = args_env_root
    remove_links(root)
    grants = json.dumps({"environment": env, "root": str(Path(root).resolve()) if root else None})
    return [sys.executable, str(COMMAND), RUSM, wasi_world, grants, test_path, *args]
