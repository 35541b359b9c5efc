//! What a guest's store holds: the process that it is, what it may do, what it has been given to answer later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use wasmtime::{Memory, ResourceLimiter};

use super::bindings::rusm::runtime::types::Error;
use super::host::Streams;
use super::raw::{Family, Item};
use super::topics::Shares;
use super::traps::MemoryLimit;
use super::vitals::Vitals;
use super::wasi::Wasi;
use crate::{Context, Pid, ReplyTo, TimerRef};

/// Requests that a guest may keep unanswered; of more, the oldest is forgotten.
const REQUESTS_KEPT: usize = 65_536;
/// Timers that a guest may have set and not cancelled.
const TIMERS_MAX: usize = 65_536;
/// Monitors that a guest may have set without having heard of the end.
const MONITORS_MAX: u32 = 65_536;
/// Names, memberships of groups and monitors of groups that a guest may have.
const HOLDINGS_MAX: usize = 1_024;

/// What a guest's store holds.
pub(crate) struct State {
    pub(crate) ctx: Context,
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) wasi: Option<Box<Wasi>>,
    /// Its arguments; those of a component until its first instruction.
    pub(crate) args: Vec<String>,
    /// The memory of a core module, once it was needed.
    pub(crate) memory: Option<Memory>,
    /// What a core module reads in steps.
    pub(crate) item: Item,
    /// What a core module says of the next supervisor that it starts; few do.
    pub(crate) family: Option<Box<Family>>,
    memory_bytes: u64,
    requests: Requests,
    timers: Timers,
    /// Monitors that it has set and not heard of yet.
    monitors: u32,
    /// Supervisors that it started; some may have ended.
    pub(super) supervisors: Vec<Pid>,
    /// What it was refused last, which the engine does not always say.
    limit: Option<MemoryLimit>,
    /// Ends of streams; few have any.
    pub(super) streams: Option<Box<Streams>>,
    /// Shares in subscriptions; few have any.
    pub(super) shares: Option<Box<Shares>>,
}

/// Requests without an answer yet; mostly there is one, which takes no more memory than this.
#[derive(Default)]
struct Requests {
    /// Older than all the others.
    first: Option<(u64, ReplyTo<Bytes>)>,
    others: BTreeMap<u64, ReplyTo<Bytes>>,
    last: u64,
}

impl Requests {
    /// The number of a request, and whether the oldest had to be forgotten for it.
    fn keep(&mut self, reply: ReplyTo<Bytes>) -> (u64, bool) {
        self.last += 1;
        if self.first.is_none() && self.others.is_empty() {
            self.first = Some((self.last, reply));
            return (self.last, false);
        }
        self.others.insert(self.last, reply);
        let too_many = self.others.len() + usize::from(self.first.is_some()) > REQUESTS_KEPT;
        if too_many && self.first.take().is_none() {
            self.others.pop_first();
        }
        (self.last, too_many)
    }

    fn take(&mut self, number: u64) -> Option<ReplyTo<Bytes>> {
        if let Some((_, reply)) = self.first.take_if(|(first, _)| *first == number) {
            return Some(reply);
        }
        let reply = self.others.remove(&number);
        if self.others.is_empty() {
            // An empty map may keep memory.
            self.others = BTreeMap::new();
        }
        reply
    }
}

/// Timers that are set, and the bytes of their messages.
#[derive(Default)]
struct Timers {
    set: BTreeMap<u64, (TimerRef, u64)>,
    bytes: u64,
    /// Calls until the next walk over all of them.
    patience: u16,
}

impl Timers {
    fn fit(&self, bytes: usize, bytes_max: u64) -> bool {
        self.set.len() < TIMERS_MAX && self.bytes + bytes as u64 <= bytes_max
    }

    fn keep(&mut self, timer: TimerRef, bytes: u64) {
        self.set.insert(timer.id(), (timer, bytes));
        self.bytes += bytes;
    }

    fn take(&mut self, number: u64) -> Option<TimerRef> {
        let (timer, bytes) = self.set.remove(&number)?;
        self.bytes -= bytes;
        Some(timer)
    }

    /// Walks over all of them, unless the last walk took longer than what it found was worth.
    fn forget_in_time(&mut self, has_fired: impl Fn(TimerRef) -> bool) {
        if self.patience > 0 {
            self.patience -= 1;
            return;
        }
        let before = self.set.len();
        self.forget_those_that_fired(has_fired);
        // As many calls without one as there are hundreds that it looked at in vain.
        self.patience = if before - self.set.len() > before / 8 { 0 } else { (before / 128) as u16 };
    }

    fn forget_those_that_fired(&mut self, has_fired: impl Fn(TimerRef) -> bool) {
        self.set.retain(|_, (timer, _)| !has_fired(*timer));
        self.bytes = self.set.values().map(|(_, bytes)| bytes).sum();
    }
}

impl State {
    pub(crate) fn new(ctx: Context, vitals: Arc<Vitals>, args: Vec<String>) -> Self {
        Self {
            ctx,
            vitals,
            wasi: None,
            args,
            memory: None,
            item: Item::default(),
            family: None,
            memory_bytes: 0,
            requests: Requests::default(),
            timers: Timers::default(),
            monitors: 0,
            supervisors: Vec::new(),
            limit: None,
            streams: None,
            shares: None,
        }
    }

