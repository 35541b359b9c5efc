//! Processes with long polls: no other process waits for dozens of such polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rusm_runtime::{Config, Context, Pid, Runtime};

/// Number of first messages that are not evaluated.
const FIRST: usize = 40;
const POLL: Duration = Duration::from_millis(1);

/// One scheduler busy with long polls, and a process that reports the number of polls since each message was sent.
struct Busy {
    runtime: Runtime,
    polls: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    receiver: Pid,
    waited: Receiver<u64>,
}

impl Busy {
    fn begin(pinned: bool) -> Self {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("one scheduler starts");
        let (polls, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (give, waited) = channel();
        let seen = Arc::clone(&polls);
        let body = move |ctx: Context| async move {
            loop {
                let sent = ctx.receive_of::<u64>().await;
                if give.send(seen.load(Ordering::Relaxed) - sent).is_err() {
                    // The test has dropped its receiver.
                    return;
                }
            }
        };
        let receiver = if pinned { runtime.spawn_pinned(0, body) } else { runtime.spawn(body) }.expect("there is room");
        Self { runtime, polls, over, receiver, waited }
    }

    /// Starts a process with long polls that calls `also` in each.
    fn busy(&self, mut also: impl FnMut(&Context, u64) + Send + 'static) {
        let (polls, over) = (Arc::clone(&self.polls), Arc::clone(&self.over));
        let body = move |ctx: Context| async move {
            while !over.load(Ordering::Relaxed) {
                let until = Instant::now() + POLL;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                also(&ctx, polls.fetch_add(1, Ordering::Relaxed) + 1);
                ctx.yield_now().await;
            }
        };
        self.runtime.spawn(body).expect("there is room");
    }

    /// Returns the number of polls that the next message waited for.
    fn waited(&self) -> u64 {
        self.waited.recv_timeout(Duration::from_mins(2)).expect("it is received")
    }

    /// Stops the long polls; returns the number of polls that each message waited for, in ascending order. Leaves out
    /// the first messages, during which the scheduler does not know yet that the polls are long.
    fn end(self, waited: &[u64]) -> Vec<u64> {
        self.over.store(true, Ordering::Relaxed);
        let mut waited = waited.split_at(FIRST).1.to_vec();
        waited.sort_unstable();
        waited
    }
}

#[test]
fn what_others_wake_waits_for_few_of_them() {
    const MESSAGES: usize = 40;
    let busy = Busy::begin(false);
    for _ in 0..4 {
        busy.busy(|_, _| ());
    }
    let (sender, receiver, polls) = (busy.runtime.clone(), busy.receiver, Arc::clone(&busy.polls));
    let mut waited = Vec::new();
    for _ in 0..FIRST + MESSAGES {
        std::thread::park_timeout(5 * POLL);
        sender.try_send(receiver, polls.load(Ordering::Relaxed)).expect("it has room");
        // Send one message at a time: then one stall of the machine delays one message.
        waited.push(busy.waited());
    }
    let waited = busy.end(&waited);

    // This thread may be preempted between reading `polls` and sending, but not most of the time.
    assert!(waited[MESSAGES / 4] <= 8, "{waited:?}");
}

#[test]
fn a_process_that_runs_on_one_scheduler_only_waits_for_few_of_them() {
    let busy = Busy::begin(true);
    for _ in 0..3 {
        busy.busy(|_, _| ());
    }
    let receiver = busy.receiver;
    // With four such processes, the messages do not always come at the same position of a cycle of eight polls.
    busy.busy(move |ctx, polls| {
        if polls.is_multiple_of(3) {
            drop(ctx.try_send(receiver, polls));
        }
    });
    let waited: Vec<u64> = (0..FIRST + 40).map(|_| busy.waited()).collect();
    let waited = busy.end(&waited);

    assert!(waited[39] <= 5, "{waited:?}");
}
