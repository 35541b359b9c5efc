//! Recognises programs of other worlds, so that the error says what they are and what would run here.

use wasmtime::Engine;
use wasmtime::component::types::Component;

/// Returns true if a component with this export answers requests of WASI 0.3.
pub(super) fn is_service(export: &str) -> bool {
    is_release(export, "wasi:http/handler@0.3.")
}

/// Returns true if a component with this export is a command of WASI 0.3.
pub(super) fn is_concurrent_command(export: &str) -> bool {
    is_release(export, "wasi:cli/run@0.3.")
}

fn is_release(export: &str, prefix: &str) -> bool {
    export.strip_prefix(prefix).is_some_and(|patch| !patch.contains('-'))
}

/// Returns why this component cannot answer requests here; `None` if it is of no known other world.
pub(super) fn component(engine: &Engine, kind: &Component) -> Option<String> {
    let exported = kind.exports(engine).find_map(|(name, _)| handler(name));
    exported.or_else(|| unsupported_import(engine, kind))
}

/// Returns the import that only another host provides, and what to do.
pub(super) fn unsupported_import(engine: &Engine, kind: &Component) -> Option<String> {
    kind.imports(engine).find_map(|(name, _)| {
        if name.starts_with("spin:") || name.starts_with("fermyon:spin/") {
            return Some(format!(
                "imports {name}, an interface of Spin: this node has the interfaces of WASI and its own"
            ));
        }
        let is_middleware = name.starts_with("wasi:http/handler@");
        is_middleware.then(|| format!("imports {name}: it is a middleware, so compose it with the service it wraps"))
    })
}

fn handler(export: &str) -> Option<String> {
    const INSTEAD: &str = "build it for the world wasi:http/service 0.3.0 or wasi:http/proxy 0.2";
    match export.strip_prefix("wasi:http/handler@") {
        Some(version) if version.contains("-rc") => {
            Some(format!("exports {export}, a release candidate of WASI 0.3 that Spin 4 uses: {INSTEAD}"))
        }
        Some(_) => Some(format!("exports {export}, which this node does not run: {INSTEAD}")),
        None if export.starts_with("fermyon:spin/inbound-http") || export == "inbound-http" => {
            Some(format!("exports {export}, an interface of Spin: {INSTEAD}"))
        }
        None if export.starts_with("wasi:cli/run@0.3") => Some(format!(
            "exports {export}, which this node does not run: build it for the world wasi:cli/command 0.3.0"
        )),
        None => None,
    }
}

/// Returns why this core module cannot answer requests here; `None` if it was not built to.
pub(super) fn module(module: &wasmtime::Module) -> Option<String> {
    let is_of_spin = module.exports().any(|export| export.name() == "handle-http-request");
    is_of_spin.then(|| "is a core module of Spin's first ABI: build it as a component of wasi:http".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_world_is_told_what_it_is() {
        let engine = Engine::default();
        let why = |text: &str| {
            let component = wasmtime::component::Component::new(&engine, text).expect("valid text");
            super::component(&engine, &component.component_type())
        };
        let exports = |name: &str| why(&format!("(component (instance $none) (export \"{name}\" (instance $none)))"));

        let candidate = exports("wasi:http/handler@0.3.0-rc-2026-03-15").expect("it is known");
        assert!(candidate.contains("a release candidate of WASI 0.3 that Spin 4 uses"), "{candidate}");
        let later = exports("wasi:http/handler@0.4.0").expect("it is known");
        assert!(later.contains("build it for the world wasi:http/service 0.3.0"), "{later}");
        let command = exports("wasi:cli/run@0.3.0-rc-2026-03-15").expect("it is known");
        assert!(command.ends_with("build it for the world wasi:cli/command 0.3.0"), "{command}");
        let middleware = why("(component (import \"wasi:http/handler@0.3.0\" (instance)))").expect("it is known");
        assert!(middleware.ends_with("it is a middleware, so compose it with the service it wraps"), "{middleware}");
        let versions = ["wasi:http/handler@0.3.0", "wasi:http/handler@0.3.2", "wasi:http/handler@0.3.0-rc-2026-03-15"];
        assert_eq!(versions.map(is_service), [true, true, false]);
        assert!(is_concurrent_command("wasi:cli/run@0.3.0") && !is_concurrent_command("wasi:cli/run@0.2.0"));
        let import = why("(component (import \"fermyon:spin/llm@2.0.0\" (instance)))").expect("it is known");
        assert!(import.starts_with("imports fermyon:spin/llm@2.0.0"), "{import}");
        assert_eq!((exports("wasi:http/incoming-handler@0.2.3"), exports("a:b/c")), (None, None));

        let old = "(module (func (export \"handle-http-request\")))";
        let old = wasmtime::Module::new(&engine, old).expect("valid text");
        assert!(super::module(&old).expect("it is known").starts_with("is a core module of Spin's first ABI"));
    }
}
