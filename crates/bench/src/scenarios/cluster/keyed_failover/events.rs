//! Events of a run: one after the other, the other nodes are drained or killed, and replaced.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rusm_runtime::{Context, Pid};

use super::caller::{Account, Killed};
use super::sums::{CONTROL, COUNT, DRAIN, LEAVE, decode_count};
use crate::report::table::{Cell, ColumnUnit, Table, Tables};
use crate::run::flags::StopFlag;
use crate::scenarios::cluster::peers::Nodes;

/// Time between two looks at a node that is about to be empty.
const LOOK: Duration = Duration::from_millis(5);
/// Time within which a node has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Time within which a node has to be drained.
const DRAIN_WITHIN: Duration = Duration::from_mins(5);
/// Longest time between two checks of the stop flag.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// Number of events that are shown.
const SHOWN_MAX: usize = 20;

/// Kind of the events of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    None,
    Drain,
    Kill,
}

/// The events of a run.
pub(super) struct Events {
    pub(super) nodes: Arc<Nodes>,
    pub(super) kind: EventKind,
    pub(super) every: Duration,
    pub(super) killed: Killed,
    pub(super) stop: StopFlag,
    pub(super) tables: Tables,
}

impl Events {
    /// Lets nodes come and go until the run stops, and waits for the callers. Returns what they have counted.
    pub(super) fn run(self, accounts: &Receiver<Account>) -> Result<Account, String> {
        let mut total = Account::default();
        let mut number = self.nodes.peers().len();
        let mut next = Instant::now() + self.every;
        let mut table = table();
        loop {
            let wait = next.saturating_duration_since(Instant::now()).min(STOP_CHECK);
            match accounts.recv_timeout(wait) {
                Ok(account) => total.add(&account),
                Err(RecvTimeoutError::Disconnected) => return Ok(total),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(name) = self.nodes.ended() {
                return Err(format!("node {name} ended during the run"));
            }
            if self.kind == EventKind::None || self.stop.is_set() || Instant::now() < next {
                continue;
            }
            number += 1;
            self.event(number, &mut table)?;
            self.tables.show(table.clone());
            next = Instant::now() + self.every;
        }
    }

    /// Ends the oldest node, and starts another one.
    fn event(&self, number: usize, table: &mut Table) -> Result<(), String> {
        let mut node = self.nodes.peers().remove(0);
        let name = node.name.clone();
        // Started before the drain, since a node that drains starts no more processes for others.
        let control = self.control(&name)?;
        let keys = self.ask(&name, control, COUNT)?;
        let begun = Instant::now();
        if self.kind == EventKind::Drain {
            let mut left = self.ask(&name, control, DRAIN)?;
            while left > 0 {
                if begun.elapsed() > DRAIN_WITHIN {
                    return Err(format!(
                        "node {name} has {left} keys {} s after its drain began",
                        DRAIN_WITHIN.as_secs()
                    ));
                }
                thread::park_timeout(LOOK);
                left = self.ask(&name, control, COUNT)?;
            }
        } else {
            self.killed.lock().insert(name.clone());
            node.kill();
        }
        let mut took = begun.elapsed();
        if self.kind == EventKind::Drain {
            self.on_own_node(move |ctx| async move { ctx.send(control, Bytes::from_static(LEAVE)).await })?;
        }
        let until = Instant::now() + ANSWER_WITHIN;
        while self.nodes.own().runtime.node_named(&name).is_some() {
            if Instant::now() > until {
                return Err(format!("node {name} is still connected"));
            }
            thread::park_timeout(Duration::from_micros(200));
        }
        if self.kind == EventKind::Kill {
            took = begun.elapsed();
        }
        drop(node);
        let new = format!("n{number}");
        self.nodes.add(&new, None)?;
        let what = if self.kind == EventKind::Drain { "drained" } else { "killed" };
        if table.rows.len() == SHOWN_MAX {
            table.rows.remove(0);
        }
        table.row([what.into(), name.into(), keys.into(), Cell::from(took.as_nanos() as u64), new.into()]);
        Ok(())
    }

    /// Starts the process that controls a node.
    fn control(&self, name: &str) -> Result<Pid, String> {
        let node = name.to_owned();
        let started = self.on_own_node(move |ctx| async move { ctx.spawn_on(&node, CONTROL, Bytes::new()).await })?;
        started.map_err(|error| error.to_string())
    }

    /// Asks a node, and returns the number of its keys.
    fn ask(&self, name: &str, control: Pid, question: &'static [u8]) -> Result<u64, String> {
        let ask = move |ctx: Context| async move {
            let question = Bytes::from_static(question);
            let answer = ctx.call::<Bytes, Bytes>(control, question, ANSWER_WITHIN).await;
            answer.ok().and_then(|answer| decode_count(&answer))
        };
        self.on_own_node(ask)?.ok_or_else(|| format!("node {name} does not say how many keys it has"))
    }

    /// Runs a process on the node of this program, and returns its result.
    fn on_own_node<T, F>(&self, run: impl FnOnce(Context) -> F + Send + 'static) -> Result<T, String>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (give, take) = channel();
        let body = move |ctx: Context| {
            let result = run(ctx);
            // The receiver waits below.
            async move { drop(give.send(result.await)) }
        };
        self.nodes.own().runtime.spawn(body).map_err(|error| error.to_string())?;
        take.recv().map_err(|_ended| "a process of the run ended".to_owned())
    }
}

fn table() -> Table {
    let columns = [
        ("event", ColumnUnit::Text),
        ("node", ColumnUnit::Text),
        ("keys", ColumnUnit::Count),
        ("took", ColumnUnit::Ns),
        ("new node", ColumnUnit::Text),
    ];
    let mut table = Table::new("Events", &columns);
    table.note("drained: until the node has handed over all keys; killed: until its connection is known to be lost");
    table
}
