//! Observers of a store: every client sees the figures; keys and values need the control role.

use std::time::Duration;

use crate::support::{Client, node};
use rusm_runtime::Context;
use rusm_runtime::registry::Registry;
use rusm_runtime::table::Table;
use rusm_store::{Store, StoreConfig};
use serde_json::{Value, json};

async fn stores(client: &mut Client, keys: Option<Value>) -> Value {
    let mut view = json!({"id": 5, "window": {"len": 10}, "hz": 10});
    if let Some(keys) = keys {
        view["keys"] = keys;
    }
    client.send(&json!({"type": "stores", "view": view}).to_string()).await;
    loop {
        let seen = client.next_of("stores").await;
        // Ignore an answer to the previous view that was still in flight.
        if seen["keys"].is_null() == view["keys"].is_null() {
            return seen;
        }
    }
}

#[tokio::test]
async fn figures_are_for_everybody_and_what_is_stored_for_those_who_may_control() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("a.redb"), StoreConfig::default()).unwrap();
    let node = node();
    store.attach(&node.runtime);
    let bucket = store.bucket("sessions").unwrap();
    let filled = bucket.clone();
    let fill = store.transaction(move |tx| {
        tx.put(&filled, "ada", "online")?;
        tx.put_for(&filled, "bob", vec![0xff; 1000], Duration::from_hours(1))
    });
    fill.wait().unwrap();
    let mut control = node.attach().await;
    let mut observer = node.attach_tcp(&node.observe_token()).await;

    let seen = stores(&mut observer, None).await;
    assert_eq!((&seen["id"], &seen["total"]), (&json!(5), &json!(1)));
    let bucket = &seen["buckets"][0];
    assert_eq!((&bucket["name"], &bucket["keys"], &bucket["bytes"]), (&json!("sessions"), &json!(2), &json!(1012)));
    let figures = &seen["stores"][0];
    assert_eq!((&figures["operations_total"], &figures["commits_total"]), (&json!(1), &json!(1)));
    assert_eq!((&figures["durability"], &figures["is_open"]), (&json!("immediate"), &json!(true)));

    let one = json!({"bucket": "sessions", "len": 1});
    let refused = stores(&mut observer, Some(one.clone())).await;
    assert_eq!(refused["keys"]["refusal"], "keys and values require the control role");
    assert_eq!(refused["keys"]["keys"], json!([]));

    let first = stores(&mut control, Some(one)).await["keys"].clone();
    assert_eq!(first["keys"], json!([{"key": "ada", "key_bytes": 3, "value": "online", "value_bytes": 6}]));
    let rest = json!({"bucket": "sessions", "len": 100, "after": first["next"]});
    let mut second = stores(&mut control, Some(rest)).await["keys"].clone();
    while second["keys"][0]["key"] != "bob" {
        second = control.next_of("stores").await["keys"].clone();
    }
    assert_eq!(second["keys"][0]["value"], format!("0x{}", "ff".repeat(64)));
    assert_eq!(second["keys"][0]["value_bytes"], 1000);
    assert!(second["keys"][0]["expires_in_ms"].as_u64().unwrap() <= 3_600_000 && second["next"].is_null());

    let mut nowhere = stores(&mut control, Some(json!({"bucket": "none", "len": 1}))).await["keys"].clone();
    while nowhere["bucket"] != "none" {
        nowhere = control.next_of("stores").await["keys"].clone();
    }
    assert_eq!(nowhere["refusal"], "bucket `none` does not exist");
}

#[tokio::test]
async fn tables_and_registries_in_memory_are_shown_with_their_owner() {
    let node = node();
    let owner = node.runtime.spawn(|ctx: Context| async move {
        let hits = Table::<String, i64>::new(&ctx, "hits");
        hits.add("/".to_owned(), 1).unwrap();
        std::future::pending::<()>().await;
    });
    let owner = owner.unwrap();
    let _rooms = Registry::<u32, u64>::unique(&node.runtime, "rooms");
    let mut client = node.attach().await;

    client.send(r#"{"type":"stores","view":{"id":1,"hz":10}}"#).await;
    let stores = client
        .pick(|message| {
            let has_both = message["type"] == "stores" && message["tables_total"] == 2;
            (has_both && message["tables"][0]["entries"] == 1).then(|| message.clone())
        })
        .await;

    let (table, registry) = (&stores["tables"][0], &stores["tables"][1]);
    assert_eq!(
        (&table["name"], &table["kind"], &table["owner"]),
        (&json!("hits"), &json!("table"), &json!(owner.to_string()))
    );
    assert_eq!((&table["key_type"], &table["value_type"]), (&json!("alloc::string::String"), &json!("i64")));
    assert_eq!((&registry["name"], &registry["kind"]), (&json!("rooms"), &json!("unique registry")));
    assert_eq!((&registry["entries"], registry.get("owner")), (&json!(0), None));
}
