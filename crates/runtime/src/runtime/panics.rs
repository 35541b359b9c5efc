//! Panics of processes: caught, not printed, and kept with their message and location.
//!
//! The standard library reports the location of a panic only to the program-wide hook; `panic_hook.rs` installs one and
//! keeps the location here for the code that catches the panic.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::task::Waker;

use rusm_text::escaped;
use tracing::dispatcher;
use tracing::subscriber::NoSubscriber;

use crate::time::line_budget::LineBudget;

/// The lines about panics outside of the body of a process, of all runtimes of the program.
pub(crate) static PANIC_LINES: LineBudget = LineBudget::new();

thread_local! {
    static LAST_PANIC_LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
    /// True if panics of this thread are caught by code that reports them itself.
    static IS_SILENCED: Cell<bool> = const { Cell::new(false) };
    /// True while this thread runs code of a process that another thread runs.
    static IS_OF_PROCESS: Cell<bool> = const { Cell::new(false) };
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

/// Runs code that may panic as one of its answers: `None` then. The panic is not printed, and leaves no location.
pub(crate) fn without_panic<T>(code: impl FnOnce() -> T) -> Option<T> {
    let location = take_location();
    let outcome = silence_panics(|| catch_unwind(AssertUnwindSafe(code))).ok();
    set_location(location);
    outcome
}

/// Runs code of a process on another thread. Its panics are reported as those of the process.
pub(crate) fn of_process<T>(code: impl FnOnce() -> T) -> T {
    IS_OF_PROCESS.set(true);
    let value = code();
    IS_OF_PROCESS.set(false);
    value
}

/// Returns true within [`of_process`].
pub(crate) fn is_of_process() -> bool {
    IS_OF_PROCESS.get()
}

/// Sets the location of the panic that this thread reports next, and returns the one before; `None` while the thread ends.
pub(crate) fn set_location(location: Option<String>) -> Option<String> {
    LAST_PANIC_LOCATION.try_with(|last| last.replace(location)).ok().flatten()
}

/// Runs code of the program within [`silence_panics`] and prints its panics as usual.
pub fn print_panics<T>(code: impl FnOnce() -> T) -> T {
    with_silenced(false, code)
}

/// Returns true if the caller of this code catches and reports its panics.
pub(crate) fn is_silenced() -> bool {
    IS_SILENCED.get()
}

/// Keeps the location of a panic for the code that catches it.
pub(crate) fn keep_location(info: &PanicHookInfo<'_>) {
    set_location(info.location().map(ToString::to_string));
}

/// Takes the location of the last panic of this thread.
pub(crate) fn take_location() -> Option<String> {
    set_location(None)
}

/// Message and location of a panic.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// let ended = runtime.block_on(|ctx| async move { ctx.task(|_ctx| async { panic!("no disk") })?.await });
/// let Err(ExitReason::Panic(panic)) = ended.map(|()| ()) else { unreachable!("it panics") };
/// assert_eq!(panic.message, "no disk");
/// assert!(panic.location.as_deref().is_some_and(|place| place.contains(':')));
/// # Ok::<(), ExitReason>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicInfo {
    /// Message of the panic.
    pub message: String,
    /// Location as `file:line:column`, if known.
    pub location: Option<String>,
}

/// Maximum number of bytes of a panic's message that are displayed.
const TEXT_MAX_BYTES: usize = 4096;

impl PanicInfo {
    /// Returns message and location of a caught panic of this thread.
    #[cold]
    pub(crate) fn of(payload: Box<dyn Any + Send>) -> Self {
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
        Self { message, location: take_location() }
    }

    /// Writes one line, with message and location escaped and truncated.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = escaped(&self.message).within(TEXT_MAX_BYTES);
        match &self.location {
            Some(location) => write!(f, "panic at {}: {message}", escaped(location).within(TEXT_MAX_BYTES)),
            None => write!(f, "panic: {message}"),
        }
    }
}

/// Runs code of a process and catches its panics, so that they do not end the scheduler.
///
/// Such a panic is only logged, up to 32 in a second. It does not overwrite the location of a panic that
/// this thread is about to report.
pub(crate) fn contain(code: impl FnOnce()) {
    let location = take_location();
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        log_panic(payload);
    }
    set_location(location);
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

/// Logs a caught panic of blocking code after the end of its process.
pub(crate) fn report(payload: Box<dyn Any + Send>, location: Option<String>) {
    let before = set_location(location);
    log_panic(payload);
    set_location(before);
}

/// Logs a panic that is not the exit reason of a process.
#[cold]
fn log_panic(payload: Box<dyn Any + Send>) {
    let info = PanicInfo::of(payload);
    let Some(skipped) = PANIC_LINES.take() else { return };
    // The subscriber may be what panics.
    let log = || {
        let reason = fmt::from_fn(|f| info.write(f));
        if has_subscriber() {
            let not_logged = (skipped > 0).then_some(skipped);
            tracing::error!(%reason, not_logged, "a panic outside of the body of a process");
        } else {
            let before = if skipped > 0 { format!("; {skipped} more before it") } else { String::new() };
            drop(writeln!(std::io::stderr(), "a panic outside of the body of a process: {reason}{before}"));
        }
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(log)) {
        discard(again);
    }
}

/// Returns true if the events of this thread reach a subscriber. A subscriber of another thread or of a scope does not get them.
pub(crate) fn has_subscriber() -> bool {
    dispatcher::has_been_set() && dispatcher::get_default(|current| !current.is::<NoSubscriber>())
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
