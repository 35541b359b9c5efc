//! Descriptions of themselves that nodes send to each other: after each connection, when they begin to drain, and while an
//! observer looks at the cluster.
//!
//! ```text
//!   observer ──▶ report ──▶ ask each peer once a second, for some seconds ──▶ vitals of the peer, kept after its end
//! ```

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rusm_runtime::observe::{NodeVitals, SeenVitals};

use crate::wire::WireError;
use crate::wire::cursor::Cursor;

/// Time for which peers are asked after a look of an observer.
pub(super) const WATCHED_FOR: Duration = Duration::from_secs(4);
/// Time between two questions to a peer.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(1);
/// Minimum time between two answers to a peer.
pub(super) const ANSWER_EVERY: Duration = Duration::from_millis(200);
/// Maximum length of a version, in bytes.
const VERSION_BYTES_MAX: usize = 64;

const ASK: u8 = 1;
const VITALS: u8 = 2;

/// A message about vitals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VitalsMessage {
    /// The sender asks for the vitals of the receiver.
    Ask,
    /// The vitals of the sender.
    Vitals(NodeVitals),
}

impl VitalsMessage {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(128);
        match self {
            Self::Ask => out.put_u8(ASK),
            Self::Vitals(vitals) => {
                out.put_u8(VITALS);
                out.put_u8(u8::from(vitals.is_draining));
                out.put_u32_le(vitals.os_pid);
                out.put_u32_le(vitals.schedulers);
                for number in [
                    vitals.uptime_ms,
                    vitals.processes,
                    vitals.busy_ns,
                    vitals.messages,
                    vitals.crashed,
                    vitals.memory_bytes,
                ] {
                    out.put_u64_le(number);
                }
                let version = &vitals.version.as_bytes()[..vitals.version.floor_char_boundary(VERSION_BYTES_MAX)];
                out.put_u8(version.len() as u8);
                out.put_slice(version);
            }
        }
        out.freeze()
    }

    /// Reads a message; `None` for a type of a later version. Bytes after the last field are fields of later versions.
    pub(super) fn decode(bytes: Bytes) -> Result<Option<Self>, WireError> {
        let mut cursor = Cursor::new(bytes);
        match cursor.u8("the type of vitals")? {
            ASK => Ok(Some(Self::Ask)),
            VITALS => vitals(&mut cursor).map(|vitals| Some(Self::Vitals(vitals))),
            _ => Ok(None),
        }
    }
}

fn vitals(cursor: &mut Cursor) -> Result<NodeVitals, WireError> {
    let is_draining = cursor.u8("the flags of vitals")? & 1 == 1;
    let (os_pid, schedulers) = (cursor.u32("the process id of a node")?, cursor.u32("the schedulers of a node")?);
    let mut number = || cursor.u64("a number of vitals");
    let (uptime_ms, processes, busy_ns) = (number()?, number()?, number()?);
    let (messages, crashed, memory_bytes) = (number()?, number()?, number()?);
    let length = usize::from(cursor.u8("the length of a version")?);
    if length > VERSION_BYTES_MAX {
        return Err(WireError::TooLarge { field: "a version", value: length, limit: VERSION_BYTES_MAX });
    }
    let version = cursor.take(length, "a version")?;
    let version = std::str::from_utf8(&version).map_err(|_not_utf8| WireError::Invalid("a version"))?.to_owned();
    Ok(NodeVitals {
        version,
        os_pid,
        uptime_ms,
        processes,
        schedulers,
        busy_ns,
        messages,
        crashed,
        memory_bytes,
        is_draining,
    })
}

/// The last vitals of a peer, and when questions and answers were sent. Times are those of the node's clock.
#[derive(Debug, Default)]
pub(super) struct PeerVitals {
    last: Option<(Duration, NodeVitals)>,
    busy: Option<f64>,
    messages_per_sec: Option<f64>,
    asked_at: Option<Duration>,
    answered_at: Option<Duration>,
}

impl PeerVitals {
    /// Returns true if the peer should be asked now: an observer looked at `watched`.
    pub(super) fn takes_question(&mut self, now: Duration, watched: Option<Duration>) -> bool {
        let is_watched = watched.is_some_and(|watched| now < watched + WATCHED_FOR);
        let is_due = is_watched && self.asked_at.is_none_or(|asked| now >= asked + ASK_EVERY);
        if is_due {
            self.asked_at = Some(now);
        }
        is_due
    }

