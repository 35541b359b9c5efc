//! `rusm new` creates a project, and `rusm build` builds it.
//!
//! ```text
//!   rusm new --guest rust shop ─▶ shop/{Cargo.toml, src/lib.rs, sdk, wit, rusm.toml, …} ◀─ rusm run
//!   rusm build ─▶ cargo ─▶ target/wasm32-unknown-unknown/release/shop.wasm
//!   rusm new --http ts shop ─▶ shop/{package.json, src/app.ts, sdk, wit, rusm.toml, …} ◀─ rusm serve
//!   rusm build ─▶ npm ─▶ build/shop.wasm
//!   rusm new --http c shop ─▶ shop/{Makefile, src/app.c, sdk, wit, rusm.toml, …} ◀─ rusm serve
//!   rusm build ─▶ make ─▶ build/shop.wasm
//! ```

mod c;
mod created;
mod kind;
mod rust;
mod ts;

use std::fs;
use std::path::Path;
use std::process::Command;

use rusm_text::escape;

use self::created::Created;
use self::kind::{Kind, Project};
use self::rust::WASI;
use crate::bench::output::print;
use crate::cli::{BuildFlags, Language, NewFlags};
use crate::failure::{Failure, system};

fn project(kind: Kind, language: Language, name: &str) -> Project {
    let mut project = match language {
        Language::Rust => rust::project(kind, name),
        Language::C => c::project(kind, name),
        Language::Ts => ts::project(kind, name),
    };
    project.files.push(("rusm.toml", settings(kind, name, &project.component)));
    project
}

/// Creates a project, and prints the next steps.
pub(crate) fn create(flags: &NewFlags) -> Result<u8, Failure> {
    let (kind, language) = match (flags.guest, flags.http) {
        (Some(language), _) => (Kind::Guest, language),
        (None, Some(language)) => (Kind::Http, language),
        (None, None) => {
            return Err(Failure::Usage("say what to create: --guest LANGUAGE or --http LANGUAGE".to_owned()));
        }
    };
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
    let Project { files, needs, .. } = project(kind, language, name);
    Created::write(folder, &files)?;
    let run = match kind {
        Kind::Guest => "rusm run",
        Kind::Http => "rusm serve --watch     # http://127.0.0.1:8080",
    };
    let folder = folder.display().to_string();
    let shown = escape(&folder);
    print(&format!("created {shown}\n  cd {shown}\n  rusm build             # {needs}\n  {run}"))?;
    Ok(0)
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
    cargo.args(["build", "--release", "--target-dir", "target"]).current_dir(folder);
    let target = target_of(folder);
    if target.is_none() {
        cargo.args(["--target", WASI]);
    }
    let status = cargo.status();
    let status = status.map_err(system("run cargo, which builds components"))?;
    if !status.success() {
        let target = target.as_deref().unwrap_or(WASI);
        return Err(Failure::Usage(format!(
            "cargo has failed: if it misses the target, run rustup target add {target}"
        )));
    }
    Ok(0)
}

/// Returns the target that cargo finds in the settings of the project in a folder.
fn target_of(folder: &Path) -> Option<String> {
    let settings = fs::read_to_string(folder.join(".cargo/config.toml")).ok()?;
    let settings: toml::Table = settings.parse().ok()?;
    Some(settings.get("build")?.get("target")?.as_str()?.to_owned())
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
    print_built(folder)
}

/// Builds a project in C.
fn build_with_make(folder: &Path) -> Result<u8, Failure> {
    let status = Command::new("make").arg("--silent").current_dir(folder).status();
    if !status.map_err(system("run make, which builds components in C"))?.success() {
        return Err(Failure::Usage("make has failed to build the component".to_owned()));
    }
    print_built(folder)
}

/// Prints the components in the folder `build`: npm and make are silent.
fn print_built(folder: &Path) -> Result<u8, Failure> {
    let entries = fs::read_dir(folder.join("build")).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ending| ending == "wasm"))
    {
        print(&format!("built {}", escape(&path.display().to_string())))?;
    }
    Ok(0)
}

fn is_crate_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
        && name.len() <= 64
}

fn settings(kind: Kind, name: &str, component: &str) -> String {
    match kind {
        Kind::Guest => format!("[[process]]\nname = \"{name}\"\nmodule = \"{component}\"\nargs = [\"world\"]\n"),
        Kind::Http => {
            format!(
                "[[serve]]\nlisten = \"127.0.0.1:8080\"\n\n[[serve.route]]\npattern = \"/*\"\nmodule = \"{component}\"\n"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_that_cargo_accepts() {
        assert!(["shop", "my-shop_2"].into_iter().all(is_crate_name));
        assert!(["", "2shop", "a b", "..", "é", &"a".repeat(65)].into_iter().all(|name| !is_crate_name(name)));
    }
}
