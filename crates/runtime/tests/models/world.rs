//! A minimal process table for the models, around the real source files: the thread that wakes a process runs it, and a
//! process only receives.

#![expect(unsafe_code, reason = "a table of raw pointers; loom checks every access")]
#![expect(clippy::unused_self, reason = "the same signatures as the real functions")]

use std::cell::Cell as Plain;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::cell::{Cell, HOLDS};
use crate::exit::ExitReason;
use crate::holdings::{Held, Holdings};
use crate::mailbox::{Backlog, Letter, NodeDepot, NodePool};
use crate::message::Message;
use crate::pid::Pid;
use crate::signal::{Down, Exit, References};
use crate::sync::atomic::Ordering;
use crate::sync::{Plant, has};

/// Stand-in for the schedulers.
pub(crate) mod scheduler {
    use super::{Arc, Letter, NodePool, Pid, Plain, Shared, Slot};

    /// State of a scheduler; no thread of a model is one.
    pub(crate) struct Local {
        pub(crate) shared: Arc<Shared>,
        pub(crate) nodes: NodePool,
        pub(crate) last_reference: Plain<u64>,
    }

    impl Local {
        pub(crate) fn enqueue(&self, slot: Slot, _: bool) {
            slot.run();
        }

        pub(crate) fn hand(&self, _: Pid, letter: Letter) -> Result<(), Letter> {
            Err(letter)
        }

        pub(crate) fn introduce(&self, _: Pid) {}

        pub(crate) fn running(&self) -> Option<()> {
            None
        }
    }

    pub(crate) fn local<'a>() -> Option<&'a Local> {
        None
    }

    /// Runs the process instead of putting it into a run queue.
    pub(crate) fn enqueue(slot: Slot, _: bool) {
        slot.run();
    }
}

/// Stand-in for the process table.
pub(crate) mod slab {
    pub(crate) use super::Slot;

    pub(crate) const CONTROL_BLOCK_BYTES: usize = 256;
}

/// Stand-in for groups.
pub(crate) mod groups {
    #[derive(Default)]
    pub(crate) struct Memberships;

    impl Memberships {
        pub(crate) fn len(&self) -> usize {
            0
        }
    }
}

/// Stand-in for the information that bodies provide; no body provides any here.
pub(crate) mod extra {
    pub(crate) enum Fact {}

    pub(crate) trait Extra: Send + Sync {
        fn kind(&self) -> &'static str;
        fn source(&self) -> Option<std::sync::Arc<str>>;
        fn facts(&self) -> Vec<(&'static str, Fact)>;
    }
}

/// Stand-in for calls; no model makes any.
pub(crate) mod call {
    pub(crate) struct Request<Q, R> {
        pub(crate) request: Q,
        reply: std::marker::PhantomData<R>,
    }
}

/// Stand-in for the runtime.
pub(crate) mod runtime {
    pub(crate) use super::Shared;
}

/// A slot: its process counters, its side-table entry and the state of the model.
pub(crate) struct Place {
    number: u32,
    cell: Cell,
    held: loom::cell::UnsafeCell<Option<Box<Held>>>,
    /// Accessed only by the thread that runs the process.
    own: loom::cell::UnsafeCell<Own>,
    shared: Plain<*const Shared>,
}

#[derive(Default)]
struct Own {
    runs: u32,
}

/// A slot of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(*const Place);

// SAFETY: the pointee lives as long as its table, and loom checks every access to it.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

pub(crate) struct Slab(Box<[Place]>);

impl Slab {
    pub(crate) fn slot(&self, pid: Pid) -> Option<Slot> {
        self.0.get(pid.slot() as usize).map(|place| Slot(place))
    }
}

/// State shared by all threads.
pub(crate) struct Shared {
    pub(crate) slab: Slab,
    pub(crate) references: References,
    pub(crate) holdings: Holdings,
    pub(crate) nodes: NodeDepot,
    /// Received messages and their receivers.
    pub(crate) received: Mutex<Vec<(Pid, Heard)>>,
    /// Ended processes and their exit reasons.
    pub(crate) ended: Mutex<Vec<(Pid, ExitReason)>>,
    /// Number of messages left in the mailboxes of ended processes.
    left_over: AtomicUsize,
}

// SAFETY: the only part that is not `Sync` is written before any thread is started.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// A message that a process received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Exit(Exit),
    Down(Down),
    Word(u32),
}

