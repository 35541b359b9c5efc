//! The bytes of each packet, and that they never change.

use std::fmt::Write;
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use rusm_cluster::wire::stream::Credit;
use rusm_cluster::wire::{Ack, Frame, Hello, HelloAck, Packet, Ping, Pong, Stream, WireError, limits};
use rusm_cluster::{Address, BootId, Epoch, Features, Kind, Version};

use crate::pair::{name, process};

/// Returns the text of a file of `tests/golden`.
pub(crate) fn golden_text(file: &str) -> String {
    std::fs::read_to_string(golden(file)).unwrap()
}

fn golden(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<_>>().into()
}

/// Compares a text with a file of `tests/golden`. `RUSM_GOLDEN=write` writes a file that does not exist.
pub(crate) fn assert_golden(file: &str, text: &str) {
    let path = golden(file);
    if !path.exists() && std::env::var("RUSM_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(golden_text(file), text, "{file}: the wire changed");
}

fn hello() -> Hello {
    Hello {
        versions: (Version(1), Version(3)),
        features: Features::NAMES.union(Features::GROUPS),
        boot: BootId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        epoch: Epoch(7),
        window_frames: 4_096,
        window_bytes: 1 << 20,
        target_messages: 256,
        from: name("north"),
        to: name("south-1"),
        held_bytes: Some(64 << 20),
    }
}

fn frames() -> Vec<Frame> {
    let (from, to) = (process(1), process(2));
    vec![
        Frame::Data { kind: Kind::MESSAGE, from, to, payload: Bytes::from_static(b"hi") },
        Frame::Data { kind: Kind::SIGNAL, from, to: Address::NODE, payload: Bytes::new() },
        Frame::First { kind: Kind(2), from, to, total: 5, chunk: Bytes::from_static(b"abc") },
        Frame::Next { from, to, chunk: Bytes::from_static(b"de") },
        Frame::Credit(vec![Credit { to, messages: 3, bytes: 300 }, Credit { to: from, messages: 1, bytes: 0 }]),
        Frame::Bye,
    ]
}

/// Every packet, with its name.
fn examples() -> Vec<(&'static str, Bytes)> {
    let mut stream = BytesMut::new();
    Stream::put_header(&mut stream, 0x1122_3344_5566_7788, 41);
    for frame in frames() {
        frame.put(&mut stream);
    }
    let tag = 0x1122_3344_5566_7788;
    vec![
        ("HELLO", hello().encode()),
        ("HELLO_ACK", HelloAck { hello: hello(), echo_boot: BootId(5), echo_epoch: Epoch(6) }.encode()),
        ("ACK", Ack { tag, frames: 47 }.encode()),
        ("PING", Ping { tag, sent_ns: 1_000 }.encode()),
        ("PONG", Pong { tag, sent_ns: 1_000, wall_ns: 1_764_000_000_000_000_000 }.encode()),
        ("STREAM", stream.freeze()),
    ]
}

#[test]
fn the_bytes_of_every_packet_are_those_of_the_golden_file() {
    let lines = examples().into_iter().map(|(name, packet)| format!("{name} {}\n", hex(&packet)));

    assert_golden("packets.txt", &lines.collect::<String>());
}

#[test]
fn every_packet_is_read_as_it_was_written() {
    let read: Vec<_> = examples().into_iter().map(|(_, packet)| Packet::decode(packet).unwrap()).collect();

    assert_eq!(read[0], Packet::Hello(hello()));
    assert!(matches!(&read[1], Packet::HelloAck(ack) if ack.hello == hello() && ack.echo_epoch == Epoch(6)));
    let Packet::Stream(stream) = &read[5] else { panic!("{read:?}") };
    assert_eq!(stream.frames.clone().collect::<Result<Vec<_>, _>>().unwrap(), frames());
}

#[test]
fn a_packet_that_ends_early_is_an_error_or_has_the_frames_that_are_whole() {
    for (name, packet) in examples() {
        for length in 0..packet.len() {
            let Ok(read) = Packet::decode(packet.slice(..length)) else { continue };
            if let Packet::Hello(Hello { held_bytes: None, .. }) = read {
                // A HELLO of an older node.
                continue;
            }
            if matches!(&read, Packet::HelloAck(ack) if ack.hello.held_bytes.is_none()) {
                continue;
            }
            let Packet::Stream(stream) = read else { panic!("{name} of {length} bytes is read as {read:?}") };
            let whole: Vec<_> = stream.frames.take_while(Result::is_ok).flatten().collect();
            assert_eq!(whole, frames_before(&packet, length));
        }
    }
}

/// Returns the frames that end before a length.
fn frames_before(packet: &[u8], length: usize) -> Vec<Frame> {
    let mut end = limits::STREAM_HEADER_BYTES;
    let ends = frames().into_iter().map(|frame| {
        let mut bytes = BytesMut::new();
        frame.put(&mut bytes);
        end += bytes.len();
        (frame, end)
    });
    assert!(length <= packet.len());
    ends.filter(|(_, end)| *end <= length).map(|(frame, _)| frame).collect()
}

#[test]
fn fields_of_newer_versions_are_left_and_newer_packets_are_known_as_such() {
    let mut longer = BytesMut::from(&hello().encode()[..]);
    longer.extend_from_slice(&[1, 2, 3]);

    assert_eq!(Packet::decode(longer.freeze()), Ok(Packet::Hello(hello())));
    assert_eq!(Packet::decode(Bytes::from_static(&[99, 1, 2])), Ok(Packet::Unknown(99)));
}

#[test]
fn nothing_beyond_a_limit_is_read() {
    let too_long = Bytes::from(vec![16; limits::PACKET_BYTES_MAX + 1]);
    let mut long_chunk = BytesMut::new();
    Stream::put_header(&mut long_chunk, 1, 0);
    let payload = Bytes::from(vec![0; limits::CHUNK_BYTES_MAX + 1]);
    Frame::Data { kind: Kind::MESSAGE, from: process(1), to: process(2), payload }.put(&mut long_chunk);
    let Ok(Packet::Stream(mut stream)) = Packet::decode(long_chunk.freeze()) else { panic!("not a stream") };
    let mut huge = BytesMut::new();
    Stream::put_header(&mut huge, 1, 0);
    let (from, to) = (process(1), process(2));
    Frame::First { kind: Kind::MESSAGE, from, to, total: u32::MAX, chunk: Bytes::from_static(b"x") }.put(&mut huge);
    let Ok(Packet::Stream(mut huge)) = Packet::decode(huge.freeze()) else { panic!("not a stream") };
    let window = Hello { window_frames: 1, ..hello() }.encode();

    assert!(matches!(Packet::decode(too_long), Err(WireError::TooLarge { field: "the length", .. })));
    assert!(matches!(stream.frames.next(), Some(Err(WireError::TooLarge { field: "a chunk", .. }))));
    assert!(matches!(huge.frames.next(), Some(Err(WireError::TooLarge { field: "the length of a message", .. }))));
    assert_eq!(Packet::decode(window), Err(WireError::Invalid("the window")));
}
