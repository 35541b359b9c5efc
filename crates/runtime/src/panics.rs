//! Panics of processes: caught, quiet, and kept with their message and place.
//!
//! The standard library tells the place of a panic only to the process-wide hook, so the first runtime installs one. It
//! keeps the place of panics on scheduler threads for the exit reason and passes every other panic on to the hook that
//! was there before. A panic that ends the program, as one in a destructor while another unwinds, is passed on as well.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};
use std::task::Waker;

use crate::exit::{ExitReason, PanicInfo};
use crate::scheduler;

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Panics of this thread are caught by code that reports them in its own way.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs code with another setting for this thread, and puts the old one back, also when the code panics.
#[cfg(feature = "store")]
fn with_quiet<T>(is_quiet: bool, code: impl FnOnce() -> T) -> T {
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            IS_QUIET.set(self.0);
        }
    }

    let _restore = Restore(IS_QUIET.replace(is_quiet));
    code()
}

/// Runs code whose panics the caller catches and reports itself: the panic hook does not print them.
#[cfg(feature = "store")]
pub(crate) fn quietly<T>(code: impl FnOnce() -> T) -> T {
    with_quiet(true, code)
}

/// Runs code of the program within [`quietly`]: its panics are printed as always.
#[cfg(feature = "store")]
pub(crate) fn aloud<T>(code: impl FnOnce() -> T) -> T {
    with_quiet(false, code)
}

/// What the standard library says of panics after which it aborts.
const ABORTS: [&str; 2] = ["panic in a destructor during cleanup", "panic in a function that cannot unwind"];

/// Installs the hook, once.
pub(crate) fn install() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if IS_QUIET.get() {
                PLACE.set(info.location().map(ToString::to_string));
            } else if scheduler::local().is_none_or(|local| local.running().is_none()) {
                before(info);
            } else if info.payload_as_str().is_some_and(|text| ABORTS.contains(&text)) {
                // No reason will tell of it: this is the program's last word.
                let place = PLACE.take().unwrap_or_default();
                drop(writeln!(std::io::stderr(), "a process panicked last at {place}"));
                before(info);
            } else {
                PLACE.set(info.location().map(ToString::to_string));
            }
        }));
    });
}

/// The exit reason for a caught panic of this thread.
#[cold]
pub(crate) fn reason(payload: Box<dyn Any + Send>) -> ExitReason {
    let message = match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            if let Some(text) = payload.downcast_ref::<&'static str>() {
                (*text).to_owned()
            } else {
                discard(payload);
                "a value that is no text".to_owned()
            }
        }
    };
    let location = PLACE.with(|place| place.borrow_mut().take());
    ExitReason::Panic(Arc::new(PanicInfo { message, location }))
}

/// Runs code of a process that must not take the scheduler down with it.
///
/// A panic of it is nobody's exit reason, and leaves the place of one that this thread is about to report.
pub(crate) fn contain(code: impl FnOnce()) {
    let place = PLACE.take();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        tell(payload);
    }
    PLACE.set(place);
}

/// Wakes somebody whose waker may be of an executor that is not ours: a panic of it is not the caller's, and those that are to
/// be woken after it are.
#[inline]
pub(crate) fn wake(waker: Waker) {
    if std::thread::panicking() {
        contain(|| waker.wake());
    } else if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        tell(payload);
    }
}

/// A panic that is nobody's exit reason.
#[cold]
fn tell(payload: Box<dyn Any + Send>) {
    let reason = reason(payload);
    tracing::debug!(%reason, "a panic outside of the body of a process");
}

/// Drops the payload of a panic, unless its drop could panic again.
fn discard(payload: Box<dyn Any + Send>) {
    if payload.is::<String>() || payload.is::<&'static str>() {
        drop(payload);
    } else if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // This could go on without end; forgetting it leaks a few bytes of a broken program.
        std::mem::forget(again);
    }
}
