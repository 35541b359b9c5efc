//! The files of a project in Rust: a program, its manifest, and for a guest the SDK and the interfaces of the node.

use super::kind::{Kind, Project};

/// The target of a component of WASI 0.2, and of a guest, which needs nothing of WASI.
pub(super) const WASI: &str = "wasm32-wasip2";
const BARE: &str = "wasm32-unknown-unknown";

/// The programs that a project starts with, which are also examples that tests run.
const GUEST: &str = include_str!("../../../../examples/guests/rust/hello/src/lib.rs");
const HTTP: &str = include_str!("../../../../examples/guests/wasi/hello/src/lib.rs");

/// Settings of cargo for a guest.
const CONFIG: &str = "\
[build]
target = \"wasm32-unknown-unknown\"

# This linker comes with Rust, and makes a component of a module. 64 KiB of stack instead of 1 MiB: a process should be
# small, and an infinite recursion should end soon.
[target.wasm32-unknown-unknown]
linker = \"wasm-component-ld\"
rustflags = [\"-Clink-arg=-zstack-size=65536\"]
";

/// The SDK, and the interfaces that it calls.
const SDK: [(&str, &str); 24] = [
    ("sdk/rust/Cargo.toml", include_str!("../../../../sdk/rust/Cargo.toml")),
    ("sdk/rust/src/clock.rs", include_str!("../../../../sdk/rust/src/clock.rs")),
    ("sdk/rust/src/crypto.rs", include_str!("../../../../sdk/rust/src/crypto.rs")),
    ("sdk/rust/src/error.rs", include_str!("../../../../sdk/rust/src/error.rs")),
    ("sdk/rust/src/exit.rs", include_str!("../../../../sdk/rust/src/exit.rs")),
    ("sdk/rust/src/groups.rs", include_str!("../../../../sdk/rust/src/groups.rs")),
    ("sdk/rust/src/kv.rs", include_str!("../../../../sdk/rust/src/kv.rs")),
    ("sdk/rust/src/lib.rs", include_str!("../../../../sdk/rust/src/lib.rs")),
    ("sdk/rust/src/log.rs", include_str!("../../../../sdk/rust/src/log.rs")),
    ("sdk/rust/src/message.rs", include_str!("../../../../sdk/rust/src/message.rs")),
    ("sdk/rust/src/names.rs", include_str!("../../../../sdk/rust/src/names.rs")),
    ("sdk/rust/src/pid.rs", include_str!("../../../../sdk/rust/src/pid.rs")),
    ("sdk/rust/src/process.rs", include_str!("../../../../sdk/rust/src/process.rs")),
    ("sdk/rust/src/random.rs", include_str!("../../../../sdk/rust/src/random.rs")),
    ("sdk/rust/src/run.rs", include_str!("../../../../sdk/rust/src/run.rs")),
    ("sdk/rust/src/spawn.rs", include_str!("../../../../sdk/rust/src/spawn.rs")),
    ("sdk/rust/src/streams.rs", include_str!("../../../../sdk/rust/src/streams.rs")),
    ("sdk/rust/src/supervisor.rs", include_str!("../../../../sdk/rust/src/supervisor.rs")),
    ("sdk/rust/src/timers.rs", include_str!("../../../../sdk/rust/src/timers.rs")),
    ("sdk/rust/src/topics.rs", include_str!("../../../../sdk/rust/src/topics.rs")),
    ("wit/runtime/rusm.wit", include_str!("../../../../wit/runtime/rusm.wit")),
    ("wit/runtime/streams.wit", include_str!("../../../../wit/runtime/streams.wit")),
    ("wit/runtime/topics.wit", include_str!("../../../../wit/runtime/topics.wit")),
    ("wit/store/kv.wit", include_str!("../../../../wit/store/kv.wit")),
];

/// Returns a project of this name.
pub(super) fn project(kind: Kind, name: &str) -> Project {
    let (target, program, dependency) = match kind {
        Kind::Guest => (BARE, GUEST, "rusm = { path = \"sdk/rust\" }"),
        Kind::Http => (WASI, HTTP, "wasip2 = \"1.0.4\""),
    };
    let mut files = vec![
        ("Cargo.toml", manifest(name, dependency)),
        ("src/lib.rs", program.to_owned()),
        (".gitignore", "/target\n".to_owned()),
    ];
    if kind == Kind::Guest {
        files.push((".cargo/config.toml", CONFIG.to_owned()));
        files.extend(SDK.map(|(path, text)| (path, text.to_owned())));
    }
    let component = format!("target/{target}/release/{}.wasm", name.replace('-', "_"));
    Project { files, component, needs: format!("needs Rust, and: rustup target add {target}") }
}

fn manifest(name: &str, dependency: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\n{dependency}\n\n# A component is loaded more often than it is built.\n[profile.release]\n\
         opt-level = \"s\"\nlto = true\ncodegen-units = 1\npanic = \"abort\"\nstrip = \"debuginfo\"\n\n\
         # The project is no member of a workspace above it, and the SDK has one of its own.\n[workspace]\n\
         exclude = [\"sdk\"]\n"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_guest_has_every_file_of_the_sdk() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/rust/src");
        let files = project(Kind::Guest, "my-shop").files;

        for entry in fs::read_dir(folder).unwrap() {
            let path = format!("sdk/rust/src/{}", entry.unwrap().file_name().display());
            assert!(files.iter().any(|(file, _)| *file == path), "{path}");
        }
    }

    #[test]
    fn a_guest_is_a_project_of_its_own_inside_another_workspace() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("Cargo.toml"), "[workspace]\n").unwrap();
        let shop = outer.path().join("shop");
        for (file, text) in project(Kind::Guest, "shop").files {
            let path = shop.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        let arguments = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
        let read = Command::new("cargo").args(arguments).current_dir(&shop).output().unwrap();

        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    }
}
