#!/usr/bin/env bash
# Floods the mailboxes of 40 idle guests with messages to guessed pids, in a node limited to 1 GiB:
# `tests/hostile/flood.sh [RUSM] [SECONDS]`.
#
# The kernel must not kill the node, the node must still answer an observer, and SIGTERM must end it. Needs root for the
# control group, and a built `rusm` and `rusm-top`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rusm=$(realpath "${1:-target/release/rusm}") seconds=${2:-20}
folder=$(mktemp -d) name=rusm-flood-$$
if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/$name limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
else
    group=/sys/fs/cgroup/$name limit=memory.max peak=memory.peak
fi
mkdir "$group"
trap 'kill -9 "$node" 2>/dev/null || true; wait 2>/dev/null || true; rmdir "$group"; rm -r "$folder"' EXIT
echo 1073741824 >"$group/$limit"

cat >"$folder/idle.wat" <<'WAT'
(module
  (import "rusm" "sleep" (func $sleep (param i64)))
  (memory (export "memory") 1)
  (func (export "run") (call $sleep (i64.const 86400000))))
WAT
cat >"$folder/flood.wat" <<'WAT'
(module
  (import "rusm" "try_send" (func $try_send (param i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 16)
  (func (export "run") (local $slot i64)
    (loop $again
      (local.set $slot (i64.rem_u (i64.add (local.get $slot) (i64.const 1)) (i64.const 2048)))
      (drop (call $try_send (i64.or (local.get $slot) (i64.const 0x100000000)) (i64.const 0) (i32.const 0) (i32.const 1000000)))
      (br $again))))
WAT
cat >"$folder/rusm.toml" <<'TOML'
[node]
name = "flood"

[[process]]
name = "idle"
module = "idle.wat"
count = 40

[[process]]
name = "flood"
module = "flood.wat"

# Unlike a sandboxed guest, a trusted one may send to processes whose address it was not given.
[[process]]
name = "flood-trusted"
module = "flood.wat"
profile = "trusted"
TOML
cd "$folder"
export XDG_RUNTIME_DIR=$folder
(echo "$BASHPID" >"$group/cgroup.procs" && exec "$rusm" run 2>log) &
node=$!
sleep "$seconds"
tried=3 passed=0
check() {
    if "${@:2}"; then passed=$((passed + 1)) && echo "ok      $1"; else echo "failed  $1"; fi
}
is_answered() { "$(dirname "$rusm")/rusm-top" flood --once --json | grep -q '"mailbox_bytes'; }
ends() { kill -TERM "$node" && wait "$node"; }
check "the node lives after $seconds s, at most $(($(<"$group/$peak") >> 20)) MiB" kill -0 "$node"
check "an observer is answered" is_answered
check "SIGTERM ends it" ends
echo "$tried tried, $passed passed"
[ "$tried" = "$passed" ] || { tail -5 log; exit 1; }
