#!/bin/bash
# Fills a real file system under a store and a durable topic. Writers must get a named error, reads must still work, and
# writes must work again once there is space.
set -u
rounds=${1:-5}
disk=$(mktemp -d)
passed=0
cleanup() { umount "$disk" 2>/dev/null; rmdir "$disk"; }
trap cleanup EXIT
cargo test --quiet --package rusm-store --test full_disk --no-run || exit 1
for round in $(seq "$rounds"); do
    mount -t tmpfs -o size=24m,mode=0700 rusm-hostile "$disk" || { echo "cannot mount a tmpfs: run this as root"; exit 1; }
    if RUSM_TEST_SMALL_DISK=$disk cargo test --quiet --package rusm-store --test full_disk >/dev/null; then
        passed=$((passed + 1))
        echo "ok      full disk, round $round"
    else
        echo "FAILED  full disk, round $round"
    fi
    umount "$disk"
done
echo "tried $rounds, passed $passed"
[ "$passed" -eq "$rounds" ]
