//! A run of the distributed fan-out: its nodes, its processes, and what it shows at the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rusm_runtime::remote::AskError;
use rusm_runtime::{Context, Pid};

use super::load::{Counts, Publisher, SUBSCRIBER};
use crate::context::RunContext;
use crate::measure::histogram::NanosHistogram;
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenarios::cluster::peers::{Nodes, on_plain_thread};
use crate::scenarios::cluster::secret::RunSecret;
use crate::scenarios::cluster::transport::TransportPing;

/// Time between two looks at the other nodes.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a message in addition to its payload, which the packets of the transport's own round trip have as well.
const OVERHEAD: usize = 32;

pub(super) async fn run(context: &mut RunContext) -> Result<(), RunError> {
    let params = context.params();
    let (count, per_node) = (params.number("nodes"), params.number("subscribers"));
    let (senders, payload) = (params.number("senders"), params.number("payload") as usize);
    let (window, schedulers) = (params.number("window"), params.number("schedulers") as usize);
    let prepared = context.blocking(move || {
        on_plain_thread(move || {
            let secret = RunSecret::create()?;
            let ping = TransportPing::open(secret.file())?;
            let nodes = Nodes::start(count, schedulers, secret, &ping)?;
            let before = ping.measure(payload + OVERHEAD)?;
            let subscribers = subscribers(&nodes, per_node)?;
            Ok((ping, nodes, before, subscribers))
        })
    });
    let (ping, nodes, before, subscribers) = prepared.await.and_then(|prepared| prepared).map_err(RunError::Lacks)?;
    let (nodes, subscribers) = (Arc::new(nodes), Arc::<[Pid]>::from(subscribers));
    let (counts, base) = (Arc::new(Counts::default()), Instant::now());
    context.prepared();

    let (is_over, all_over) = channel();
    for index in 0..senders {
        let publisher = Publisher {
            pace: context.pace_of(index, senders, context.duty(), subscribers.len() as u64),
            stop: context.stop_flag(),
            recorder: context.recorder(),
            collects: context.recorder(),
            subscribers: Arc::clone(&subscribers),
            payload,
            window,
            base,
            counts: Arc::clone(&counts),
            is_over: is_over.clone(),
        };
        nodes.own().runtime.spawn(move |ctx: Context| publisher.run(ctx))?;
    }
    drop(is_over);
    let lost_node = Arc::new(Mutex::new(None));
    let (watched, lost) = (Arc::clone(&nodes), Arc::clone(&lost_node));
    context.spawn_worker(move |ctx: Context| async move {
        ctx.set_label("nodes of the run");
        let wait = move || {
            while all_over.recv_timeout(LOOK) != Err(RecvTimeoutError::Disconnected) {
                if let Some(name) = watched.ended() {
                    *lost.lock() = Some(name);
                    return;
                }
            }
        };
        ctx.spawn_blocking(wait).await;
    })?;
    let stopped = match context.stopped().await {
        Ok(()) => context.ended().await,
        failed => failed,
    };
    if let Some(name) = lost_node.lock().take() {
        return Err(RunError::Lacks(format!("node {name} ended during the run")));
    }
    stopped?;

    let tables = context.tables().clone();
    let ended = context.blocking(move || {
        on_plain_thread(move || {
            let after = ping.measure(payload + OVERHEAD)?;
            tables.show(of_nodes(&nodes, per_node));
            tables.show(of_transport(&before, &after));
            tables.show(account(&counts));
            if let Some(nodes) = Arc::into_inner(nodes) {
                nodes.end();
            }
            Ok(counts)
        })
    });
    let counts = ended.await.and_then(|ended| ended).map_err(RunError::Lacks)?;
    let read = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    let (sent, replied, wrong) = (read(&counts.sent), read(&counts.replied), read(&counts.wrong));
    if sent == replied && wrong == 0 {
        return Ok(());
    }
    Err(RunError::Account(format!(
        "{sent} messages were sent, {replied} were answered, {wrong} out of order or changed"
    )))
}

/// Starts the subscribers, in turn on each node.
fn subscribers(nodes: &Nodes, per_node: u64) -> Result<Vec<Pid>, String> {
    let names: Vec<String> = nodes.peers().iter().map(|peer| peer.name.clone()).collect();
    let (give, take) = channel();
    let start = move |ctx: Context| async move {
        let mut pids = Vec::new();
        let mut failed: Option<AskError> = None;
        'all: for round in 0..per_node {
            for (at, name) in names.iter().enumerate() {
                let number = (round * names.len() as u64) as u32 + at as u32;
                match ctx.spawn_on(name, SUBSCRIBER, Bytes::copy_from_slice(&number.to_le_bytes())).await {
                    Ok(pid) => pids.push(pid),
                    Err(error) => {
                        failed = Some(error);
                        break 'all;
                    }
                }
            }
        }
        // The receiver waits below.
        drop(give.send(failed.map_or(Ok(pids), |error| Err(error.to_string()))));
    };
    nodes.own().runtime.spawn(start).map_err(|error| error.to_string())?;
    take.recv().map_err(|_ended| "the subscribers were not started".to_owned())?
}

fn of_nodes(nodes: &Nodes, per_node: u64) -> Table {
    let columns = [
        ("node", ColumnUnit::Text),
        ("process id", ColumnUnit::Text),
        ("subscribers", ColumnUnit::Count),
        ("messages out", ColumnUnit::Count),
        ("messages in", ColumnUnit::Count),
        ("bytes out", ColumnUnit::Bytes),
        ("bytes in", ColumnUnit::Bytes),
        ("session round trip", ColumnUnit::Ns),
        ("lost connections", ColumnUnit::Count),
    ];
    let mut table = Table::new("Nodes", &columns);
    let sessions = nodes.own().node.peers();
    for peer in nodes.peers().iter() {
        let Some(session) = sessions.iter().find(|session| session.name.as_str() == peer.name) else { continue };
        let (stats, totals) = (&session.stats, &session.stats.totals);
        table.row([
            peer.name.as_str().into(),
            peer.id().to_string().into(),
            per_node.into(),
            totals.messages_out.into(),
            totals.messages_in.into(),
            totals.bytes_out.into(),
            totals.bytes_in.into(),
            stats.round_trip.map(|time| time.as_nanos() as u64).into(),
            totals.downs.into(),
        ]);
    }
    table
        .note("counts include the warm-up; the session's round trip is smoothed, and that of its own acknowledgements");
    table
}

fn of_transport(before: &NanosHistogram, after: &NanosHistogram) -> Table {
    let columns = [("measured", ColumnUnit::Text), ("p50", ColumnUnit::Ns), ("p99", ColumnUnit::Ns)];
    let mut table = Table::new("Round trip of the transport", &columns);
    let mut both = before.clone();
    both.merge(after);
    for (label, times) in [("before the load", before), ("after the load", after), ("both", &both)] {
        let percentile = |percent| Cell::from(times.percentile(percent));
        table.row([label.into(), percentile(50.0), percentile(99.0)]);
    }
    table.note("packets of the same length between two links, one at a time, without sessions and processes");
    table
}

fn account(counts: &Counts) -> Table {
    let names = ["sent", "answered", "lost", "out of order or changed"];
    let mut table = Table::new("Loss account", &names.map(|name| (name, ColumnUnit::Count)));
    let read = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    let (sent, replied) = (read(&counts.sent), read(&counts.replied));
    table.row([sent.into(), replied.into(), sent.saturating_sub(replied).into(), read(&counts.wrong).into()]);
    table.note("counts include the warm-up");
    table
}
