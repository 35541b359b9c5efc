"""Adapter of rusm for the suite of WASI (github.com/WebAssembly/wasi-testsuite, branch prod/testsuite-base).

    RUSM=target/release/rusm WASI-TESTSUITE/run-tests -r tests/conformance/wasi_adapter.py \\
        -e tests/conformance/wasi_expectations.toml

The suite needs Python 3.12 and the packages colorama and requests. Tests that fail are in `wasi_expectations.toml`, by name and
with the reason. The variables of a test are the configuration of the guest's profile, which `wasi:config` has.
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


def compute_argv(test_path, args_env_root, proposals, wasi_world, wasi_version):
    args, env, _root = args_env_root
    return [sys.executable, str(COMMAND), RUSM, wasi_world, json.dumps(env), test_path, *args]
