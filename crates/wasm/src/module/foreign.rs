//! Recognises programs of other worlds, so that the error says what they are and what would run here.

use wasmtime::Engine;
use wasmtime::component::types::Component;

/// Returns why this component cannot answer requests here; `None` if it is of no known other world.
pub(super) fn component(engine: &Engine, kind: &Component) -> Option<String> {
    let exported = kind.exports(engine).find_map(|(name, _)| handler(name));
    exported.or_else(|| {
        let is_of_spin = |name: &str| name.starts_with("spin:") || name.starts_with("fermyon:spin/");
        let (name, _) = kind.imports(engine).find(|(name, _)| is_of_spin(name))?;
        Some(format!("imports {name}, an interface of Spin: this node has the interfaces of WASI 0.2 and its own"))
    })
}

fn handler(export: &str) -> Option<String> {
    const INSTEAD: &str = "build it for the world wasi:http/proxy 0.2";
    let version = export.strip_prefix("wasi:http/handler@");
    match version {
        Some(version) if version.contains("-rc") => {
            Some(format!("exports {export}, a release candidate of WASI 0.3 that Spin 4 uses: {INSTEAD}"))
        }
        Some(_) => Some(format!("exports {export}, which this node does not run: {INSTEAD}")),
        None if export.starts_with("fermyon:spin/inbound-http") || export == "inbound-http" => {
            Some(format!("exports {export}, an interface of Spin: {INSTEAD}"))
        }
        None => None,
    }
}

/// Returns why this core module cannot answer requests here; `None` if it was not built to.
pub(super) fn module(module: &wasmtime::Module) -> Option<String> {
    let is_of_spin = module.exports().any(|export| export.name() == "handle-http-request");
    is_of_spin
        .then(|| "is a core module of Spin's first ABI: build it as a component for wasi:http/proxy 0.2".to_owned())
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
        let later = exports("wasi:http/handler@0.3.0").expect("it is known");
        assert!(later.contains("build it for the world wasi:http/proxy 0.2"), "{later}");
        let import = why("(component (import \"fermyon:spin/llm@2.0.0\" (instance)))").expect("it is known");
        assert!(import.starts_with("imports fermyon:spin/llm@2.0.0"), "{import}");
        assert_eq!((exports("wasi:http/incoming-handler@0.2.3"), exports("a:b/c")), (None, None));

        let old = "(module (func (export \"handle-http-request\")))";
        let old = wasmtime::Module::new(&engine, old).expect("valid text");
        assert!(super::module(&old).expect("it is known").starts_with("is a core module of Spin's first ABI"));
    }
}
