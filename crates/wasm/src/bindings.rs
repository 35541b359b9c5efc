//! Rust bindings of the WIT worlds in `wit/`, generated from their text: the world `rusm:runtime/actor` here, the others
//! in modules of their own.

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
    path: "wit/runtime/rusm.wit",
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
        path: "wit/runtime",
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
        path: "wit/runtime",
        world: "publishing",
        imports: { default: async },
        with: { "rusm:runtime/types": super::rusm::runtime::types },
    });
}

/// Bindings of the world `rusm:store/storage`.
#[cfg(feature = "store")]
pub mod store {
    wasmtime::component::bindgen!({
        path: "wit/store/kv.wit",
        world: "storage",
        imports: { default: async },
    });
}

/// Bindings of the world `rusm:http/service`.
#[cfg(feature = "http")]
pub mod http {
    wasmtime::component::bindgen!({
        path: "wit/http/http.wit",
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
}

/// Bindings of `wasi:config` and `wasi:logging`.
pub mod wasi_values {
    wasmtime::component::bindgen!({
        inline: "package rusm:values; world values { import wasi:config/store@0.2.0-rc.1; import wasi:logging/logging@0.1.0-draft; }",
        path: ["wit/wasi/config.wit", "wit/wasi/logging.wit"],
        world: "rusm:values/values",
    });
}

/// Bindings of `wasi:keyvalue`.
#[cfg(feature = "store")]
pub mod wasi_keyvalue {
    wasmtime::component::bindgen!({
        path: "wit/wasi/keyvalue.wit",
        world: "imports",
        imports: { default: async | trappable },
        with: { "wasi:keyvalue/store.bucket": crate::wasi::open_bucket::OpenBucket },
    });
}
