//! Durable topics while their runtime shuts down: acknowledgements of processes that end then.

use std::sync::mpsc;

use rusm_runtime::Context;
use rusm_runtime::topic::{AckStatus, Consumer, TopicConfig};
use tokio::sync::oneshot;

use super::{LONG, Node, numbered, workers};
use crate::disk::Disk;

#[test]
fn what_a_process_acknowledges_at_its_end_is_stored_also_if_it_is_older_than_the_topic() {
    for is_root in [true, false] {
        let node = Node::start(Disk::default());
        let (leased, is_leased) = mpsc::channel();
        let (give, taken) = oneshot::channel::<Consumer>();
        let body = move |ctx: Context| async move {
            ctx.trap_exits(true);
            let mut consumer = taken.await.unwrap();
            let lease = consumer.next().await.unwrap();
            leased.send(()).unwrap();
            ctx.receive().await;
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
        };
        if is_root {
            node.runtime.spawn(body).unwrap();
        } else {
            node.runtime
                .spawn(|ctx| async move {
                    ctx.spawn(body);
                })
                .unwrap();
        }
        acknowledged_at_the_end(node, give, &is_leased);
    }
}

fn acknowledged_at_the_end(node: Node, give: oneshot::Sender<Consumer>, is_leased: &mpsc::Receiver<()>) {
    let topic = node.topic(TopicConfig::default());
    let workers_ = workers(&topic);
    topic.blocking_publish(numbered(1)).unwrap();
    give.send(workers_.consumer()).unwrap();
    is_leased.recv().unwrap();

    let Node { runtime, store, disk } = node;
    runtime.shutdown(LONG);
    // A write on its way may hold the last handle: dropping this one might not wait for it.
    store.close();
    drop((topic, workers_, store));
    let node = Node::start(disk.cut(|| true));
    let account = workers(&node.topic(TopicConfig::default())).account();
    assert_eq!((account.published, account.acked, account.backlog), (1, 1, 0));
}
