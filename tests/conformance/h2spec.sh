#!/usr/bin/env bash
# Runs h2spec, the conformance suite of HTTP/2, against a server of rusm: `tests/conformance/h2spec.sh [PORT]`.
#
# Needs Go, which downloads h2spec into a temporary folder. One of the 146 cases fails by design: a port without TLS
# speaks HTTP/1.1, too, and answers first bytes that are not HTTP/2 with a response of HTTP/1.1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
port=${1:-18080}
cargo build -p rusm-examples --bin web_chat
folder=$(mktemp -d)
"${CARGO_TARGET_DIR:-target}/debug/web_chat" "$port" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
GOBIN=$folder GOFLAGS=-modcacherw go install github.com/summerwind/h2spec/cmd/h2spec@latest
"$folder/h2spec" --host 127.0.0.1 --port "$port" --strict --timeout 5 >"$folder/report" || true
sed -n '/^Failures:/,$p' "$folder/report"
grep -q '^146 tests, 14[56] passed' "$folder/report"
