//! Frames that no runtime sends: they are refused or do nothing, and the node goes on.

use bytes::Bytes;
use rusm_runtime::embed::remote::{Address, Frame, Kind, Malformed};
use rusm_runtime::{Context, Request};

use super::two;
use crate::ask::ask;

async fn doubler(ctx: Context) {
    loop {
        let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
        reply.send(&ctx, request * 2);
    }
}

#[test]
fn whatever_another_node_sends_the_node_goes_on() {
    let (a, b) = two();
    let target = b.runtime.spawn(doubler).unwrap();
    let to = Address::from(target);
    let words = ["double", "numbered", "u64", "spawn", "\u{1}\u{0}\u{0}\u{0}", "\u{4}\u{0}\u{0}\u{0}"];

    rusm_fuzz::Fuzz::new("remote frames").seed("\u{1}\u{6}\u{0}\u{0}\u{0}double").words(&words).run(|input| {
        let Some((kind, payload)) = input.split_first() else { return };
        // A second first frame is refused. An exit signal and a link may end the process, as those of any node may.
        let deadly = [Kind::Hello, Kind::Exit, Kind::LinkExit, Kind::Link];
        let Some(kind) = Kind::from_byte(*kind % 18).or_else(|| Kind::from_byte(128 + *kind % 15)) else { return };
        if deadly.contains(&kind) {
            return;
        }
        for to in [to, Address::NODE, Address { slot: u32::MAX, generation: 7 }] {
            for from in [Address::NODE, Address { slot: 5, generation: 1 }] {
                drop(b.deliver_from(&a, Frame { kind, from, to, payload: Bytes::copy_from_slice(payload) }));
            }
        }
    });

    let to = a.pid_on(&b, target);
    let answer =
        ask(&a.runtime, move |ctx| async move { ctx.call::<u64, u64>(to, 21, std::time::Duration::MAX).await });
    assert_eq!(answer, Ok(42));
}

#[test]
fn a_frame_that_is_not_valid_is_named() {
    let (a, b) = two();
    let frame = |kind, payload: &'static [u8]| Frame {
        kind,
        from: Address::NODE,
        to: Address { slot: 1, generation: 1 },
        payload: Bytes::from_static(payload),
    };

    let refused = [
        (Kind::Tagged, &b"short"[..]),
        (Kind::Value, b"\x07\0\0\0unknown"),
        (Kind::Request, b"\x07\0\0\0unknown"),
        (Kind::Monitor, b"\0\0\0\0\0\0\0\0"),
        (Kind::Down, b""),
        (Kind::Exit, b"\x63\0\0\0\0"),
        (Kind::Hello, b"\0\0\0\0"),
        (Kind::Ask, b"\x09"),
        (Kind::Answer, b"\x01"),
    ];
    for (kind, payload) in refused {
        assert_eq!(b.deliver_from(&a, frame(kind, payload)), Err(Malformed::Payload { kind }), "{kind:?}");
    }
}

#[test]
fn a_node_that_joins_more_groups_than_a_node_may_is_refused_and_may_leave_some() {
    let (a, b) = two();
    let membership = |kind, number: u32| {
        let group = format!("group {number}");
        let payload = [&(group.len() as u32).to_le_bytes()[..], group.as_bytes()].concat();
        Frame { kind, from: Address { slot: 1, generation: 1 }, to: Address::NODE, payload: payload.into() }
    };
    for number in 0..65_536 {
        b.deliver_from(&a, membership(Kind::Join, number)).unwrap();
    }

    let refused = b.deliver_from(&a, membership(Kind::Join, 65_536)).unwrap_err();
    assert_eq!(refused.to_string(), "its processes may have 65536 memberships here, and it asks for more");
    b.deliver_from(&a, membership(Kind::Leave, 7)).unwrap();
    b.deliver_from(&a, membership(Kind::Leave, 7)).unwrap();
    b.deliver_from(&a, membership(Kind::Join, 65_536)).unwrap();
    assert!(b.deliver_from(&a, membership(Kind::Join, 65_537)).is_err());
}
