//! Frames of web sockets byte by byte: the cases of the Autobahn test suite, by its numbers, without compression.
//!
//! A case is what a client sends at once, and what it must get back: echoes and pongs in order, then a close code.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rusm_serve::{Limits, Request, Router, websocket};

use crate::serve;

const CONTINUE: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Bit of the last frame of a message.
const FIN: u8 = 0x80;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
/// The code of a socket that breaks the protocol.
const PROTOCOL: u16 = 1002;
/// The code of a text that is not UTF-8.
const INVALID: u16 = 1007;

/// A frame from the server: opcode and payload. Servers may not mask.
type Received = (u8, Vec<u8>);

/// A frame from a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..=125 => bytes.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            bytes.push(0x80 | 0x7e);
            bytes.extend((len as u16).to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 0x7f);
            bytes.extend((len as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

fn whole(opcode: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    frame(FIN | opcode, payload.as_ref())
}

fn close(code: u16) -> Vec<u8> {
    whole(CLOSE, code.to_be_bytes())
}

/// Upgrades a connection, sends `parts` one by one, and returns all frames up to the end of the connection.
fn talk(address: SocketAddr, parts: &[Vec<u8>]) -> Vec<Received> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("the socket is open");
    stream.set_nodelay(true).expect("the socket is open");
    let handshake = "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                     sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(handshake.as_bytes()).expect("the server reads");
    let mut byte = [0];
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    for part in parts {
        // The server may have closed the connection already: what it has sent before is what counts.
        drop(stream.write_all(part));
    }
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the connection ends without a reset, so that no close frame is lost");
    split(&bytes)
}

fn split(mut bytes: &[u8]) -> Vec<Received> {
    let mut frames = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        assert_eq!((first & 0x70, second & 0x80), (0, 0), "no reserved bit, no mask");
        let (len, rest) = match second {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            127 => (u64::from_be_bytes(rest[..8].try_into().expect("eight bytes")) as usize, &rest[8..]),
            len => (usize::from(*len), rest),
        };
        assert!(first & FIN != 0, "this server sends whole messages");
        frames.push((first & 0x0f, rest[..len].to_vec()));
        bytes = &rest[len..];
    }
    assert!(bytes.is_empty(), "the last frame is complete");
    frames
}

/// The address of a server that echoes, and the checks.
struct Suite {
    address: SocketAddr,
}

impl Suite {
    /// Sends `parts` and a close frame: the answers come in order, then the close.
    fn echoes(&mut self, case: &str, mut parts: Vec<Vec<u8>>, mut answers: Vec<Received>) {
        parts.push(close(1000));
        answers.push((CLOSE, 1000_u16.to_be_bytes().to_vec()));
        self.gets(case, &parts, &answers);
    }

    fn gets(&mut self, case: &str, parts: &[Vec<u8>], answers: &[Received]) {
        let received = talk(self.address, parts);
        let short = |frames: &[Received]| -> Vec<_> {
            frames
                .iter()
                .map(|(opcode, payload)| (*opcode, payload.len(), payload.iter().take(40).copied().collect::<Vec<_>>()))
                .collect()
        };
        assert!(received == answers, "{case}: {:?}, expected {:?}", short(&received), short(answers));
    }

    /// Sends `parts`: after the answers the server closes with a code.
    fn fails(&mut self, case: &str, parts: &[Vec<u8>], answers: &[Received], code: u16) {
        let mut received = talk(self.address, parts);
        let last = received.pop();
        let closed =
            last.as_ref().filter(|(opcode, _)| *opcode == CLOSE).and_then(|(_, payload)| payload.first_chunk());
        assert_eq!(closed.map(|code| u16::from_be_bytes(*code)), Some(code), "{case}: {last:?}");
        assert_eq!(received, answers, "{case}");
    }
}

fn with_suite(cases: impl FnOnce(&mut Suite)) {
    let echo = async |request: Request| {
        websocket::upgrade(request, async |mut socket| {
            while let Ok(Some(message)) = socket.receive().await {
                if socket.send(message).await.is_err() {
                    break;
                }
            }
        })
    };
    let (_runtime, server) = serve(Router::new().route("GET /", echo).expect("valid"), Limits::default());
    let mut suite = Suite { address: server.local_addr() };
    cases(&mut suite);
    assert_eq!(server.report(0).routes[0].crashed_total, 0);
}

