#!/usr/bin/env bash
# Damages and kills stores by the thousand: `tests/hostile/store.sh [FLIPS] [KILLS] [SEED]`, 2000, 1000 and 1 unless given.
#
# Each flipped bit and each cut is judged against what was acknowledged before: a wrong value, a key that is silently gone,
# an abort or a panic that is shown is a failure. There is a cut for every fourth flip. The same tests run with fewer cases
# as part of `cargo test`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export RUSM_DAMAGE_CASES=${1:-2000} RUSM_STORE_KILLS=${2:-1000} RUSM_DAMAGE_SEED=${3:-1} RUSM_STORE_FAULTS=$((5 * ${1:-2000}))
tried=0 passed=0
for test in store_damage store_crash; do
    tried=$((tried + 1))
    if cargo test --workspace --locked -q --test "$test" -- --nocapture; then
        passed=$((passed + 1))
        echo "ok      $test"
    else
        echo "failed  $test"
    fi
done
echo "$tried tried, $passed passed"
[ "$tried" = "$passed" ]
