//! The files of a project in C: a program, the SDK, the interfaces of the node, and how make builds it.

/// The program that a project starts with.
const PROGRAM: &str = "\
/* Answers requests of HTTP: curl http://127.0.0.1:8080/you */
#include \"rusm_http.h\"

rusm_response handle(rusm_request request) {
    static rusm_line line;
    rusm_bytes name = {request.target.at + 1, request.target.len - 1};
    line.len = 0;
    rusm_put(&line, RUSM(\"hello, \"));
    rusm_put(&line, name.len > 0 ? name : RUSM(\"world\"));
    rusm_put(&line, RUSM(\"\\n\"));
    return (rusm_response){.status = 200, .body = rusm_text(&line)};
}
";

/// Rules of make: clang for each source, and the linker of components, which comes with Rust and with the WASI SDK.
const MAKEFILE: &str = "\
find = $(firstword $(foreach name,$(1),$(shell command -v $(name))))
CLANG ?= $(call find,clang clang-22 clang-21 clang-20 clang-19 clang-18)
WASM_LD ?= $(call find,wasm-ld wasm-ld-22 wasm-ld-21 wasm-ld-20 wasm-ld-19 wasm-ld-18)
COMPONENT_LD ?= $(firstword $(call find,wasm-component-ld) $(wildcard $(shell rustc --print sysroot)/lib/rustlib/*/bin/wasm-component-ld))
ifeq ($(and $(CLANG),$(WASM_LD)),)
$(error clang or wasm-ld is missing: install both, for example with apt-get install clang lld)
endif
ifeq ($(COMPONENT_LD),)
$(error wasm-component-ld is missing: it comes with Rust, and with the WASI SDK)
endif
OBJECTS = build/app.o build/rusm.o build/rusm_http.o

build/NAME.wasm: $(OBJECTS) wit/app.wit
\t$(COMPONENT_LD) --wasm-ld-path $(WASM_LD) --no-entry --gc-sections --strip-debug --stack-first -z stack-size=8192 \\
\t\t--component-type wit/app.wit -o $@ $(OBJECTS)

build/%.o: src/%.c sdk/rusm.h sdk/rusm_http.h
\t@mkdir -p build
\t$(CLANG) --target=wasm32-unknown-unknown -std=c2x -Os -mbulk-memory -Wall -Wextra -ffreestanding -Isdk -c -o $@ $<

build/%.o: sdk/%.c sdk/rusm.h sdk/rusm_http.h
\t@mkdir -p build
\t$(CLANG) --target=wasm32-unknown-unknown -std=c2x -Os -mbulk-memory -ffreestanding -Isdk -c -o $@ $<
";

/// The world of the component, and the packages of its interfaces.
const WORLD: &str = include_str!("../../../../examples/guests/c/web.wit");
const PACKAGES: [&str; 2] =
    [include_str!("../../../../wit/runtime/rusm.wit"), include_str!("../../../../wit/http/http.wit")];

/// The SDK.
const PARTS: [(&str, &str); 4] = [
    ("sdk/rusm.h", include_str!("../../../../sdk/c/rusm.h")),
    ("sdk/rusm.c", include_str!("../../../../sdk/c/rusm.c")),
    ("sdk/rusm_http.h", include_str!("../../../../sdk/c/rusm_http.h")),
    ("sdk/rusm_http.c", include_str!("../../../../sdk/c/rusm_http.c")),
];

/// Path of the component in a project of this name.
pub(super) fn component(name: &str) -> String {
    format!("build/{name}.wasm")
}

/// Returns the files of a project, each with its path.
pub(super) fn files(name: &str) -> Vec<(&'static str, String)> {
    let own = [
        ("Makefile", MAKEFILE.replace("NAME", name)),
        ("src/app.c", PROGRAM.to_owned()),
        ("wit/app.wit", interfaces()),
        (".gitignore", "/build\n".to_owned()),
    ];
    own.into_iter().chain(PARTS.map(|(path, text)| (path, text.to_owned()))).collect()
}

/// Joins the world and its packages: the linker of components reads one file.
fn interfaces() -> String {
    let mut text = WORLD.to_owned();
    for package in PACKAGES {
        let (head, rest) = package.split_once(";\n").unwrap_or((package, ""));
        text.push('\n');
        text.push_str(head);
        text.push_str(" {\n");
        text.push_str(rest);
        text.push_str("}\n");
    }
    text
}
