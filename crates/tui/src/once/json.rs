//! The data of a view as JSON, in the words of the wire: `--once --json`, `--batch --json`, and snapshots.

use serde_json::{Map, Value};

use crate::model::Model;
use crate::model::tab::Tab;

/// Returns one object: the node, its frame and its process rows, and under the name of the view what it shows.
pub(crate) fn view(model: &Model) -> Value {
    let mut object = Map::new();
    let mut add = |key: &str, value: serde_json::Result<Value>| {
        // The types of the wire are valid JSON.
        object.insert(key.to_owned(), value.unwrap_or_default());
    };
    add("view", Ok(Value::from(model.tab().id())));
    add("node", serde_json::to_value(model.hello().map(|hello| &hello.node)));
    add("frame", serde_json::to_value(model.frame()));
    add("rows", serde_json::to_value(model.rows()));
    match model.tab() {
        Tab::Node => add("top", serde_json::to_value(&model.top)),
        Tab::Bench => {
            let hello = model.hello();
            add("scenarios", serde_json::to_value(hello.map(|hello| &hello.scenarios)));
            add("profiles", serde_json::to_value(hello.map(|hello| &hello.profiles)));
        }
        Tab::Processes => {
            let detail = model.detail.as_ref().and_then(|pane| pane.process.as_deref());
            add("process", serde_json::to_value(detail));
        }
        Tab::Tree => add("tree", serde_json::to_value(&model.tree.rows)),
        Tab::Events => {
            add("events", serde_json::to_value(&model.events.newest));
            add("lints", serde_json::to_value(model.frame().map(|frame| &frame.observer.lints)));
        }
        Tab::Wasm => add("engines", serde_json::to_value(&model.wasm.newest)),
        Tab::Time => add("time", serde_json::to_value(&model.time.newest)),
        Tab::Store => add("stores", serde_json::to_value(model.store.newest())),
        Tab::Serve => add("serve", serde_json::to_value(&model.serve.newest)),
        Tab::Cluster => add("cluster", serde_json::to_value(&model.cluster.newest)),
        Tab::Topics => add("topics", serde_json::to_value(&model.topics.newest)),
        // The frame holds what these views show.
        Tab::Cpu | Tab::Sched => {}
    }
    Value::Object(object)
}
