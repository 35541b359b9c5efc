//! A minimal process table for the models, around the real source files: the thread that wakes a process runs it, and a
//! process only receives.

#![expect(unsafe_code, reason = "a table of raw pointers; loom checks every access")]
#![expect(clippy::unused_self, reason = "the same signatures as the real functions")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

use crate::exit::ExitReason;
use crate::gate::Push;
use crate::header::{HAS_SIDE_TABLE, ProcessHeader};
use crate::message::Message;
use crate::pid::Pid;
use crate::queue::{Backlog, Envelope, NodePool, SharedNodePool};
use crate::registry::SideTables;
use crate::send::SendOutcome;
use crate::side_table::SideTable;
use crate::signal::{Down, Exit, MonitorRef, ReferenceAllocator};
use crate::sync::atomic::Ordering;
use crate::sync::{InjectedFault, has};

/// Stand-in for the schedulers.
pub(crate) mod scheduler {
    use super::{Arc, Cell, Envelope, NodePool, Pid, RuntimeShared, Slot};

    /// State of a scheduler; no thread of a model is one.
    pub(crate) struct Local {
        pub(crate) shared: Arc<RuntimeShared>,
        pub(crate) nodes: NodePool,
        pub(crate) last_reference: Cell<u64>,
    }

    impl Local {
        pub(crate) fn enqueue(&self, slot: Slot, _: bool) {
            slot.run();
        }

        pub(crate) fn hand_off(&self, _: Pid, envelope: Envelope) -> Result<(), Envelope> {
            Err(envelope)
        }

        pub(crate) fn introduce(&self, _: Pid) {}

        #[expect(clippy::unused_self, reason = "has the signature of the scheduler's function")]
        pub(crate) fn running_pid(&self) -> Option<Pid> {
            None
        }
    }

    pub(crate) fn local<'a>() -> Option<&'a Local> {
        None
    }

    /// Stand-in for the hooks of traces; no model has one.
    pub(crate) mod traced {
        use super::super::{Envelope, Pid, RuntimeShared, Slot};
        use super::Local;

        pub(crate) fn is_on(_: &RuntimeShared, _: Option<&Local>) -> bool {
            false
        }

        pub(crate) struct SendEvents;

        pub(crate) const fn note_send(_: &RuntimeShared, _: Option<&Local>, _: Pid, _: &Envelope) -> SendEvents {
            SendEvents
        }

        pub(crate) fn note_forced(_: Slot, _: &Envelope) {}

        pub(crate) fn note_full(_: &RuntimeShared, _: SendEvents) {}
    }

    /// Runs the process instead of putting it into a run queue.
    pub(crate) fn enqueue(slot: Slot, _: bool) {
        slot.run();
    }
}

/// Stand-in for the process table.
pub(crate) mod table {
    pub(crate) use super::Slot;
}

/// Stand-in for the memberships of processes in groups.
pub(crate) mod memberships {
    #[derive(Default)]
    pub(crate) struct Memberships;

    impl Memberships {
        pub(crate) fn len(&self) -> usize {
            0
        }
    }
}

/// Stand-in for the information that bodies provide; no body provides any here.
pub(crate) mod body_info {
    pub(crate) enum BodyFact {}

    pub(crate) trait BodyInfo: Send + Sync {
        fn kind(&self) -> &'static str;
        fn source(&self) -> Option<std::sync::Arc<str>>;
        fn facts(&self) -> Vec<(&'static str, BodyFact)>;
    }
}

/// Stand-in for the kinds of processes; no model sums over them.
pub(crate) mod kinds {
    use super::Arc;
    use super::body_info::BodyInfo;

    pub(crate) enum ProcessKind {}

