#!/usr/bin/env bash
# Runs a release binary as `rusm ops container` does, without a container engine: as another user, in a root directory
# that is read-only and has nothing but the binary, its libraries, a configuration and /dev/null. Needs root.
#
#   tests/release/container.sh target/release/rusm
set -euo pipefail
rusm=$(realpath "$1")
guest=$(realpath "$(dirname "$0")/../../examples/guests/prebuilt/rust/counter.wasm")

root=$(mktemp -d) && chmod 755 "$root"
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{usr/bin,etc/rusm,proc,tmp,var/lib/rusm,dev}
: > "$root/dev/null"
cp "$rusm" "$root/usr/bin/rusm"
cp "$guest" "$root/etc/rusm/"
printf '[[process]]\nmodule = "counter.wasm"\nargs = ["serve"]\n' > "$root/etc/rusm/rusm.toml"
ldd "$rusm" | grep -o '/[^ ]*' | while read -r library; do
    install -D "$library" "$root$library"
done
variables=$("$rusm" ops container | sed -n 's/^ENV //p')
command=$("$rusm" ops container | sed -n 's/^CMD //p' | tr -d '[]",')

log=$(mktemp)
# shellcheck disable=SC2016,SC2086 # the inner shell expands them; the command is words
timeout --signal=TERM 5 unshare --mount --pid --fork --kill-child=TERM sh -c '
    root=$1 variables=$2 && shift 2
    mount --bind "$root" "$root" && mount -o remount,bind,ro "$root"
    mount --bind /dev/null "$root/dev/null" && mount -t proc proc "$root/proc" && mount -t tmpfs -o uid=65532,gid=65532 tmpfs "$root/var/lib/rusm"
    cd "$root" && exec env -i PATH="$PATH" HOME=/home/nonroot $variables chroot --userspec=65532:65532 "$root" "$@"
' sh "$root" "$variables" /usr/bin/rusm $command 2> "$log" || true
cat "$log"
grep -q "guests have started" "$log" && grep -q "node has stopped" "$log" && echo "the container's node started and stopped"
