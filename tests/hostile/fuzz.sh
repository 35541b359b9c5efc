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
    if cargo test --workspace --locked -q $arguments -- --exact "$target" >/dev/null; then
        passed=$((passed + 1))
        echo "ok      $target"
    else
        echo "failed  $target"
    fi
done <<'TARGETS'
fuzz_messages_of_clients --test fuzz
fuzz_messages_of_nodes --test fuzz
fuzz_recordings --test picture
fuzz_files_of_stores --test store_damage
fuzz_journals --test store_damage
hostile::fuzz_modules --test wasm
console::filter::tests::fuzz_filters --lib
console::handshake::tests::fuzz_request_heads --lib
document::tests::fuzz_reports --lib
settings::tests::fuzz_files_and_the_environment --bins
TARGETS
echo "$tried tried, $passed passed"
[ "$tried" = "$passed" ]
