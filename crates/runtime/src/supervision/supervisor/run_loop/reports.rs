//! Reports of a supervisor to observers: counters that only grow, and events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::observe::events::EventKind;
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::header::bump;
use crate::process::pid::Pid;
use crate::runtime::{crashes, panics};

use crate::supervision::supervisor::child::Key;
use crate::supervision::supervisor::restart_pressure::RestartPressure;
use crate::supervision::supervisor::spec::GaveUp;
use crate::supervision::supervisor::state::{LostChild, SupervisorState};

/// Shortest time between two reports of a supervisor's restart pressure.
const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// Reports that a child runs again.
pub(super) fn restarted(ctx: &Context, state: &SupervisorState, key: Key, new: Pid) {
    let local = ctx.running().local;
    bump(&local.me.counters.restarts, 1);
    let Some(child) = state.child(key) else { return };
    local.record_event(|| EventKind::Restart {
        supervisor: ctx.pid(),
        child: Arc::clone(&child.id),
        old: child.previous_pid.unwrap_or(Pid::NONE),
        new,
        reason: child.ended_with(),
    });
}

/// Reports that a child failed to start again.
pub(super) fn restart_failed(ctx: &Context, child: Arc<str>, error: InitError) {
    let (local, supervisor) = (ctx.running().local, ctx.pid());
    bump(&local.me.counters.restarts_failed, 1);
    tracing::debug!(%supervisor, %child, %error, "a child failed to restart");
    local.record_event(|| EventKind::RestartFailed { supervisor, child, error });
}

/// Reports that the supervisor gives up because of one child, and loses it with all others that wait for a restart.
pub(super) fn gave_up(ctx: &Context, last: Key, all: Vec<LostChild>, why: Option<&GaveUp>) {
    let (local, supervisor) = (ctx.running().local, ctx.pid());
    bump(&local.me.counters.gave_up, 1);
    if let Some(why) = why.filter(|_| local.shared.config.log_crashes)
        && let Some(skipped) = local.shared.crash_log.notices.take()
    {
        panics::contain(|| crashes::log_gave_up(&local.shared.called(supervisor), why, skipped));
    }
    // The events about the last child are sent even in a storm of events: each ends a supervisor, so there cannot be
    // many.
    let events = &local.shared.events;
    if let Some((_, child, reason)) = all.iter().find(|(key, ..)| *key == last) {
        events.record_blocking(EventKind::GaveUp { supervisor, child: Arc::clone(child), reason: reason.clone() });
    }
    for (key, child, reason) in all {
        bump(&local.me.counters.children_lost, 1);
        let event = EventKind::ChildLost { supervisor, child, reason };
        if key == last { events.record_blocking(event) } else { local.record_event(|| event) }
    }
}

/// Reports restart pressure after a restart was spent, if more than half of the allowed restarts are used.
pub(super) fn pressure(
    ctx: &Context,
    state: &SupervisorState,
    now: impl FnOnce() -> Instant,
    last_report: &mut Option<Instant>,
) {
    let Some(used) = state.pressure() else { return };
    let now = now();
    if last_report.is_some_and(|last_report| now.saturating_duration_since(last_report) < REPORT_INTERVAL) {
        return;
    }
    *last_report = Some(now);
    let shared = &ctx.running().local.shared;
    let at = now.saturating_duration_since(shared.started);
    shared.restart_pressures.record(RestartPressure { supervisor: ctx.pid(), used, intensity: state.intensity(), at });
}
