#!/usr/bin/env bash
# Measures Lunatic's processes: run.sh spawn|pingpong. Prints one line of figures, computed from the difference between
# a large and a small run, so that the start of the program is not counted. Needs wat2wasm (Debian: wabt) and
# `cargo install lunatic-runtime --version 0.13.2`, without --locked because its locked `time` no longer compiles.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
case "${1:-}" in
spawn) few=64 many=64064 ;;
pingpong) few=100 many=400100 ;;
*)
    echo "usage: run.sh spawn|pingpong" >&2
    exit 2
    ;;
esac
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

# Prints the nanoseconds of wall time and of CPU time of a run with this count.
cost() {
    sed "s/@COUNT@/$2/g" "$1.wat" >"$built/$1.wat"
    wat2wasm "$built/$1.wat" -o "$built/$1.wasm"
    local TIMEFORMAT='%R %U %S'
    { time lunatic run "$built/$1.wasm" >/dev/null 2>&1; } 2>&1 | awk '{ printf "%.0f %.0f\n", $1 * 1e9, ($2 + $3) * 1e9 }'
}

read -r wall_few cpu_few < <(cost "$1" "$few")
read -r wall_many cpu_many < <(cost "$1" "$many")
awk -v n="$((many - few))" -v wall="$((wall_many - wall_few))" -v cpu="$((cpu_many - cpu_few))" -v what="$1" \
    'BEGIN { printf "lunatic\t%s\tops_per_s=%.0f\tcpu_ns_per_op=%.1f\n", what, n * 1e9 / wall, cpu / n }'
