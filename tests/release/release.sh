#!/bin/sh
# Builds the binaries of a release into one folder, with checksums and a list of all components (SBOM, CycloneDX 1.5).
#   tests/release/release.sh OUT_DIR [--skip-build]
# The list comes from Cargo.lock and `cargo tree`, so it needs no further tool.
set -eu
out=${1:?usage: release.sh OUT_DIR [--skip-build]}
# Resolve the path before `cd`: if it is relative, it is relative to the caller's directory.
mkdir -p "$out"
out=$(realpath "$out")
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
if [ "${2:-}" != --skip-build ]; then
    cargo build --release --locked -p rusm-node -p rusm-tui
    cp "$target/release/rusm" "$target/release/rusm-top" "$out/"
fi
python3 tests/release/sbom.py > "$out/rusm.cdx.json"
cp LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$out/"
(cd "$out" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | sed 's|^\./||' | xargs sha256sum > SHA256SUMS)
(cd "$out" && sha256sum --quiet --check SHA256SUMS)
echo "$out: $(wc -l < "$out/SHA256SUMS") files; sign SHA256SUMS before you publish them"
