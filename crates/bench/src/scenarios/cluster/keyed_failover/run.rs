//! A run with keyed processes: its nodes, its callers, and what they have counted.

use std::sync::Arc;
use std::sync::mpsc::channel;

use parking_lot::Mutex;
use rusm_cluster::node::Keyed;
use rusm_runtime::Context;

use super::caller::{Account, Caller, Go};
use super::events::{EventKind, Events};
use crate::context::RunContext;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::{RunError, check_memory};
use crate::scenarios::cluster::peers::{Nodes, on_plain_thread, wait_until};

/// Memory of a key on all nodes together, at most.
const KEY_BYTES: u64 = 4 << 10;

pub(super) async fn run(context: &mut RunContext) -> Result<(), RunError> {
    let params = context.params();
    let (count, keys) = (params.number("nodes"), params.number("keys"));
    check_memory(keys.saturating_mul(KEY_BYTES))?;
    let (callers, every) = (params.number("callers").min(keys), params.time("every"));
    let schedulers = params.number("schedulers") as usize;
    let kind = match params.word("event") {
        "drain" => EventKind::Drain,
        "kill" => EventKind::Kill,
        _ => EventKind::None,
    };
    let started = context.blocking(move || {
        on_plain_thread(move || {
            let nodes = Nodes::start_keyed(count, schedulers)?;
            let keyed = nodes.own().keyed.clone().ok_or("the keys are not served")?;
            wait_until("the other nodes serve no keys", || places(&keyed) > count)?;
            Ok((nodes, keyed))
        })
    });
    let (nodes, keyed) = started.await.and_then(|started| started).map_err(RunError::Lacks)?;
    let (nodes, killed) = (Arc::new(nodes), Arc::default());

    let (is_ready, all_ready) = channel();
    let (is_over, accounts) = channel();
    let mut pids = Vec::new();
    for index in 0..callers {
        let caller = Caller {
            keyed: keyed.clone(),
            keys: (index..keys).step_by(callers as usize).collect(),
            killed: Arc::clone(&killed),
            is_ready: is_ready.clone(),
            is_over: is_over.clone(),
        };
        pids.push(nodes.own().runtime.spawn(move |ctx: Context| caller.run(ctx))?);
    }
    drop((is_ready, is_over, keyed));
    context.blocking(move || all_ready.iter().for_each(drop)).await;
    context.prepared();
    for (index, pid) in (0..callers).zip(pids) {
        let go = Go { pace: context.pace(index, callers, context.duty()), recorder: context.recorder() };
        nodes.own().runtime.send(pid, go).await;
    }

    let (stop, tables) = (context.stop_flag(), context.tables().clone());
    let events = Events { nodes: Arc::clone(&nodes), kind, every, killed, stop, tables: tables.clone() };
    let outcome = Arc::new(Mutex::new(None));
    let told = Arc::clone(&outcome);
    context.spawn_worker(move |ctx: Context| async move {
        ctx.set_label("nodes of the run");
        let result = ctx.spawn_blocking(move || on_plain_thread(move || events.run(&accounts))).await;
        *told.lock() = Some(result.and_then(|result| result));
    })?;
    let stopped = match context.stopped().await {
        Ok(()) => context.ended().await,
        failed => failed,
    };
    let account = match outcome.lock().take() {
        Some(result) => result.map_err(RunError::Lacks)?,
        None => return stopped,
    };
    stopped?;
    tables.show(of_calls(&account));
    context
        .blocking(move || {
            if let Some(nodes) = Arc::into_inner(nodes) {
                nodes.end();
            }
        })
        .await;
    if account.lost + account.repeated + account.unanswered == 0 {
        return Ok(());
    }
    Err(RunError::Account(format!(
        "{} acknowledged calls were lost, {} were carried out twice, {} were never answered",
        account.lost, account.repeated, account.unanswered
    )))
}

/// Returns the number of nodes on which keys are placed.
fn places(keyed: &Keyed) -> u64 {
    let places: std::collections::BTreeSet<_> = (0..1_000).map(|key| keyed.place(&key.to_string())).collect();
    places.iter().flatten().count() as u64
}

fn of_calls(account: &Account) -> Table {
    let names = [
        "acknowledged",
        "failed with an error",
        "unanswered",
        "lost",
        "lost with a killed node",
        "carried out twice",
        "keys not checked at the end",
    ];
    let mut table = Table::new("Calls", &names.map(|name| (name, ColumnUnit::Count)));
    let Account { acknowledged, failed, unanswered, lost, killed, repeated, unchecked } = *account;
    table.row([acknowledged, failed, unanswered, lost, killed, repeated, unchecked].map(Into::into));
    table.note("counts include those before the clock and one more for each key at the end");
    table.note("lost with a killed node: acknowledged calls with a state that was only in its memory");
    table
}
