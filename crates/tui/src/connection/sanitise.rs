//! Sanitises messages: nodes are not trusted, so their text must not control the terminal or forge the text next to it.
//!
//! Control characters, and invisible characters that reverse the direction of text, become replacement characters
//! before the model sees them. Overlong texts are cut.

mod inspect;
mod text;

use rusm_protocol::{
    Cell, Cluster, Engines, EventInfo, Events, FaultInfo, Frame, Hello, LINTS_SHOWN, NameInfo, Past, ProcessDetail,
    RequestInfo, ResultTable, Results, Rows, RunEntry, RunResult, Serve, ServerMessage, Stores, Time, TreeRow,
    TreeRows,
};

pub(crate) use self::text::line;
use self::text::{clean, clean_all, line_within};

/// Maximum length of the reason of an event in full, in characters.
const REASON_MAX: usize = 4200;

/// Maximum number of rows of a result's table.
const ROWS_MAX: u64 = 20_000;
/// Maximum number of messages of a recorded instant.
const PAST_MESSAGES_MAX: usize = 32;

/// Returns the message with every text made safe to draw.
pub(crate) fn message(mut message: ServerMessage) -> ServerMessage {
    match &mut message {
        ServerMessage::Hello(hello) => self::hello(hello),
        ServerMessage::Tick { frame } => self::frame(frame),
        ServerMessage::Rows(rows) => self::rows(rows),
        ServerMessage::Process { process, pid } => {
            clean(pid);
            if let Some(process) = process {
                self::process(process);
            }
        }
        ServerMessage::Events(events) => self::events(events),
        ServerMessage::Tree(rows) => tree(rows),
        ServerMessage::Engines(engines) => self::engines(engines),
        ServerMessage::Time(time) => self::time(time),
        ServerMessage::Stores(stores) => self::stores(stores),
        ServerMessage::Topics(topics) => {
            for topic in &mut topics.topics {
                clean(&mut topic.name);
                for receiver in &mut topic.receivers {
                    clean(&mut receiver.policy);
                    clean_all([&mut receiver.name, &mut receiver.slowest].into_iter().flatten());
                }
            }
        }
        ServerMessage::Inspection(inspection) => inspect::inspection(inspection),
        ServerMessage::Causes(causes) => inspect::causes(causes),
        ServerMessage::Cpu(cpu) => {
            clean_all(&mut cpu.degraded);
            for row in &mut cpu.rows {
                clean(&mut row.name);
                clean(&mut row.kind);
                clean_all([&mut row.pid, &mut row.from].into_iter().flatten());
            }
            cpu.runtime.iter_mut().for_each(|part| clean(&mut part.name));
        }
        ServerMessage::Schedulers(schedulers) => {
            for scheduler in &mut schedulers.schedulers {
                clean_all([&mut scheduler.running, &mut scheduler.name].into_iter().flatten());
            }
        }
        ServerMessage::Serve(serve) => self::serve(serve),
        ServerMessage::Cluster(cluster) => self::cluster(cluster),
        ServerMessage::Results(results) => self::results(results),
        // The text of a report goes to a file and is never drawn; the others contain no text.
        ServerMessage::Report(_) | ServerMessage::Ack { .. } | ServerMessage::Killed { .. } => {}
        ServerMessage::Waits(waits) => {
            for row in &mut waits.rows {
                clean(&mut row.state);
                clean_all([&mut row.pid, &mut row.name, &mut row.wait, &mut row.through].into_iter().flatten());
            }
        }
        ServerMessage::Trace(trace) => {
            clean(&mut trace.pid);
            clean_all(&mut trace.end);
            for event in &mut trace.events {
                clean(&mut event.pid);
                clean(&mut event.kind);
                clean_all([&mut event.peer, &mut event.message, &mut event.state].into_iter().flatten());
            }
        }
        ServerMessage::Past(past) => self::past(past),
        ServerMessage::History(history) => {
            clean_all(history.series.iter_mut().map(|series| &mut series.name));
            clean_all(history.runs.iter_mut().map(|run| &mut run.scenario));
        }
        ServerMessage::Error { message, .. } => clean(message),
    }
    message
}

/// Keeps what a recorded instant may contain: one message of each kind that replaces the one before, and no instants.
fn past(past: &mut Past) {
    clean_all(&mut past.refusal);
    past.messages.truncate(PAST_MESSAGES_MAX);
    past.messages.retain(|message| {
        !matches!(message, ServerMessage::Past(_) | ServerMessage::History(_) | ServerMessage::Hello(_))
    });
    for inner in &mut past.messages {
        *inner = message(std::mem::replace(inner, ServerMessage::Ack { id: 0 }));
    }
}

