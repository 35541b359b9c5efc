//! Requests to another node itself: the spawn of a process by an exported name, and the process with a name.
//!
//! ```text
//!   process ── Ask { reference, .. } ──▶ other node ── Answer { reference, .. } ──▶ process
//! ```
//!
//! The answer to a spawn comes from the new process, so it arrives before everything else that this process sends. A
//! link or a monitor exists on the other node before the first poll of the new process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use crate::links::signal::MonitorRef;
use crate::mailbox::call::PendingReply;
use crate::mailbox::request::Reply;
use crate::process::context::Context;
use crate::process::exit::{ExitReason, Outcome};
use crate::process::pid::Pid;
use crate::process::spawn;
use crate::runtime::remote::codec::{Decoder, Encoder, Portable};
use crate::runtime::remote::exports::Exports;
use crate::runtime::remote::frame::{Address, Kind};
use crate::runtime::remote::peers::{LinkNumbers, Peer};
use crate::runtime::shared::RuntimeShared;
use crate::sync::atomic::Ordering;

const SPAWN: u8 = 1;
const WHEREIS: u8 = 2;

/// Maximum length of the argument of a spawn and of a name, together: like a signal, they wait for no credit. A message to
/// the new process may be longer.
const ARGUMENT_BYTES_MAX: usize = 1 << 20;

/// Error returned when a node does not do what a process asked for.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// The node is not connected, or was lost before its answer arrived.
    #[error("node {node:?} is not connected")]
    NoConnection {
        /// Name of the node.
        node: Arc<str>,
    },
    /// The name is unknown on the node; for spawns, see [`Exports::spawnable`].
    #[error("node {node:?} has nothing with the name {name:?}")]
    NotFound {
        /// Name of the node.
        node: Arc<str>,
        /// The name.
        name: Arc<str>,
    },
    /// The argument, with the name, is too long.
    #[error("an argument of {bytes} bytes is longer than {ARGUMENT_BYTES_MAX}: send a message to the process")]
    TooLarge {
        /// Length in bytes.
        bytes: usize,
    },
    /// The node accepts no more processes: its limit is reached, or that of the processes of one node, or it drains.
    #[error("node {node:?} accepts no more processes")]
    Limit {
        /// Name of the node.
        node: Arc<str>,
    },
}

type Body = dyn Fn(Context, Bytes) -> Pin<Box<dyn Future<Output = ExitReason> + Send>> + Send + Sync;

/// A body of processes that other nodes may start.
struct Spawnable(Box<Body>);

impl Exports {
    /// Lets other nodes start processes with this body, by its name. The body receives the argument of the spawn.
    ///
    /// # Panics
    /// If the name is empty, too long or taken.
    #[must_use]
    pub fn spawnable<B, F>(self, name: &str, body: B) -> Self
    where
        B: Fn(Context, Bytes) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let boxed = move |ctx: Context, argument: Bytes| -> Pin<Box<dyn Future<Output = ExitReason> + Send>> {
            let body = body(ctx, argument);
            Box::pin(async move { body.await.into_exit().map_or(ExitReason::Normal, |reason| *reason) })
        };
        self.add_spawnable(name, Arc::new(Spawnable(Box::new(boxed))))
    }
}

/// Relation of a process to one that it spawns on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    None,
    Link,
    Monitor(MonitorRef),
}

/// Node and name of a request.
#[derive(Clone, Copy)]
struct Question<'a> {
    node: &'a str,
    name: &'a str,
}

impl Context {
    /// Spawns a process on another node, with a body that the node [exports](Exports::spawnable).
    ///
    /// # Errors
    /// [`AskError`] if the node is not connected, does not export the name, or accepts no more processes, and for an argument
    /// of more than 1 MiB.
    pub async fn spawn_on(&self, node: &str, name: &str, argument: Bytes) -> Result<Pid, AskError> {
        self.ask(Question { node, name }, SPAWN, Relation::None, argument).await
    }

    /// Spawns a process on another node and links it to this one. A lost node is an exit signal `noconnection`.
    ///
    /// # Errors
    /// As [`spawn_on`](Self::spawn_on).
    pub async fn spawn_link_on(&self, node: &str, name: &str, argument: Bytes) -> Result<Pid, AskError> {
        self.ask(Question { node, name }, SPAWN, Relation::Link, argument).await
    }

