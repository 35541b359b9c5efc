//! Links, monitors, names, watchers and exit signals while processes end, and slots that get a next tenant, under every
//! interleaving that loom explores.
//!
//! ```text
//!   src/{links,mailbox,process}/…                      the real files, over loom's atomics and locks (models/weak.rs)
//!   models/world.rs                                    minimal versions of table, schedulers and spawns
//! ```
//!
//! `finds` also runs models without one ordering, lock or step, and checks that they fail. Each model has up to three
//! threads, and the number of preemptions given where it is explored.

#![allow(dead_code, unreachable_pub, reason = "the models use only parts of the files under test")]
#![allow(unfulfilled_lint_expectations, reason = "some expectations of these files hold in a library only")]
#![expect(clippy::unwrap_used, reason = "a model may panic like a test")]

#[path = "../src/links/bonds.rs"]
mod bonds;
#[path = "../src/process/exit.rs"]
mod exit;
#[path = "../src/process/free_list.rs"]
mod free_list;
#[path = "../src/mailbox/gate.rs"]
mod gate;
#[path = "../src/process/header.rs"]
mod header;
#[path = "../src/links/holdings.rs"]
mod holdings;
#[path = "../src/time/line_budget.rs"]
mod line_budget;
#[path = "models/locks.rs"]
mod locks;
#[path = "../src/mailbox/message.rs"]
mod message;
#[path = "../src/links/name.rs"]
mod name;
#[path = "../src/links/name_map.rs"]
mod name_map;
#[path = "../src/runtime/panics.rs"]
mod panics;
#[path = "../src/process/pid.rs"]
mod pid;
#[path = "../src/mailbox/queue.rs"]
mod queue;
#[path = "../src/links/registry.rs"]
mod registry;
#[path = "../src/mailbox/request.rs"]
mod request;
#[path = "../src/mailbox/send.rs"]
mod send;
#[path = "../src/process/side_table.rs"]
mod side_table;
#[path = "../src/process/side_table_guard.rs"]
mod side_table_guard;
#[path = "../src/links/signal.rs"]
mod signal;
#[path = "../src/process/small_map.rs"]
mod small_map;
#[path = "models/weak.rs"]
mod sync;
#[path = "../src/mailbox/tagged.rs"]
mod tagged;
#[path = "models/world.rs"]
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::thread;

use exit::ExitReason;
use pid::Pid;
use registry::SideTables;
use send::{SendOutcome, envelope, send_envelope};
use signal::{Down, Exit};
use std::sync::Arc;
use sync::{InjectedFault, inject};
use world::{Received, RuntimeShared, Slot, scheduler};

// The folders of the runtime, for the paths in the real files.
mod links {
    pub(crate) use crate::world::memberships;
    pub(crate) use crate::{holdings, name, name_map, registry, signal};
}
mod mailbox {
    pub(crate) use crate::{gate, message, queue, request, send, tagged};
}
mod observe {
    pub(crate) use crate::world::{body_info, kinds};
}
mod process {
    pub(crate) use crate::world::table;
    pub(crate) use crate::{exit, free_list, header, pid, side_table, side_table_guard, small_map};
}
mod runtime {
    pub(crate) use crate::panics;
    pub(crate) use crate::world::shared;
}
mod time {
    pub(crate) use crate::line_budget;
}

type Model = fn();

fn explore(preemptions: usize, model: Model) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Checks that the model fails once `fault` is planted.
fn finds(fault: InjectedFault, preemptions: usize, model: Model) {
    inject(Some(fault));
    let found = catch_unwind(AssertUnwindSafe(|| explore(preemptions, model))).is_err();
    inject(None);
    assert!(found, "the model passes with {fault:?}");
}

fn crash() -> ExitReason {
    ExitReason::other("crash")
}

/// Runs a process to its end, on a thread of its own.
fn ending(shared: &Arc<RuntimeShared>, slot: Slot) -> thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        let _shared = shared;
        slot.run_to_end(&crash());
    })
}

fn exits(shared: &RuntimeShared, pid: Pid) -> Vec<ExitReason> {
    let exits = |signal| match signal {
        Received::Exit(Exit { reason, .. }) => Some(reason),
        _ => None,
    };
    shared.received_by(pid).into_iter().filter_map(exits).collect()
}

fn downs(shared: &RuntimeShared, pid: Pid) -> Vec<ExitReason> {
    let downs = |signal| match signal {
        Received::Down(Down { reason, .. }) => Some(reason),
        _ => None,
    };
    shared.received_by(pid).into_iter().filter_map(downs).collect()
}

fn links(shared: &RuntimeShared, pid: Pid) -> Vec<Pid> {
    SideTables::links_and_monitors(shared.slot_of(pid), pid, 9).map(|bonds| bonds.links).unwrap_or_default()
}

