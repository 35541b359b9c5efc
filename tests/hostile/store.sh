#!/usr/bin/env bash
# Damages stores and kills their writers: `tests/hostile/store.sh [FLIPS] [KILLS] [SEED]`, default 2000, 1000 and 1.
#
# After each flipped bit or cut, the store is compared with the data acknowledged before. A wrong value, a silently lost
# key, an abort or a panic shown to the user is a failure. There is one cut for every four flips. `cargo test` runs the
# same tests with fewer cases.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export RUSM_DAMAGE_CASES=${1:-2000} RUSM_STORE_KILLS=${2:-1000} RUSM_DAMAGE_SEED=${3:-1} RUSM_STORE_FAULTS=$((5 * ${1:-2000}))
tried=0 passed=0
for test in "damage" "it crash::"; do
    tried=$((tried + 1))
    # shellcheck disable=SC2086  # a program, and a filter of its tests
    if cargo test -p rusm-store --locked -q --test $test -- --nocapture; then
        passed=$((passed + 1))
        echo "ok      $test"
    else
        echo "failed  $test"
    fi
done
echo "$tried tried, $passed passed"
[ "$tried" = "$passed" ]
