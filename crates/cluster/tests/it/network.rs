//! The link over the network, on loopback: two nodes, each with a session and a thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_cluster::link::SECRET_PREFIX;
use rusm_cluster::{
    BootId, Config, DownReason, Event, Identity, Link, LinkChange, LinkEvents, NetworkLink, NetworkSettings, NodeName,
    Session,
};

use crate::pair::{message, name};

/// Time within which everything has to happen.
const DEADLINE: Duration = Duration::from_mins(1);

enum News {
    Link(LinkChange),
    Packet(Bytes),
}

/// Hands the reports of a link to the thread of a node.
struct Reports(Sender<News>);

impl LinkEvents for Reports {
    fn up(&self, _peer: NodeName) {
        self.0.send(News::Link(LinkChange::Up)).ok();
    }

    fn down(&self, _peer: &NodeName) {
        self.0.send(News::Link(LinkChange::Down)).ok();
    }

    fn packet(&self, _from: &NodeName, packet: Bytes) {
        self.0.send(News::Packet(packet)).ok();
    }
}

/// A node with one peer.
struct Node {
    link: NetworkLink,
    session: Session,
    news: Receiver<News>,
    started: Instant,
}

impl Node {
    fn start(own: &str, boot: u128, peer: &str, join: &[String]) -> Self {
        let settings = NetworkSettings { join: join.to_vec(), ..NetworkSettings::loopback(name(own), 0) };
        Self::with(settings, boot, peer)
    }

    fn with(settings: NetworkSettings, boot: u128, peer: &str) -> Self {
        let own = settings.name.clone();
        let link = NetworkLink::open(settings).unwrap();
        let (sender, news) = channel();
        link.start(Arc::new(Reports(sender))).unwrap();
        let identity = Identity { name: own, boot: BootId(boot) };
        let session = Session::new(Config::default(), identity, name(peer));
        Self { link, session, news, started: Instant::now() }
    }

    /// Handles what has arrived, and sends what is due. Returns the events of the session.
    fn turn(&mut self) -> Vec<Event> {
        let first = self.news.recv_timeout(Duration::from_millis(1));
        assert_ne!(first.as_ref().err(), Some(&RecvTimeoutError::Disconnected), "the link has ended");
        let now = self.started.elapsed();
        for news in first.into_iter().chain(self.news.try_iter()) {
            match news {
                News::Link(change) => self.session.on_link(now, change),
                News::Packet(packet) => self.session.on_packet(now, packet),
            }
        }
        self.session.on_tick(now);
        let events: Vec<_> = std::iter::from_fn(|| self.session.poll_event()).collect();
        for event in &events {
            if let Event::Deliver(message) = event {
                self.session.consumed(now, message.epoch, message.to, 1, message.payload.len() as u64);
            }
        }
        let peer = self.session.peer().clone();
        while let Some(transmit) = self.session.poll_transmit() {
            self.link.send(&peer, transmit.lane, transmit.packet).ok();
        }
        events
    }
}

#[test]
fn two_nodes_exchange_messages_in_order_and_notice_the_end_of_the_other() {
    let mut a = Node::start("a", 1, "b", &[]);
    let mut b = Node::start("b", 2, "a", &a.link.addresses());
    let total = 50_000_u32;
    let receiver = std::thread::spawn(move || {
        let (mut next, mut downs) = (0, Vec::new());
        while b.started.elapsed() < DEADLINE && downs.is_empty() {
            for event in b.turn() {
                match event {
                    Event::Deliver(message) => {
                        assert_eq!(message.payload, Bytes::copy_from_slice(&u32::to_le_bytes(next)));
                        next += 1;
                    }
                    Event::Down(reason) => downs.push(reason),
                    _ => {}
                }
            }
        }
        b.link.close(Duration::from_secs(2));
        (next, downs)
    });

    let mut sent = 0;
    while (sent < total || a.session.stats().in_doubt_frames > 0) && a.started.elapsed() < DEADLINE {
        let now = a.started.elapsed();
        while sent < total {
            // Several targets, so that the credit of one is not the limit.
            let message = message(1, 2 + sent / 64 % 64, sent.to_le_bytes().to_vec());
            if a.session.send(now, message).is_err() {
                break;
            }
            sent += 1;
        }
        let downs: Vec<_> = a.turn().into_iter().filter(|event| matches!(event, Event::Down(_))).collect();
        assert!(downs.is_empty(), "{downs:?}");
    }
    let elapsed = a.started.elapsed();
    assert!(a.link.status().kind.starts_with("zenoh tcp") && a.link.peers() == [name("b")]);
    let closed = Instant::now();
    a.link.close(Duration::from_secs(2));
    let (arrived, downs) = receiver.join().unwrap();

    eprintln!("{total} messages in {elapsed:?}, noticed in {:?}", closed.elapsed());
    assert_eq!((arrived, downs), (total, vec![DownReason::LinkLost]));
}

