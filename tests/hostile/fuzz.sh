#!/usr/bin/env bash
# Fuzzes each parser for a number of seconds: `tests/hostile/fuzz.sh [SECONDS] [SEED]`, default 60 and 1.
#
# `cargo test` runs the same targets briefly. A failure prints the path of the file with its input.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export RUSM_FUZZ_SECONDS=${1:-60} RUSM_FUZZ_SEED=${2:-1}
tried=0 passed=0
while read -r target arguments; do
    tried=$((tried + 1))
    # shellcheck disable=SC2086  # each word is an argument
    if cargo test --locked -q $arguments -- --exact "$target" 2>&1 | grep -q "1 passed"; then
        passed=$((passed + 1))
        echo "ok      $target"
    else
        echo "failed  $target"
    fi
done <<'TARGETS'
fuzz::fuzz_messages_of_clients -p rusm-protocol --test it
fuzz::fuzz_messages_of_nodes -p rusm-protocol --test it
picture::fuzz_recordings -p rusm-tui --test it
fuzz_files_of_stores -p rusm-store --test damage
fuzz_journals -p rusm-store --test damage
hostile::fuzz_modules -p rusm-wasm --features store --test it
filter::tests::fuzz_filters -p rusm-protocol --lib
endpoint::handshake::tests::fuzz_request_heads -p rusm-console --lib
report::document::tests::fuzz_reports -p rusm-bench --lib
settings::tests::fuzz_files_and_the_environment -p rusm-node --bins
TARGETS
echo "$tried tried, $passed passed"
[ "$tried" = "$passed" ]
