//! Behaviour of a session between two nodes.

use std::time::Duration;

use bytes::Bytes;
use rusm_cluster::{
    Busy, Config, DownReason, Event, Features, Kind, LinkChange, Outgoing, RefusedReason, SendErrorReason, Session,
    State, Version,
};

use crate::pair::{Pair, delivered, identity, message, name, packets, process};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_session_carries_messages_of_both_nodes_once_both_have_said_hello() {
    let features = |bits| Config { features: Features(bits), ..Config::default() };
    let mut pair = Pair::apart(features(0b0111), features(0b1101));
    let early = pair.send(message(1, 2, "early")).unwrap_err();
    pair.a.on_link(pair.now, LinkChange::Up);
    pair.b.on_link(pair.now, LinkChange::Up);
    pair.exchange();
    pair.send(message(1, 2, "there")).unwrap();
    pair.b.send(pair.now, message(2, 1, "back")).unwrap();
    pair.exchange();

    assert_eq!(early.reason, SendErrorReason::NotUp);
    let [Event::Up(peer), Event::Deliver(back)] = &pair.events_a[..] else { panic!("{:?}", pair.events_a) };
    assert_eq!((&peer.identity, peer.version, peer.features), (&identity("b", 0xb), Version::NEWEST, Features(0b0101)));
    assert_eq!((back.from, back.to, &back.payload[..]), (process(2), process(1), &b"back"[..]));
    assert_eq!(delivered(&pair.events_b)[0].payload, "there");
}

#[test]
fn a_message_of_64_mib_delays_no_other() {
    let mut pair = Pair::up(Config::default(), Config::default());
    let long: Bytes = (0..64 << 20).map(|at| (at / 4_099) as u8).collect::<Vec<_>>().into();
    pair.send(message(1, 2, long.clone())).unwrap();
    pair.send(Outgoing { kind: Kind::SIGNAL, ..message(1, 2, "after it") }).unwrap();
    for _ in 0..100 {
        pair.exchange_once();
    }

    let before = pair.stream_bytes;
    pair.send(message(3, 4, "beside it")).unwrap();
    while delivered(&pair.events_b).is_empty() {
        assert!(pair.exchange_once());
    }
    let between = pair.stream_bytes - before;
    pair.exchange();

    let payloads: Vec<_> = delivered(&pair.events_b).iter().map(|message| message.payload.clone()).collect();
    assert!(between <= 600 << 10, "{between} bytes went first");
    assert_eq!(payloads.len(), 3);
    assert_eq!(payloads[0], "beside it");
    assert!(payloads[1] == long && payloads[2] == "after it");
}

