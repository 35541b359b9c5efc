#!/bin/sh
# Packages the crates of the libraries and of rusm-top as crates.io would receive them, without compiling them:
#   tests/release/packages.sh
# The packages are left in target/packages. Checks that each has the texts of its licences, and that its sources need no
# file outside of it: such a package would not compile. The programs rusm-node and rusm-bench embed guests and templates of
# the whole repository, so they are released as binaries only.
set -eu
cd "$(dirname "$0")/../.."
work=${CARGO_TARGET_DIR:-$PWD/target}/packages
rm -rf "$work"
mkdir -p "$work/source" "$work/unpacked"

# A copy, because `publish = false` guards against a publication by mistake, and cargo packages no dependency that has it.
git ls-files -z | xargs -0 cp -P --parents -t "$work/source"
sed -i 's/^publish = false$/publish = true/' "$work/source/Cargo.toml"
(cd "$work/source" && CARGO_TARGET_DIR="$work" cargo package --workspace --no-verify --locked --offline --exclude rusm-benches \
    --exclude rusm-examples --exclude rusm-fuzz --exclude rusm-node --exclude rusm-bench)

for package in "$work"/package/*.crate; do
    tar --extract --gzip --file "$package" --directory "$work/unpacked"
done

fail() {
    echo "packages.sh: $1" >&2
    exit 1
}

for package in "$work"/unpacked/*; do
    name=$(basename "$package")
    for licence in LICENSE-APACHE LICENSE-MIT; do
        [ -f "$package/$licence" ] || fail "$name has no $licence: add a symbolic link to it in the folder of the crate"
    done
    outside=$(grep -rnE 'path: *\[?"\.\./' "$package/src" || true)
    [ -z "$outside" ] || fail "$name reads files outside of the package: $outside"
done

# Examples of the documentation are only compiled by its tests, in the repository.
grep -rnE 'include_(str|bytes)!\("' "$work"/unpacked/*/src | grep -v '#\[doc = include_str!' >"$work/includes" || true
while IFS=: read -r file line text; do
    path=$(printf '%s' "$text" | sed -E 's/.*include_(str|bytes)!\("([^"]+)".*/\2/')
    [ -f "$(dirname "$file")/$path" ] || fail "${file#"$work"/unpacked/}:$line includes $path, which is not in the package"
done <"$work/includes"

find "$work/unpacked" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort
rm -rf "$work/source" "$work/unpacked" "$work/includes"