    /// Returns true if a question of the peer is answered: not more often than a few times a second.
    pub(super) fn takes_answer(&mut self, now: Duration) -> bool {
        let is_due = self.answered_at.is_none_or(|answered| now >= answered + ANSWER_EVERY);
        if is_due {
            self.answered_at = Some(now);
        }
        is_due
    }

    /// Notes the vitals of a peer.
    pub(super) fn take(&mut self, now: Duration, vitals: NodeVitals) {
        let before = self.last.take().map(|(_, before)| before);
        let same_life = |before: &NodeVitals| before.os_pid == vitals.os_pid && before.uptime_ms < vitals.uptime_ms;
        let rates = before.filter(same_life).map(|before| {
            let ms = (vitals.uptime_ms - before.uptime_ms) as f64;
            let busy_ns = vitals.busy_ns.saturating_sub(before.busy_ns) as f64;
            let busy = busy_ns / (ms * 1e6 * f64::from(vitals.schedulers.max(1)));
            (busy.min(1.0), vitals.messages.saturating_sub(before.messages) as f64 * 1e3 / ms)
        });
        (self.busy, self.messages_per_sec) = rates.unzip();
        self.last = Some((now, vitals));
    }

    /// Returns true if the node last said that it starts no more processes for others.
    pub(super) fn is_draining(&self) -> bool {
        self.last.as_ref().is_some_and(|(_, vitals)| vitals.is_draining)
    }

    /// Returns what is known.
    pub(super) fn seen(&self, now: Duration) -> Option<SeenVitals> {
        let (at, vitals) = self.last.as_ref()?;
        Some(SeenVitals {
            age: now.saturating_sub(*at),
            vitals: vitals.clone(),
            busy: self.busy,
            messages_per_sec: self.messages_per_sec,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> NodeVitals {
        NodeVitals {
            version: "0.1.0".to_owned(),
            os_pid: 7,
            uptime_ms: 1_000,
            processes: 3,
            schedulers: 2,
            busy_ns: 5,
            messages: 10,
            crashed: 1,
            memory_bytes: 4_096,
            is_draining: true,
        }
    }

    #[test]
    fn the_bytes_of_vitals_never_change() {
        let message = VitalsMessage::Vitals(sample());
        let hex: String = message.encode().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));

        let numbers = [1_000_u64, 3, 5, 10, 1, 4_096].map(|number| format!("{:016x}", number.swap_bytes()));
        assert_eq!(hex, format!("02010700000002000000{}05302e312e30", numbers.concat()));
        assert_eq!(VitalsMessage::decode(message.encode()), Ok(Some(message)));
        assert_eq!(VitalsMessage::decode(VitalsMessage::Ask.encode()), Ok(Some(VitalsMessage::Ask)));
        assert_eq!(VitalsMessage::decode(Bytes::from_static(&[9, 1])), Ok(None), "a type of a later version");
    }

    #[test]
    fn mutated_vitals_are_read_without_a_panic() {
        let fuzz = rusm_fuzz::Fuzz::new("cluster-vitals").seed(VitalsMessage::Vitals(sample()).encode());
        fuzz.run(|input| drop(VitalsMessage::decode(Bytes::copy_from_slice(input))));
    }

    #[test]
    fn rates_are_those_between_the_last_two_vitals_of_one_life() {
        let second = Duration::from_secs(1);
        let mut peer = PeerVitals::default();

        peer.take(second, sample());
        assert_eq!(peer.seen(second).unwrap().busy, None);
        let next = NodeVitals { uptime_ms: 2_000, busy_ns: 1_000_000_005, messages: 60, ..sample() };
        peer.take(2 * second, next);
        let seen = peer.seen(5 * second).unwrap();
        assert_eq!((seen.age, seen.busy, seen.messages_per_sec), (3 * second, Some(0.5), Some(50.0)));

        peer.take(6 * second, NodeVitals { os_pid: 8, ..sample() });
        assert_eq!(peer.seen(6 * second).unwrap().messages_per_sec, None, "another life");
    }

    #[test]
    fn peers_are_asked_only_while_an_observer_looks() {
        let ms = Duration::from_millis;
        let mut peer = PeerVitals::default();

        assert!(!peer.takes_question(ms(0), None));
        assert!(peer.takes_question(ms(100), Some(ms(100))));
        assert!(!peer.takes_question(ms(900), Some(ms(800))));
        assert!(peer.takes_question(ms(1_100), Some(ms(1_100))));
        assert!(!peer.takes_question(ms(6_000), Some(ms(1_100))));
        assert!(peer.takes_answer(ms(0)) && !peer.takes_answer(ms(199)) && peer.takes_answer(ms(200)));
    }
}