fn serve(serve: &mut Serve) {
    for server in &mut serve.servers {
        clean_all([&mut server.name, &mut server.listen]);
    }
    clean_all(serve.routes.iter_mut().map(|route| &mut route.route));
    clean_all(serve.limits.iter_mut().map(|limit| &mut limit.name));
    for request in &mut serve.requests {
        let RequestInfo { pid, state, method, route, path, client, .. } = request;
        clean_all([pid, state, method, route, path, client]);
    }
}

fn cluster(cluster: &mut Cluster) {
    if let Some(own) = &mut cluster.own {
        clean_all([&mut own.name, &mut own.boot, &mut own.link, &mut own.vitals.version]);
        clean_all(&mut own.endpoints);
    }
    for node in &mut cluster.nodes {
        clean_all([&mut node.name, &mut node.boot, &mut node.state]);
        clean_all(&mut node.last_loss);
        clean_all(node.vitals.as_mut().map(|vitals| &mut vitals.version));
    }
    for name in &mut cluster.names {
        let NameInfo { name, node, pid, state, .. } = name;
        clean_all([name, node, state]);
        clean_all(pid);
    }
}

fn results(results: &mut Results) {
    clean_all(&mut results.history_error);
    for entry in &mut results.history {
        let RunEntry { recorded_at, kind, scenario, profile, figure, unit, verdict, version, .. } = entry;
        clean_all([recorded_at, kind, scenario, profile, figure, unit, verdict, version]);
        clean_all(&mut entry.params);
    }
    if let Some(comparison) = &mut results.comparison {
        result_table(&mut comparison.table);
        clean_all(&mut comparison.notes);
        clean_all([&mut comparison.decides, &mut comparison.outcome]);
    }
    let Some(result) = &mut results.result else { return };
    result.tables.iter_mut().for_each(result_table);
    let RunResult { kind, scenario, state, progress, verdict_text, settings, params, .. } = &mut **result;
    clean_all([kind, scenario, state, progress, verdict_text]);
    clean_all([&mut settings.kind, &mut settings.profile].into_iter().flatten());
    clean_all(&mut settings.grid);
    *params = std::mem::take(params).into_iter().map(|(name, value)| (line(&name), line(&value))).collect();
    clean_all([&mut result.verdict, &mut result.error].into_iter().flatten());
    clean_all(&mut result.lines);
    result.facts.iter_mut().for_each(|fact| clean_all([&mut fact.name, &mut fact.text]));
    for gate in &mut result.gates {
        clean_all([&mut gate.name, &mut gate.limit]);
        clean_all(&mut gate.value);
    }
    if let Some(curve) = &mut result.curve {
        clean_all([&mut curve.title, &mut curve.x_unit, &mut curve.y_unit]);
    }
}

fn result_table(table: &mut ResultTable) {
    clean(&mut table.title);
    clean_all(&mut table.notes);
    table.columns.iter_mut().for_each(|column| clean_all([&mut column.name, &mut column.unit]));
    for cell in table.rows.iter_mut().flatten() {
        if let Cell::Text(text) = cell {
            clean(text);
        }
    }
    // Numbers of rows are drawn as lines: a node must not ask for millions of them.
    table.rows_total = table.rows_total.min(ROWS_MAX);
    table.rows_offset = table.rows_offset.min(table.rows_total);
}

fn tree(rows: &mut TreeRows) {
    clean_all(&mut rows.degraded);
    rows.rows.iter_mut().for_each(tree_row);
    if let Some(detail) = &mut rows.selected {
        tree_row(&mut detail.row);
        clean_all([&mut detail.shutdown, &mut detail.parent].into_iter().flatten());
        for end in &mut detail.ends {
            clean(&mut end.reason);
            clean_all(&mut end.pid);
        }
    }
}

fn engines(engines: &mut Engines) {
    for engine in &mut engines.engines {
        clean_all([&mut engine.kind, &mut engine.room]);
        clean_all(engine.slots.iter_mut().map(|slots| &mut slots.name));
        clean_all(engine.faults_total.iter_mut().chain(&mut engine.refusals_total).map(|count| &mut count.name));
    }
    for module in &mut engines.modules {
        clean_all([&mut module.name, &mut module.kind]);
    }
    engines.faults.iter_mut().for_each(fault);
    if let Some(detail) = &mut engines.fault {
        fault(&mut detail.fault);
        clean_all(&mut detail.backtrace);
    }
}

fn time(time: &mut Time) {
    clean_all(&mut time.realtime);
    for ticker in &mut time.tickers {
        clean(&mut ticker.overrun);
        clean_all([&mut ticker.pid, &mut ticker.name].into_iter().flatten());
    }
    for stream in &mut time.streams {
        clean(&mut stream.policy);
        clean_all([&mut stream.label, &mut stream.writer].into_iter().flatten());
        if let Some(reader) = &mut stream.waits_for {
            clean_all([&mut reader.pid, &mut reader.name].into_iter().flatten());
        }
    }
}

