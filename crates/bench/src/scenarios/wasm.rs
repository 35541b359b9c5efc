//! Scenarios of WebAssembly guests, and the engine and guests that other scenarios use, too.

pub(crate) mod component_storm;
pub(crate) mod crypto_ops;
pub(crate) mod fairness;
pub(crate) mod guests;
pub(crate) mod module_storm;
pub(crate) mod wasm_storm;