    impl ProcessKind {
        pub(crate) fn of(_: Option<Arc<str>>, _: Option<&dyn BodyInfo>) -> Option<Self> {
            None
        }
    }
}

/// Stand-in for the state of the runtime.
pub(crate) mod shared {
    pub(crate) use super::RuntimeShared;
}

/// A slot: its process counters, its side-table entry and the state of the model.
pub(crate) struct ModelSlot {
    number: u32,
    header: ProcessHeader,
    side_table: loom::cell::UnsafeCell<Option<Box<SideTable>>>,
    /// Accessed only by the thread that runs the process.
    own: loom::cell::UnsafeCell<Own>,
    shared: Cell<*const RuntimeShared>,
}

#[derive(Default)]
struct Own {
    runs: u32,
}

/// A slot of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(*const ModelSlot);

// SAFETY: the pointee lives as long as its table, and loom checks every access to it.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

pub(crate) struct ProcessTable(Box<[ModelSlot]>);

impl ProcessTable {
    pub(crate) fn slot(&self, pid: Pid) -> Option<Slot> {
        self.0.get(pid.slot() as usize).map(|place| Slot(place))
    }
}

/// State shared by all threads.
pub(crate) struct RuntimeShared {
    pub(crate) table: ProcessTable,
    pub(crate) references: ReferenceAllocator,
    pub(crate) side_tables: SideTables,
    pub(crate) nodes: SharedNodePool,
    /// Received messages and their receivers.
    pub(crate) received: Mutex<Vec<(Pid, Received)>>,
    /// Ended processes and their exit reasons.
    pub(crate) ended: Mutex<Vec<(Pid, ExitReason)>>,
    /// Number of messages left in the mailboxes of ended processes.
    left_over: AtomicUsize,
}

// SAFETY: the only part that is not `Sync` is written before any thread is started.
unsafe impl Send for RuntimeShared {}
// SAFETY: as above.
unsafe impl Sync for RuntimeShared {}

/// A message that a process received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Exit(Exit),
    Down(Down),
    Word(u32),
}

/// The models have one node, so none of these is called.
#[expect(clippy::unused_self, reason = "these have the signatures of the runtime's functions")]
impl RuntimeShared {
    pub(crate) fn link_remote(&self, _: Pid, _: Pid) {}

    pub(crate) fn unlink_remote(&self, _: Pid, _: Pid) {}

    pub(crate) fn link_exit_remote(&self, _: Pid, _: Pid, _: &ExitReason) {}

    pub(crate) fn monitor_remote(&self, _: Pid, _: MonitorRef, _: Pid) {}

    pub(crate) fn demonitor_remote(&self, _: Pid, _: MonitorRef) {}

    pub(crate) fn down_remote(&self, _: Pid, _: MonitorRef, _: Pid, _: &ExitReason) {}

    pub(crate) fn exit_remote(&self, _: Option<Pid>, _: Pid, _: &ExitReason) {}
}

impl RuntimeShared {
    /// Nobody watches processes in the models.
    #[expect(clippy::unused_self, reason = "has the signature of the runtime's function")]
    pub(crate) fn note_send(&self, _: Slot, _: Pid, _: Option<Pid>) {}

    /// The models have one node.
    #[expect(clippy::unused_self, reason = "has the signature of the runtime's function")]
    pub(crate) fn push_remote(&self, _: Option<&scheduler::Local>, _: Pid, envelope: Envelope) -> SendOutcome {
        SendOutcome::NoProcess(envelope)
    }

    #[expect(clippy::unused_self, reason = "has the signature of the runtime's function")]
    pub(crate) fn wait_for_remote_room(
        &self,
        _: Option<&scheduler::Local>,
        _: Pid,
        _: Envelope,
        _: &std::task::Waker,
    ) -> Option<Envelope> {
        None
    }

    /// Creates a table with this number of free slots.
    pub(crate) fn with_slots(slots: u32) -> Arc<Self> {
        let place = |number| ModelSlot {
            number,
            header: ProcessHeader::free(),
            side_table: loom::cell::UnsafeCell::new(None),
            own: loom::cell::UnsafeCell::default(),
            shared: Cell::new(std::ptr::null()),
        };
        let shared = Arc::new(Self {
            table: ProcessTable((0..slots).map(place).collect()),
            references: ReferenceAllocator::default(),
            side_tables: SideTables::default(),
            nodes: SharedNodePool::new(),
            received: Mutex::default(),
            ended: Mutex::default(),
            left_over: AtomicUsize::new(0),
        });
        for place in &shared.table.0 {
            place.shared.set(Arc::as_ptr(&shared));
        }
        shared
    }

