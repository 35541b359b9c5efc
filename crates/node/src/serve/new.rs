//! `rusm new` creates a project, and `rusm build` builds it.
//!
//! ```text
//!   rusm new --http rust shop ─▶ shop/{Cargo.toml, src/lib.rs, rusm.toml, .gitignore}
//!   rusm build ─▶ cargo ─▶ target/wasm32-wasip2/release/shop.wasm ◀─ rusm serve
//!   rusm new --http ts shop ─▶ shop/{package.json, src/app.ts, sdk, wit, rusm.toml, …}
//!   rusm build ─▶ npm ─▶ build/shop.wasm ◀─ rusm serve
//!   rusm new --http c shop ─▶ shop/{Makefile, src/app.c, sdk, wit, rusm.toml, …}
//!   rusm build ─▶ make ─▶ build/shop.wasm ◀─ rusm serve
//! ```

use std::path::Path;
use std::process::Command;

use rusm_text::escape;

use crate::bench::output::print;
use crate::cli::{BuildFlags, NewFlags};
use crate::failure::{Failure, system};
use crate::serve::created::Created;
use crate::serve::{new_c, new_ts};

/// The target of components of WASI 0.2.
const TRIPLE: &str = "wasm32-wasip2";

/// The program that a project starts with, which is also an example that tests run.
const PROGRAM: &str = include_str!("../../../../examples/guests/wasi/hello/src/lib.rs");

/// Creates a project, and prints the next steps.
pub(crate) fn create(flags: &NewFlags) -> Result<u8, Failure> {
    let language = flags.http.as_str();
    if !["rust", "c", "ts"].contains(&language) {
        return Err(Failure::Usage(format!("--http of {language:?} must be rust, c or ts")));
    }
    let folder = flags.path.as_path();
    let name = folder.file_name().and_then(|name| name.to_str()).filter(|name| is_crate_name(name));
    let Some(name) = name else {
        let shown = folder.display();
        return Err(Failure::Usage(format!(
            "the last part of {shown:?} must start with a letter and have only letters, digits, - and _"
        )));
    };
    if folder.exists() {
        return Err(Failure::Usage(format!("{} exists already: choose another folder", folder.display())));
    }
    let (mut files, component, needs) = match language {
        "c" => {
            (new_c::files(name), new_c::component(name), "needs make, clang with lld 18 or newer, and Rust".to_owned())
        }
        "ts" => (new_ts::files(name), new_ts::component(name), "needs Node 18 or newer, with npm".to_owned()),
        _ => {
            let component = format!("target/{TRIPLE}/release/{}.wasm", name.replace('-', "_"));
            (rust_files(name), component, format!("needs Rust, and: rustup target add {TRIPLE}"))
        }
    };
    files.push(("rusm.toml", settings(&component)));
    Created::write(folder, &files)?;
    print(&format!(
        "created {0}\n  cd {0}\n  rusm build             # {needs}\n  rusm serve --watch     # http://127.0.0.1:8080",
        escape(&folder.display().to_string())
    ))?;
    Ok(0)
}

/// Returns the files of a project in Rust, each with its path.
fn rust_files(name: &str) -> Vec<(&'static str, String)> {
    vec![("Cargo.toml", manifest(name)), ("src/lib.rs", PROGRAM.to_owned()), (".gitignore", "/target\n".to_owned())]
}

/// Builds the project in a folder with cargo, npm or make.
pub(crate) fn build(flags: &BuildFlags) -> Result<u8, Failure> {
    let folder = flags.path.as_deref().unwrap_or_else(|| Path::new("."));
    let has = |file: &str| folder.join(file).is_file();
    if !has("Cargo.toml") && has("package.json") {
        return build_with_npm(folder);
    }
    if !has("Cargo.toml") && has("Makefile") {
        return build_with_make(folder);
    }
    if !has("Cargo.toml") {
        return Err(Failure::Usage(format!(
            "{} has no Cargo.toml, package.json or Makefile: create a project with rusm new",
            folder.display()
        )));
    }
    let mut cargo = Command::new("cargo");
    // The folder that rusm.toml names, whatever CARGO_TARGET_DIR says.
    let arguments = ["build", "--release", "--target", TRIPLE, "--target-dir", "target"];
    let status = cargo.args(arguments).current_dir(folder).status();
    let status = status.map_err(system("run cargo, which builds components"))?;
    if !status.success() {
        return Err(Failure::Usage(format!(
            "cargo has failed: if it misses the target, run rustup target add {TRIPLE}"
        )));
    }
    Ok(0)
}

