//! Memory by use: a known amount is allocated for each use, and the figure of that use must grow by it.

use std::sync::OnceLock;

use crate::ALONE;
use crate::support::{Client, DEADLINE, Node, node};
use rusm_runtime::ring::Builder;
use rusm_runtime::topic::{Message, Overflow};
use rusm_runtime::{ExitReason, Pid, observe};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Returns the memory by use at a reading after this call.
async fn memory(client: &mut Client) -> Value {
    let start = client.frame().await["uptime_ms"].as_u64().unwrap();
    loop {
        let frame = client.frame().await;
        let memory = &frame["observer"]["memory"];
        let age_ms = memory["uses"]["age_ms"].as_u64();
        // The sums over all processes are as old as a second, too.
        if age_ms.is_some_and(|age_ms| frame["uptime_ms"].as_u64().unwrap() - age_ms > start + 1_100) {
            return memory.clone();
        }
    }
}

fn used(memory: &Value, name: &str) -> u64 {
    memory["uses"][name].as_u64().or_else(|| memory[name].as_u64()).unwrap()
}

/// Checks that a use has grown by an amount.
async fn grows(client: &mut Client, before: &Value, name: &str, expected: u64) {
    let after = memory(client).await;
    let grown = used(&after, name).saturating_sub(used(before, name));
    assert!(grown.abs_diff(expected) <= expected / 16, "{name}: {grown} instead of {expected}: {before} {after}");
}

fn parked(node: &Node, processes: usize) -> Vec<Pid> {
    (0..processes).map(|_| node.parked()).collect()
}

fn is_sanitised() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| std::env::var_os("ASAN_OPTIONS").is_some())
}

#[tokio::test]
async fn messages_of_topics_and_mailboxes_are_shown_as_their_kinds() {
    let _alone = ALONE.lock().await;
    let node = node();
    let mut client = node.attach().await;

    let before = memory(&mut client).await;
    let topic = node.runtime.topics().create("kinds").unwrap();
    let subscriber = topic.subscribe(Overflow::Block);
    for _ in 0..16 {
        topic.try_publish(Message::new(vec![1_u8; MIB as usize])).unwrap();
    }
    for pid in parked(&node, 8) {
        node.runtime.try_send(pid, bytes::Bytes::from(vec![1_u8; 2 << 20])).unwrap();
    }

    grows(&mut client, &before, "topic_bytes", 16 * MIB).await;
    grows(&mut client, &before, "mailbox_bytes", 16 * MIB).await;
    drop(subscriber);
}

#[tokio::test]
async fn only_the_written_part_of_a_ring_is_shown() {
    let _alone = ALONE.lock().await;
    let node = node();
    let mut client = node.attach().await;

    let before = memory(&mut client).await;
    let (mut writer, readers) = Builder::new(4 << 20).observed_by(&node.runtime).build::<u64>().unwrap();
    let items = vec![7_u64; 1 << 20];
    assert_eq!((writer.try_write(&items), writer.try_write(&items)), (1 << 20, 1 << 20));

    grows(&mut client, &before, "ring_bytes", 16 * MIB).await;
    drop(readers);
}

#[tokio::test]
async fn slots_of_processes_that_ended_are_shown_as_free() {
    let _alone = ALONE.lock().await;
    let node = node();
    let mut client = node.attach().await;

    let before = memory(&mut client).await;
    let pids = parked(&node, 40_000);
    grows(&mut client, &before, "control_block_bytes", 40_000 * 256).await;
    for pid in pids {
        node.runtime.exit(pid, ExitReason::Killed);
    }
    node.settles("the end of all", |runtime| observe::totals(runtime).live == 0).await;

    let after = memory(&mut client).await;
    assert_eq!(used(&after, "control_block_bytes"), 0);
    // The bodies of chunks without a process are returned to the system after a second.
    assert!(used(&after, "free_slot_bytes") >= 40_000 * 64, "{after}");
}

#[tokio::test]
async fn other_allocations_are_told_from_freed_memory_and_all_of_it_is_the_resident_set() {
    let _alone = ALONE.lock().await;
    let node = node();
    let mut client = node.attach().await;

    let before = memory(&mut client).await;
    // Small blocks, which the allocator keeps when they are freed below others.
    let mut blocks: Vec<_> = (0..24_000).map(|_| std::hint::black_box(vec![1_u8; 1_000])).collect();
    let last = blocks.pop();
    let full = memory(&mut client).await;
    drop(blocks);
    let freed = memory(&mut client).await;
    drop(last);

    if !is_sanitised() {
        let [before, full, freed_other] = [&before, &full, &freed].map(|memory| used(memory, "other_bytes"));
        assert!(full.saturating_sub(before).abs_diff(24_000_000) <= 3_000_000, "{before} {full}");
        // Other tests of this program allocate meanwhile.
        assert!(full.saturating_sub(freed_other) >= 12_000_000, "{full} {freed_other}");
        assert!(used(&freed, "allocator_bytes") >= 12_000_000, "{freed}");
    }
    let no_use = ["linear_size_bytes", "resident_bytes", "age_ms", "cost_us"];
    let uses = freed["uses"].as_object().unwrap().iter().filter(|(name, _)| !no_use.contains(&name.as_str()));
    let of_processes = ["control_block_bytes", "future_bytes", "mailbox_bytes"].map(|name| used(&freed, name));
    let all = uses.map(|(_, bytes)| bytes.as_u64().unwrap()).sum::<u64>() + of_processes.iter().sum::<u64>();
    let resident = used(&freed, "resident_bytes");
    assert!(all.abs_diff(resident) <= resident / 20, "{all} of {resident}: {freed}");
    assert!(used(&freed, "program_bytes") > 0 && used(&freed, "thread_stack_bytes") > 0, "{freed}");
}

#[tokio::test]
async fn the_metrics_have_the_memory_by_use_without_an_observer() {
    let _alone = ALONE.lock().await;
    let node = node();
    let pids = parked(&node, 20_000);

    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", node.port());
    let expected = format!("rusm_memory_bytes{{use=\"control_blocks\"}} {}\n", pids.len() * 256);
    // The newest sample may be from before the spawns.
    let text = async {
        loop {
            let text = node.ask(&request).await;
            if text.contains(&expected) {
                return text;
            }
        }
    };
    let text = tokio::time::timeout(DEADLINE, text).await.expect("the metrics count all processes");

    assert!(text.contains("rusm_memory_bytes{use=\"program\"} "), "{text}");
}
