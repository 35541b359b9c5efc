#!/usr/bin/env bash
# Rebuilds the prebuilt guests and records their inputs in prebuilt/MANIFEST.toml.
#
#   examples/guests/build.sh [rust] [c] [ts] [wat] [wasi]      all five without arguments
#
# Rust needs: rustup target add wasm32-unknown-unknown, or only Debian packages (docs/guests.md); with rustup component add
# rust-src, its guests are 6 % smaller. C needs clang 19 and lld 19 (apt-get install clang-19 lld-19). TypeScript needs
# node 18 or newer with npm. Text needs only cargo. The guests of wasi:http need: rustup target add wasm32-wasip2.
# Building and testing rusm does not need this script: its results are in the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

guests=$PWD
wit=../../wit/runtime
wit_kv=../../wit/store
sdk=../../sdk
# GUESTS_TARGET_DIR moves the build output out of the sources; each workspace has its own folder in it.
target=${GUESTS_TARGET_DIR:-$guests/target}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
clang=${CLANG:-clang-19}

CARGO_TARGET_DIR=$target/encode cargo build --quiet --locked --manifest-path encode/Cargo.toml
encode=$target/encode/debug/encode
encoder="wit-component $(sed -n '/^name = "wit-component"/{n;s/.*"\(.*\)"/\1/p}' encode/Cargo.lock)"

record() { # ARTEFACT COMMAND TOOLS INPUT...
    "$encode" record "$guests/prebuilt/MANIFEST.toml" "$@"
}

# Copies guests and SDK into one workspace. Cargo hashes the absolute path of a package outside the workspace into the
# names of its symbols, so that builds in two checkouts would differ.
copy_rust() { # FOLDER
    rm -rf "$1" && mkdir -p "$1/sdk"
    (cd rust && tar -c --exclude=./target .) | tar -x -C "$1"
    (cd $sdk && tar -c --exclude=rust/target --exclude=rust/Cargo.lock rust) | tar -x -C "$1/sdk"
    cp -r ../../wit "$1/"
    sed -i 's|"[./]*/sdk/rust"|"sdk/rust"|' "$1/Cargo.toml"
    sed -i '/^\[workspace\]$/d' "$1/sdk/rust/Cargo.toml"
}