#[test]
fn a_process_that_takes_nothing_stalls_only_those_who_send_to_it() {
    let mut pair = Pair::up(Config::default(), Config::default());
    let mut accepted = 0;
    let refused = loop {
        match pair.send(message(1, 2, "full")) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    for _ in 0..10_000 {
        pair.send(message(1, 3, "free")).unwrap();
        pair.exchange();
        let taken = delivered(&pair.events_b).iter().filter(|message| message.to == process(3)).count() as u32;
        pair.events_b.clear();
        let epoch = pair.b.stats().peer.unwrap().epoch;
        pair.b.consumed(pair.now, epoch, process(3), taken, u64::from(taken) * 4);
        pair.now += MS;
        pair.b.on_tick(pair.now);
    }
    pair.exchange();
    let is_silent = pair.events_a.is_empty();
    let epoch = pair.b.stats().peer.unwrap().epoch;
    pair.b.consumed(pair.now, epoch, process(2), 4_096, 4_096 * 4);
    pair.pass(10 * MS);

    assert_eq!((accepted, refused.reason), (4_096, SendErrorReason::Busy(Busy::Target)));
    assert!(is_silent);
    assert_eq!(pair.events_a, [Event::Room { to: Some(process(2)) }]);
    assert_eq!(pair.a.check_room(process(2), 4), Ok(()));
}

#[test]
fn the_window_bounds_what_is_in_doubt_and_signals_wait_in_it() {
    let mut pair = Pair::up(Config::default(), Config::default());
    let mut accepted = 0;
    let refused = loop {
        match pair.send(message(1, accepted, "x")) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    let signal = Outgoing { kind: Kind::SIGNAL, ..message(1, 2, "signal") };
    pair.send(signal).unwrap();
    let stats = pair.a.stats();
    pair.exchange();

    assert_eq!((accepted, refused.reason), (16_384, SendErrorReason::Busy(Busy::Pair)));
    assert_eq!((stats.in_doubt_frames, stats.waiting_pairs), (16_384, 1));
    assert_eq!(delivered(&pair.events_b).len(), 16_385);
    assert_eq!(pair.events_a, [Event::Room { to: None }]);
    pair.pass(10 * MS);
    assert_eq!(pair.a.stats().in_doubt_frames, 0);
}

#[test]
fn a_check_for_room_agrees_with_the_send_for_each_length() {
    for length in [0, 1, 1_000, 10_000, 64 << 10, 3 << 20] {
        let mut pair = Pair::up(Config::default(), Config::default());
        let payload = bytes::Bytes::from(vec![7; length]);
        let refused = loop {
            if let Err(error) = pair.send(Outgoing { payload: payload.clone(), ..message(1, 2, "") }) {
                break error.reason;
            }
            pair.exchange();
        };

        assert_eq!(pair.a.check_room(process(2), length), Err(refused), "{length}");
    }
}

#[test]
fn more_signals_than_may_wait_end_the_session() {
    let config = Config { waiting_signals: 10, window_frames: 16, ..Config::default() };
    let mut pair = Pair::up(config.clone(), config);
    for _ in 0..27 {
        pair.send(Outgoing { kind: Kind::SIGNAL, ..message(1, 2, "signal") }).unwrap();
    }
    pair.exchange();

    assert_eq!(pair.events_a[0], Event::Down(DownReason::Overflow));
}

#[test]
fn a_node_that_acknowledges_nothing_is_down_after_the_lease_and_a_second() {
    let mut pair = Pair::up(Config::default(), Config::default());
    pair.send(message(1, 2, "lost")).unwrap();
    let start = pair.now;
    let events = std::iter::from_fn(|| {
        pair.now += MS;
        pair.a.on_tick(pair.now);
        drop(packets(&mut pair.a));
        Some(pair.a.poll_event())
    });
    let down = events.flatten().next();

    assert_eq!(down, Some(Event::Down(DownReason::NoProgress)));
    assert_eq!(pair.now, start + Duration::from_secs(3));
}

#[test]
fn a_node_that_did_not_run_itself_waits_for_answers_before_it_ends_a_session() {
    let mut pair = Pair::up(Config::default(), Config::default());
    pair.send(message(1, 2, "hello")).unwrap();
    pair.now += Duration::from_mins(1);
    pair.a.on_tick(pair.now);
    pair.b.on_tick(pair.now);
    pair.exchange();
    pair.pass(20 * MS);

    assert_eq!(pair.events_a, []);
    assert_eq!(delivered(&pair.events_b).len(), 1);
    assert_eq!(pair.a.stats().in_doubt_frames, 0);
}

#[test]
fn an_idle_session_stays_up_and_measures_round_trip_and_clock_offset() {
    let at = |started_at_ns| Config { started_at_ns, ..Config::default() };
    let mut pair = Pair::up(at(1_000_000_000_000), at(1_005_000_000_000));
    pair.pass(Duration::from_secs(20));

    let stats = pair.a.stats();
    assert_eq!((pair.events_a.len(), stats.state), (0, State::Up));
    assert_eq!((stats.round_trip, stats.clock_offset_ns), (Some(Duration::ZERO), Some(5_000_000_000)));
}

#[test]
fn nodes_without_a_common_version_say_so_once() {
    let versions = |oldest, newest| Config { versions: (Version(oldest), Version(newest)), ..Config::default() };
    let mut pair = Pair::apart(versions(1, 2), versions(3, 4));
    pair.a.on_link(pair.now, LinkChange::Up);
    pair.b.on_link(pair.now, LinkChange::Up);
    pair.exchange();
    pair.pass(Duration::from_secs(5));

    let theirs = (Version(3), Version(4));
    assert_eq!(pair.events_a, [Event::Refused(RefusedReason::Version { theirs, ours: (Version(1), Version(2)) })]);
    assert!(!pair.a.is_up());
}

#[test]
fn a_hello_of_an_earlier_life_does_not_end_a_session() {
    let mut pair = Pair::up(Config::default(), Config::default());
    let mut earlier = Session::new(Config::default(), identity("b", 0xbb), name("a"));
    earlier.on_link(pair.now, LinkChange::Up);
    for transmit in packets(&mut earlier) {
        pair.a.on_packet(pair.now, transmit.packet);
    }
    pair.send(message(1, 2, "still")).unwrap();
    pair.exchange();

    assert_eq!(pair.events_a, []);
    assert_eq!(delivered(&pair.events_b).len(), 1);
}

#[test]
fn a_node_that_restarted_is_another_life_and_the_session_with_the_earlier_one_ends() {
    let mut pair = Pair::up(Config::default(), Config::default());
    pair.send(message(1, 2, "to the earlier life")).unwrap();
    pair.b = Session::new(Config::default(), identity("b", 0xbb), name("a"));
    pair.b.on_link(pair.now, LinkChange::Up);
    pair.exchange();

    let [Event::Down(DownReason::Restarted), Event::Up(peer)] = &pair.events_a[..] else {
        panic!("{:?}", pair.events_a)
    };
    assert_eq!(peer.identity, identity("b", 0xbb));
    assert!(delivered(&pair.events_b).is_empty());
}

#[test]
fn a_missing_packet_ends_the_session_at_both_ends_and_another_one_begins() {
    let mut pair = Pair::up(Config::default(), Config::default());
    pair.send(message(1, 2, "lost")).unwrap();
    drop(packets(&mut pair.a));
    pair.send(message(1, 2, "too early")).unwrap();
    pair.exchange();
    pair.send(message(1, 2, "later")).unwrap();
    pair.exchange();

    assert!(matches!(pair.events_b[..2], [Event::Down(DownReason::Gap), Event::Up(_)]), "{:?}", pair.events_b);
    assert!(matches!(pair.events_a[..], [Event::Down(DownReason::OtherEpoch), Event::Up(_)]), "{:?}", pair.events_a);
    assert_eq!(delivered(&pair.events_b).iter().map(|message| &message.payload[..]).collect::<Vec<_>>(), [b"later"]);
}

#[test]
fn a_node_that_leaves_sends_what_it_has_accepted_and_nothing_after_it() {
    let config = Config { window_frames: 16, ..Config::default() };
    let mut pair = Pair::up(config.clone(), config);
    pair.send(message(1, 2, vec![7; 10 << 20])).unwrap();
    pair.a.leave(pair.now, pair.now + Duration::from_secs(5));
    let late = pair.send(message(1, 2, "late")).unwrap_err();
    pair.exchange();
    pair.pass(Duration::from_secs(1));

    assert_eq!(late.reason, SendErrorReason::Leaving);
    assert_eq!(pair.events_a, [Event::Down(DownReason::Left), Event::Left { unacknowledged: 0 }]);
    assert_eq!(delivered(&pair.events_b)[0].payload.len(), 10 << 20);
    assert_eq!(pair.events_b.last(), Some(&Event::Down(DownReason::Left)));
    assert_eq!((pair.a.stats().state, pair.b.stats().state), (State::Closed, State::PeerLeft));
    assert!(pair.b.poll_transmit().is_none());
}

#[test]
fn a_leave_towards_a_node_that_hangs_ends_at_its_deadline() {
    let mut pair = Pair::up(Config::default(), Config::default());
    pair.send(message(1, 2, "unheard")).unwrap();
    pair.a.leave(pair.now, pair.now + 300 * MS);
    for _ in 0..300 {
        pair.now += MS;
        pair.a.on_tick(pair.now);
        drop(packets(&mut pair.a));
    }

    let events: Vec<_> = std::iter::from_fn(|| pair.a.poll_event()).collect();
    assert_eq!(events, [Event::Down(DownReason::Left), Event::Left { unacknowledged: 2 }]);
}

#[test]
fn a_peer_that_breaks_the_protocol_again_and_again_has_a_session_ever_more_rarely() {
    let mut pair = Pair::up(Config::default(), Config::default());
    let mut faults = 0;
    let end = pair.now + Duration::from_mins(2);
    while pair.now < end {
        if pair.b.is_up() {
            pair.b.break_off(pair.now);
            faults += 1;
            pair.exchange();
            assert!(!pair.b.is_up(), "no session at once");
        }
        pair.pass(Duration::from_millis(10));
    }

    assert!((7..=11).contains(&faults), "{faults} sessions in two minutes");
    let downs = pair.events_b.iter().filter(|event| matches!(event, Event::Down(DownReason::Protocol))).count();
    assert_eq!(downs, faults);
}