#[test]
fn a_seed_that_is_not_there_yet_is_joined_when_it_starts() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut early = Node::start("early", 1, "late", &[free.to_string()]);
    let mut late = Node::with(NetworkSettings::loopback(name("late"), free.port()), 2, "early");

    let start = Instant::now();
    while !(early.session.is_up() && late.session.is_up()) && start.elapsed() < DEADLINE {
        early.turn();
        late.turn();
    }

    assert!(early.session.is_up() && late.session.is_up());
}

#[test]
fn only_nodes_with_the_same_secret_join_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let secret = |secret: &str| {
        let file = dir.path().join(secret);
        std::fs::write(&file, format!("{SECRET_PREFIX}{secret}\n")).unwrap();
        Some(file)
    };
    let settings = |own: &str, secret, join: &[String]| NetworkSettings {
        secret,
        join: join.to_vec(),
        ..NetworkSettings::loopback(name(own), 0)
    };
    let mut a = Node::with(settings("a", secret("ours"), &[]), 1, "b");
    let address = a.link.addresses();
    let mut foreign = Node::with(settings("foreign", secret("theirs"), &address), 2, "a");
    let mut without = Node::with(settings("without", None, &address), 3, "a");
    let mut member = Node::with(settings("b", secret("ours"), &address), 4, "a");

    while !(a.session.is_up() && member.session.is_up()) && a.started.elapsed() < DEADLINE {
        for node in [&mut a, &mut foreign, &mut without, &mut member] {
            node.turn();
        }
    }

    assert!(a.session.is_up() && member.session.is_up());
    assert_eq!(a.link.peers(), [name("b")]);
    assert!(foreign.link.peers().is_empty() && without.link.peers().is_empty());
}

#[cfg(feature = "certificates")]
mod encrypted {
    use std::path::Path;

    use rusm_cluster::certificates::{NodeAddresses, create, files};

    use super::*;

    /// Creates the certificates of a cluster in a folder, and returns the settings of one of its nodes.
    fn settings(dir: &Path, cluster: &str, own: &str, join: &[String]) -> NetworkSettings {
        let addresses = vec!["127.0.0.1".to_owned()];
        create(dir, cluster, &[NodeAddresses { name: name(own), addresses }], 1).unwrap();
        let certificates = Some(files(dir, cluster, &name(own)));
        NetworkSettings { certificates, join: join.to_vec(), ..NetworkSettings::loopback(name(own), 0) }
    }

    #[test]
    fn nodes_with_certificates_of_one_cluster_have_an_encrypted_session() {
        let dir = tempfile::tempdir().unwrap();
        let mut a = Node::with(settings(dir.path(), "one", "a", &[]), 1, "b");
        let mut b = Node::with(settings(dir.path(), "one", "b", &a.link.addresses()), 2, "a");
        let (mut sent, mut arrived) = (0_u32, 0_u32);
        while arrived < 10_000 && a.started.elapsed() < DEADLINE {
            let now = a.started.elapsed();
            while sent < 10_000 && a.session.send(now, message(1, 2 + sent % 64, sent.to_le_bytes().to_vec())).is_ok() {
                sent += 1;
            }
            a.turn();
            for event in b.turn() {
                if let Event::Deliver(message) = event {
                    assert_eq!(message.payload, Bytes::copy_from_slice(&arrived.to_le_bytes()));
                    arrived += 1;
                }
            }
        }

        let status = a.link.status();
        assert_eq!((arrived, status.kind.as_str(), status.is_encrypted), (10_000, "zenoh quic", true));
    }

    #[test]
    fn a_node_of_another_authority_or_of_another_cluster_is_not_seen() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut a = Node::with(settings(ours.path(), "one", "a", &[]), 1, "b");
        let address = a.link.addresses();
        let mut foreign = Node::with(settings(theirs.path(), "one", "foreign", &address), 2, "a");
        // This certificate has the same authority, and names another cluster.
        let mut other = Node::with(settings(ours.path(), "two", "other", &address), 3, "a");
        let mut member = Node::with(settings(ours.path(), "one", "b", &address), 4, "a");

        while !(a.session.is_up() && member.session.is_up()) && a.started.elapsed() < DEADLINE {
            for node in [&mut a, &mut foreign, &mut other, &mut member] {
                node.turn();
            }
        }

        assert!(a.session.is_up() && member.session.is_up());
        assert_eq!(a.link.peers(), [name("b")]);
        assert!(foreign.link.peers().is_empty() && other.link.peers().is_empty());
    }
}
