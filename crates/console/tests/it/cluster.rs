//! The view of the cluster: the console shows what the network of a node reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use crate::support::{Client, node};
use rusm_runtime::embed::remote::{Address, Frame, Identity, Network, NetworkReport, Refused, attach};
use rusm_runtime::observe::{ClusterName, NetworkPeer, NodeVitals, SeenVitals};
use rusm_runtime::{Handle, Pid};
use serde_json::{Value, json};

/// A network that sees one node and has lost another. It counts the looks.
#[derive(Default)]
struct Simulated(AtomicU64);

impl Network for Simulated {
    fn send(&self, _node: u32, frame: Frame) -> Result<(), Refused> {
        Err(Refused::NoConnection(frame))
    }

    fn wait_for_room(&self, _node: u32, _to: Address, _bytes: usize, _sender: &Waker) -> bool {
        false
    }

    fn release(&self, _node: u32, _to: Address, _frames: u32, _bytes: u64) {}

    fn report(&self, names_max: usize) -> NetworkReport {
        // Each look sees a thousand more messages than the one before.
        let looks = self.0.fetch_add(1, Relaxed) + 1;
        let vitals = NodeVitals { version: "9.9\u{1b}".to_owned(), processes: 44, ..NodeVitals::default() };
        let seen = SeenVitals { age: Duration::from_secs(3), vitals, busy: Some(0.25), messages_per_sec: None };
        let up = NetworkPeer {
            name: "north".into(),
            boot_id: Some(0xab),
            node: 1,
            state: "up",
            messages_out: looks * 1_000,
            ..NetworkPeer::default()
        };
        let lost = NetworkPeer {
            name: "west".into(),
            state: "down",
            last_down: Some("the node is silent".to_owned()),
            vitals: Some(seen),
            ..NetworkPeer::default()
        };
        let names = (0..300_u32).map(|at| ClusterName {
            name: format!("name {at:03}").into(),
            node: "north".into(),
            pid: Some(Pid::from_parts(1, at + 1, 1)),
            epoch: 7,
            state: "owned",
        });
        NetworkReport {
            link: "simulated".to_owned(),
            nodes_seen: 2,
            nodes_total: 3,
            peers: vec![up, lost],
            names: names.take(names_max).collect(),
            names_total: 300,
            ..NetworkReport::default()
        }
    }
}

fn join(runtime: &Handle) -> Arc<Simulated> {
    let network = Arc::new(Simulated::default());
    let identity = Identity { name: "south".into(), boot_id: 0xcd };
    attach(runtime, identity, Arc::clone(&network) as Arc<dyn Network>).unwrap();
    network
}

async fn ask(client: &mut Client, view: Value) -> Value {
    client.send(&json!({"type": "cluster", "view": view}).to_string()).await;
    loop {
        let found = client.next_of("cluster").await;
        if found["id"] == view["id"] {
            return found;
        }
    }
}

#[tokio::test]
async fn the_nodes_of_the_cluster_are_shown_with_rates_and_the_last_figures_of_a_lost_one() {
    let node = node();
    let network = join(&node.runtime);
    let mut client = node.attach().await;
    assert_eq!(network.0.load(Relaxed), 0, "nobody looks");

    let first = ask(&mut client, json!({"id": 1, "hz": 10.0})).await;
    let next = client.next_of("cluster").await;

    let own = &first["own"];
    assert_eq!((own["name"].as_str(), own["boot"].as_str().map(str::len)), (Some("south"), Some(32)));
    assert_eq!((own["nodes_seen"].as_u64(), own["nodes_total"].as_u64()), (Some(2), Some(3)));
    assert!(own["vitals"]["memory_bytes"].as_u64() > Some(0) && own["vitals"]["schedulers"].as_u64() > Some(0));
    assert_eq!((first["total"].as_u64(), first["nodes"][0]["messages_out_per_sec"].as_f64()), (Some(2), Some(0.0)));
    assert!(next["nodes"][0]["messages_out_per_sec"].as_f64() > Some(0.0), "{next}");
    let lost = &first["nodes"][1];
    assert_eq!((lost["state"].as_str(), lost["last_loss"].as_str()), (Some("down"), Some("the node is silent")));
    let vitals = &lost["vitals"];
    assert_eq!((vitals["age_ms"].as_u64(), vitals["processes"].as_u64()), (Some(3_000), Some(44)));
    assert_eq!((vitals["busy_pct"].as_f64(), &vitals["messages_per_sec"]), (Some(25.0), &Value::Null));
}

#[tokio::test]
async fn unique_names_are_paged_and_a_look_costs_nothing_afterwards() {
    let node = node();
    let network = join(&node.runtime);
    let mut client = node.attach().await;

    let page = ask(&mut client, json!({"id": 1, "names": {"offset": 298, "len": 50}})).await;
    assert_eq!((page["names_total"].as_u64(), page["names_offset"].as_u64()), (Some(300), Some(298)));
    assert_eq!(page["names"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["names"][1]["pid"], "<1.300.1>");

    client.send(&json!({"type": "cluster", "view": null}).to_string()).await;
    client.send(&json!({"type": "cluster", "view": {"id": 2, "hz": 99.0}}).to_string()).await;
    assert_eq!(client.next_of("error").await["message"], "hz of 99 is not between 1 and 10");
    let looks = network.0.load(Relaxed);
    client.next_of("tick").await;
    client.next_of("tick").await;
    assert_eq!(network.0.load(Relaxed), looks);
}

#[tokio::test]
async fn a_node_without_a_cluster_says_so() {
    let node = node();
    let mut client = node.attach().await;

    let found = ask(&mut client, json!({"id": 1})).await;

    assert_eq!((&found["own"], found["total"].as_u64()), (&Value::Null, Some(0)));
}
