//! Rust bindings of the world `rusm:runtime/actor`, generated from its WIT text.

#![allow(
    missing_docs,
    missing_debug_implementations,
    unnameable_types,
    unreachable_pub,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::clone_on_ref_ptr,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    clippy::or_fun_call,
    reason = "generated code"
)]

wasmtime::component::bindgen!({
    path: "../../wit/runtime/rusm.wit",
    world: "actor",
    imports: {
        "rusm:runtime/process.spawn": async,
        "rusm:runtime/process.send": async,
        "rusm:runtime/process.receive": async,
        "rusm:runtime/process.receive-tagged": async,
        "rusm:runtime/process.call": async,
        "rusm:runtime/process.exit": async,
        "rusm:runtime/process.sleep": async,
        "rusm:runtime/process.yield": async,
        "rusm:runtime/supervisor.start": async,
    },
    exports: { default: async },
});

/// Bindings of the world `rusm:runtime/streaming`, separate because guests of the world above need not import it.
pub mod streaming {
    wasmtime::component::bindgen!({
        path: "../../wit/runtime",
        world: "streaming",
        imports: {
            "rusm:runtime/streams.open": async,
            "rusm:runtime/streams.write": async,
            "rusm:runtime/streams.read": async,
        },
        with: { "rusm:runtime/types": super::rusm::runtime::types },
    });
}

/// Bindings of the world `rusm:runtime/publishing`.
pub mod publishing {
    wasmtime::component::bindgen!({
        path: "../../wit/runtime",
        world: "publishing",
        imports: { default: async },
        with: { "rusm:runtime/types": super::rusm::runtime::types },
    });
}