impl Shared {
    /// Creates a table with this number of free slots.
    pub(crate) fn with_slots(slots: u32) -> Arc<Self> {
        let place = |number| Place {
            number,
            cell: Cell::free(),
            held: loom::cell::UnsafeCell::new(None),
            own: loom::cell::UnsafeCell::default(),
            shared: Plain::new(std::ptr::null()),
        };
        let shared = Arc::new(Self {
            slab: Slab((0..slots).map(place).collect()),
            references: References::default(),
            holdings: Holdings::default(),
            nodes: NodeDepot::new(),
            received: Mutex::default(),
            ended: Mutex::default(),
            left_over: AtomicUsize::new(0),
        });
        for place in &shared.slab.0 {
            place.shared.set(Arc::as_ptr(&shared));
        }
        shared
    }

    pub(crate) fn free_slot(&self, number: u32) -> Slot {
        Slot(&raw const self.slab.0[number as usize])
    }

    pub(crate) fn slot_of(&self, pid: Pid) -> Slot {
        self.slab.slot(pid).unwrap()
    }

    pub(crate) fn has_room(&self, _: &Cell, _: u32, _: u32) -> bool {
        true
    }

    pub(crate) fn is_relieved(&self, _: &Cell, _: u32) -> bool {
        true
    }

    pub(crate) fn charge_mail(&self, _: Option<&scheduler::Local>, _: u32) {}

    pub(crate) fn wait_for_budget(&self, _: Pid) {}

    pub(crate) fn is_alive(&self, _: Pid) -> bool {
        true
    }

    pub(crate) fn relieve(slot: Slot, pid: Pid) {
        Holdings::take_waiting_senders(slot, pid).into_iter().for_each(std::task::Waker::wake);
    }

    pub(crate) fn left_over(&self) -> usize {
        self.left_over.load(Ordering::Relaxed)
    }

    /// Returns everything that a process has received.
    pub(crate) fn heard(&self, pid: Pid) -> Vec<Heard> {
        self.received.lock().unwrap().iter().filter(|heard| heard.0 == pid).map(|heard| heard.1.clone()).collect()
    }

    /// Returns the exit reasons recorded for a pid.
    pub(crate) fn ends(&self, pid: Pid) -> Vec<ExitReason> {
        self.ended.lock().unwrap().iter().filter(|end| end.0 == pid).map(|end| end.1.clone()).collect()
    }

    /// Ends a process with a reason, unless another thread runs it just now. Returns true if it was ended.
    pub(crate) fn end_of(&self, pid: Pid, reason: &ExitReason) -> bool {
        let slot = self.slot_of(pid);
        let wakes = slot.cell().gate.wake();
        if wakes {
            slot.run_to_end(reason);
        }
        wakes
    }
}

impl Slot {
    fn place(&self) -> &Place {
        // SAFETY: the table outlives its slots.
        unsafe { &*self.0 }
    }

    pub(crate) fn cell(&self) -> &Cell {
        &self.place().cell
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the pointee owns this table, so it outlives the slot.
        unsafe { &*self.place().shared.get() }
    }

    pub(crate) fn pid(self) -> Pid {
        Pid::local(self.place().number, self.cell().generation.load(Ordering::Relaxed))
    }

    /// Loom checks the access here instead of where the pointer is used. That is equivalent: the lock is held around
    /// both.
    pub(crate) fn held_ptr(self) -> *mut Option<Box<Held>> {
        self.place().held.with_mut(|held| held)
    }

    /// Creates a process that has a side-table entry from the start, like one that is linked to its parent.
    pub(crate) fn admit_bound(self) -> Pid {
        let pid = self.pid();
        // SAFETY: the caller has a free slot; loom checks it.
        self.place().held.with_mut(|held| unsafe { *held = Some(Box::default()) });
        self.cell().admit(HOLDS, 0, 8, 0);
        pid
    }

    /// Creates a process that is scheduled; the caller runs it.
    pub(crate) fn admit(self) -> Pid {
        let pid = self.pid();
        // SAFETY: the caller has a free slot; loom checks it.
        self.place().held.with_mut(|held| unsafe { *held = None });
        if has(Plant::OpensTooEarly) {
            self.cell().gate.open();
            loom::thread::yield_now();
        }
        self.cell().admit(0, 0, 8, 0);
        pid
    }