    /// Spawns a process on another node and monitors it.
    ///
    /// # Errors
    /// As [`spawn_on`](Self::spawn_on).
    pub async fn spawn_monitor_on(
        &self,
        node: &str,
        name: &str,
        argument: Bytes,
    ) -> Result<(Pid, MonitorRef), AskError> {
        let reference = self.running().local.shared.next_reference();
        let pid = self.ask(Question { node, name }, SPAWN, Relation::Monitor(reference), argument).await?;
        Ok((pid, reference))
    }

    /// Returns the process that is registered under a name on another node.
    ///
    /// # Errors
    /// [`AskError`] if the node is not connected, or no process has the name.
    pub async fn whereis_on(&self, node: &str, name: &str) -> Result<Pid, AskError> {
        self.ask(Question { node, name }, WHEREIS, Relation::None, Bytes::new()).await
    }

    async fn ask(
        &self,
        question: Question<'_>,
        what: u8,
        relation: Relation,
        argument: Bytes,
    ) -> Result<Pid, AskError> {
        let bytes = question.name.len() + argument.len();
        if bytes > ARGUMENT_BYTES_MAX {
            return Err(AskError::TooLarge { bytes });
        }
        let node: Arc<str> = question.node.into();
        let answer = self.begin_ask(question, what, relation, &argument);
        let answer = answer.ok_or_else(|| AskError::NoConnection { node: Arc::clone(&node) })?;
        match answer.await {
            Ok(Ok(pid)) => Ok(pid),
            Ok(Err(Refusal::NotFound)) => Err(AskError::NotFound { node, name: question.name.into() }),
            Ok(Err(Refusal::Limit)) => Err(AskError::Limit { node }),
            Err(_) => Err(AskError::NoConnection { node }),
        }
    }

    fn begin_ask(
        &self,
        question: Question<'_>,
        what: u8,
        relation: Relation,
        argument: &Bytes,
    ) -> Option<PendingReply<'_, Answer>> {
        let running = self.running();
        let shared = &running.local.shared;
        let peer = shared.peers.named(question.node)?;
        let search = running.search_from_end();
        let (reference, target) = (shared.next_reference().for_call(), Address::NODE.on(peer.index));
        shared.expect_reply(running.slot, self.pid(), target, reference);
        shared.with_link(peer.index, |peer| {
            let mut encoder = Encoder::new(&shared.peers, peer.index);
            what.encode(&mut encoder);
            reference.number().encode(&mut encoder);
            encoder.put_slice(question.name.as_bytes());
            let mut bonds = peer.bonds.lock();
            let (kind, number) = match relation {
                Relation::None => (0_u8, 0),
                Relation::Link => {
                    bonds.links_sent += 1;
                    (1, bonds.links_sent)
                }
                Relation::Monitor(monitor) => (2, monitor.number()),
            };
            kind.encode(&mut encoder);
            number.encode(&mut encoder);
            encoder.put(argument);
            shared.peers.signal(peer, Kind::Ask, (self.pid(), Pid::NONE), encoder.into_bytes());
        });
        Some(PendingReply::by(self, target, reference, search))
    }
}

/// Reason why a node refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    NotFound,
    Limit,
}

type Answer = Result<Pid, Refusal>;

impl RuntimeShared {
    /// Answers a process of another node.
    pub(crate) fn answer(self: &Arc<Self>, peer: &Arc<Peer>, from: Pid, decoder: &mut Decoder<'_>) -> Option<()> {
        let (what, reference) = (u8::decode(decoder)?, u64::decode(decoder)?);
        let name = Arc::<str>::decode(decoder)?;
        let (relation, number) = (u8::decode(decoder)?, u64::decode(decoder)?);
        let answer = match what {
            SPAWN => self.spawn_for(peer, from, &name, (relation, number), decoder.rest())?,
            WHEREIS => self.side_tables.whereis(&name).ok_or(Refusal::NotFound),
            _ => return None,
        };
        let (status, answering) = match answer {
            Ok(pid) => (0_u8, pid),
            Err(Refusal::NotFound) => (1, Pid::NONE),
            Err(Refusal::Limit) => (2, Pid::NONE),
        };
        self.with_link(peer.index, |peer| {
            let payload = self.payload(peer, &(reference, status, relation, number));
            self.peers.signal(peer, Kind::Answer, (answering, from), payload);
        });
        if let Ok(pid) = answer
            && what == SPAWN
        {
            self.start_spawned(pid);
        }
        Some(())
    }