# If .toolchain exists, it holds the compiler of Debian's package rustc-web, unpacked as docs/guests.md describes.
build_rust() {
    local triple=wasm32-unknown-unknown tools=.toolchain/usr copy=$target/rust-copy extra=() rustc=rustc guest
    if [ -d "$tools" ]; then
        export LD_LIBRARY_PATH=$guests/$tools/lib/x86_64-linux-gnu RUSTC=$guests/$tools/bin/rustc RUSTC_BOOTSTRAP=1
        export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=${WASM_LD:-wasm-ld-19}
        extra=(-Zbuild-std=std,panic_abort)
        rustc=$RUSTC
    elif [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust" ]; then
        export RUSTC_BOOTSTRAP=1
        extra=(-Zbuild-std=std,panic_abort)
    fi
    # Keep the paths of the build machine out of the artefacts.
    extra+=(--config "target.$triple.rustflags=['--remap-path-prefix=$cargo_home=cargo','--remap-path-prefix=$guests=guests','--remap-path-prefix=$("$rustc" --print sysroot)=rust']")
    copy_rust "$copy"
    (cd "$copy" && CARGO_TARGET_DIR=$target/rust cargo build --quiet --release --locked "${extra[@]}")
    for guest in hello ping_pong counter crash spin hog digest keeper courier parked; do
        "$encode" component "$target/rust/$triple/release/$guest.wasm" "prebuilt/rust/$guest.wasm"
        record "prebuilt/rust/$guest.wasm" "cargo build --release" "$("$rustc" --version); $encoder" \
            $wit $wit_kv rust/Cargo.toml rust/Cargo.lock rust/.cargo/config.toml $sdk/rust/{Cargo.toml,src} rust/$guest
    done
}

build_c() {
    local flags="-std=c2x -Os -flto -mbulk-memory -Wall -Wextra -Wno-unused-parameter -nostdlib -ffreestanding -I$sdk/c"
    local link="-Wl,--no-entry,--gc-sections,--strip-debug,--stack-first,-z,stack-size=8192" guest
    mkdir -p "$target/c"
    for guest in hello ping_pong counter crash spin hog digest parked; do
        # shellcheck disable=SC2086 # each word is a flag
        "$clang" --target=wasm32-unknown-unknown $flags $link -o "$target/c/$guest.wasm" c/$guest.c $sdk/c/rusm.c
        "$encode" component "$target/c/$guest.wasm" "prebuilt/c/$guest.wasm" $wit actor
        record "prebuilt/c/$guest.wasm" "clang --target=wasm32-unknown-unknown $flags $link" \
            "$("$clang" --version | head -1); $encoder" $wit c/$guest.c $sdk/c/rusm.c $sdk/c/rusm.h
    done
    # These guests import further worlds besides `actor`.
    c_beyond keeper "kv streams" $wit actor $wit streaming $wit_kv storage
    c_beyond courier topics $wit actor $wit publishing
    # A component of rusm:http.
    mkdir -p "$target/c/web/deps/runtime" "$target/c/web/deps/http"
    cp c/web.wit "$target/c/web/"
    cp $wit/*.wit "$target/c/web/deps/runtime/"
    cp ../../wit/http/*.wit "$target/c/web/deps/http/"
    c_beyond web http "$target/c/web" web
}

# Uses the flags of `build_c`.
c_beyond() { # GUEST PARTS WIT WORLD...
    local guest=$1 part sources=() inputs=()
    for part in $2; do
        sources+=("$sdk/c/rusm_$part.c")
        inputs+=("$sdk/c/rusm_$part.c" "$sdk/c/rusm_$part.h")
    done
    [ ! -f "c/$guest.wit" ] || inputs+=("c/$guest.wit" ../../wit/http)
    # shellcheck disable=SC2086 # each word is a flag
    "$clang" --target=wasm32-unknown-unknown $flags $link -o "$target/c/$guest.wasm" "c/$guest.c" $sdk/c/rusm.c "${sources[@]}"
    "$encode" component "$target/c/$guest.wasm" "prebuilt/c/$guest.wasm" "${@:3}"
    record "prebuilt/c/$guest.wasm" "clang --target=wasm32-unknown-unknown $flags $link" \
        "$("$clang" --version | head -1); $encoder" $wit $wit_kv "c/$guest.c" $sdk/c/rusm.c $sdk/c/rusm.h "${inputs[@]}"
}

build_ts() {
    # With this target, async functions become generators, whose promises are the SDK's.
    local flags="--bundle --format=esm --platform=neutral --target=es2016 --external:rusm:*"
    local componentize="--sync --stub-wasi --minify"
    mkdir -p "$target/ts/wit/deps/runtime" "$target/ts/wit/deps/store" prebuilt/ts
    cp ts/package.json "$target/ts/"
    (cd "$target/ts" && npm install --no-package-lock --loglevel=error --no-audit --no-fund >/dev/null)
    "$target/ts/node_modules/.bin/tsc" -p ts
    ts guests "$guests/$wit/rusm.wit" "--world actor"
    # These guests import further worlds besides `actor`, so each targets a combined world.
    cp ts/keeper.wit ts/courier.wit "$target/ts/wit/"
    cp $wit/*.wit "$target/ts/wit/deps/runtime/"
    cp $wit_kv/*.wit "$target/ts/wit/deps/store/"
    ts keeper wit "--world keeper --opt-size"
    ts courier wit "--world courier --opt-size"
    # Components of rusm:http.
    local guest
    for guest in web feed; do
        mkdir -p "$target/ts/$guest/deps/runtime" "$target/ts/$guest/deps/http"
        cp "ts/$guest.wit" "$target/ts/$guest/"
        cp $wit/*.wit "$target/ts/$guest/deps/runtime/"
        cp ../../wit/http/*.wit "$target/ts/$guest/deps/http/"
        ts "$guest" "$guest" "--world $guest"
    done
}

ts() { # GUEST WIT OPTIONS
    local bin=$target/ts/node_modules/.bin
    # shellcheck disable=SC2086 # each word is a flag
    "$bin/esbuild" "ts/$1.ts" $flags --log-level=warning --outfile="$target/ts/$1.js"
    # shellcheck disable=SC2086
    (cd "$target/ts" && "$bin/componentize-qjs" --wit "$2" --js "$1.js" $componentize $3 -o "$1.wasm" >/dev/null)
    cp "$target/ts/$1.wasm" "prebuilt/ts/$1.wasm"
    record "prebuilt/ts/$1.wasm" "esbuild $flags; componentize-qjs $componentize $3" \
        "componentize-qjs $(version componentize-qjs); esbuild $(version esbuild)" $wit $wit_kv ../../wit/http $sdk/ts/{package.json,tsconfig.json,*.ts} ts
}

version() {
    node -p "require('$target/ts/node_modules/$1/package.json').version"
}

build_wat() {
    local source guest
    for source in wat/*.wat; do
        guest=$(basename "$source" .wat)
        "$encode" text "$source" "prebuilt/wat/$guest.wasm"
        record "prebuilt/wat/$guest.wasm" "encode text" \
            "wat $(sed -n '/^name = "wat"/{n;s/.*"\(.*\)"/\1/p}' encode/Cargo.lock)" "$source"
    done
}

# Components of wasi:http, without our SDK. Rust's own linker makes components of them.
build_wasi() {
    local triple=wasm32-wasip2 copy=$target/wasi-copy
    rm -rf "$copy" && mkdir -p "$copy/examples/guests/wasi" prebuilt/wasi
    # As deep as in the repository, so that the paths of the interfaces are right.
    (cd wasi && tar -c --exclude=./target .) | tar -x -C "$copy/examples/guests/wasi"
    cp -r ../../wit "$copy/"
    local flags="target.$triple.rustflags=['--remap-path-prefix=$cargo_home=cargo','--remap-path-prefix=$copy=guests']"
    (cd "$copy/examples/guests/wasi" && CARGO_TARGET_DIR=$target/wasi cargo build --quiet --release --locked --target $triple --config "$flags")
    local guest
    for guest in greeter hello http notes service sockets; do
        cp "$target/wasi/$triple/release/$guest.wasm" "prebuilt/wasi/$guest.wasm"
        record "prebuilt/wasi/$guest.wasm" "cargo build --release --target $triple" "$(rustc --version)" \
            ../../wit/wasi ../../wit/http wasi/Cargo.toml wasi/Cargo.lock "wasi/$guest"
    done
}

for language in "${@:-rust c ts wat wasi}"; do
    for one in $language; do
        case $one in
            rust | c | ts | wat | wasi) "build_$one" ;;
            *) echo "$one is not valid: use rust, c, ts, wat or wasi" >&2 && exit 2 ;;
        esac
    done
done
