//! The gate of a process under every interleaving that loom explores; `models_schedule.rs` models the schedulers.
//!
//! The file under test is compiled here over loom's atomics. Instead of a run queue, the thread that must enqueue the
//! process runs it: the worst case of a steal. The deque of crossbeam is assumed to be correct. Data that only the
//! owner may touch is in loom cells, so a hand-over without the right ordering fails by itself.

#![expect(unsafe_code, reason = "reads loom cells, which check every access")]
#![expect(dead_code, reason = "the models use only parts of the files under test")]

mod sync {
    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    }
}
#[path = "../src/mailbox/gate.rs"]
mod gate;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use gate::{Arrivals, Gate, Push};

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

const NODES: usize = 4;

/// A process; its state belongs to the thread that runs it.
struct Process {
    gate: Gate,
    /// Links of the message nodes: a pusher owns its nodes until the push, the thread that runs the process afterwards.
    links: [UnsafeCell<u64>; NODES],
    received: UnsafeCell<Vec<u64>>,
    runs: UnsafeCell<u32>,
    signals: UnsafeCell<u32>,
    /// The next run begins as that of a process which a sender has handed over.
    handed: UnsafeCell<bool>,
    /// The process has received a message that did not go through the gate.
    directly: UnsafeCell<bool>,
    /// Futures wait inside the process, and only messages that come through the gate wake them.
    waits_of_inner_futures: AtomicBool,
}

/// Returns the address of a node, a multiple of 64.
const fn address(node: usize) -> u64 {
    (node as u64 + 1) * 64
}

impl Process {
    fn parked() -> Arc<Self> {
        let process = Self {
            gate: Gate::closed(),
            links: std::array::from_fn(|_| UnsafeCell::new(0)),
            received: UnsafeCell::new(Vec::new()),
            runs: UnsafeCell::new(0),
            signals: UnsafeCell::new(0),
            handed: UnsafeCell::new(false),
            directly: UnsafeCell::new(false),
            waits_of_inner_futures: AtomicBool::new(false),
        };
        process.gate.open();
        process.gate.begin_run();
        assert!(!process.gate.end_run(false, false));
        Arc::new(process)
    }

    fn push(&self, node: usize) -> Push {
        self.gate.push(
            address(node),
            |_| true,
            |newest| {
                // SAFETY: the pusher owns the node until the push succeeds; loom checks it.
                self.links[node].with_mut(|link| unsafe { *link = newest });
            },
        )
    }

    fn take(&self, taken: Arrivals) {
        let mut node = taken.newest();
        let mut count = 0;
        let mut batch = Vec::new();
        while node != 0 {
            batch.push(node);
            count += 1;
            // SAFETY: the runner owns what it took; loom checks it.
            node = self.links[(node / 64 - 1) as usize].with(|link| unsafe { *link });
        }
        assert_eq!(count, taken.count(), "the word counts its messages");
        batch.reverse();
        // SAFETY: only the runner touches these; loom checks it.
        self.received.with_mut(|received| unsafe { (*received).append(&mut batch) });
        if taken.signal() {
            // SAFETY: only the runner touches this; loom checks it.
            self.signals.with_mut(|signals| unsafe { *signals += 1 });
        }
    }

    /// Sends like a scheduler that will run the receiver itself, and runs the receiver if required.
    fn send_and_run(&self, node: usize) {
        let may_be_handed = || !self.waits_of_inner_futures.load(Ordering::Relaxed);
        if may_be_handed() && self.gate.begin_handoff() {
            let handed = may_be_handed();
            // SAFETY: the gate made this thread the owner; loom checks it.
            unsafe {
                if handed {
                    self.received.with_mut(|received| (*received).push(address(node)));
                    self.directly.with_mut(|directly| *directly = true);
                }
                self.handed.with_mut(|handed| *handed = true);
            }
            self.run(false);
            if handed {
                return;
            }
        }
        if self.push(node) == Push::Wake {
            self.run(false);
        }
    }

    fn begin(&self) -> Arrivals {
        // SAFETY: the thread that must run the process owns it; loom checks it.
        let handed = self.handed.with_mut(|handed| unsafe { std::mem::take(&mut *handed) });
        let taken = if handed { self.gate.begin_after_handoff() } else { self.gate.begin_run() };
        // SAFETY: as above.
        let directly = self.directly.with_mut(|directly| unsafe { std::mem::take(&mut *directly) });
        assert!(
            !directly || !self.waits_of_inner_futures.load(Ordering::Relaxed),
            "futures inside would miss the message"
        );
        taken
    }

