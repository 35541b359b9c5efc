//! Two sessions and the packets between them, without loss and without delay.

use std::time::Duration;

use bytes::Bytes;
use rusm_cluster::{
    Address, BootId, Config, Event, Identity, Incoming, Kind, Lane, LinkChange, NodeName, Outgoing, SendError, Session,
    Transmit,
};

/// Two nodes, `a` and `b`.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) now: Duration,
    pub(crate) a: Session,
    pub(crate) b: Session,
    pub(crate) events_a: Vec<Event>,
    pub(crate) events_b: Vec<Event>,
    /// Number of bytes of streams from `a` to `b`.
    pub(crate) stream_bytes: usize,
}

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

pub(crate) fn identity(text: &str, boot: u128) -> Identity {
    Identity { name: name(text), boot: BootId(boot) }
}

pub(crate) fn process(slot: u32) -> Address {
    Address::new(slot, 1)
}

pub(crate) fn message(from: u32, to: u32, payload: impl Into<Bytes>) -> Outgoing {
    Outgoing { kind: Kind::MESSAGE, from: process(from), to: process(to), payload: payload.into() }
}

/// Returns the messages among events.
pub(crate) fn delivered(events: &[Event]) -> Vec<&Incoming> {
    events.iter().filter_map(|event| if let Event::Deliver(message) = event { Some(message) } else { None }).collect()
}

pub(crate) fn packets(session: &mut Session) -> Vec<Transmit> {
    std::iter::from_fn(|| session.poll_transmit()).collect()
}

impl Pair {
    /// Creates two nodes that do not see each other.
    pub(crate) fn apart(a: Config, b: Config) -> Self {
        Self {
            now: Duration::from_secs(1),
            a: Session::new(a, identity("a", 0xa), name("b")),
            b: Session::new(b, identity("b", 0xb), name("a")),
            events_a: Vec::new(),
            events_b: Vec::new(),
            stream_bytes: 0,
        }
    }

    /// Creates two nodes with a session.
    pub(crate) fn up(a: Config, b: Config) -> Self {
        let mut pair = Self::apart(a, b);
        pair.a.on_link(pair.now, LinkChange::Up);
        pair.b.on_link(pair.now, LinkChange::Up);
        pair.exchange();
        assert!(matches!(pair.events_a[..], [Event::Up(_)]), "{:?}", pair.events_a);
        assert!(matches!(pair.events_b[..], [Event::Up(_)]), "{:?}", pair.events_b);
        pair.events_a.clear();
        pair.events_b.clear();
        pair
    }

    /// Hands packets over until none is left.
    pub(crate) fn exchange(&mut self) {
        while self.exchange_once() {}
    }

    /// Hands over one packet of each side. Returns false if neither side had a packet.
    pub(crate) fn exchange_once(&mut self) -> bool {
        let (from_a, from_b) = (self.a.poll_transmit(), self.b.poll_transmit());
        let any = from_a.is_some() || from_b.is_some();
        if let Some(transmit) = from_a {
            self.stream_bytes += if transmit.lane == Lane::Stream { transmit.packet.len() } else { 0 };
            self.b.on_packet(self.now, transmit.packet);
        }
        if let Some(transmit) = from_b {
            self.a.on_packet(self.now, transmit.packet);
        }
        self.events_a.extend(std::iter::from_fn(|| self.a.poll_event()));
        self.events_b.extend(std::iter::from_fn(|| self.b.poll_event()));
        any
    }

    /// Lets time pass in steps of a millisecond, and hands packets over.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(1);
            self.a.on_tick(self.now);
            self.b.on_tick(self.now);
            self.exchange();
        }
    }

    pub(crate) fn send(&mut self, message: Outgoing) -> Result<(), SendError> {
        self.a.send(self.now, message)
    }
}