    /// Creates a process for a process of another node, with its bonds.
    fn spawn_for(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        from: Pid,
        name: &str,
        (relation, number): (u8, u64),
        argument: Bytes,
    ) -> Option<Answer> {
        let spawnable = self.config.exports.spawnable_entry(name).map(Arc::clone);
        let Some(spawnable) = spawnable.and_then(|entry| entry.downcast::<Spawnable>().ok()) else {
            return Some(Err(Refusal::NotFound));
        };
        let monitor = if relation == 2 { Some(MonitorRef::from_number(number)?) } else { None };
        if self.peers.draining.load(Ordering::Relaxed) {
            return Some(Err(Refusal::Limit));
        }
        let Some(spawned) = self.peers.spawned.add(&peer.identity.name) else { return Some(Err(Refusal::Limit)) };
        let Ok(slot) = self.take_slot() else { return Some(Err(Refusal::Limit)) };
        let bind = |pid| {
            if relation == 1 {
                self.linked_by(peer, from, pid, number);
            }
            if let Some(theirs) = monitor {
                self.monitored_by(peer, from, pid, theirs);
            }
        };
        // The body waits until the answer is on its way.
        let body = move |ctx: Context| async move {
            let _counted = spawned;
            ctx.receive_of::<Begin>().await;
            (spawnable.0)(ctx, argument).await
        };
        Some(Ok(spawn::spawn_external(slot, 0, bind, body)))
    }

    fn start_spawned(&self, pid: Pid) {
        if let Some(locked) = self.lock_process(pid) {
            crate::links::bonds::deliver_envelope(
                locked,
                crate::mailbox::send::envelope(self, self.local(), pid, Begin),
            );
        }
    }

    /// Accepts the answer of another node. The bonds to a spawned process exist before its caller has the pid.
    pub(crate) fn answered(&self, peer: &Peer, (from, to): (Pid, Pid), decoder: &mut Decoder<'_>) -> Option<()> {
        let (reference, status, relation, number) = <(u64, u8, u8, u64)>::decode(decoder)?;
        let reference = MonitorRef::from_number(reference)?;
        let answer: Answer = match status {
            0 => Ok(from),
            1 => Err(Refusal::NotFound),
            2 => Err(Refusal::Limit),
            _ => return None,
        };
        let expected = peer.bonds.lock().monitors.remove(&reference).is_some();
        if let (Ok(pid), true) = (answer, relation != 0 && expected) {
            self.bind_spawned(peer, (pid, to), relation, number)?;
        } else if let (Ok(pid), 1) = (answer, relation) {
            // The caller ended or stopped waiting before this, so its side of the link was never created: the child ends.
            self.with_link(peer.index, |peer| {
                self.peers.signal(peer, Kind::LinkExit, (to, pid), self.payload(peer, &ExitReason::NoProcess));
            });
        }
        self.deliver_reply(to, reference, answer, |value| Reply { reference, value });
        Some(())
    }

    fn bind_spawned(&self, peer: &Peer, (child, caller): (Pid, Pid), relation: u8, number: u64) -> Option<()> {
        if relation == 1 {
            peer.bonds.lock().links.insert((caller, child), LinkNumbers { own: number, theirs: 0 });
            match self.lock_process(caller) {
                Some(mut locked) => drop(locked.side_table().links.insert(child, ())),
                None => self.link_exit_remote(child, caller, &ExitReason::NoProcess),
            }
            return Some(());
        }
        let monitor = MonitorRef::from_number(number)?;
        peer.bonds.lock().monitors.insert(monitor, (caller, child));
        match self.lock_process(caller) {
            Some(mut locked) => drop(locked.side_table().monitors.insert(monitor, child)),
            None => self.demonitor_remote(child, monitor),
        }
        Some(())
    }

    /// Tells all connected nodes of a change of membership of a process of this node. The groups are locked.
    pub(crate) fn announce_membership(&self, pid: Pid, group: &Arc<str>, joined: bool) {
        if pid.node() != 0 || self.peers.attached.get().is_none() {
            return;
        }
        let kind = if joined { Kind::Join } else { Kind::Leave };
        for peer in self.peers.all() {
            let link = peer.link.read();
            if link.announced {
                self.peers.signal(&peer, kind, (pid, Pid::NONE), self.payload(&peer, group));
            }
        }
    }
}

/// Message that lets a spawned process begin.
struct Begin;