    /// Runs the process until it does not have to run again.
    fn run(&self, deaf: bool) {
        loop {
            self.take(self.begin());
            // SAFETY: only the runner touches this; loom checks it.
            self.runs.with_mut(|runs| unsafe { *runs += 1 });
            let mut woken = false;
            if let Some(taken) = self.gate.absorb() {
                woken = taken.woken();
                self.take(taken);
            }
            if !self.gate.end_run(deaf, woken) {
                return;
            }
        }
    }

    fn received(&self) -> Vec<u64> {
        // SAFETY: the other threads have been joined; loom checks it.
        let mut received = self.received.with(|received| unsafe { (*received).clone() });
        received.sort_unstable();
        received
    }
}

#[test]
fn every_message_is_taken_once_and_one_thread_runs_at_a_time() {
    explore(|| {
        let process = Process::parked();
        let pushers: Vec<_> = (0..2)
            .map(|first| {
                let process = Arc::clone(&process);
                thread::spawn(move || {
                    for node in [2 * first, 2 * first + 1] {
                        if process.push(node) == Push::Wake {
                            process.run(false);
                        }
                    }
                })
            })
            .collect();
        for pusher in pushers {
            pusher.join().unwrap();
        }

        assert_eq!(process.received(), [64, 128, 192, 256]);
    });
}

#[test]
fn a_process_is_handed_over_by_one_thread_and_hears_what_comes_meanwhile() {
    explore(|| {
        let process = Process::parked();
        let sender = |nodes: [usize; 2]| {
            let process = Arc::clone(&process);
            thread::spawn(move || nodes.into_iter().for_each(|node| process.send_and_run(node)))
        };
        let (near, far) = (sender([0, 1]), {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                if process.push(2) == Push::Wake {
                    process.run(false);
                }
            })
        });
        if process.gate.signal() {
            process.run(false);
        }
        near.join().unwrap();
        far.join().unwrap();

        assert_eq!(process.received(), [64, 128, 192]);
        // SAFETY: the other threads have been joined; loom checks it.
        assert_eq!(process.signals.with(|signals| unsafe { *signals }), 1);
    });
}

#[test]
fn a_process_that_begins_to_wait_inside_as_a_sender_looks_gets_the_message_through_its_gate() {
    explore(|| {
        let process = Process::parked();
        let sender = {
            let process = Arc::clone(&process);
            thread::spawn(move || process.send_and_run(0))
        };
        if process.gate.wake() {
            process.take(process.begin());
            process.waits_of_inner_futures.store(true, Ordering::Relaxed);
            if process.gate.end_run(false, false) {
                process.run(false);
            }
        }
        sender.join().unwrap();

        assert_eq!(process.received(), [64]);
    });
}

#[test]
fn a_message_handed_over_stays_before_later_ones_of_its_sender() {
    explore(|| {
        let process = Process::parked();
        let sender = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                for node in 0..3 {
                    process.send_and_run(node);
                }
            })
        };
        if process.gate.wake() {
            process.run(false);
        }
        sender.join().unwrap();

        // SAFETY: the other thread has been joined; loom checks it.
        let received = process.received.with(|received| unsafe { (*received).clone() });
        assert_eq!(received, [64, 128, 192]);
    });
}

#[test]
fn messages_of_one_sender_stay_in_order() {
    explore(|| {
        let process = Process::parked();
        let sender = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                for node in 0..3 {
                    if process.push(node) == Push::Wake {
                        process.run(false);
                    }
                }
            })
        };
        if process.gate.wake() {
            process.run(false);
        }
        sender.join().unwrap();

        // SAFETY: the other thread has been joined; loom checks it.
        let received = process.received.with(|received| unsafe { (*received).clone() });
        assert_eq!(received, [64, 128, 192]);
    });
}

#[test]
fn a_wake_up_is_never_lost_whatever_the_process_does_meanwhile() {
    explore(|| {
        let process = Process::parked();
        let event = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(AtomicBool::new(false));
        let run = |process: &Process, event: &AtomicBool, seen: &AtomicBool| {
            loop {
                process.take(process.gate.begin_run());
                // The poll checks its event first and takes messages afterwards, as a select over both would.
                if event.load(Ordering::Relaxed) {
                    seen.store(true, Ordering::Relaxed);
                }
                let mut woken = false;
                if let Some(taken) = process.gate.absorb() {
                    woken = taken.woken();
                    process.take(taken);
                }
                if !process.gate.end_run(false, woken) {
                    return;
                }
            }
        };
        let waker = {
            let (process, event, seen) = (Arc::clone(&process), Arc::clone(&event), Arc::clone(&seen));
            thread::spawn(move || {
                event.store(true, Ordering::Relaxed);
                if process.gate.wake() {
                    run(&process, &event, &seen);
                }
            })
        };
        // Its message arrives while the process runs, so that taking the message coincides with the wake-up.
        let sender = {
            let (process, event, seen) = (Arc::clone(&process), Arc::clone(&event), Arc::clone(&seen));
            thread::spawn(move || {
                if process.push(1) == Push::Wake {
                    run(&process, &event, &seen);
                }
            })
        };
        if process.push(0) == Push::Wake {
            run(&process, &event, &seen);
        }
        waker.join().unwrap();
        sender.join().unwrap();

        assert!(seen.load(Ordering::Relaxed), "no poll saw the event");
        assert_eq!(process.received(), [64, 128]);
    });
}

