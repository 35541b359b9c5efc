//! A table of processes as small as a model needs it, around the real files: who is woken is run by whoever wakes it, and a
//! process does nothing but receive.

#![expect(unsafe_code, reason = "a table of raw places, every access to which loom checks")]
#![expect(clippy::unused_self, reason = "called as the real ones are")]

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

/// Stands where the schedulers are.
pub(crate) mod scheduler {
    use super::{Arc, Letter, NodePool, Pid, Plain, Shared, Slot};

    /// No thread of a model is a scheduler.
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

    /// Whoever must put a process into a run queue runs it.
    pub(crate) fn enqueue(slot: Slot, _: bool) {
        slot.run();
    }
}

/// Stands where the table is.
pub(crate) mod slab {
    pub(crate) use super::Slot;

    pub(crate) const CONTROL_BLOCK_BYTES: usize = 256;
}

/// Stands where groups are.
pub(crate) mod groups {
    #[derive(Default)]
    pub(crate) struct Memberships;

    #[cfg(feature = "wasm")]
    impl Memberships {
        pub(crate) fn len(&self) -> usize {
            0
        }
    }
}

/// Stands where bodies tell about themselves; none does here.
pub(crate) mod extra {
    pub(crate) enum Fact {}

    pub(crate) trait Extra: Send + Sync {
        fn kind(&self) -> &'static str;
        fn source(&self) -> Option<std::sync::Arc<str>>;
        fn facts(&self) -> Vec<(&'static str, Fact)>;
    }
}

/// Stands where calls are; none is made here.
pub(crate) mod call {
    pub(crate) struct Request<Q, R> {
        pub(crate) request: Q,
        reply: std::marker::PhantomData<R>,
    }
}

/// Stands where the runtime is.
pub(crate) mod runtime {
    pub(crate) use super::Shared;
}

/// What a slot has beside its cell.
pub(crate) struct Place {
    number: u32,
    cell: Cell,
    held: loom::cell::UnsafeCell<Option<Box<Held>>>,
    /// What only the one who runs the tenant touches.
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

// SAFETY: an address of a place, which lives as long as its table; what is done there is checked by loom.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

pub(crate) struct Slab(Box<[Place]>);

impl Slab {
    pub(crate) fn slot(&self, pid: Pid) -> Option<Slot> {
        self.0.get(pid.slot() as usize).map(|place| Slot(place))
    }
}

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) slab: Slab,
    pub(crate) references: References,
    pub(crate) holdings: Holdings,
    pub(crate) nodes: NodeDepot,
    /// What was received, by whom.
    pub(crate) received: Mutex<Vec<(Pid, Heard)>>,
    /// Who ended, and why.
    pub(crate) ended: Mutex<Vec<(Pid, ExitReason)>>,
    /// Messages that lay in the mailbox of one who ended.
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
    /// A table with so many free slots.
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

    /// What a process has heard.
    pub(crate) fn heard(&self, pid: Pid) -> Vec<Heard> {
        self.received.lock().unwrap().iter().filter(|heard| heard.0 == pid).map(|heard| heard.1.clone()).collect()
    }

    /// Why processes ended.
    pub(crate) fn ends(&self, pid: Pid) -> Vec<ExitReason> {
        self.ended.lock().unwrap().iter().filter(|end| end.0 == pid).map(|end| end.1.clone()).collect()
    }

    /// Ends a process by itself, if nobody else runs it just now.
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
        // SAFETY: a slot's table outlives it.
        unsafe { &*self.0 }
    }

    pub(crate) fn cell(&self) -> &Cell {
        &self.place().cell
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the table belongs to it.
        unsafe { &*self.place().shared.get() }
    }

    pub(crate) fn pid(self) -> Pid {
        Pid::local(self.place().number, self.cell().generation.load(Ordering::Relaxed))
    }

    /// Loom sees the access here, which is as good as where it is used: the lock is held from before until after.
    pub(crate) fn held_ptr(self) -> *mut Option<Box<Held>> {
        self.place().held.with_mut(|held| held)
    }

    /// A new tenant that holds something from its first instant, as one that is linked to whoever starts it.
    pub(crate) fn admit_bound(self) -> Pid {
        let pid = self.pid();
        // SAFETY: the caller has a free slot; loom checks it.
        self.place().held.with_mut(|held| unsafe { *held = Some(Box::default()) });
        self.cell().admit(HOLDS, 0, 8, 0);
        pid
    }

    /// A new tenant, scheduled; the caller runs it.
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

    /// Takes what has come and looks at it; gives the reason of an exit signal that must be obeyed.
    fn begin(self) -> Option<ExitReason> {
        let taken = self.cell().gate.begin_run();
        self.take_in(taken)
    }

    fn take_in(self, taken: crate::gate::Taken) -> Option<ExitReason> {
        // SAFETY: only who runs the tenant gets here; loom checks it.
        self.place().own.with_mut(|own| unsafe { (*own).runs += 1 });
        let pid = self.pid();
        let mut backlog = Backlog::EMPTY;
        // SAFETY: the chain comes straight from the gate.
        unsafe { backlog.append(taken.newest(), own_generation(taken.newest(), pid)) };
        while let Some(letter) = backlog.pop() {
            let heard = heard(letter.into_message());
            self.shared().received.lock().unwrap().push((pid, heard));
        }
        if taken.signal() && !has(Plant::SignalsAreForgotten) { Holdings::take_exit_signal(self, pid) } else { None }
    }

    /// Runs the tenant, which ends by itself unless it is told to.
    pub(crate) fn run_to_end(self, reason: &ExitReason) {
        let told = self.begin();
        self.end(told.as_ref().unwrap_or(reason));
    }

    /// The running tenant takes what has come since.
    pub(crate) fn take_all(self) {
        if let Some(taken) = self.cell().gate.absorb() {
            assert_eq!(self.take_in(taken), None, "nobody signals it");
        }
    }

    /// Runs the tenant as often as it asks for it.
    pub(crate) fn run(self) {
        self.run_with(|_| ());
    }

    /// Runs the tenant: `deed` is what it does in its first poll.
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

    /// The end of the tenant, in the order in which `scheduler/reap.rs` has it.
    fn end(self, reason: &ExitReason) {
        let (cell, shared, pid) = (self.cell(), self.shared(), self.pid());
        // SAFETY: only who runs the tenant gets here; loom checks it.
        self.place().own.with_mut(|own| unsafe { (*own).runs += 1 });
        let early = cell.flags.load(Ordering::SeqCst) & HOLDS != 0;
        let taken = cell.gate.close();
        let mut backlog = Backlog::EMPTY;
        // SAFETY: the chain comes straight from the gate.
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
