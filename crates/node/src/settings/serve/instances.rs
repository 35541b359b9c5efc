//! `serve.route.instances`: how many requests share an instance of a component.

use rusm_wasm::{InstanceReuse, REQUESTS_OF_POOLED};
use serde::Deserialize;
use toml::Value;

use crate::settings::error::SettingsError;
use crate::settings::raw::RawSetting;

/// Largest number of instances and of requests that may be set.
const NUMBER_MAX: i64 = 1_000_000;

/// `"request"`, `"connection"`, or the size of a pool.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(try_from = "RawSetting")]
pub(super) struct Instances(pub(super) InstanceReuse);

impl TryFrom<RawSetting> for Instances {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let reuse = match &raw.value {
            Value::String(word) if word == "request" => Some(InstanceReuse::Request),
            Value::String(word) if word == "connection" => Some(InstanceReuse::Connection),
            // On the command line numbers are text.
            Value::String(text) => text.parse().ok().and_then(|idle| pool(idle, None)),
            Value::Integer(idle) => pool(*idle, None),
            Value::Table(table) => {
                let number = |key: &str| table.get(key).map(|value| value.as_integer().unwrap_or(0));
                let is_known = table.keys().all(|key| key == "pool" || key == "requests");
                number("pool").filter(|_| is_known).and_then(|idle| pool(idle, number("requests")))
            }
            _ => None,
        };
        reuse.map(Self).ok_or_else(|| {
            raw.invalid(
                "must be \"request\", \"connection\", a number of instances to keep, or { pool = 8, requests = 1000 }",
            )
        })
    }
}

fn pool(idle: i64, requests: Option<i64>) -> Option<InstanceReuse> {
    let requests = requests.unwrap_or_else(|| REQUESTS_OF_POOLED.into());
    let is_valid = |number: i64| (1..=NUMBER_MAX).contains(&number);
    (is_valid(idle) && is_valid(requests))
        .then_some(InstanceReuse::Pool { idle: idle as u32, requests: requests as u32 })
}