    /// Takes and handles the pending messages; returns the reason of an exit signal that must be obeyed.
    fn begin(self) -> Option<ExitReason> {
        let taken = self.cell().gate.begin_run();
        self.take_in(taken)
    }

    fn take_in(self, taken: crate::gate::Taken) -> Option<ExitReason> {
        // SAFETY: only the thread that runs the process gets here; loom checks it.
        self.place().own.with_mut(|own| unsafe { (*own).runs += 1 });
        let pid = self.pid();
        let mut backlog = Backlog::EMPTY;
        // SAFETY: the chain comes directly from the gate.
        unsafe { backlog.append(taken.newest(), own_generation(taken.newest(), pid)) };
        while let Some(letter) = backlog.pop() {
            let heard = heard(letter.into_message());
            self.shared().received.lock().unwrap().push((pid, heard));
        }
        if taken.signal() && !has(Plant::SignalsAreForgotten) { Holdings::take_exit_signal(self, pid) } else { None }
    }

    /// Runs the process, which ends with `reason` unless an exit signal has another one.
    pub(crate) fn run_to_end(self, reason: &ExitReason) {
        let told = self.begin();
        self.end(told.as_ref().unwrap_or(reason));
    }

    /// Takes the messages that arrived while the process was running.
    pub(crate) fn take_all(self) {
        if let Some(taken) = self.cell().gate.absorb() {
            assert_eq!(self.take_in(taken), None, "no exit signal was sent");
        }
    }

    /// Runs the process until it is idle.
    pub(crate) fn run(self) {
        self.run_with(|_| ());
    }

    /// Runs the process until it is idle; its first poll executes `deed` and returns the result.
    pub(crate) fn run_with<T>(self, deed: impl FnOnce(Self) -> T) -> Option<T> {
        let mut deed = Some(deed);
        let mut done = None;
        loop {
            if let Some(reason) = self.begin() {
                self.end(&reason);
                return done;
            }
            if let Some(deed) = deed.take() {
                done = Some(deed(self));
            }
            let mut woken = false;
            if let Some(taken) = self.cell().gate.absorb() {
                woken = taken.woken();
                if let Some(reason) = self.take_in(taken) {
                    self.end(&reason);
                    return done;
                }
            }
            if !self.cell().gate.end_run(false, woken) {
                return done;
            }
        }
    }

    /// Ends the process, in the same order of steps as `scheduler/reap.rs`.
    fn end(self, reason: &ExitReason) {
        let (cell, shared, pid) = (self.cell(), self.shared(), self.pid());
        // SAFETY: only the thread that runs the process gets here; loom checks it.
        self.place().own.with_mut(|own| unsafe { (*own).runs += 1 });
        let early = cell.flags.load(Ordering::SeqCst) & HOLDS != 0;
        let taken = cell.gate.close();
        let mut backlog = Backlog::EMPTY;
        // SAFETY: the chain comes directly from the gate.
        unsafe { backlog.append(taken.newest(), pid.generation()) };
        while backlog.pop().is_some() {
            shared.left_over.fetch_add(1, Ordering::Relaxed);
        }
        let (next, mut holds) = cell.retire(pid.generation());
        if has(Plant::LooksTooEarly) {
            holds = early;
        }
        if has(Plant::NoGenerations) {
            cell.generation.store(next - 1, Ordering::SeqCst);
        }
        let released = if holds { shared.holdings.release(self, pid) } else { None };
        shared.ended.lock().unwrap().push((pid, reason.clone()));
        if let Some(mut released) = released {
            shared.part(pid, &mut released.held, reason);
            for watcher in released.rare.map(|rare| rare.watchers).unwrap_or_default() {
                drop(watcher.send(reason.clone()));
            }
        }
    }
}

fn own_generation(newest: u64, pid: Pid) -> u32 {
    if has(Plant::StrangersAreLetIn) && newest != 0 { pid.generation() - 1 } else { pid.generation() }
}

fn heard(message: Message) -> Heard {
    let message = match message.downcast::<Exit>() {
        Ok(exit) => return Heard::Exit(exit),
        Err(message) => message,
    };
    match message.downcast::<Down>() {
        Ok(down) => Heard::Down(down),
        Err(message) => Heard::Word(message.downcast().unwrap()),
    }
}
