//! Bytes that no node sends: nothing panics, nothing grows, and a session ends at worst.

use bytes::{Bytes, BytesMut};
use rusm_cluster::wire::{Frame, Hello, Packet, Stream};
use rusm_cluster::{BootId, Config, DownReason, Epoch, Event, Kind, Lane, Version};
use rusm_fuzz::Fuzz;

use crate::pair::{Pair, message, name, packets, process};
use crate::wire::{golden_text, unhex};

fn golden_packets() -> Vec<Bytes> {
    let text = golden_text("packets.txt");
    text.lines().filter_map(|line| line.split_once(' ')).map(|(_, packet)| unhex(packet)).collect()
}

#[test]
fn mutated_packets_are_read_without_a_panic() {
    let fuzz = golden_packets().iter().fold(Fuzz::new("cluster-packets"), Fuzz::seed);

    fuzz.run(|input| {
        if let Ok(Packet::Stream(stream)) = Packet::decode(Bytes::copy_from_slice(input)) {
            let frames = stream.frames.take_while(Result::is_ok).count();
            assert!(frames <= input.len() / 5);
        }
    });
}

#[test]
fn mutated_packets_of_a_live_session_end_it_at_worst() {
    let mut pair = Pair::up(Config::default(), Config::default());
    pair.send(message(1, 2, "hi")).unwrap();
    pair.send(message(1, 3, vec![7; 100_000])).unwrap();
    let tagged = packets(&mut pair.a);
    let mut fuzz = Fuzz::new("cluster-session").cases(2_000);
    for packet in tagged.iter().map(|transmit| &transmit.packet).chain(&golden_packets()) {
        fuzz = fuzz.seed(&packet[..packet.len().min(4_096)]);
    }

    fuzz.run(|input| {
        let mut pair = Pair::up(Config::default(), Config::default());
        pair.b.on_packet(pair.now, Bytes::copy_from_slice(input));
        pair.exchange();
        let (ups, downs) = (pair.b.stats().totals.ups, pair.b.stats().totals.downs);
        assert!(ups == downs || ups == downs + 1);
    });
}

#[test]
fn what_breaks_the_protocol_ends_the_session() {
    let (from, to) = (process(1), process(2));
    let chunk = Bytes::from_static(b"abc");
    let credit = rusm_cluster::wire::stream::Credit { to, messages: 1, bytes: 1 };
    let broken = [
        vec![Frame::Next { from, to, chunk: chunk.clone() }],
        vec![Frame::First { kind: Kind::MESSAGE, from, to, total: 3, chunk: chunk.clone() }],
        vec![Frame::First { kind: Kind::MESSAGE, from, to, total: 9, chunk: chunk.clone() }; 2],
        vec![
            Frame::First { kind: Kind::MESSAGE, from, to, total: 5, chunk: chunk.clone() },
            Frame::Next { from, to, chunk: chunk.clone() },
        ],
        vec![Frame::Credit(vec![credit])],
        vec![
            Frame::Data { kind: Kind::MESSAGE, from, to, payload: chunk };
            Config::default().target_messages as usize + 1
        ],
    ];
    for frames in broken {
        let mut pair = Pair::up(Config::default(), Config::default());
        pair.send(message(9, 9, "")).unwrap();
        let sample = packets(&mut pair.a).into_iter().find(|transmit| transmit.lane == Lane::Stream).unwrap().packet;
        let Ok(Packet::Stream(sample)) = Packet::decode(sample) else { panic!("not a stream") };
        let mut packet = BytesMut::new();
        Stream::put_header(&mut packet, sample.tag, 0);
        for frame in &frames {
            frame.put(&mut packet);
        }
        pair.b.on_packet(pair.now, packet.freeze());
        let events: Vec<_> = std::iter::from_fn(|| pair.b.poll_event()).collect();

        assert_eq!(events.last(), Some(&Event::Down(DownReason::Protocol)), "{frames:?}");
    }
}

#[test]
fn a_flood_of_hellos_leaves_a_session_as_it_was() {
    let mut pair = Pair::up(Config::default(), Config::default());
    for boot in 0..100_000 {
        let hello = Hello {
            versions: (Version(1), Version(2)),
            features: rusm_cluster::Features::NONE,
            boot: BootId(1_000 + boot),
            epoch: Epoch(1),
            window_frames: 4_096,
            window_bytes: 1 << 20,
            target_messages: 256,
            from: name("b"),
            to: name("a"),
            held_bytes: None,
        };
        pair.a.on_packet(pair.now, hello.encode());
    }
    let answers = packets(&mut pair.a).len();
    pair.send(message(1, 2, "still")).unwrap();
    pair.exchange();

    assert!(answers <= 32, "{answers} answers wait");
    assert_eq!(pair.events_a, []);
    assert_eq!(crate::pair::delivered(&pair.events_b).len(), 1);
}