    pub(crate) fn free_slot(&self, number: u32) -> Slot {
        Slot(&raw const self.table.0[number as usize])
    }

    pub(crate) fn slot_of(&self, pid: Pid) -> Slot {
        self.table.slot(pid).unwrap()
    }

    pub(crate) fn has_room(&self, _: &ProcessHeader, _: u32, _: u32) -> bool {
        true
    }

    pub(crate) fn is_below_low_watermark(&self, _: &ProcessHeader, _: u32) -> bool {
        true
    }

    pub(crate) fn charge_mail(&self, _: Option<&scheduler::Local>, _: u32) {}

    /// No process of the models sends to itself.
    pub(crate) fn request_own_room(&self, _: Slot, _: Pid) -> Option<Push> {
        None
    }

    pub(crate) fn wait_for_budget(&self, _: Pid) {}

    pub(crate) fn is_alive(&self, _: Pid) -> bool {
        true
    }

    pub(crate) fn wake_waiting_senders(slot: Slot, pid: Pid) {
        SideTables::take_waiting_senders(slot, pid).into_iter().for_each(std::task::Waker::wake);
    }

    pub(crate) fn left_over(&self) -> usize {
        self.left_over.load(Ordering::Relaxed)
    }

    /// Returns everything that a process has received.
    pub(crate) fn received_by(&self, pid: Pid) -> Vec<Received> {
        self.received
            .lock()
            .iter()
            .filter(|received_by| received_by.0 == pid)
            .map(|received_by| received_by.1.clone())
            .collect()
    }

    /// Returns the exit reasons recorded for a pid.
    pub(crate) fn ends(&self, pid: Pid) -> Vec<ExitReason> {
        self.ended.lock().iter().filter(|end| end.0 == pid).map(|end| end.1.clone()).collect()
    }

    /// Ends a process with a reason, unless another thread runs it just now. Returns true if it was ended.
    pub(crate) fn end_of(&self, pid: Pid, reason: &ExitReason) -> bool {
        let slot = self.slot_of(pid);
        let wakes = slot.header().gate.wake();
        if wakes {
            slot.run_to_end(reason);
        }
        wakes
    }
}

impl Slot {
    fn place(&self) -> &ModelSlot {
        // SAFETY: the table outlives its slots.
        unsafe { &*self.0 }
    }

    pub(crate) fn header(&self) -> &ProcessHeader {
        &self.place().header
    }

    pub(crate) fn shared(&self) -> &RuntimeShared {
        // SAFETY: the pointee owns this table, so it outlives the slot.
        unsafe { &*self.place().shared.get() }
    }

    pub(crate) fn pid(self) -> Pid {
        Pid::local(self.place().number, self.header().generation.load(Ordering::Relaxed))
    }

    /// Loom checks the access here instead of where the pointer is used. The result is the same, because the lock is
    /// held around both.
    pub(crate) fn side_table_ptr(self) -> *mut Option<Box<SideTable>> {
        self.place().side_table.with_mut(|side_table| side_table)
    }

    /// Creates a process that has a side-table entry from the start, like one that is linked to its parent.
    pub(crate) fn activate_linked(self) -> Pid {
        let pid = self.pid();
        // SAFETY: the caller has a free slot; loom checks it.
        self.place().side_table.with_mut(|side_table| unsafe { *side_table = Some(Box::default()) });
        self.header().activate(HAS_SIDE_TABLE, 0, 8, 0);
        pid
    }

    /// Creates a process that is scheduled; the caller runs it.
    pub(crate) fn activate(self) -> Pid {
        let pid = self.pid();
        // SAFETY: the caller has a free slot; loom checks it.
        self.place().side_table.with_mut(|side_table| unsafe { *side_table = None });
        if has(InjectedFault::OpensTooEarly) {
            self.header().gate.open();
            loom::thread::yield_now();
        }
        self.header().activate(0, 0, 8, 0);
        pid
    }

    /// Takes and handles the pending messages; returns the reason of an exit signal that must be obeyed.
    fn begin(self) -> Option<ExitReason> {
        let taken = self.header().gate.begin_run();
        self.take_arrivals(taken)
    }

