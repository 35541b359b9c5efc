//! Backend shared by all counters of a set: their runtime, their store and a clock.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::coarse_clock::CoarseClock;
use super::store::CounterStore;
use super::stripes::Stripe;
use crate::runtime::handle::Handle;
use crate::scheduler;

/// Backend shared by all counters of a set.
pub struct Backend<S> {
    stripe_selector: StripeSelector,
    store: Arc<S>,
    pub(super) clock: CoarseClock,
}

impl<S: CounterStore> fmt::Debug for Backend<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<S: CounterStore> Backend<S> {
    pub(super) fn new(handle: Handle, store: Arc<S>) -> Self {
        Self { stripe_selector: StripeSelector(handle), store, clock: CoarseClock::new() }
    }

    /// Returns the store.
    pub const fn store(&self) -> &Arc<S> {
        &self.store
    }

    pub(super) const fn stripe_selector(&self) -> &StripeSelector {
        &self.stripe_selector
    }
}

/// The runtime of the schedulers that have their own stripes.
#[derive(Clone)]
pub(super) struct StripeSelector(Handle);

impl StripeSelector {
    pub(super) fn schedulers(&self) -> usize {
        self.0.config().schedulers
    }

    /// Returns the stripe of the current thread.
    #[inline]
    pub(super) fn stripe(&self) -> Stripe {
        match scheduler::local() {
            Some(local) if ptr::eq(&raw const *local.shared, &raw const *self.0.shared) => Stripe::Own(local.id),
            _ => Stripe::Shared,
        }
    }
}
