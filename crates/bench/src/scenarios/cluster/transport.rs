//! Round trips of the transport alone: packets of a link, without sessions and processes.
//!
//! ```text
//!   this program: a link ── packet ──▶ link of the first other node, which sends it back at once
//! ```

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_cluster::link::LinkEvents;
use rusm_cluster::{Lane, Link, NetworkLink, NodeName};

use super::member::{MemberSettings, open};
use crate::measure::histogram::NanosHistogram;

/// Number of round trips of a measurement.
const ROUND_TRIPS: usize = 2_000;
/// Time after which a round trip has failed.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Name of the link that answers.
pub(super) const ECHO: &str = "echo";

/// The link that measures.
pub(super) struct TransportPing {
    link: Arc<NetworkLink>,
    address: String,
    answers: Receiver<usize>,
    peer: NodeName,
}

impl TransportPing {
    /// Opens the link with the secret of the run.
    pub(super) fn open(secret: &Path) -> Result<Self, String> {
        let link = Arc::new(open(&link_settings("ping", Vec::new(), secret))?);
        let address = link.addresses().into_iter().next().ok_or("the link does not say its address")?;
        // One packet at a time is on the way.
        let (arrived, answers) = sync_channel(16);
        link.start(Arc::new(Answers(arrived))).map_err(|error| error.to_string())?;
        let peer = ECHO.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { link, address, answers, peer })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Measures round trips of packets of this length. It blocks, so it needs a thread without a reactor.
    pub(super) fn measure(&self, bytes: usize) -> Result<NanosHistogram, String> {
        let until = Instant::now() + ANSWER_WITHIN;
        while !self.link.peers().contains(&self.peer) {
            if Instant::now() > until {
                return Err("the link of the other node did not appear".to_owned());
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let packet = Bytes::from(vec![7; bytes.max(1)]);
        let mut times = NanosHistogram::default();
        // The first tenth opens publishers, and is left out.
        for number in 0..ROUND_TRIPS + ROUND_TRIPS / 10 {
            let begun = Instant::now();
            self.link.send(&self.peer, Lane::Stream, packet.clone()).map_err(|error| error.to_string())?;
            self.answers.recv_timeout(ANSWER_WITHIN).map_err(|_timeout| "the transport does not answer".to_owned())?;
            if number >= ROUND_TRIPS / 10 {
                times.add(begun.elapsed().as_nanos() as u64);
            }
        }
        Ok(times)
    }
}

impl Drop for TransportPing {
    fn drop(&mut self) {
        // A run that fails drops it on a scheduler, where zenoh must not be called.
        let link = Arc::clone(&self.link);
        let close = move || link.close(Duration::from_millis(500));
        drop(Builder::new().name("rusm-bench-end".to_owned()).spawn(close));
    }
}

/// Opens the link that answers.
pub(super) fn echo(join: &str, secret: &Path) -> Result<Arc<NetworkLink>, String> {
    let link = Arc::new(open(&link_settings(ECHO, vec![join.to_owned()], secret))?);
    let echo = Arc::new(Echo(OnceLock::new()));
    // Set before the link starts, so that the first packet is answered.
    drop(echo.0.set(Arc::downgrade(&link)));
    link.start(echo).map_err(|error| error.to_string())?;
    Ok(link)
}

fn link_settings(name: &str, join: Vec<String>, secret: &Path) -> MemberSettings {
    MemberSettings { name: name.to_owned(), join, schedulers: 0, serves_keys: false, secret: secret.to_owned() }
}

struct Answers(SyncSender<usize>);

impl LinkEvents for Answers {
    fn up(&self, _: NodeName) {}

    fn down(&self, _: &NodeName) {}

    fn packet(&self, _: &NodeName, packet: Bytes) {
        // A late answer, after its round trip has failed, may find no room.
        self.0.try_send(packet.len()).ok();
    }
}

struct Echo(OnceLock<Weak<NetworkLink>>);

impl LinkEvents for Echo {
    fn up(&self, _: NodeName) {}

    fn down(&self, _: &NodeName) {}

    fn packet(&self, from: &NodeName, packet: Bytes) {
        if let Some(link) = self.0.get().and_then(Weak::upgrade) {
            // Without an answer, the other side fails with a timeout.
            drop(link.send(from, Lane::Stream, packet));
        }
    }
}
