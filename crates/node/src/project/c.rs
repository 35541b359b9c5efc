//! The files of a project in C: a program, the SDK, the interfaces of the node, and how make builds it.

use super::kind::{Kind, Project};

/// Programs that a project starts with. The guest is also an example that tests run.
const GUEST: &str = include_str!("../../../../examples/guests/c/hello.c");
const HTTP: &str = "\
/* Answers HTTP requests: curl http://127.0.0.1:8080/you */
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

/// Rules of make: clang for each source, which before version 16 has `typeof` only as `__typeof__`, and the linker of
/// components, which comes with Rust and with the WASI SDK.
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
OBJECTS = build/app.o $(patsubst sdk/%.c,build/%.o,$(wildcard sdk/*.c))

build/NAME.wasm: $(OBJECTS) wit/app.wit
\t$(COMPONENT_LD) --wasm-ld-path $(WASM_LD) --no-entry --gc-sections --strip-debug --stack-first -z stack-size=8192 \\
\t\t--component-type wit/app.wit -o $@ $(OBJECTS)

build/%.o: src/%.c $(wildcard sdk/*.h)
\t@mkdir -p build
\t$(CLANG) --target=wasm32-unknown-unknown -std=c2x -Dtypeof=__typeof__ -Os -mbulk-memory -Wall -Wextra -ffreestanding -Isdk -c -o $@ $<

build/%.o: sdk/%.c $(wildcard sdk/*.h)
\t@mkdir -p build
\t$(CLANG) --target=wasm32-unknown-unknown -std=c2x -Dtypeof=__typeof__ -Os -mbulk-memory -ffreestanding -Isdk -c -o $@ $<
";

/// The worlds of the components. A component imports only what its program uses.
const GUEST_WORLD: &str = "\
package rusm:guests;

world guest {
    include rusm:runtime/actor@0.1.0;
    include rusm:runtime/streaming@0.1.0;
    include rusm:runtime/publishing@0.1.0;
    include rusm:store/storage@0.1.0;
}
";
const HTTP_WORLD: &str = include_str!("../../../../examples/guests/c/web.wit");

/// The packages of the interfaces.
const RUNTIME: &str = include_str!("../../../../wit/runtime/rusm.wit");
const STREAMS: &str = include_str!("../../../../wit/runtime/streams.wit");
const TOPICS: &str = include_str!("../../../../wit/runtime/topics.wit");
const STORE: &str = include_str!("../../../../wit/store/kv.wit");
const REQUESTS: &str = include_str!("../../../../wit/http/http.wit");

/// The SDK: the part that every component needs, and the others.
const SDK: [(&str, &str); 2] = [
    ("sdk/rusm.h", include_str!("../../../../sdk/c/rusm.h")),
    ("sdk/rusm.c", include_str!("../../../../sdk/c/rusm.c")),
];
const GUEST_SDK: [(&str, &str); 6] = [
    ("sdk/rusm_kv.h", include_str!("../../../../sdk/c/rusm_kv.h")),
    ("sdk/rusm_kv.c", include_str!("../../../../sdk/c/rusm_kv.c")),
    ("sdk/rusm_streams.h", include_str!("../../../../sdk/c/rusm_streams.h")),
    ("sdk/rusm_streams.c", include_str!("../../../../sdk/c/rusm_streams.c")),
    ("sdk/rusm_topics.h", include_str!("../../../../sdk/c/rusm_topics.h")),
    ("sdk/rusm_topics.c", include_str!("../../../../sdk/c/rusm_topics.c")),
];
const HTTP_SDK: [(&str, &str); 2] = [
    ("sdk/rusm_http.h", include_str!("../../../../sdk/c/rusm_http.h")),
    ("sdk/rusm_http.c", include_str!("../../../../sdk/c/rusm_http.c")),
];

/// Returns a project of this name.
pub(super) fn project(kind: Kind, name: &str) -> Project {
    let runtime = [RUNTIME, STREAMS, TOPICS].concat();
    let (program, interfaces, further) = match kind {
        Kind::Guest => (GUEST, joined(GUEST_WORLD, &[&runtime, STORE]), &GUEST_SDK[..]),
        Kind::Http => (HTTP, joined(HTTP_WORLD, &[RUNTIME, REQUESTS]), &HTTP_SDK[..]),
    };
    let mut files = vec![
        ("Makefile", MAKEFILE.replace("NAME", name)),
        ("src/app.c", program.to_owned()),
        ("wit/app.wit", interfaces),
        (".gitignore", "/build\n".to_owned()),
    ];
    files.extend(SDK.iter().chain(further).map(|(path, text)| (*path, (*text).to_owned())));
    let needs = "needs make, clang with lld 18 or newer, and Rust".to_owned();
    Project { files, component: format!("build/{name}.wasm"), needs }
}

/// Joins a world and the packages of its interfaces: the linker of components reads one file.
fn joined(world: &str, packages: &[&str]) -> String {
    let mut text = world.to_owned();
    for package in packages {
        let (head, rest) = package.split_once(";\n").unwrap_or((package, ""));
        text.push('\n');
        text.push_str(head);
        text.push_str(" {\n");
        text.push_str(rest);
        text.push_str("}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_every_file_that_it_includes() {
        for kind in [Kind::Guest, Kind::Http] {
            let project = project(kind, "my-shop");
            let text = |wanted: &str| {
                project.files.iter().find(|(path, _)| *path == wanted).map_or("", |(_, text)| text.as_str())
            };

            assert!(text("Makefile").contains(&format!("{}:", project.component)));
            let includes = project.files.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| {
                let (_, header) = line.split_once("#include \"")?;
                header.split('"').next()
            });
            for header in includes {
                assert!(!text(&format!("sdk/{header}")).is_empty(), "{header}");
            }
            assert!(text("wit/app.wit").contains("package rusm:runtime@0.1.0 {"));
        }
    }
}
