//! Messages between nodes with different programs: both nodes count every message that is dropped.

use std::time::Duration;

use rusm_runtime::remote::Exports;
use rusm_runtime::{CallError, Context, Request, observe};

use super::Numbered;
use crate::ask::ask;
use crate::eventually::eventually;
use crate::network::Node;

/// Node `a` sends a `Numbered`, asks with a `bool` and awaits text. Node `b` takes text, and answers with a number.
fn two_that_differ() -> (Node, Node) {
    let of_a = Exports::default()
        .message::<Numbered>("numbered")
        .call::<bool, u64>("takes text")
        .call::<u64, String>("answers with text");
    let of_b = Exports::default()
        .message::<Vec<String>>("numbered")
        .call::<String, u64>("takes text")
        .call::<u64, bool>("answers with text");
    let (a, b) = (Node::start("a", 1, of_a), Node::start("b", 1, of_b));
    a.connect(&b);
    (a, b)
}

/// Returns the numbers of messages that a node has dropped, and that the other one has dropped.
fn dropped(node: &Node) -> (u64, u64) {
    let peer = &observe::peers(&node.runtime)[0];
    (peer.undecodable, peer.undecodable_there)
}

#[test]
fn both_nodes_count_a_message_that_one_cannot_decode() {
    let (a, b) = two_that_differ();
    let receiver = b.runtime.spawn(|ctx: Context| async move {
        loop {
            let next: u64 = ctx.receive_of().await;
            assert_eq!(next, 7, "only what was decoded arrives");
        }
    });
    let receiver = receiver.unwrap();
    let to = a.pid_on(&b, receiver);

    a.runtime
        .spawn(move |ctx: Context| async move {
            for number in 0..3 {
                ctx.send(to, Numbered { from: ctx.pid(), number }).await;
                ctx.send(to, 7_u64).await;
            }
        })
        .unwrap();

    eventually("the counts of both nodes", || (dropped(&a), dropped(&b)) == ((0, 3), (3, 0)));
    assert!(b.runtime.is_alive(receiver));
    assert_eq!(observe::peers(&a.runtime)[0].losses, 0, "the connection stays");
}

#[test]
fn a_call_that_one_node_cannot_decode_fails_and_both_count_it() {
    let (a, b) = two_that_differ();
    let answers = |ctx: Context| async move {
        loop {
            let Request { reply, .. } = ctx.receive_of::<Request<u64, bool>>().await;
            reply.send(&ctx, true);
        }
    };
    let to = a.pid_on(&b, b.runtime.spawn(answers).unwrap());

    let request = ask(&a.runtime, move |ctx| async move { ctx.call::<bool, u64>(to, true, Duration::MAX).await });
    let reply = ask(&a.runtime, move |ctx| async move { ctx.call::<u64, String>(to, 1, Duration::MAX).await });

    assert!(matches!(request, Err(CallError::Dropped { .. })), "{request:?}");
    assert!(matches!(reply, Err(CallError::Dropped { .. })), "{reply:?}");
    // `b` has dropped the request, and `a` the reply.
    eventually("the counts of both nodes", || (dropped(&a), dropped(&b)) == ((1, 1), (1, 1)));
}