/// Builds a project in TypeScript. The first build fetches its tools.
fn build_with_npm(folder: &Path) -> Result<u8, Failure> {
    let npm = |arguments: &[&str]| {
        let status = Command::new("npm").args(arguments).current_dir(folder).status();
        status.map_err(system("run npm, which builds components in TypeScript"))
    };
    let has_tools = folder.join("node_modules").is_dir();
    if !has_tools && !npm(&["install", "--no-audit", "--no-fund", "--loglevel=error"])?.success() {
        return Err(Failure::Usage("npm has failed to fetch the tools of package.json".to_owned()));
    }
    if !npm(&["run", "--silent", "build"])?.success() {
        return Err(Failure::Usage("npm has failed to build the component".to_owned()));
    }
    Ok(0)
}

/// Builds a project in C.
fn build_with_make(folder: &Path) -> Result<u8, Failure> {
    let status = Command::new("make").arg("--silent").current_dir(folder).status();
    if !status.map_err(system("run make, which builds components in C"))?.success() {
        return Err(Failure::Usage("make has failed to build the component".to_owned()));
    }
    Ok(0)
}

fn is_crate_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

fn manifest(name: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\nwasip2 = \"1.0.4\"\n\n# A component is loaded more often than it is built.\n[profile.release]\n\
         opt-level = \"s\"\nlto = true\ncodegen-units = 1\npanic = \"abort\"\nstrip = \"debuginfo\"\n"
    )
}

fn settings(component: &str) -> String {
    format!("[[serve]]\nlisten = \"127.0.0.1:8080\"\n\n[[serve.route]]\npattern = \"/*\"\nmodule = \"{component}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_cargo_accepts() {
        assert!(["shop", "my-shop_2"].into_iter().all(is_crate_name));
        assert!(["", "2shop", "a b", "..", "é"].into_iter().all(|name| !is_crate_name(name)));
    }

    #[test]
    fn a_project_in_typescript_has_every_file_that_it_imports() {
        let files = new_ts::files("my-shop");
        let has = |wanted: &str| files.iter().any(|(path, _)| *path == wanted);
        let text = |wanted: &str| files.iter().find(|(path, _)| *path == wanted).map_or("", |(_, text)| text);

        assert!(text("package.json").contains(&format!("--output {}", new_ts::component("my-shop"))));
        let imports = files.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| {
            let (_, from) = line.split_once(" from \"./")?;
            from.split('"').next()
        });
        let missing: Vec<&str> = imports.filter(|name| !has(&format!("sdk/{name}.ts"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(has("sdk/http.ts") && has("wit/web.wit"));
    }

    #[test]
    fn a_project_in_c_has_every_file_that_it_includes() {
        let files = new_c::files("my-shop");
        let text = |wanted: &str| files.iter().find(|(path, _)| *path == wanted).map_or("", |(_, text)| text);

        assert!(text("Makefile").contains(&format!("{}:", new_c::component("my-shop"))));
        let includes = files.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| {
            let (_, header) = line.split_once("#include \"")?;
            header.split('"').next()
        });
        for header in includes {
            assert!(!text(&format!("sdk/{header}")).is_empty(), "{header}");
        }
        let wit = text("wit/app.wit");
        assert!(wit.contains("package rusm:runtime@0.1.0 {") && wit.contains("package rusm:http@0.1.0 {"), "{wit}");
    }
}