fn monitored_while_it_ends() {
    let shared = RuntimeShared::with_slots(2);
    let (watcher, target) = (shared.free_slot(0), shared.free_slot(1));
    let (own, other) = (watcher.activate(), target.activate());
    let end = ending(&shared, target);

    watcher.run_with(|slot| shared.monitor(slot, own, other));
    end.join().unwrap();

    let downs = downs(&shared, own);
    assert!(downs == [crash()] || downs == [ExitReason::NoProcess], "{downs:?}");
}

#[test]
fn s12_a_monitor_of_one_who_ends_yields_one_down() {
    explore(3, monitored_while_it_ends);
}

#[test]
fn the_model_of_monitors_bites() {
    finds(InjectedFault::NoTotalOrder, 3, monitored_while_it_ends);
    finds(InjectedFault::LooksTooEarly, 3, monitored_while_it_ends);
    finds(InjectedFault::NoLock, 3, monitored_while_it_ends);
}

fn linked_while_it_ends(trap: bool) {
    let shared = RuntimeShared::with_slots(2);
    let (linker, target) = (shared.free_slot(0), shared.free_slot(1));
    let (own, other) = (linker.activate(), target.activate());
    RuntimeShared::trap_exits(linker, own, trap);
    let end = ending(&shared, target);

    linker.run_with(|slot| shared.link(slot, own, other));
    end.join().unwrap();

    let told = if trap { exits(&shared, own) } else { shared.ends(own) };
    assert!(told == [crash()] || told == [ExitReason::NoProcess], "{told:?}");
    assert_eq!(links(&shared, own), []);
}

#[test]
fn s11_a_link_to_one_who_ends_yields_one_exit_signal() {
    explore(3, || linked_while_it_ends(true));
    explore(3, || linked_while_it_ends(false));
}

#[test]
fn the_model_of_links_bites() {
    finds(InjectedFault::NoTotalOrder, 3, || linked_while_it_ends(true));
    finds(InjectedFault::LooksTooEarly, 3, || linked_while_it_ends(false));
    finds(InjectedFault::NoLock, 3, || linked_while_it_ends(false));
}

fn linked_from_both_sides() {
    let shared = RuntimeShared::with_slots(2);
    let (one, other) = (shared.free_slot(0), shared.free_slot(1));
    let (pid, peer) = (one.activate(), other.activate());
    RuntimeShared::trap_exits(one, pid, true);
    let thread = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            other.run_with(|slot| shared.link(slot, peer, pid));
            shared.end_of(peer, &crash())
        })
    };
    one.run_with(|slot| shared.link(slot, pid, peer));
    if !thread.join().unwrap() {
        shared.end_of(peer, &crash());
    }

    let told = exits(&shared, pid);
    // A process that links after the end of its peer also receives `NoProcess`.
    assert!(told.contains(&crash()), "{told:?}");
    assert!(told.len() == 1 || told == [crash(), ExitReason::NoProcess], "{told:?}");
    assert_eq!(links(&shared, pid), []);
}

#[test]
fn s07_two_who_link_each_other_at_once_have_one_link() {
    explore(2, linked_from_both_sides);
}

fn linked_as_the_other_unlinks(linked_before: bool) {
    let shared = RuntimeShared::with_slots(2);
    let (one, other) = (shared.free_slot(0), shared.free_slot(1));
    let (pid, peer) = (one.activate(), other.activate());
    if linked_before {
        shared.link(one, pid, peer);
    }
    let thread = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || other.run_with(|slot| shared.unlink(slot, peer, pid)))
    };
    one.run_with(|slot| shared.link(slot, pid, peer));
    thread.join().unwrap();

    let sides = (links(&shared, pid) == [peer], links(&shared, peer) == [pid]);
    assert_eq!(sides.0, sides.1, "both sides agree");
}

#[test]
fn s07_a_link_stands_on_both_sides_or_on_none_as_one_links_and_the_other_unlinks() {
    explore(3, || linked_as_the_other_unlinks(false));
    explore(3, || linked_as_the_other_unlinks(true));
}

fn linked_again_as_it_ends() {
    let shared = RuntimeShared::with_slots(2);
    let (linker, target) = (shared.free_slot(0), shared.free_slot(1));
    let (own, other) = (linker.activate(), target.activate());
    RuntimeShared::trap_exits(linker, own, true);
    shared.link(linker, own, other);
    let end = ending(&shared, target);

    linker.run_with(|slot| shared.link(slot, own, other));
    end.join().unwrap();

    let told = exits(&shared, own);
    assert_eq!(told.first(), Some(&crash()), "the existing link delivers the true reason: {told:?}");
    assert!(told.len() == 1 || told == [crash(), ExitReason::NoProcess], "{told:?}");
}

