//! Panics of processes: caught, not printed, and kept with their message and location.
//!
//! The standard library reports the location of a panic only to the program-wide hook, so the first runtime installs
//! one. The hook keeps the location of panics on scheduler threads for the exit reason, and passes every other panic to
//! the previous hook. It also passes on a panic that aborts the program, for example one in a destructor during
//! unwinding.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};
use std::task::Waker;

use crate::process::exit::{ExitReason, PanicInfo};
use crate::scheduler;

thread_local! {
    static LAST_PANIC_LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
    /// True if panics of this thread are caught by code that reports them itself.
    static IS_SILENCED: Cell<bool> = const { Cell::new(false) };
}

/// Runs code with another setting for this thread, and restores the previous one even if the code panics.
fn with_silenced<T>(is_silenced: bool, code: impl FnOnce() -> T) -> T {
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            IS_SILENCED.set(self.0);
        }
    }

    let _restore = Restore(IS_SILENCED.replace(is_silenced));
    code()
}

/// Runs code without printing its panics: the caller catches and reports them itself.
pub fn silence_panics<T>(code: impl FnOnce() -> T) -> T {
    with_silenced(true, code)
}

/// Runs code of the program within [`silence_panics`] and prints its panics as usual.
pub fn print_panics<T>(code: impl FnOnce() -> T) -> T {
    with_silenced(false, code)
}

/// Messages of panics after which the standard library aborts.
const ABORTS: [&str; 2] = ["panic in a destructor during cleanup", "panic in a function that cannot unwind"];

/// Installs the panic hook once.
pub fn install() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if IS_SILENCED.get() {
                LAST_PANIC_LOCATION.set(info.location().map(ToString::to_string));
            } else if scheduler::local().is_none_or(|local| local.running().is_none()) {
                before(info);
            } else if info.payload_as_str().is_some_and(|text| ABORTS.contains(&text)) {
                // The program aborts, so no exit reason will report the location: print it now.
                let location = LAST_PANIC_LOCATION.take().unwrap_or_default();
                drop(writeln!(std::io::stderr(), "last panic of a process: {location}"));
                before(info);
            } else {
                LAST_PANIC_LOCATION.set(info.location().map(ToString::to_string));
            }
        }));
    });
}

/// Returns the exit reason for a caught panic of this thread.
#[cold]
pub fn reason(payload: Box<dyn Any + Send>) -> ExitReason {
    let message = match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            if let Some(text) = payload.downcast_ref::<&'static str>() {
                (*text).to_owned()
            } else {
                discard(payload);
                "a value that is not text".to_owned()
            }
        }
    };
    let location = LAST_PANIC_LOCATION.with(|location| location.borrow_mut().take());
    ExitReason::Panic(Arc::new(PanicInfo { message, location }))
}

/// Runs code of a process and catches its panics, so that they do not end the scheduler.
///
/// Such a panic is only logged. It does not overwrite the location of a panic that this thread is about to report.
pub(crate) fn contain(code: impl FnOnce()) {
    let location = LAST_PANIC_LOCATION.take();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        log_panic(payload);
    }
    LAST_PANIC_LOCATION.set(location);
}

/// Wakes a waker that may belong to another executor. A panic in it does not reach the caller, which can wake further
/// wakers.
#[inline]
pub fn wake(waker: Waker) {
    if std::thread::panicking() {
        contain(|| waker.wake());
    } else if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        log_panic(payload);
    }
}

/// Logs a panic that is not the exit reason of a process.
#[cold]
fn log_panic(payload: Box<dyn Any + Send>) {
    let reason = reason(payload);
    tracing::debug!(%reason, "a panic outside of the body of a process");
}

/// Drops the payload of a panic, and catches a panic of that drop.
fn discard(payload: Box<dyn Any + Send>) {
    if payload.is::<String>() || payload.is::<&'static str>() {
        drop(payload);
    } else if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // Dropping `again` could panic without end; forgetting it leaks a few bytes in a broken program.
        std::mem::forget(again);
    }
}
