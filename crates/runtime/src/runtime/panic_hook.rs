//! The program-wide panic hook, which the first runtime installs.
//!
//! The hook keeps the location of panics on scheduler threads for the exit reason, and passes every other panic to the
//! previous hook. It also passes on a panic that aborts the program, for example one in a destructor during unwinding.
//! A previous hook of the program, for example one that reports panics to a service, gets the panics of processes too.

use std::io::Write;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

use crate::runtime::panics;
use crate::scheduler;

/// Messages of panics after which the standard library aborts.
const ABORTS: [&str; 2] = ["panic in a destructor during cleanup", "panic in a function that cannot unwind"];

/// Installs the panic hook once.
pub fn install() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        // The default hook would print each panic of a process in addition to the log of crashes.
        let own = !is_default(before.as_ref());
        set_hook(Box::new(move |info| {
            if panics::is_silenced() {
                panics::keep_location(info);
            } else if panics::is_of_process() {
                panics::keep_location(info);
                if own {
                    before(info);
                }
            } else if scheduler::local().is_none_or(|local| local.running().is_none()) {
                before(info);
            } else if info.payload_as_str().is_some_and(|text| ABORTS.contains(&text)) {
                // The program aborts, so no exit reason will report the location: print it now.
                let location = panics::take_location().unwrap_or_default();
                drop(writeln!(std::io::stderr(), "last panic of a process: {location}"));
                before(info);
            } else {
                panics::keep_location(info);
                if keep_backtrace(info) && own {
                    before(info);
                }
            }
        }));
    });
}

/// Returns true if a hook is that of the standard library.
///
/// That hook is a function without state, so two boxes of it have the same address and the same table of methods.
fn is_default(hook: &(dyn Fn(&PanicHookInfo<'_>) + Sync + Send)) -> bool {
    let default = take_hook();
    std::ptr::eq(hook, default.as_ref())
}

/// Keeps the backtrace of the first panic at a location, for observers. Its frames are resolved only when it is read.
/// Returns true if the program's hook is due for this location: a storm of panics reaches it once in a second.
#[cold]
fn keep_backtrace(info: &PanicHookInfo<'_>) -> bool {
    let (Some(local), Some(location)) = (scheduler::local(), info.location()) else { return true };
    let shared = &local.shared;
    let capture = std::backtrace::Backtrace::force_capture;
    shared.causes.keep_backtrace(&location.to_string(), shared.started.elapsed(), capture)
}