fn stores(stores: &mut Stores) {
    for store in &mut stores.stores {
        clean_all([&mut store.path, &mut store.durability]);
        clean_all(&mut store.last_error);
    }
    clean_all(stores.buckets.iter_mut().map(|bucket| &mut bucket.name));
    for table in &mut stores.tables {
        clean_all([&mut table.name, &mut table.kind, &mut table.key_type, &mut table.value_type]);
        clean_all(&mut table.owner);
    }
    if let Some(page) = &mut stores.keys {
        clean(&mut page.bucket);
        clean_all([&mut page.next, &mut page.refusal].into_iter().flatten());
        clean_all(page.keys.iter_mut().flat_map(|key| [&mut key.key, &mut key.value]));
    }
}

fn fault(fault: &mut FaultInfo) {
    clean_all([&mut fault.pid, &mut fault.module, &mut fault.code]);
    clean_all(&mut fault.function);
}

fn tree_row(row: &mut TreeRow) {
    clean_all([&mut row.path, &mut row.name, &mut row.state]);
    clean_all([&mut row.label, &mut row.pid, &mut row.restart, &mut row.reason].into_iter().flatten());
    if let Some(branch) = &mut row.branch {
        clean(&mut branch.strategy);
    }
}

fn events(events: &mut Events) {
    events.events.iter_mut().for_each(event);
    clean_all(&mut events.log_refusal);
    for line in &mut events.log {
        clean_all([&mut line.level, &mut line.target, &mut line.text]);
        clean_all([&mut line.pid, &mut line.module].into_iter().flatten());
    }
    if let Some(detail) = &mut events.opened {
        // A reason in full has up to 4 KiB.
        let reason = detail.event.reason.take().map(|reason| line_within(&reason, REASON_MAX));
        event(&mut detail.event);
        detail.event.reason = reason;
        clean_all(&mut detail.module);
        detail.backtrace.truncate(64);
        clean_all(&mut detail.backtrace);
    }
}

fn event(event: &mut EventInfo) {
    clean_all([&mut event.kind, &mut event.pid]);
    clean_all([&mut event.name, &mut event.old, &mut event.new, &mut event.reason].into_iter().flatten());
}

fn hello(hello: &mut Hello) {
    let node = &mut hello.node;
    clean_all([&mut node.name, &mut node.version, &mut node.build]);
    clean_all(&mut node.features);
    for profile in &mut hello.profiles {
        clean_all([&mut profile.id, &mut profile.label, &mut profile.description]);
    }
    for scenario in &mut hello.scenarios {
        clean_all([&mut scenario.id, &mut scenario.label, &mut scenario.description]);
        clean_all([&mut scenario.ops_label, &mut scenario.family]);
        clean_all(&mut scenario.details);
        clean_all(&mut scenario.latency_label);
        clean_all(&mut scenario.lacks);
        clean_all(&mut scenario.source_file);
        scenario.source = None;
        for gate in &mut scenario.gates {
            clean_all([&mut gate.name, &mut gate.limit]);
        }
        for parameter in &mut scenario.parameters {
            clean_all([&mut parameter.name, &mut parameter.description]);
            clean_all([&mut parameter.default, &mut parameter.range]);
        }
    }
}

fn frame(frame: &mut Frame) {
    clean(&mut frame.profile);
    clean_all(&mut frame.scenario);
    clean_all(&mut frame.run_error);
    clean_all(&mut frame.observer.stuck);
    clean_all(frame.observer.log.as_mut().and_then(|log| log.error.as_mut()));
    frame.observer.lints.truncate(LINTS_SHOWN);
    for lint in &mut frame.observer.lints {
        clean_all([&mut lint.id, &mut lint.pid, &mut lint.text]);
        clean_all(&mut lint.name);
    }
    // Drop the rows meant for clients of the predecessor's protocol: this observer requests pages instead.
    frame.observer.processes.clear();
}

fn rows(rows: &mut Rows) {
    clean_all(&mut rows.degraded);
    for cell in rows.rows.iter_mut().flatten() {
        if let Cell::Text(text) = cell {
            clean(text);
        }
    }
}

fn process(process: &mut ProcessDetail) {
    clean_all([&mut process.pid, &mut process.state, &mut process.kind, &mut process.future_type]);
    clean_all(&mut process.name);
    clean_all(&mut process.label);
    clean_all(&mut process.parent);
    clean_all(&mut process.module);
    for fact in &mut process.facts {
        clean(&mut fact.name);
        if let Cell::Text(text) = &mut fact.value {
            clean(text);
        }
    }
    for bonds in [&mut process.links, &mut process.monitors, &mut process.monitored_by] {
        clean_all(&mut bonds.pids);
    }
}

#[cfg(test)]
mod tests;
