//! Histories of the memory by kind.

use rusm_protocol::{MemorySnapshot, MemoryUses, ObserverSnapshot};

use super::*;
use crate::model::panes::sched::memory_kind::MemoryKind;

fn frame(at_s: u64, topic_bytes: u64) -> Msg {
    let uses = MemoryUses { topic_bytes, resident_bytes: 100 << 20, ..MemoryUses::default() };
    let memory = MemorySnapshot { rss_bytes: 100 << 20, uses: Some(uses), ..MemorySnapshot::default() };
    let observer = ObserverSnapshot { memory, ..ObserverSnapshot::default() };
    let frame = Frame { captured_at_ns: at_s * 1_000_000_000, observer, ..Frame::default() };
    Msg::Server(ServerMessage::Tick { frame: Box::new(frame) })
}

#[test]
fn every_kind_of_memory_is_remembered_whatever_view_is_shown() {
    let mut model = Model::new(Start::default());

    for at_s in 1..=4 {
        update(&mut model, frame(at_s, at_s << 20), Duration::from_secs(at_s));
    }

    let of = |kind: MemoryKind| model.histories.memory[kind as usize].buckets(1000, 3);
    assert_eq!(of(MemoryKind::Topics), [2, 3, 4].map(|mib| Some(f64::from(mib << 20))));
    assert_eq!(of(MemoryKind::Rest)[2], Some(f64::from(96 << 20)));
    assert_eq!(model.histories.rss.buckets(1000, 1), [Some(f64::from(100 << 20))]);
}

#[test]
fn an_older_frame_repeats_nothing() {
    let mut model = Model::new(Start::default());
    update(&mut model, frame(5, 5 << 20), Duration::from_secs(5));

    update(&mut model, frame(2, 2 << 20), Duration::from_secs(6));

    let topics = &model.histories.memory[MemoryKind::Topics as usize];
    assert_eq!(topics.buckets(1000, 2), [None, Some(f64::from(2 << 20))], "the node has restarted");
}
