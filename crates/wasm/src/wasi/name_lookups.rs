//! Name lookups of guests: calls of the system that may block for a minute each, on a few threads of their own. On those
//! of the schedulers, a resolver that does not answer would keep files and the store waiting.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of threads, each with one lookup.
const THREADS: usize = 16;
/// Maximum number of lookups of all guests that wait for a thread.
const WAITING_MAX: usize = 64;
/// Maximum number of lookups of one guest that wait for a thread.
const WAITING_MAX_PER_GUEST: usize = 8;

/// Threads for the lookups of an engine's guests.
pub(crate) struct NameLookups {
    waiting: Arc<Semaphore>,
    /// Started by the first lookup; `None` if the system refuses more threads.
    threads: OnceLock<Option<Runtime>>,
}

/// Room for the lookups of one guest.
#[derive(Default)]
pub(crate) struct GuestLookups(OnceLock<Arc<Semaphore>>);

/// Leave to begin a lookup.
pub(crate) struct Leave<'a> {
    threads: &'a Runtime,
    places: Option<[OwnedSemaphorePermit; 2]>,
}

impl Default for NameLookups {
    fn default() -> Self {
        Self { waiting: Arc::new(Semaphore::new(WAITING_MAX)), threads: OnceLock::new() }
    }
}

impl NameLookups {
    /// Asks for a lookup. Returns `None` if too many wait.
    pub(crate) fn leave(&self, guest: &GuestLookups) -> Option<Leave<'_>> {
        let of_guest = guest.0.get_or_init(|| Arc::new(Semaphore::new(WAITING_MAX_PER_GUEST)));
        let places =
            [Arc::clone(of_guest).try_acquire_owned().ok()?, Arc::clone(&self.waiting).try_acquire_owned().ok()?];
        let start = || Builder::new_multi_thread().worker_threads(1).max_blocking_threads(THREADS).build().ok();
        let threads = self.threads.get_or_init(start).as_ref()?;
        Some(Leave { threads, places: Some(places) })
    }
}

impl Drop for NameLookups {
    fn drop(&mut self) {
        if let Some(Some(threads)) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl Leave<'_> {
    /// Runs `start`, which hands its lookup to the threads of the runtime that it is called in.
    pub(super) fn begin<T>(&mut self, start: impl FnOnce() -> T) -> T {
        let entered = self.threads.enter();
        let begun = start();
        drop(entered);
        if let Some(places) = self.places.take() {
            // Jobs begin in their order: this one when the lookup has a thread. Whether its guest still waits does not
            // matter, because a lookup cannot be cancelled.
            self.threads.spawn_blocking(move || drop(places));
        }
        begun
    }

    /// Like [`begin`](Self::begin), for a future that hands over its lookup when it is polled first.
    pub(crate) async fn run<F: Future>(mut self, lookup: F) -> F::Output {
        let mut lookup = pin!(lookup);
        poll_fn(|cx| self.begin(|| lookup.as_mut().poll(cx))).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn lookups_that_do_not_end_have_a_bound_for_each_guest_and_for_all() {
        let lookups = NameLookups::default();
        let guests: Vec<GuestLookups> = (0..20).map(|_| GuestLookups::default()).collect();
        let (ended, never) = mpsc::channel::<()>();
        let never = Arc::new(parking_lot::Mutex::new(never));
        let begin = |guest: &GuestLookups| {
            let never = Arc::clone(&never);
            let blocks = || drop(tokio::task::spawn_blocking(move || never.lock().recv()));
            lookups.leave(guest).map(|mut leave| leave.begin(blocks)).is_some()
        };

        // Lookups with a thread do not count any more, and some may have got one.
        let of_one = (0..100).filter(|_| begin(&guests[0])).count();
        assert!((WAITING_MAX_PER_GUEST..=WAITING_MAX_PER_GUEST + THREADS).contains(&of_one), "{of_one}");
        let of_all: usize = guests.iter().map(|guest| (0..100).filter(|_| begin(guest)).count()).sum();
        assert!((WAITING_MAX - WAITING_MAX_PER_GUEST..=WAITING_MAX + THREADS).contains(&of_all), "{of_all}");

        drop(ended);
        let mut patience = 0;
        while !begin(&guests[0]) {
            assert!(patience < 100_000, "the threads go on when the lookups end");
            patience += 1;
            std::thread::yield_now();
        }
    }
}
