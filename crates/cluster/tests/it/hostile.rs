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
        vec![Frame::Data { kind: Kind::MESSAGE, from, to, payload: chunk }; 257],
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
