//! The body of a process, with its future: inside the control block if it is small, boxed otherwise.

#![expect(unsafe_code, reason = "erases the future's type; each block says what the storage contains")]

use std::any::type_name;
use std::cell::{Cell, UnsafeCell};
use std::future::Future;
use std::mem::{MaybeUninit, align_of, size_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, Ordering};
use std::task::{Context as TaskContext, Poll};

use crate::mailbox::queue::Backlog;
use crate::process::exit::{ExitReason, Outcome};
use crate::process::side_table::SideTable;

/// Number of words for a future inside of the control block.
pub(crate) const INLINE_FUTURE_WORDS: usize = 18;

/// The part of a control block that only the running owner accesses, unless a field says otherwise.
#[repr(C, align(64))]
pub(crate) struct Body {
    pub(crate) backlog: Cell<Backlog>,
    /// Always points to a static. Atomic because observers read it.
    pub(crate) vtable: AtomicPtr<TaskVtable>,
    /// Number of messages that were received before an older one. Together with the number of all that were received, it
    /// tells whether the oldest message is still the same.
    pub(crate) overtakes: Cell<u32>,
    /// Senders wait for room in the mailbox.
    pub(crate) backpressured: Cell<bool>,
    /// The process is in a run queue with `RUNNING` at its gate; see
    /// [`Gate::begin_handoff`](crate::mailbox::gate::Gate::begin_handoff).
    pub(crate) handed_off: Cell<bool>,
    /// When its wait beside messages was last noted; see [`unreceived`](crate::mailbox::unreceived). Atomic because the
    /// watchdog writes it.
    pub(crate) noted_at: AtomicU16,
    /// Slot of the process that spawned this one, readable by all threads; 0 if it was not spawned by a process.
    pub(crate) parent: AtomicU32,
    pub(crate) parent_generation: AtomicU32,
    /// Side table of the process, guarded by [`ProcessHeader::lock`](crate::process::header::ProcessHeader::lock).
    pub(crate) side_table: UnsafeCell<Option<Box<SideTable>>>,
    pub(crate) future: UnsafeCell<[MaybeUninit<u64>; INLINE_FUTURE_WORDS]>,
}

/// Result of a finished process: `None` is a normal exit.
pub(crate) type Exit = Option<Box<ExitReason>>;

/// Functions and properties of a type-erased future.
pub(crate) struct TaskVtable {
    poll: unsafe fn(*mut u64, &mut TaskContext<'_>) -> Poll<Exit>,
    drop: unsafe fn(*mut u64),
    pub(crate) name: fn() -> &'static str,
    /// Bytes of the future's box, including the allocator's overhead; 0 if the future is inline.
    pub(crate) heap_bytes: u32,
}

impl TaskVtable {
    /// No future: finished when polled, with nothing to drop.
    pub(crate) const NONE: &'static Self =
        &Self { poll: |_, _| Poll::Ready(None), drop: |_| {}, name: || "", heap_bytes: 0 };
}

struct VtableOf<F>(F);

impl<F: Future<Output: Outcome> + Send + 'static> VtableOf<F> {
    const INLINE: bool = size_of::<F>() <= INLINE_FUTURE_WORDS * 8 && align_of::<F>() <= align_of::<u64>();

    const VTABLE: &'static TaskVtable = &TaskVtable {
        poll: Self::poll,
        drop: Self::drop,
        name: type_name::<F>,
        heap_bytes: if Self::INLINE { 0 } else { (size_of::<F>() + 8).next_multiple_of(16) as u32 },
    };

    unsafe fn future<'a>(storage: *mut u64) -> Pin<&'a mut F> {
        // SAFETY: the caller passes storage that contains this future, inline or boxed, and it stays there until
        // dropped.
        unsafe {
            let future = if Self::INLINE { storage.cast::<F>() } else { storage.cast::<*mut F>().read() };
            Pin::new_unchecked(&mut *future)
        }
    }

    unsafe fn poll(storage: *mut u64, cx: &mut TaskContext<'_>) -> Poll<Exit> {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::future(storage) }.poll(cx).map(Outcome::into_exit)
    }

    unsafe fn drop(storage: *mut u64) {
        // SAFETY: guaranteed by the caller; the storage is not used afterwards.
        unsafe {
            if Self::INLINE {
                storage.cast::<F>().drop_in_place();
            } else {
                drop(Box::from_raw(storage.cast::<*mut F>().read()));
            }
        }
    }
}

/// Result of a poll.
pub(crate) enum Polled {
    Pending,
    Finished(Exit),
    Panicked(Box<dyn std::any::Any + Send>),
}

impl Body {
    /// Puts the future into an empty body. Returns its properties.
    #[inline]
    pub(crate) fn install<F: Future<Output: Outcome> + Send + 'static>(&self, future: F) -> &'static TaskVtable {
        let storage = self.future.get().cast::<u64>();
        // SAFETY: an inline future fits; the caller owns a body without a future.
        unsafe {
            if VtableOf::<F>::INLINE {
                storage.cast::<F>().write(future);
            } else {
                storage.cast::<*mut F>().write(Box::into_raw(Box::new(future)));
            }
        }
        self.vtable.store(ptr::from_ref(VtableOf::<F>::VTABLE).cast_mut(), Ordering::Relaxed);
        VtableOf::<F>::VTABLE
    }

    #[inline]
    fn vtable(&self) -> &'static TaskVtable {
        // SAFETY: the pointer always refers to a static.
        unsafe { &*self.vtable.load(Ordering::Relaxed) }
    }

    /// Polls the future and catches a panic.
    ///
    /// # Safety
    /// The caller runs the process, and the future has neither finished nor been dropped.
    #[inline]
    pub(crate) unsafe fn poll(&self, cx: &mut TaskContext<'_>) -> Polled {
        let storage = self.future.get().cast::<u64>();
        let vtable = self.vtable();
        // SAFETY: guaranteed by the caller.
        match catch_unwind(AssertUnwindSafe(|| unsafe { (vtable.poll)(storage, cx) })) {
            Ok(Poll::Pending) => Polled::Pending,
            Ok(Poll::Ready(exit)) => Polled::Finished(exit),
            Err(payload) => Polled::Panicked(payload),
        }
    }

    /// Drops the future. Returns the payload if that panics; the rest of the future is then leaked.
    ///
    /// # Safety
    /// The caller runs the process, and the future has not been dropped.
    #[inline]
    pub(crate) unsafe fn drop_future(&self) -> Result<(), Box<dyn std::any::Any + Send>> {
        let storage = self.future.get().cast::<u64>();
        let vtable = self.vtable();
        // SAFETY: guaranteed by the caller.
        catch_unwind(AssertUnwindSafe(|| unsafe { (vtable.drop)(storage) }))
    }
}
