//! Conversations with nodes of other versions. `tests/golden/node-of-version-1.txt` holds the packets of a node that
//! speaks version 1 only, as it sent them: nodes of this version must understand it for ever.

use bytes::Bytes;
use rusm_cluster::{Config, Event, LinkChange, Session, Version};

use crate::pair::{Pair, delivered, identity, message, name, packets};
use crate::wire::{assert_golden, golden_text, hex, unhex};

const OLD_NODE: &str = "node-of-version-1.txt";

/// Plays the part of the old node: HELLO, the answer to our HELLO, two messages, and the acknowledgement of ours.
fn old_packets() -> Vec<Bytes> {
    // The limits that nodes had when the file was written.
    let (window_frames, target_messages) = (4_096, 256);
    let config = Config { versions: (Version(1), Version(1)), window_frames, target_messages, ..Config::default() };
    let mut pair = Pair::apart(Config::default(), config);
    pair.a.on_link(pair.now, LinkChange::Up);
    pair.b.on_link(pair.now, LinkChange::Up);
    let mut sent = Vec::new();
    for turn in 0..4 {
        let from_b = packets(&mut pair.b);
        sent.extend(from_b.iter().map(|transmit| transmit.packet.clone()));
        for transmit in packets(&mut pair.a) {
            pair.b.on_packet(pair.now, transmit.packet);
        }
        for transmit in from_b {
            pair.a.on_packet(pair.now, transmit.packet);
        }
        if turn == 1 {
            pair.send(message(1, 2, "from the new node")).unwrap();
            pair.b.send(pair.now, message(2, 1, "from the old node")).unwrap();
            pair.b.send(pair.now, message(2, 1, vec![b'x'; 70_000])).unwrap();
        }
        pair.now += std::time::Duration::from_millis(6);
        pair.b.on_tick(pair.now);
    }
    sent
}

#[test]
fn a_node_of_this_build_speaks_version_1_as_it_was_spoken() {
    // The filling of the long message is left out of the file.
    let filling = "78".repeat(1_000);
    let lines = old_packets().into_iter().map(|packet| format!("{}\n", hex(&packet).replace(&filling, "*")));

    assert_golden(OLD_NODE, &lines.collect::<String>());
}

#[test]
fn a_node_of_this_build_has_a_session_with_a_recorded_node_of_version_1() {
    let recorded = golden_text(OLD_NODE).replace('*', &"78".repeat(1_000));
    let mut new = Session::new(Config::default(), identity("a", 0xa), name("b"));
    let mut now = std::time::Duration::from_secs(1);
    new.on_link(now, LinkChange::Up);
    let mut types = Vec::new();
    let mut events = Vec::new();
    for line in recorded.lines() {
        new.on_packet(now, unhex(line));
        if new.is_up() && new.stats().totals.messages_out == 0 {
            new.send(now, message(1, 2, "from the new node")).unwrap();
        }
        types.extend(packets(&mut new).iter().map(|transmit| transmit.packet[0]));
        now += std::time::Duration::from_secs(2);
        new.on_tick(now);
        events.extend(std::iter::from_fn(|| new.poll_event()));
    }

    let Event::Up(peer) = &events[0] else { panic!("{events:?}") };
    let arrived: Vec<_> = delivered(&events).iter().map(|message| message.payload.len()).collect();
    assert_eq!(peer.version, Version(1));
    assert_eq!(arrived, ["from the old node".len(), 70_000]);
    assert!(!types.contains(&4), "a node of version 1 does not know PING: {types:?}");
    assert_eq!(new.stats().in_doubt_frames, 0);
    assert!(new.is_up());
}

#[test]
fn all_pairs_of_versions_have_a_session() {
    let spans = [(1, 1), (1, 2), (2, 2), (1, 9)];
    for (a, b) in spans.iter().flat_map(|a| spans.iter().map(move |b| (*a, *b))) {
        if a.0 > b.1 || b.0 > a.1 {
            continue;
        }
        let config = |span: (u16, u16)| Config { versions: (Version(span.0), Version(span.1)), ..Config::default() };
        let mut pair = Pair::up(config(a), config(b));
        pair.send(message(1, 2, "hi")).unwrap();
        pair.exchange();

        assert_eq!(pair.a.stats().peer.unwrap().version, Version(a.1.min(b.1)));
        assert_eq!(delivered(&pair.events_b).len(), 1, "{a:?} {b:?}");
    }
}