#[test]
fn case_1_messages_of_all_lengths_come_back() {
    with_suite(|suite| {
        for (group, opcode) in [(1, TEXT), (2, BINARY)] {
            for (number, len) in (1..).zip([0, 125, 126, 127, 128, 65_535, 65_536, 1 << 20]) {
                let payload = vec![b'*'; len];
                let message = whole(opcode, &payload);
                let case = format!("1.{group}.{number}");
                suite.echoes(&case, vec![message.clone()], vec![(opcode, payload.clone())]);
                // In pieces that end anywhere, also within a head.
                let pieces = message.chunks(if len < 200 { 1 } else { 997 }).map(<[u8]>::to_vec).collect();
                suite.echoes(&format!("{case}, chopped"), pieces, vec![(opcode, payload)]);
            }
        }
    });
}

#[test]
fn case_2_pings_are_answered_in_order_and_pongs_are_not() {
    with_suite(|suite| {
        for (case, payload) in
            [("2.1", vec![]), ("2.2", b"Hello".to_vec()), ("2.3", vec![0, 255, 254, 9]), ("2.4", vec![b'x'; 125])]
        {
            suite.echoes(case, vec![whole(PING, &payload)], vec![(PONG, payload)]);
        }
        suite.fails("2.5", &[whole(PING, vec![b'x'; 126])], &[], PROTOCOL);
        let chopped = whole(PING, vec![b'x'; 125]).into_iter().map(|byte| vec![byte]).collect();
        suite.echoes("2.6", chopped, vec![(PONG, vec![b'x'; 125])]);
        suite.echoes("2.7", vec![whole(PONG, "")], vec![]);
        suite.echoes("2.8", vec![whole(PONG, "unsolicited")], vec![]);
        suite.echoes("2.9", vec![whole(PONG, "unsolicited"), whole(PING, "p")], vec![(PONG, b"p".to_vec())]);
        let numbers: Vec<String> = (0..10).map(|number| format!("payload-{number}")).collect();
        let pongs: Vec<_> = numbers.iter().map(|number| (PONG, number.clone().into_bytes())).collect();
        suite.echoes("2.10", numbers.iter().map(|number| whole(PING, number)).collect(), pongs.clone());
        let bytes = numbers.iter().flat_map(|number| whole(PING, number)).map(|byte| vec![byte]).collect();
        suite.echoes("2.11", bytes, pongs);
    });
}

#[test]
fn case_3_reserved_bits_are_refused() {
    with_suite(|suite| {
        for bits in 1..8_u8 {
            for opcode in [TEXT, BINARY, PING, CLOSE] {
                let bad = frame(FIN | bits << 4 | opcode, b"Hi");
                suite.fails(&format!("3.{bits}, {opcode}"), std::slice::from_ref(&bad), &[], PROTOCOL);
                let parts = [whole(TEXT, "first"), bad, whole(PING, "never seen")];
                suite.fails(&format!("3.{bits}, {opcode}, later"), &parts, &[(TEXT, b"first".to_vec())], PROTOCOL);
            }
        }
    });
}

#[test]
fn case_4_reserved_opcodes_are_refused() {
    with_suite(|suite| {
        for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
            for payload in ["", "reserved"] {
                suite.fails(&format!("4, {opcode}"), &[whole(opcode, payload)], &[], PROTOCOL);
                let parts = [whole(TEXT, "first"), whole(opcode, payload), whole(PING, "")];
                suite.fails(&format!("4, {opcode}, later"), &parts, &[(TEXT, b"first".to_vec())], PROTOCOL);
            }
        }
    });
}

