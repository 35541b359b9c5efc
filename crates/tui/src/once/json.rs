//! The data of the views as JSON, in the words of the wire: `--once --json`, `--batch --json` and `--all-views`.

use serde_json::{Map, Value, to_value};

use crate::model::Model;
use crate::model::tab::Tab;

/// Returns one object: the node, its frame and its process rows, and what a view shows under keys of its own.
pub(crate) fn view(model: &Model, tab: Tab) -> Value {
    Value::Object(object(model, tab.id(), data(model, tab)))
}

/// Returns one object with the data of all views, which were collected one after the other.
pub(crate) fn all(model: &Model, collected: &Map<String, Value>) -> Value {
    let collected = collected.iter().map(|(key, value)| (key.clone(), value.clone()));
    Value::Object(object(model, "all", collected))
}

fn object(model: &Model, view: &str, data: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("view".to_owned(), Value::from(view));
    object.insert("node".to_owned(), json(to_value(model.hello().map(|hello| &hello.node))));
    object.insert("frame".to_owned(), json(to_value(model.frame())));
    object.insert("rows".to_owned(), json(to_value(model.rows())));
    object.extend(data);
    object
}

/// Returns what a view shows, under the keys of the documentation. Everything is bounded, because the messages are.
pub(crate) fn data(model: &Model, tab: Tab) -> Map<String, Value> {
    let hello = model.hello();
    let entries: Vec<(&str, Value)> = match tab {
        Tab::Node => vec![("top", json(to_value(&model.top)))],
        Tab::Bench => vec![
            ("scenarios", json(to_value(hello.map(|hello| &hello.scenarios)))),
            ("profiles", json(to_value(hello.map(|hello| &hello.profiles)))),
            ("results", json(to_value(&model.results.newest))),
        ],
        Tab::Processes => {
            let detail = model.detail.as_ref().and_then(|pane| pane.process.as_deref());
            vec![("rows", json(to_value(model.rows()))), ("process", json(to_value(detail)))]
        }
        Tab::Tree => vec![("tree", json(to_value(&model.tree.rows)))],
        Tab::Events => {
            let lints = model.frame().map(|frame| &frame.observer.lints);
            vec![("events", json(to_value(model.events.collected()))), ("lints", json(to_value(lints)))]
        }
        Tab::Wasm => vec![("engines", json(to_value(&model.wasm.newest)))],
        Tab::Time => vec![("time", json(to_value(&model.time.newest)))],
        Tab::Store => vec![("stores", json(to_value(model.store.newest())))],
        Tab::Topics => vec![("topics", json(to_value(&model.topics.newest)))],
        Tab::Cpu => vec![("cpu", json(to_value(&model.cpu.newest)))],
        Tab::Sched => vec![("schedulers", json(to_value(&model.sched.newest)))],
        Tab::Serve => vec![("serve", json(to_value(&model.serve.newest)))],
        Tab::Cluster => vec![("cluster", json(to_value(&model.cluster.newest)))],
    };
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The types of the wire are valid JSON.
fn json(value: serde_json::Result<Value>) -> Value {
    value.unwrap_or_default()
}
