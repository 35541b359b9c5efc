//! What links and monitors deliver: exit signals, the messages [`Exit`] and [`Down`], and references of monitors.

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::exit::ExitReason;
use crate::process::pid::Pid;

/// An exit signal, as a message to a process that traps exits.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::{Exit, ExitReason};
///
/// runtime.block_on(|ctx| async move {
///     ctx.trap_exits(true);
///     let child = ctx.spawn_link(|_| async { ExitReason::Shutdown }).expect("there is room for a process");
///     assert_eq!(ctx.receive_of::<Exit>().await, Exit { from: child, reason: ExitReason::Shutdown });
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process that ended or sent the signal; [`Pid::NONE`] if code outside of processes sent it.
    pub from: Pid,
    /// The exit reason.
    pub reason: ExitReason,
}

/// The end of a monitored process, as a message to the process that monitors it.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::{Down, ExitReason};
///
/// runtime.block_on(|ctx| async move {
///     let brief = ctx.spawn(|_| async {});
///     let reference = ctx.monitor(brief);
///     let down = ctx.receive_of::<Down>().await;
///     assert_eq!((down.pid, down.reference), (brief, reference));
///     assert!(matches!(down.reason, ExitReason::Normal | ExitReason::NoProcess));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// The reference returned by [`monitor`](crate::Context::monitor).
    pub reference: MonitorRef,
    /// The process that ended.
    pub pid: Pid,
    /// The exit reason; [`ExitReason::NoProcess`] if the process had ended before it was monitored.
    pub reason: ExitReason,
}

/// Message to a process whose request was dropped without a reply.
pub(crate) struct NoReply {
    pub(crate) reference: MonitorRef,
}

/// Reference to a monitor, unique in its runtime.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Down, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let short = ctx.spawn(|_| async {});
///     let reference = ctx.monitor(short);
///     assert_eq!(ctx.receive_of::<Down>().await.reference, reference);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MonitorRef(NonZeroU64);

impl MonitorRef {
    /// Returns the reference with this number, which may come from an untrusted source. No reference has the number 0.
    pub fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the number of the reference.
    pub const fn number(self) -> u64 {
        self.0.get()
    }

    /// Returns this reference, marked as that of a call: its process waits for a reply of the monitored process.
    pub(crate) const fn for_call(self) -> Self {
        match NonZeroU64::new(self.0.get() | CALL) {
            Some(number) => Self(number),
            None => self,
        }
    }

    /// Returns true if the reference is that of a call.
    pub(crate) const fn is_call(self) -> bool {
        self.0.get() & CALL != 0
    }

    /// Returns this reference, marked as that of a start: its process waits until the monitored process has started.
    pub(crate) const fn for_start(self) -> Self {
        match NonZeroU64::new(self.0.get() | CALL | START) {
            Some(number) => Self(number),
            None => self,
        }
    }

    /// Returns true if the reference is that of a start.
    pub(crate) const fn is_start(self) -> bool {
        self.0.get() & START != 0
    }
}

impl fmt::Debug for MonitorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#Ref<{}>", self.0)
    }
}

/// Marks references of calls. References are counted up from 1 and never get that far.
const CALL: u64 = 1 << 63;
/// Marks references of starts, which are calls, too.
const START: u64 = 1 << 62;

/// Size of the block of references that a scheduler takes at once. It does not use the first of them.
const REFERENCE_BLOCK: u64 = 1 << 16;

/// Allocates references that are never reused: schedulers use the numbers between two multiples of [`REFERENCE_BLOCK`],
/// other threads use the multiples.
#[derive(Default)]
pub(crate) struct ReferenceAllocator {
    taken: AtomicU64,
    outside: AtomicU64,
}

impl ReferenceAllocator {
    /// Initial `last_reference` of a scheduler: the end of a block, so that the next reference begins a new one.
    pub(crate) const USED_UP: u64 = REFERENCE_BLOCK - 1;

    /// Returns a reference; `last` is the last one of the scheduler of this thread, if it is one.
    pub(crate) fn next(&self, last: Option<&Cell<u64>>) -> MonitorRef {
        let Some(last) = last else {
            return Self::after((self.outside.fetch_add(1, Ordering::Relaxed) + 1) * REFERENCE_BLOCK - 1);
        };
        let mut before = last.get();
        if (before + 1).is_multiple_of(REFERENCE_BLOCK) {
            before = self.taken.fetch_add(REFERENCE_BLOCK, Ordering::Relaxed);
        }
        last.set(before + 1);
        Self::after(before)
    }

    fn after(number: u64) -> MonitorRef {
        MonitorRef(NonZeroU64::MIN.saturating_add(number))
    }
}

/// An untrapped exit signal that its process has not obeyed yet.
#[derive(Debug)]
pub(crate) struct ExitSignal {
    /// The link through which it came.
    pub(crate) link: Option<Pid>,
    /// The process that sent it, if that is known.
    pub(crate) from: Option<Pid>,
    pub(crate) reason: ExitReason,
}
