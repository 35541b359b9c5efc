//! Reports of a supervisor to observers: counters that only grow, and events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cell::bump;
use crate::context::Context;
use crate::events::EventKind;
use crate::pid::Pid;
use crate::starting::InitError;

use super::child::Key;
use super::family::{Family, Lost};
use super::strain::Strain;

/// Shortest time between two reports of a supervisor's restart pressure.
const TOLD_EVERY: Duration = Duration::from_millis(50);

/// Reports that a child runs again.
pub(super) fn restarted(ctx: &Context, family: &Family, key: Key, new: Pid) {
    let local = ctx.running().local;
    bump(&local.me.counters.restarts, 1);
    let Some(child) = family.child(key) else { return };
    local.note(|| EventKind::Restart {
        supervisor: ctx.pid(),
        child: Arc::clone(&child.id),
        old: child.before.unwrap_or(Pid::NONE),
        new,
        reason: child.ended_with(),
    });
}

/// Reports that a child failed to start again.
pub(super) fn restart_failed(ctx: &Context, child: Arc<str>, error: InitError) {
    let (local, supervisor) = (ctx.running().local, ctx.pid());
    bump(&local.me.counters.restarts_failed, 1);
    tracing::debug!(%supervisor, %child, %error, "a child failed to restart");
    local.note(|| EventKind::RestartFailed { supervisor, child, error });
}

/// Reports that the supervisor gives up because of one child, and loses it with all others that wait for a restart.
pub(super) fn gave_up(ctx: &Context, last: Key, all: Vec<Lost>) {
    let (local, supervisor) = (ctx.running().local, ctx.pid());
    bump(&local.me.counters.gave_up, 1);
    // The events about the last child are sent even in a storm of events: each ends a supervisor, so there cannot be
    // many.
    let events = &local.shared.events;
    if let Some((_, child, reason)) = all.iter().find(|(key, ..)| *key == last) {
        tracing::warn!(%supervisor, %child, "too many restarts");
        events.insist(EventKind::GaveUp { supervisor, child: Arc::clone(child), reason: reason.clone() });
    }
    for (key, child, reason) in all {
        bump(&local.me.counters.children_lost, 1);
        let event = EventKind::ChildLost { supervisor, child, reason };
        if key == last { events.insist(event) } else { local.note(|| event) }
    }
}

/// Reports restart pressure after a restart was spent, if more than half of the allowed restarts are used.
pub(super) fn spent(ctx: &Context, family: &Family, now: impl FnOnce() -> Instant, told: &mut Option<Instant>) {
    let Some(used) = family.strain() else { return };
    let now = now();
    if told.is_some_and(|told| now.saturating_duration_since(told) < TOLD_EVERY) {
        return;
    }
    *told = Some(now);
    let shared = &ctx.running().local.shared;
    let at = now.saturating_duration_since(shared.started);
    shared.strains.note(Strain { supervisor: ctx.pid(), used, intensity: family.intensity(), at });
}