/// Returns the number of the packet after which a node ends the session of one that sends these, and the reason.
fn ends_after(packets_of_frames: &[Vec<Frame>], config: &Config) -> Option<(usize, DownReason)> {
    let mut pair = Pair::up(config.clone(), config.clone());
    pair.send(message(9, 9, "")).unwrap();
    let sample = packets(&mut pair.a).into_iter().find(|transmit| transmit.lane == Lane::Stream).unwrap().packet;
    let Ok(Packet::Stream(sample)) = Packet::decode(sample) else { panic!("not a stream") };
    let mut first = 0;
    for (number, frames) in packets_of_frames.iter().enumerate() {
        let mut packet = BytesMut::new();
        Stream::put_header(&mut packet, sample.tag, first);
        first += frames.len() as u64;
        for frame in frames {
            frame.put(&mut packet);
        }
        pair.b.on_packet(pair.now, packet.freeze());
        // Each packet is acknowledged, and no process takes anything.
        packets(&mut pair.b);
        pair.now += config.ack_delay;
        pair.b.on_tick(pair.now);
        packets(&mut pair.b);
        let events: Vec<_> = std::iter::from_fn(|| pair.b.poll_event()).collect();
        if let Some(Event::Down(reason)) = events.last() {
            return Some((number, *reason));
        }
    }
    None
}

#[test]
fn what_a_process_may_hold_is_bounded_in_bytes_as_for_an_honest_sender() {
    let config = Config::default();
    let whole = |to, length: usize| {
        let frame =
            Frame::Data { kind: Kind::MESSAGE, from: process(1), to: process(to), payload: vec![7; length].into() };
        vec![frame]
    };
    let fits = config.target_bytes as usize / (64 << 10);
    let to_one: Vec<_> = (0..=fits).map(|_| whole(2, 64 << 10)).collect();
    let small = Config { held_bytes: 1 << 20, ..config.clone() };
    let to_many: Vec<_> = (0..=16).map(|to| whole(2 + to, 64 << 10)).collect();

    assert_eq!(ends_after(&to_one, &config), Some((fits, DownReason::Protocol)));
    assert_eq!(ends_after(&to_many, &config), None);
    assert_eq!(ends_after(&to_many, &small), Some((16, DownReason::Protocol)));
}

#[test]
fn a_long_message_uses_credit_from_its_first_chunk_on() {
    let first = |from, total| {
        let chunk = Bytes::from_static(b"x");
        vec![Frame::First { kind: Kind::MESSAGE, from: process(from), to: process(2), total, chunk }]
    };
    let config = Config::default();

    assert_eq!(ends_after(&[first(1, 64 << 20)], &config), None, "alone, it may be longer than the credit");
    assert_eq!(ends_after(&[first(1, 64 << 20), first(3, 2)], &config), Some((1, DownReason::Protocol)));
    let many: Vec<_> = (1..=4_097).map(|from| first(from, 2)).collect();
    assert_eq!(ends_after(&many, &config), Some((4_096, DownReason::Protocol)), "the credit in messages");
}

#[test]
fn the_number_of_long_messages_under_way_is_bounded() {
    let config = Config { held_bytes: 4 << 20, ..Config::default() };
    let first = |from| {
        let chunk = Bytes::from_static(b"x");
        vec![Frame::First { kind: Kind(128), from: process(from), to: process(2), total: 2, chunk }]
    };
    let parts_max = ((4 << 20) + (64 << 20) + (1 << 20)) / (64 << 10) + 2;
    let signals: Vec<_> = (1..=parts_max + 1).map(first).collect();

    assert_eq!(ends_after(&signals, &config), Some((parts_max as usize, DownReason::Protocol)));
}

#[test]
fn a_sender_that_exceeds_the_window_breaks_the_protocol() {
    let signal = |length: usize| Frame::Data {
        kind: Kind(128),
        from: process(1),
        to: process(2),
        payload: vec![7; length].into(),
    };
    let config = Config { window_frames: 16, window_bytes: 1 << 10, ..Config::default() };

    assert_eq!(ends_after(&[vec![signal(0); 16], vec![signal(0); 16]], &config), None);
    assert_eq!(ends_after(&[vec![signal(0); 17]], &config), Some((0, DownReason::Protocol)));
    assert_eq!(ends_after(&[vec![signal(60_000)], vec![signal(60_000)]], &config), None, "a long frame goes alone");
    assert_eq!(ends_after(&[vec![signal(600); 2]], &config), Some((0, DownReason::Protocol)));
}

#[test]
fn events_that_nobody_takes_close_the_window_of_the_other_node() {
    let mut pair = Pair::up(Config::default(), Config::default());
    let mut sent = 0;
    for _ in 0..100 {
        for _ in 0..1_000 {
            let mut signal = message(1, 2, "");
            signal.kind = Kind(128);
            pair.send(signal).unwrap();
            sent += 1;
        }
        for transmit in packets(&mut pair.a) {
            pair.b.on_packet(pair.now, transmit.packet);
        }
        for transmit in packets(&mut pair.b) {
            pair.a.on_packet(pair.now, transmit.packet);
        }
    }
    let waiting = std::iter::from_fn(|| pair.b.poll_event()).count();
    pair.exchange();

    assert!(waiting <= 1_024 + 2 * Config::default().window_frames as usize, "{waiting} events wait");
    assert_eq!(waiting + crate::pair::delivered(&pair.events_b).len(), sent);
}