#[test]
fn case_5_fragments_make_one_message_and_control_frames_pass_between_them() {
    let first = |payload: &str| frame(TEXT, payload.as_bytes());
    let next = |payload: &str| frame(CONTINUE, payload.as_bytes());
    let last = |payload: &str| whole(CONTINUE, payload);
    let text = |payload: &str| (TEXT, payload.as_bytes().to_vec());
    let pong = |payload: &str| (PONG, payload.as_bytes().to_vec());
    with_suite(|suite| {
        suite.fails("5.1", &[frame(PING, b"a"), last("b")], &[], PROTOCOL);
        suite.fails("5.2", &[frame(PONG, b"a"), last("b")], &[], PROTOCOL);
        suite.fails("5, fragmented close", &[frame(CLOSE, &1000_u16.to_be_bytes()), last("")], &[], PROTOCOL);
        suite.echoes("5.3", vec![first("a"), last("b")], vec![text("ab")]);
        let chopped = [first("a"), last("b")].concat().into_iter().map(|byte| vec![byte]).collect();
        suite.echoes("5.5", chopped, vec![text("ab")]);
        suite.echoes("5.6", vec![first("a"), whole(PING, "p"), last("b")], vec![pong("p"), text("ab")]);
        let parts = vec![first("a"), next("b"), whole(PING, "1"), next("c"), next("d"), whole(PING, "2"), last("e")];
        suite.echoes("5.19", parts, vec![pong("1"), pong("2"), text("abcde")]);
        suite.echoes("5, empty fragments", vec![first(""), next(""), last("")], vec![text("")]);
        suite.echoes("5, an empty fragment", vec![first("a"), next(""), last("b")], vec![text("ab")]);
        suite.fails("5.9", &[last("no start"), whole(TEXT, "x")], &[], PROTOCOL);
        suite.fails("5.12", &[next("no start"), whole(TEXT, "x")], &[], PROTOCOL);
        let parts = [first("a"), last("b"), next("c"), whole(TEXT, "x")];
        suite.fails("5.15", &parts, &[text("ab")], PROTOCOL);
        suite.fails("5.18", &[first("a"), whole(TEXT, "b")], &[], PROTOCOL);
        suite.fails("5, binary within a text", &[first("a"), frame(BINARY, b"b"), last("c")], &[], PROTOCOL);
        let many: Vec<_> = std::iter::once(first("0")).chain((1..999).map(|_| next("1"))).chain([last("2")]).collect();
        suite.echoes("5, a thousand fragments", many, vec![text(&format!("0{}2", "1".repeat(998)))]);
    });
}

/// Byte sequences that are not UTF-8: Markus Kuhn's stress test, which the suite uses as well.
fn not_utf8() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = vec![
        vec![0xce, 0xba, 0xe1, 0xbd, 0xb9, 0xcf, 0x83, 0xce, 0xbc, 0xce, 0xb5, 0xed, 0xa0, 0x80, b'e'],
        // Beyond the last code point.
        vec![0xf4, 0x90, 0x80, 0x80],
        vec![0xf7, 0xbf, 0xbf, 0xbf],
        vec![0xf8, 0x88, 0x80, 0x80, 0x80],
        vec![0xfb, 0xbf, 0xbf, 0xbf, 0xbf],
        vec![0xfc, 0x84, 0x80, 0x80, 0x80, 0x80],
        vec![0xfd, 0xbf, 0xbf, 0xbf, 0xbf, 0xbf],
        // Overlong forms.
        vec![0xc0, 0xaf],
        vec![0xe0, 0x80, 0xaf],
        vec![0xf0, 0x80, 0x80, 0xaf],
        vec![0xf8, 0x80, 0x80, 0x80, 0xaf],
        vec![0xc1, 0xbf],
        vec![0xe0, 0x9f, 0xbf],
        vec![0xf0, 0x8f, 0xbf, 0xbf],
        vec![0xc0, 0x80],
        vec![0xe0, 0x80, 0x80],
        // Bytes that never occur.
        vec![0xfe],
        vec![0xff],
        vec![0xfe, 0xfe, 0xff, 0xff],
    ];
    // Single and paired surrogates, continuation bytes without a start, starts without continuation.
    all.extend([0xa0, 0xad, 0xae, 0xaf, 0xb0, 0xbe, 0xbf].map(|second| vec![0xed, second, 0x80]));
    all.push(vec![0xed, 0xa0, 0x80, 0xed, 0xb0, 0x80]);
    all.extend((1..=6).map(|len| vec![0x80; len]));
    all.extend([0xc2, 0xdf, 0xe1, 0xef, 0xf1, 0xf4].map(|start| vec![start, b' ']));
    all.extend([vec![0xe1, 0x80], vec![0xf1, 0x80, 0x80], vec![0xdf], vec![0xf1]]);
    all
}