#[test]
fn a_message_does_not_wake_a_deaf_process_and_is_there_when_it_wakes() {
    explore(|| {
        let process = Process::parked();
        assert!(process.gate.wake());
        process.run(true);
        let sender = {
            let process = Arc::clone(&process);
            thread::spawn(move || assert_eq!(process.push(0), Push::Queued))
        };
        let timer = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                if process.gate.wake() {
                    process.run(true);
                }
            })
        };
        sender.join().unwrap();
        timer.join().unwrap();
        if process.gate.wake() {
            process.run(true);
        }

        assert_eq!(process.received(), [64]);
    });
}

#[test]
fn a_signal_is_never_lost() {
    explore(|| {
        let process = Process::parked();
        let killer = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                if process.gate.signal() {
                    process.run(false);
                }
            })
        };
        if process.push(0) == Push::Wake {
            process.run(false);
        }
        killer.join().unwrap();

        // SAFETY: the other thread has been joined; loom checks it.
        assert!(process.signals.with(|signals| unsafe { *signals }) >= 1);
    });
}

#[test]
fn a_message_that_races_with_the_end_is_left_over_refused_or_for_the_next_tenant_to_drop() {
    explore(|| {
        let process = Process::parked();
        let generation = Arc::new(AtomicU32::new(1));
        let sender = {
            let (process, generation) = (Arc::clone(&process), Arc::clone(&generation));
            thread::spawn(move || {
                if generation.load(Ordering::Acquire) != 1 {
                    return None;
                }
                let push = process.push(0);
                if push == Push::Wake {
                    // Like a scheduler, run the slot, whether it holds the dead process or the next tenant.
                    process.run(false);
                }
                Some(push)
            })
        };
        // End the process, unless another thread is running it.
        let mut left_over = 0;
        if process.gate.wake() {
            let taken = process.gate.begin_run();
            left_over += taken.count();
            left_over += process.gate.close().count();
            generation.store(2, Ordering::Release);
            // The slot gets its next tenant, which this thread runs once.
            process.gate.open();
            process.run(false);
        }
        let push = sender.join().unwrap();

        let received = process.received().len() as u32;
        match push {
            None | Some(Push::Closed) => assert_eq!(left_over + received, 0),
            // Received by the first tenant, left over, or taken by the second, which drops it because of its
            // generation.
            Some(_) => assert_eq!(left_over + received, 1),
        }
    });
}

#[test]
fn a_sender_that_waits_for_room_is_told() {
    explore(|| {
        let process = Process::parked();
        let waiting = Arc::new(Mutex::new(false));
        let told = Arc::new(AtomicBool::new(false));
        assert_eq!(process.push(0), Push::Wake);
        let room = |pending: u32| pending < 1;
        let sender = {
            let (process, waiting) = (Arc::clone(&process), Arc::clone(&waiting));
            thread::spawn(move || {
                let push = process.gate.push(address(1), room, |newest| {
                    // SAFETY: this thread owns the node; loom checks it.
                    process.links[1].with_mut(|link| unsafe { *link = newest });
                });
                if push != Push::Full {
                    return false;
                }
                *waiting.lock().unwrap() = true;
                process.gate.request_room(room) == Push::Full
            })
        };
        // The process takes its messages, and notifies the waiting sender whenever the gate says so.
        let serve = |taken: Arrivals| {
            process.take(taken);
            if taken.backpressure() && std::mem::take(&mut *waiting.lock().unwrap()) {
                told.store(true, Ordering::Relaxed);
            }
        };
        serve(process.gate.begin_run());
        let mut queued = process.gate.end_run(false, false);
        let waits = sender.join().unwrap();
        queued |= process.gate.wake();
        if queued {
            serve(process.gate.begin_run());
        }

        assert!(!waits || told.load(Ordering::Relaxed));
    });
}