#[test]
fn s07_who_links_again_as_the_other_ends_still_hears_why_it_ended() {
    explore(3, linked_again_as_it_ends);
}

fn unlinked_while_it_ends() {
    let shared = RuntimeShared::with_slots(2);
    let (linker, target) = (shared.free_slot(0), shared.free_slot(1));
    let (own, other) = (linker.activate(), target.activate());
    RuntimeShared::trap_exits(linker, own, true);
    shared.link(linker, own, other);
    let end = ending(&shared, target);

    let before = linker.run_with(|slot| {
        shared.unlink(slot, own, other);
        // Everything that has arrived by now is in the mailbox.
        slot.take_all();
        exits(&shared, own).len()
    });
    end.join().unwrap();

    assert_eq!(Some(exits(&shared, own).len()), before, "nothing comes after an unlink");
    assert_eq!(links(&shared, own), []);
}

#[test]
fn s07_after_an_unlink_no_exit_signal_of_that_link_arrives() {
    explore(3, unlinked_while_it_ends);
}

#[test]
fn the_model_of_unlinks_bites() {
    finds(InjectedFault::NoLock, 3, unlinked_while_it_ends);
}

fn named_and_watched_while_it_ends() {
    let shared = RuntimeShared::with_slots(1);
    let slot = shared.free_slot(0);
    let pid = slot.activate();
    let end = ending(&shared, slot);

    let registered = shared.side_tables.register(slot, pid, "name");
    let (tell, mut told) = tokio::sync::oneshot::channel();
    let watches = SideTables::watch(slot, pid, tell);
    end.join().unwrap();

    assert_eq!(shared.side_tables.whereis("name"), None, "{registered:?}");
    assert_eq!(told.try_recv().is_ok(), watches, "told if it was registered, and only then");
}

#[test]
fn s15_a_name_given_to_one_who_ends_is_free_afterwards_and_a_watcher_is_told_or_refused() {
    explore(3, named_and_watched_while_it_ends);
}

#[test]
fn the_model_of_names_bites() {
    finds(InjectedFault::NoTotalOrder, 3, named_and_watched_while_it_ends);
    finds(InjectedFault::LooksTooEarly, 3, named_and_watched_while_it_ends);
}

/// Runs `deed` with the pid of a process that ends meanwhile, and checks that the next tenant of its slot is
/// unaffected.
fn a_slot_is_used_again(deed: fn(&RuntimeShared, Pid)) -> Arc<RuntimeShared> {
    a_slot_is_used_again_by(Slot::activate, deed)
}

fn a_slot_is_used_again_by(activate: fn(Slot) -> Pid, deed: fn(&RuntimeShared, Pid)) -> Arc<RuntimeShared> {
    let shared = RuntimeShared::with_slots(2);
    let slot = shared.free_slot(1);
    let old = slot.activate();
    let thread = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || deed(&shared, old))
    };
    slot.run_to_end(&crash());
    let new = activate(slot);
    slot.run();
    thread.join().unwrap();

    assert_ne!(old, new, "a pid is never reused");
    assert_eq!(shared.received_by(new), [], "messages for the previous tenant");
    assert_eq!(shared.ends(new), [], "a signal for the previous tenant");
    let bonds = SideTables::links_and_monitors(slot, new, 9).unwrap();
    assert_eq!((bonds.link_count, bonds.monitored_by_count), (0, 0));
    shared
}

fn sends_late(shared: &RuntimeShared, old: Pid) {
    drop(send_envelope(shared, None, old, envelope(shared, None, old, 7_u32)));
}

fn signals_late(shared: &RuntimeShared, old: Pid) {
    shared.exit(None, old, crash());
    shared.exit(None, old, ExitReason::Killed);
}

fn wakes_late(shared: &RuntimeShared, old: Pid) {
    let slot = shared.slot_of(old);
    for _ in 0..2 {
        if slot.header().gate.wake() {
            slot.run();
        }
    }
}

fn binds_late(shared: &RuntimeShared, old: Pid) {
    let slot = shared.free_slot(0);
    let own = slot.activate();
    slot.run_with(|slot| {
        RuntimeShared::trap_exits(slot, own, true);
        shared.link(slot, own, old);
        shared.monitor(slot, own, old);
    });
}

fn bound_late() {
    let shared = a_slot_is_used_again(binds_late);
    let own = shared.free_slot(0).pid();
    assert_eq!((exits(&shared, own).len(), downs(&shared, own).len()), (1, 1));
}

#[test]
fn no_message_reaches_the_next_tenant_of_a_slot() {
    explore(3, || drop(a_slot_is_used_again(sends_late)));
}

#[test]
fn no_signal_reaches_the_next_tenant_of_a_slot() {
    explore(3, || drop(a_slot_is_used_again(signals_late)));
}

