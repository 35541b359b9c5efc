//! The resource: attributes that identify the program that exports.

use serde_json::{Value, json};

use crate::config::OtlpConfig;
use crate::record::attribute;

/// Returns the resource of a program. `instance` distinguishes it from others of the same service.
pub(crate) fn resource(config: &OtlpConfig, instance: u64) -> Value {
    let mut attributes: Vec<(String, String)> = Vec::new();
    let mut add = |key: &str, value: &str| {
        if !attributes.iter().any(|(known, _)| known == key) {
            attributes.push((key.to_owned(), value.to_owned()));
        }
    };
    if let Some(name) = &config.service_name {
        add("service.name", name);
    }
    for (key, value) in &config.attributes {
        add(key, value);
    }
    add("service.name", &program());
    add("service.instance.id", &format!("{instance:016x}"));
    add("process.pid", &std::process::id().to_string());
    add("telemetry.sdk.name", "rusm");
    add("telemetry.sdk.language", "rust");
    add("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
    let attributes: Vec<Value> = attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    json!({ "attributes": attributes })
}

/// Returns the name of a service without a configured one, in the form that the specification requires.
fn program() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    name.map_or_else(|| "unknown_service".to_owned(), |name| format!("unknown_service:{name}"))
}

/// Returns the instrumentation scope of all records.
pub(crate) fn scope() -> Value {
    json!({ "name": "rusm", "version": env!("CARGO_PKG_VERSION") })
}