#[test]
fn case_6_text_is_utf8_across_fragments_and_nothing_else_is_text() {
    let good = [
        "",
        "\u{0}",
        "\u{7f}",
        "\u{80}",
        "\u{7ff}",
        "\u{800}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{fffd}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
        "κόσμε",
        "Hello-µ@ßöäüàá-UTF-8!!",
    ];
    with_suite(|suite| {
        for text in good {
            suite.echoes(&format!("6.2, {text:?}"), vec![whole(TEXT, text)], vec![(TEXT, text.into())]);
            // A fragment for each byte: code points may be cut by the ends of fragments.
            let mut parts: Vec<_> = text.bytes().map(|byte| frame(CONTINUE, &[byte])).collect();
            parts.insert(0, frame(TEXT, b""));
            parts.push(whole(CONTINUE, ""));
            suite.echoes(&format!("6.2, {text:?}, in bytes"), parts, vec![(TEXT, text.into())]);
        }
        for bytes in not_utf8() {
            suite.fails(&format!("6, {bytes:02x?}"), &[whole(TEXT, &bytes)], &[], INVALID);
            let parts = [frame(TEXT, "before".as_bytes()), frame(CONTINUE, &bytes), whole(CONTINUE, "after")];
            suite.fails(&format!("6, {bytes:02x?}, in fragments"), &parts, &[], INVALID);
            suite.echoes(
                &format!("6, {bytes:02x?}, binary"),
                vec![whole(BINARY, &bytes)],
                vec![(BINARY, bytes.clone())],
            );
        }
    });
}

#[test]
fn case_7_closes_are_answered_with_their_code_if_it_is_valid() {
    let with = |code: u16, reason: &[u8]| whole(CLOSE, [&code.to_be_bytes(), reason].concat());
    let closed = |code: u16| vec![(CLOSE, code.to_be_bytes().to_vec())];
    with_suite(|suite| {
        suite.echoes("7.1.1", vec![whole(TEXT, "Hello")], vec![(TEXT, b"Hello".to_vec())]);
        suite.gets("7.1.2", &[close(1000), close(1000)], &closed(1000));
        suite.gets("7.1.3", &[close(1000), whole(PING, "late")], &closed(1000));
        suite.gets("7.1.4", &[close(1000), whole(TEXT, "late")], &closed(1000));
        suite.gets("7.1.5", &[frame(TEXT, b"a"), close(1000), whole(CONTINUE, "b")], &closed(1000));
        suite.gets("7.3.1", &[whole(CLOSE, "")], &[(CLOSE, vec![])]);
        suite.fails("7.3.2", &[whole(CLOSE, "a")], &[], PROTOCOL);
        suite.gets("7.3.3", &[close(1000)], &closed(1000));
        // A reason of the client need not come back; if it does, it is the same.
        for (case, reason) in [("7.3.4", &b"Hello"[..]), ("7.3.5", &[b'*'; 123])] {
            suite.fails(case, &[with(1000, reason)], &[], 1000);
        }
        suite.fails("7.3.6", &[with(1000, &[b'*'; 124])], &[], PROTOCOL);
        suite.fails("7.5.1", &[with(1000, &[0xce, 0xba, 0xed, 0xa0, 0x80])], &[], INVALID);
        for code in [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999] {
            suite.gets(&format!("7.7, {code}"), &[close(code)], &closed(code));
        }
        for code in [0, 1, 500, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535] {
            suite.fails(&format!("7.9, {code}"), &[close(code)], &[], PROTOCOL);
        }
    });
}

#[test]
fn case_9_long_messages_arrive_and_those_beyond_the_limit_get_1009() {
    let limit = Limits::default().ws_message_bytes;
    with_suite(|suite| {
        let payload: Vec<u8> = (0..limit).map(|at| at as u8).collect();
        for fragment in [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10] {
            let mut parts: Vec<_> = payload.chunks(fragment).map(|part| frame(CONTINUE, part)).collect();
            parts[0][0] = BINARY;
            parts.push(whole(CONTINUE, ""));
            suite.echoes(&format!("9.4, fragments of {fragment}"), parts, vec![(BINARY, payload.clone())]);
        }
        suite.fails("9, one byte too many", &[whole(BINARY, vec![0; limit + 1])], &[], 1009);
        let parts = [frame(BINARY, &payload), whole(CONTINUE, "x")];
        suite.fails("9, one byte too many in fragments", &parts, &[], 1009);
        // Of a length that no program could hold, only the head is sent.
        for len in [u64::MAX >> 1, 1 << 40] {
            let head = [&[FIN | BINARY, 0x80 | 0x7f][..], &len.to_be_bytes(), &MASK].concat();
            suite.fails(&format!("9, {len} announced"), &[head], &[], 1009);
        }
    });
}

#[test]
fn frames_of_a_client_without_a_mask_are_refused() {
    with_suite(|suite| {
        suite.fails("5.1 of RFC 6455", &[vec![FIN | TEXT, 2, b'H', b'i']], &[], PROTOCOL);
        let parts = [whole(TEXT, "good"), vec![FIN | PING, 0]];
        suite.fails("5.1 of RFC 6455, later", &parts, &[(TEXT, b"good".to_vec())], PROTOCOL);
    });
}