#[test]
fn a_stale_waker_costs_the_next_tenant_at_most_a_turn() {
    explore(3, || drop(a_slot_is_used_again(wakes_late)));
}

#[test]
fn no_link_reaches_the_next_tenant_of_a_slot() {
    explore(2, bound_late);
}

#[test]
fn no_signal_reaches_the_next_tenant_of_a_slot_that_holds_something_at_once() {
    explore(3, || drop(a_slot_is_used_again_by(Slot::activate_linked, signals_late)));
}

#[test]
fn no_link_reaches_the_next_tenant_of_a_slot_that_holds_something_at_once() {
    explore(2, || drop(a_slot_is_used_again_by(Slot::activate_linked, binds_late)));
}

#[test]
fn the_models_of_slots_that_are_used_again_bite() {
    finds(InjectedFault::StrangersAreLetIn, 3, || drop(a_slot_is_used_again(sends_late)));
    finds(InjectedFault::NoGenerations, 3, || drop(a_slot_is_used_again(sends_late)));
    finds(InjectedFault::NoTotalOrder, 3, || drop(a_slot_is_used_again(signals_late)));
    finds(InjectedFault::NoLock, 3, || drop(a_slot_is_used_again(signals_late)));
    finds(InjectedFault::NoGenerations, 2, bound_late);
}

/// Monitors a process before it exists: the closure that creates a process may pass on its pid.
fn bound_before_it_is_there() {
    let shared = RuntimeShared::with_slots(2);
    let (watcher, slot) = (shared.free_slot(0), shared.free_slot(1));
    let own = watcher.activate();
    // An earlier tenant leaves its flags in the slot.
    let before = slot.activate();
    shared.link(slot, before, own);
    shared.unlink(slot, before, own);
    slot.run_to_end(&ExitReason::Normal);
    let pid = slot.pid();
    let thread = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            slot.activate();
            slot.run_to_end(&crash());
            drop(shared);
        })
    };
    watcher.run_with(|watcher| shared.monitor(watcher, own, pid));
    thread.join().unwrap();

    let downs = downs(&shared, own);
    assert!(downs == [crash()] || downs == [ExitReason::NoProcess], "{downs:?}");
}

#[test]
fn s12_one_that_is_monitored_as_it_comes_into_being_yields_one_down() {
    explore(3, bound_before_it_is_there);
}

#[test]
fn the_model_of_beginnings_bites() {
    finds(InjectedFault::OpensTooEarly, 3, bound_before_it_is_there);
}

/// A process returns, receives an exit signal and is killed, all at once.
fn ends_for_many_reasons() {
    let shared = RuntimeShared::with_slots(2);
    let (watcher, slot) = (shared.free_slot(0), shared.free_slot(1));
    let (own, pid) = (watcher.activate(), slot.activate());
    watcher.run_with(|watcher| shared.monitor(watcher, own, pid));
    let killer = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            shared.exit(None, pid, crash());
            shared.exit(None, pid, ExitReason::Killed);
        })
    };
    slot.run_to_end(&ExitReason::Shutdown);
    killer.join().unwrap();

    let ends = shared.ends(pid);
    assert!(matches!(ends[..], [ExitReason::Shutdown | ExitReason::Killed | ExitReason::Other(_)]), "{ends:?}");
    assert_eq!(downs(&shared, own), ends, "the monitor gets the same reason");
}

/// A waiting process is killed while a message arrives.
fn killed_as_it_waits() {
    let shared = RuntimeShared::with_slots(2);
    let (watcher, slot) = (shared.free_slot(0), shared.free_slot(1));
    let (own, pid) = (watcher.activate(), slot.activate());
    watcher.run_with(|watcher| shared.monitor(watcher, own, pid));
    slot.run();
    let killer = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.exit(None, pid, ExitReason::Killed))
    };
    let posted = send_envelope(&shared, None, pid, envelope(&shared, None, pid, 7_u32));
    killer.join().unwrap();

    assert_eq!(shared.ends(pid), [ExitReason::Killed]);
    assert_eq!(downs(&shared, own), [ExitReason::Killed]);
    let received_by = shared.received_by(pid).len() + shared.left_over();
    assert_eq!(received_by, usize::from(matches!(posted, SendOutcome::Sent)), "received, left over or handed back");
}

#[test]
fn s09_whoever_returns_and_is_killed_ends_once_and_everybody_is_told_the_same_reason() {
    explore(3, ends_for_many_reasons);
}

#[test]
fn s05_a_kill_is_never_lost_and_a_message_is_received_left_over_or_handed_back() {
    explore(3, killed_as_it_waits);
}

#[test]
fn the_models_of_kills_bite() {
    finds(InjectedFault::NoLock, 3, ends_for_many_reasons);
    finds(InjectedFault::SignalsAreForgotten, 3, killed_as_it_waits);
}
