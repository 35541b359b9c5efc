//! Rust bindings of the world `rusm:http/service`, generated from its WIT text.

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
    path: "../../wit/http/http.wit",
    world: "service",
    imports: {
        "rusm:http/streaming.write": async,
        "rusm:http/websocket.accept": async,
        "rusm:http/websocket.receive": async,
        "rusm:http/websocket.send": async,
        "rusm:http/websocket.close": async,
    },
    exports: { default: async },
});