    /// Checks a message that the guest sends.
    #[inline]
    pub(crate) fn fits(&self, body: &[u8]) -> Result<(), Error> {
        let most = self.vitals.bounds.message_max_bytes as usize;
        if body.len() <= most { Ok(()) } else { Err(too_long(body.len(), most)) }
    }

    /// Keeps where a reply goes, under a number that the guest knows it by.
    pub(crate) fn keep(&mut self, reply: ReplyTo<Bytes>) -> u64 {
        let (number, forgotten) = self.requests.keep(reply);
        if forgotten {
            tracing::warn!(pid = %self.ctx.pid(), kept = REQUESTS_KEPT, "a guest answers too few requests: the oldest is forgotten");
        }
        number
    }

    /// Where the reply of this number goes, once.
    pub(crate) fn take_reply(&mut self, number: u64) -> Option<ReplyTo<Bytes>> {
        self.requests.take(number)
    }

    /// Checks that one more timer may be set, with a message of so many bytes.
    pub(crate) fn has_room_for_timer(&mut self, bytes: usize) -> Result<(), Error> {
        let bytes_max = self.vitals.bounds.memory_max_bytes;
        if self.timers.fit(bytes, bytes_max) {
            return Ok(());
        }
        self.forget_fired_timers();
        if self.timers.fit(bytes, bytes_max) {
            return Ok(());
        }
        Err(Error::Limit(format!(
            "a process may have {TIMERS_MAX} timers with messages of {bytes_max} bytes together: cancel some"
        )))
    }

    /// Keeps a timer under the number that the guest knows it by.
    pub(crate) fn keep_timer(&mut self, timer: TimerRef, bytes: usize) -> u64 {
        // The number 0 stands for timers of processes that had ended: they have nothing to cancel.
        if timer.id() != 0 {
            self.timers.keep(timer, bytes as u64);
        }
        timer.id()
    }

    pub(crate) fn take_timer(&mut self, number: u64) -> Option<TimerRef> {
        self.timers.take(number)
    }

    /// How many timers it has set of those that it may have, which are `most`.
    pub(crate) fn timers_beside(&mut self, most: u64) -> usize {
        if self.timers.set.len() as u64 > most {
            self.forget_fired_timers();
        }
        self.timers.set.len()
    }

    /// Forgets timers that have fired. A walk over all of them takes longer than a guest may keep its scheduler: one that
    /// found little is not made again soon.
    fn forget_fired_timers(&mut self) {
        let ctx = &self.ctx;
        self.timers.forget_in_time(|timer| ctx.read_timer(timer).is_none());
    }

    /// Checks that this guest may have one more name or group, of which the node keeps tables for all.
    pub(crate) fn may_hold_more(&self) -> Result<(), Error> {
        if self.ctx.holdings_count() < HOLDINGS_MAX {
            return Ok(());
        }
        Err(Error::Limit(format!("a process may have {HOLDINGS_MAX} names and groups together: give some up")))
    }

    /// Counts a monitor; false if it would be one too many.
    pub(crate) fn has_room_for_monitor(&mut self) -> bool {
        let has_room = self.monitors < MONITORS_MAX;
        self.monitors += u32::from(has_room);
        has_room
    }

    /// A monitor is over.
    pub(crate) fn monitor_is_over(&mut self) {
        self.monitors = self.monitors.saturating_sub(1);
    }

    /// The limit that the guest ran into last, once.
    pub(crate) fn take_limit(&mut self) -> Option<MemoryLimit> {
        self.limit.take()
    }

    /// Whether `pid` is this process or one that it started.
    pub(crate) fn is_own(&self, pid: Pid) -> bool {
        pid == self.ctx.pid() || self.ctx.is_child(pid)
    }
}

#[cold]
fn too_long(bytes: usize, most: usize) -> Error {
    Error::Limit(format!("message of {bytes} bytes is longer than message_max_bytes = {most}"))
}

impl ResourceLimiter for State {
    // The pool has these limits of its own; without it nothing else would hold a component to them.
    fn instances(&self) -> usize {
        self.vitals.bounds.parts_max as usize
    }

    fn tables(&self) -> usize {
        self.vitals.bounds.parts_max as usize
    }

    fn memories(&self) -> usize {
        self.vitals.bounds.parts_max as usize
    }

    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Beyond what the module itself allows, growing fails in the guest and ends nobody.
        if maximum.is_some_and(|maximum| desired > maximum && maximum as u64 <= self.vitals.bounds.memory_max_bytes) {
            return Ok(false);
        }
        // A memory of 64 bits may ask for all that can be counted.
        let total = (self.memory_bytes - current as u64).saturating_add(desired as u64);
        if total > self.vitals.bounds.memory_max_bytes {
            let limit = MemoryLimit { memory_max_bytes: self.vitals.bounds.memory_max_bytes, wanted_bytes: total };
            self.limit = Some(limit);
            return Err(limit.into());
        }
        self.vitals.memory_bytes.store(total, Ordering::Relaxed);
        self.ctx.account_memory(total - self.memory_bytes);
        self.memory_bytes = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // The engine would refuse it afterwards.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        if desired > self.vitals.bounds.table_max_elements as usize {
            return Ok(false);
        }
        let elements = &self.vitals.table_elements;
        elements.store(elements.load(Ordering::Relaxed) - current as u64 + desired as u64, Ordering::Relaxed);
        Ok(true)
    }
}