    fn take_arrivals(self, taken: crate::gate::Arrivals) -> Option<ExitReason> {
        // SAFETY: only the thread that runs the process gets here; loom checks it.
        self.place().own.with_mut(|own| unsafe { (*own).runs += 1 });
        let pid = self.pid();
        let mut backlog = Backlog::EMPTY;
        // SAFETY: the chain comes directly from the gate.
        unsafe { backlog.append(taken.newest(), own_generation(taken.newest(), pid)) };
        while let Some(envelope) = backlog.pop() {
            let received_by = received_by(envelope.into_message());
            self.shared().received.lock().push((pid, received_by));
        }
        if taken.signal() && !has(InjectedFault::SignalsAreForgotten) {
            SideTables::take_exit_signal(self, pid).map(|signal| signal.reason)
        } else {
            None
        }
    }

    /// Runs the process, which ends with `reason` unless an exit signal has another one.
    pub(crate) fn run_to_end(self, reason: &ExitReason) {
        let told = self.begin();
        self.end(told.as_ref().unwrap_or(reason));
    }

    /// Takes the messages that arrived while the process was running.
    pub(crate) fn take_all(self) {
        if let Some(taken) = self.header().gate.absorb() {
            assert_eq!(self.take_arrivals(taken), None, "no exit signal was sent");
        }
    }

    /// Runs the process until it is idle.
    pub(crate) fn run(self) {
        self.run_with(|_| ());
    }

    /// Runs the process until it is idle; its first poll executes `action` and returns the result.
    pub(crate) fn run_with<T>(self, action: impl FnOnce(Self) -> T) -> Option<T> {
        let mut action = Some(action);
        let mut done = None;
        loop {
            if let Some(reason) = self.begin() {
                self.end(&reason);
                return done;
            }
            if let Some(action) = action.take() {
                done = Some(action(self));
            }
            let mut woken = false;
            if let Some(taken) = self.header().gate.absorb() {
                woken = taken.woken();
                if let Some(reason) = self.take_arrivals(taken) {
                    self.end(&reason);
                    return done;
                }
            }
            if !self.header().gate.end_run(false, woken) {
                return done;
            }
        }
    }

    /// Ends the process, in the same order of steps as `scheduler/reap.rs`.
    fn end(self, reason: &ExitReason) {
        let (header, shared, pid) = (self.header(), self.shared(), self.pid());
        // SAFETY: only the thread that runs the process gets here; loom checks it.
        self.place().own.with_mut(|own| unsafe { (*own).runs += 1 });
        let early = header.flags.load(Ordering::SeqCst) & HAS_SIDE_TABLE != 0;
        let taken = header.gate.close();
        let mut backlog = Backlog::EMPTY;
        // SAFETY: the chain comes directly from the gate.
        unsafe { backlog.append(taken.newest(), pid.generation()) };
        while backlog.pop().is_some() {
            shared.left_over.fetch_add(1, Ordering::Relaxed);
        }
        let (next, mut holds) = header.retire(pid.generation());
        if has(InjectedFault::LooksTooEarly) {
            holds = early;
        }
        if has(InjectedFault::NoGenerations) {
            header.generation.store(next - 1, Ordering::SeqCst);
        }
        let released = if holds { shared.side_tables.release(self, pid) } else { None };
        shared.ended.lock().push((pid, reason.clone()));
        if let Some(mut released) = released {
            shared.propagate_exit(pid, &mut released.side_table, reason);
            for watcher in released.rare.map(|rare| rare.watchers).unwrap_or_default() {
                drop(watcher.send(reason.clone()));
            }
        }
    }
}

fn own_generation(newest: u64, pid: Pid) -> u32 {
    if has(InjectedFault::StrangersAreLetIn) && newest != 0 { pid.generation() - 1 } else { pid.generation() }
}

fn received_by(message: Message) -> Received {
    let message = match message.downcast::<Exit>() {
        Ok(exit) => return Received::Exit(exit),
        Err(message) => message,
    };
    match message.downcast::<Down>() {
        Ok(down) => Received::Down(down),
        Err(message) => Received::Word(message.downcast().unwrap()),
    }
}
