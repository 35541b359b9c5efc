//! The published schema of reports matches the reports that are written: no field is missing or added.

#![expect(clippy::unwrap_used, reason = "a test helper may panic like the test itself")]

use std::time::Duration;

use rusm_bench::{
    Cell, ColumnUnit, Document, DocumentKind, LatencyReport, Machine, OpenLoopReport, Recipe, Report, SCHEMA_VERSION,
    SteadyRule, StopFlag, Table, run_series,
};
use rusm_runtime::Config;
use serde_json::{Value, json};

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/report.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the violations of a schema by a value, for the keywords that our schema uses.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return faults(root, &root["$defs"][name], value, at, found);
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[keyword].as_array() {
            let fits = |choice: &Value| {
                let mut inner = Vec::new();
                faults(root, choice, value, at, &mut inner);
                inner.is_empty()
            };
            if !choices.iter().any(fits) {
                found.push(format!("{at}: {value} fits none of {keyword}"));
            }
            return;
        }
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        found.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|kind| is_a(kind, value)) {
        found.push(format!("{at}: {value} is not {types:?}"));
    }
    if let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                found.push(format!("{at}: {name} is missing"));
            }
        }
        for (name, inner) in object {
            match properties.get(name) {
                Some(schema) => faults(root, schema, inner, &format!("{at}.{name}"), found),
                None => found.push(format!("{at}: {name} is not in the schema")),
            }
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        faults(root, &schema["items"], item, &format!("{at}[{index}]"), found);
    }
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the schema has a type {other}"),
    }
}

fn check(json: &str) -> Vec<String> {
    let (schema, value) = (schema(), serde_json::from_str(json).unwrap());
    let mut found = Vec::new();
    faults(&schema, &schema, &value, "report", &mut found);
    found
}

/// Returns a report with a value in every field.
fn full() -> Document {
    let mut table = Table::new("cases", &[("case", ColumnUnit::Text), ("rate", ColumnUnit::Amount)]);
    table.row([Cell::from("one"), Cell::Missing]);
    let run = Report {
        tables: vec![table],
        latency: Some(LatencyReport::default()),
        open_loop: Some(OpenLoopReport::default()),
        service: Some(rusm_protocol::LatencySnapshot::default()),
        pacer: Some(rusm_protocol::LatencySnapshot::default()),
        cpu_ns_per_op: Some(1.0),
        error: Some("it failed".to_owned()),
        ..Report::default()
    };
    let recipe = Recipe {
        rate_per_sec: Some(1.0),
        schedulers: Some(1),
        process_limit: Some(1_000),
        mailbox_capacity: Some(16),
        params: [("pairs".to_owned(), "1".to_owned())].into(),
        ..Recipe::default()
    };
    Document::of(DocumentKind::Loadtest, recipe, Machine::look(), vec![run; 6])
}

#[test]
fn a_report_with_everything_is_as_the_schema_says() {
    assert_eq!(check(&full().to_json()), Vec::<String>::new());
}

#[test]
fn a_report_of_real_runs_is_as_the_schema_says() {
    let recipe = Recipe {
        scenario: "ping-pong".to_owned(),
        runs: 2,
        duration_ms: 200,
        warm_up_max_ms: 100,
        warm_up_min_ms: 100,
        ..Recipe::default()
    };
    let mut seen = Vec::new();

    let document =
        run_series(&recipe, &Config::default(), &StopFlag::default(), |number, _| seen.push(number)).unwrap();

    assert_eq!((seen, document.runs.len()), (vec![1, 2], 2));
    assert_eq!(check(&document.to_json()), Vec::<String>::new());
    assert_eq!(
        recipe.options(&Config::default()).warm_up.max,
        SteadyRule::default().min.min(Duration::from_millis(100))
    );
}

#[test]
fn the_schema_is_of_the_version_that_is_written() {
    assert_eq!(schema()["properties"]["schema_version"]["const"], json!(SCHEMA_VERSION));
}

#[test]
fn what_is_too_much_or_missing_or_of_another_type_is_seen() {
    let change = |edit: fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&full().to_json()).unwrap();
        edit(&mut value);
        check(&value.to_string())
    };

    assert_eq!(change(|value| value["runs"][0]["new"] = json!(1)), ["report.runs[0]: new is not in the schema"]);
    assert_eq!(change(|value| drop(value.as_object_mut().unwrap().remove("kind"))), ["report: kind is missing"]);
    assert_eq!(change(|value| value["figures"][0]["median"] = json!("fast")).len(), 1);
    assert_eq!(change(|value| value["verdict"] = json!("fine")).len(), 1);
}
