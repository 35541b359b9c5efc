//! State in a guest's store: its process, its permissions, and its open requests, timers and streams.

pub(crate) mod children;
#[cfg(feature = "http")]
pub(crate) mod exchange;
#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod last_result;
pub(crate) mod resources;
pub(crate) mod streams;
pub(crate) mod topics;
pub(crate) mod wasi;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use wasmtime::{Memory, ResourceLimiter};

use crate::bindings::rusm::runtime::types::Error;
use crate::guest::guest_info::GuestInfo;
use crate::guest::shared_budget::{BudgetShare, MemoryFull};
use crate::guest::traps::MemoryLimit;
use crate::host::convert;
use children::PendingChildren;
use last_result::LastResult;
use rusm_runtime::embed::guest::GuestContext;
use rusm_runtime::{Context, Pid, ReplyTo, TimerRef};
use streams::Streams;
use topics::TopicHandles;
use wasi::Wasi;

/// Maximum number of unanswered requests per guest. Beyond it, the oldest is dropped.
pub(crate) const REQUESTS_KEPT: usize = 65_536;
/// Maximum number of pending timers per guest.
const TIMERS_MAX: usize = 65_536;
/// Number of timers that are looked at between two decisions whether a scan is worth its time.
const SCAN_LENGTH: usize = 512;
/// Maximum length of the message of a panic in an exit reason, in bytes.
const PANIC_MAX_BYTES: usize = 512;
/// Bytes of a monitor: its entries in the process and in its target, and the reason in its message.
const MONITOR_BYTES: u64 = 128 + convert::REASON_MAX_BYTES as u64;
/// Bytes of monitors, children and resources that a guest has without a share.
const SMALL_UNCOUNTED: u64 = 64 * 1024;
/// Length up to which arguments and results take no share, in bytes.
pub(crate) const ITEM_UNCOUNTED: usize = 64 * 1024;
/// Maximum number of monitors of a guest that have not fired.
const MONITORS_MAX: u32 = 65_536;
/// Maximum number of names, group memberships and group monitors of a guest.
const HOLDINGS_MAX: usize = 1_024;

/// State in a guest's store.
pub(crate) struct GuestState {
    pub(crate) ctx: Context,
    pub(crate) info: Arc<GuestInfo>,
    pub(crate) wasi: Option<Box<Wasi>>,
    /// Arguments; a component takes them when it starts.
    pub(crate) args: Vec<String>,
    /// Memory of a core module, cached at its first use.
    pub(crate) memory: Option<Memory>,
    /// Result of the last call of a core module, which reads it in steps.
    pub(crate) last_result: LastResult,
    /// Children that a core module has added for its next supervisor; boxed, because few modules do.
    pub(crate) pending_children: Option<Box<PendingChildren>>,
    memory_bytes: u64,
    /// Part of the memory of all guests; `None` until it has any, and without a bound.
    share: Option<BudgetShare>,
    /// Bytes of the share that are for timers, monitors, children of a supervisor, and resources of a component.
    small_bytes: u64,
    requests: PendingRequests,
    timers: GuestTimers,
    /// Number of monitors that have not fired.
    monitors: u32,
    /// Supervisors that it started; some may have ended.
    pub(crate) supervisors: Vec<Pid>,
    /// Last limit that it exceeded: the engine does not always report it.
    limit: Option<MemoryLimit>,
    /// Message of its panic: the SDKs log it, and trap.
    panic: Option<Box<str>>,
    /// Ends of streams; boxed, because few guests have any.
    pub(crate) streams: Option<Box<Streams>>,
    /// Consumers and listeners of topics; boxed, because few guests have any.
    pub(crate) topic_handles: Option<Box<TopicHandles>>,
    /// The request of a guest of `rusm:http`.
    #[cfg(feature = "http")]
    pub(crate) exchange: Option<Box<exchange::Exchange>>,
}

/// Unanswered requests. Usually there is only one, which is stored inline.
#[derive(Default)]
struct PendingRequests {
    /// Older than all others.
    first: Option<(u64, ReplyTo<Bytes>)>,
    others: BTreeMap<u64, ReplyTo<Bytes>>,
    last: u64,
}

impl PendingRequests {
    /// Stores a request; returns its number, and true if the oldest was dropped for it.
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
            // Replace the map: an empty one may still own memory.
            self.others = BTreeMap::new();
        }
        reply
    }
}

/// Timers that may be pending, and the bytes of their messages.
#[derive(Default)]
struct GuestTimers {
    set: BTreeMap<u64, (TimerRef, u64)>,
    bytes: u64,
    /// Number from which the next scan for fired timers goes on.
    next_scan: u64,
    /// Number of timers that scans may look at in vain: one for each that was set.
    scan_credit: usize,
}

impl GuestTimers {
    fn fit(&self, bytes: usize, bytes_max: u64) -> bool {
        self.set.len() < TIMERS_MAX && self.bytes + bytes as u64 <= bytes_max
    }

    fn keep(&mut self, timer: TimerRef, bytes: u64) {
        self.set.insert(timer.id(), (timer, bytes));
        self.bytes += bytes;
        self.scan_credit = (self.scan_credit + 1).min(TIMERS_MAX);
    }

    fn take(&mut self, number: u64) -> Option<TimerRef> {
        let (timer, bytes) = self.set.remove(&number)?;
        self.bytes -= bytes;
        Some(timer)
    }

    /// Removes fired timers, at most all. A scan of all takes longer than the turn of a guest, and nothing interrupts it.
    /// So one that finds few goes on only as far as timers have been set since, and the next call continues it.
    fn remove_fired(&mut self, has_fired: impl Fn(TimerRef) -> bool) {
        let mut left = self.set.len();
        while left > 0 {
            let part = self.set.range(self.next_scan..).take(SCAN_LENGTH).map(|(number, (timer, _))| (*number, *timer));
            let part: Vec<(u64, TimerRef)> = part.collect();
            // After the last one, it begins again.
            self.next_scan = part.last().map_or(0, |(number, _)| number + 1);
            left = left.saturating_sub(part.len());
            let fired = part.iter().filter(|(_, timer)| has_fired(*timer));
            let found = fired.filter_map(|(number, _)| self.take(*number)).count();
            if found * 8 < part.len() {
                let Some(credit) = self.scan_credit.checked_sub(part.len()) else { return };
                self.scan_credit = credit;
            }
        }
    }
}

impl GuestState {
    /// Returns the process of this guest, as the engine sees it.
    #[inline]
    pub(crate) const fn process(&self) -> GuestContext<'_> {
        GuestContext(&self.ctx)
    }

    pub(crate) fn new(ctx: Context, info: Arc<GuestInfo>, args: Vec<String>) -> Self {
        Self {
            ctx,
            info,
            wasi: None,
            args,
            memory: None,
            last_result: LastResult::default(),
            pending_children: None,
            memory_bytes: 0,
            share: None,
            small_bytes: 0,
            requests: PendingRequests::default(),
            timers: GuestTimers::default(),
            monitors: 0,
            supervisors: Vec::new(),
            limit: None,
            panic: None,
            streams: None,
            topic_handles: None,
            #[cfg(feature = "http")]
            exchange: None,
        }
    }

    /// Gives up what belongs to its process: the instance goes on in another one.
    #[cfg(feature = "http")]
    pub(crate) fn leave_process(&mut self) {
        self.requests = PendingRequests::default();
        self.timers = GuestTimers::default();
        (self.monitors, self.supervisors, self.limit, self.exchange) = (0, Vec::new(), None, None);
        (self.last_result, self.pending_children, self.streams, self.topic_handles) =
            (LastResult::default(), None, None, None);
        if let Some(Wasi::Preview2(wasi::Preview2 { table, memory, lines, .. })) = self.wasi.as_deref_mut() {
            for lines in lines.iter() {
                lines.flush_line();
            }
            memory.count(table);
        }
        self.small_bytes = self.small_bytes.min(self.small_bytes_with(0));
        self.hold(self.memory_bytes, self.small_bytes).expect("a share becomes smaller");
    }

    /// Goes on as the guest of another process.
    #[cfg(feature = "http")]
    pub(crate) fn enter_process(&mut self, ctx: Context, info: &Arc<GuestInfo>) {
        info.memory_bytes.store(self.memory_bytes, Ordering::Relaxed);
        let elements = self.info.table_elements.load(Ordering::Relaxed);
        info.table_elements.store(elements, Ordering::Relaxed);
        (self.ctx, self.info) = (ctx, Arc::clone(info));
        self.process().account_memory(self.memory_bytes);
        if let Some(Wasi::Preview2(wasi)) = self.wasi.as_deref() {
            wasi.lines.iter().for_each(|lines| lines.belong_to(self.ctx.pid(), info));
        }
    }

    /// Checks the length of a message that the guest sends.
    #[inline]
    pub(crate) fn check_length(&self, body: &[u8]) -> Result<(), Error> {
        let most = self.info.bounds.message_max_bytes as usize;
        if body.len() <= most { Ok(()) } else { Err(too_long(body.len(), most)) }
    }

    /// Stores a reply handle. Returns the number by which the guest refers to it, and true if the oldest one was dropped.
    pub(crate) fn store_reply(&mut self, reply: ReplyTo<Bytes>) -> (u64, bool) {
        self.requests.keep(reply)
    }

    /// Takes the reply handle with this number.
    pub(crate) fn take_reply(&mut self, number: u64) -> Option<ReplyTo<Bytes>> {
        self.requests.take(number)
    }

    /// Checks that one more timer, with a message of `bytes` bytes, may be set.
    pub(crate) fn has_room_for_timer(&mut self, bytes: usize) -> Result<(), Error> {
        let bytes_max = self.info.bounds.memory_max_bytes;
        if self.timers.fit(bytes, bytes_max) {
            return Ok(());
        }
        self.remove_fired_timers();
        if self.timers.fit(bytes, bytes_max) {
            return Ok(());
        }
        Err(Error::Limit(format!(
            "a process may have at most {TIMERS_MAX} timers with messages of {bytes_max} bytes in all: cancel some"
        )))
    }

    /// Stores a timer; returns the number by which the guest refers to it.
    pub(crate) fn store_timer(&mut self, timer: TimerRef, bytes: usize) -> u64 {
        // The number 0 stands for a timer of a process that had ended; there is nothing to cancel.
        if timer.id() != 0 {
            self.timers.keep(timer, bytes as u64);
        }
        timer.id()
    }

    pub(crate) fn take_timer(&mut self, number: u64) -> Option<TimerRef> {
        self.timers.take(number)
    }

    /// Returns the number of stored timers; removes fired ones first if there are more than `most`.
    pub(crate) fn timers_count(&mut self, most: u64) -> usize {
        if self.timers.set.len() as u64 > most {
            self.remove_fired_timers();
        }
        self.timers.set.len()
    }

    fn remove_fired_timers(&mut self) {
        let ctx = &self.ctx;
        self.timers.remove_fired(|timer| ctx.read_timer(timer).is_none());
    }

    /// Checks that this guest may have one more name or group: they take room in tables of the node.
    pub(crate) fn check_registrations(&self) -> Result<(), Error> {
        if self.process().name_and_group_count() < HOLDINGS_MAX {
            return Ok(());
        }
        Err(Error::Limit(format!("a process may have at most {HOLDINGS_MAX} names and groups in all: give some up")))
    }

    /// Counts a new monitor; false if the guest has too many.
    pub(crate) fn has_room_for_monitor(&mut self) -> bool {
        let has_room = self.monitors < MONITORS_MAX && self.hold_small(MONITOR_BYTES as usize).is_ok();
        self.monitors += u32::from(has_room);
        has_room
    }

    /// Counts the end of a monitor.
    pub(crate) fn monitor_is_over(&mut self) {
        self.monitors = self.monitors.saturating_sub(1);
    }

    /// Keeps the message of a panic, with its white space reduced to single spaces.
    pub(crate) fn keep_panic(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(PANIC_MAX_BYTES)];
        self.panic = Some(text.split_whitespace().collect::<Vec<_>>().join(" ").into());
    }

    /// Takes the message of the panic.
    pub(crate) fn take_panic(&mut self) -> Option<Box<str>> {
        self.panic.take()
    }

    pub(crate) fn take_limit(&mut self) -> Option<MemoryLimit> {
        self.limit.take()
    }

    /// Returns true if `pid` is this process or its child.
    pub(crate) fn is_self_or_child(&self, pid: Pid) -> bool {
        pid == self.ctx.pid() || self.process().is_child(pid)
    }
}

#[cold]
fn too_long(bytes: usize, most: usize) -> Error {
    Error::Limit(format!("message of {bytes} bytes is longer than message_max_bytes = {most}"))
}

impl GuestState {
    /// Takes a share of the memory of all guests, for linear memory and what is small.
    fn hold(&mut self, memory_bytes: u64, small_bytes: u64) -> Result<(), MemoryFull> {
        let Some(shared) = &self.info.node.shared_memory else { return Ok(()) };
        let bytes = memory_bytes + small_bytes;
        let has_room = match &mut self.share {
            Some(share) => share.resize(bytes),
            share => {
                *share = shared.take(bytes);
                share.is_some()
            }
        };
        if has_room { Ok(()) } else { Err(shared.full()) }
    }

    #[cold]
    pub(crate) fn exceeded(
        &mut self,
        memory_max_bytes: u64,
        of_all_guests: bool,
        wanted_bytes: u64,
    ) -> wasmtime::Error {
        let limit = MemoryLimit { memory_max_bytes, of_all_guests, wanted_bytes };
        self.limit = Some(limit);
        limit.into()
    }

    /// Stores bytes that a core module reads in steps, without what came with those before.
    pub(crate) fn set_item(&mut self, bytes: Vec<u8>, tag: u64) -> Result<(), MemoryFull> {
        self.last_result.set_bytes(Vec::new(), tag);
        self.set_body(bytes)
    }

    /// Stores bytes that a core module reads in steps, until the next result.
    pub(crate) fn set_body(&mut self, bytes: Vec<u8>) -> Result<(), MemoryFull> {
        self.hold_result(bytes.len())?;
        self.last_result.body = bytes.into();
        Ok(())
    }

    /// Takes a share of the memory of all guests for the result of a call, if it is long; the share before is released.
    /// The result of a component is on its way until the guest has taken it.
    pub(crate) fn hold_result(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        self.last_result.release();
        self.last_result.share = self.share_if_long(bytes)?;
        Ok(())
    }

    /// Returns a received body for a component. A long one takes a share of the memory of all guests until the next
    /// result. Without room there, it stays charged to its sender for that time.
    pub(crate) fn hold_body(&mut self, body: Bytes) -> Vec<u8> {
        if self.hold_result(body.len()).is_err() {
            self.last_result.body = body.clone().into();
        }
        convert::body(body)
    }

    /// Takes a share of the memory of all guests for a call that cannot return an error. Without room, the guest ends with
    /// the limit as its reason.
    #[cfg(feature = "http")]
    pub(crate) fn share_or_end(&mut self, bytes: usize) -> Result<Option<BudgetShare>, MemoryFull> {
        let share = self.share_if_long(bytes);
        if let Err(full) = &share {
            let (reason, _) =
                crate::guest::traps::exit_reason(&self.exceeded(full.max_bytes, true, bytes as u64), None);
            self.ctx.exit(self.ctx.pid(), reason);
        }
        share
    }

    /// Takes a share of the memory of all guests for bytes outside of its linear memory, if they are long: the arguments of
    /// a call that waits, or a result.
    pub(crate) fn share_if_long(&self, bytes: usize) -> Result<Option<BudgetShare>, MemoryFull> {
        if bytes <= ITEM_UNCOUNTED { Ok(None) } else { self.share_of(bytes as u64) }
    }

    /// Takes a share of the memory of all guests.
    pub(crate) fn share_of(&self, bytes: u64) -> Result<Option<BudgetShare>, MemoryFull> {
        let Some(shared) = &self.info.node.shared_memory else { return Ok(None) };
        shared.take(bytes).map(Some).ok_or_else(|| shared.full())
    }

    /// Takes a share of the memory of all guests for more monitors, children of a supervisor or resources, for many of them
    /// at a time.
    pub(crate) fn hold_small(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        let held = self.small_bytes_with(bytes as u64);
        if held > self.small_bytes {
            self.hold(self.memory_bytes, held)?;
            self.small_bytes = held;
        }
        Ok(())
    }

    /// Returns the part of the share for all that is small, and for `bytes` more.
    fn small_bytes_with(&self, bytes: u64) -> u64 {
        let monitors = u64::from(self.monitors) * MONITOR_BYTES;
        let children = self.pending_children.as_ref().map_or(0, |pending| pending.memory_bytes());
        let resources = match self.wasi.as_deref() {
            Some(Wasi::Preview2(wasi)) => wasi.memory.bytes(),
            _ => 0,
        };
        let needed = monitors + children + resources + bytes;
        if needed > SMALL_UNCOUNTED { needed.next_multiple_of(SMALL_UNCOUNTED) } else { 0 }
    }
}

impl ResourceLimiter for GuestState {
    // The pool enforces these limits itself; without it nothing else would enforce them for components.
    fn instances(&self) -> usize {
        self.info.bounds.parts_max as usize
    }

    fn tables(&self) -> usize {
        self.info.bounds.parts_max as usize
    }

    fn memories(&self) -> usize {
        self.info.bounds.parts_max as usize
    }

    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Growing beyond the module's own maximum fails in the guest and does not end it.
        if maximum.is_some_and(|maximum| desired > maximum && maximum as u64 <= self.info.bounds.memory_max_bytes) {
            return Ok(false);
        }
        // Saturating: a 64-bit memory may request any size.
        let total = (self.memory_bytes - current as u64).saturating_add(desired as u64);
        if total > self.info.bounds.memory_max_bytes {
            return Err(self.exceeded(self.info.bounds.memory_max_bytes, false, total));
        }
        if let Err(full) = self.hold(total, self.small_bytes) {
            return Err(self.exceeded(full.max_bytes, true, total));
        }
        self.info.memory_bytes.store(total, Ordering::Relaxed);
        self.process().account_memory(total - self.memory_bytes);
        self.memory_bytes = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // The engine would refuse it later anyway.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        if desired > self.info.bounds.table_max_elements as usize {
            return Ok(false);
        }
        let elements = &self.info.table_elements;
        elements.store(elements.load(Ordering::Relaxed) - current as u64 + desired as u64, Ordering::Relaxed);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use rusm_runtime::{Config, Runtime};

    use super::*;

    #[test]
    fn timers_that_have_not_fired_are_looked_at_once_and_then_a_few_at_a_time() {
        let runtime = Runtime::start(Config::default()).unwrap();
        runtime.block_on(|ctx| async move {
            let mut timers = GuestTimers::default();
            for _ in 0..TIMERS_MAX {
                timers.keep(ctx.send_after(ctx.pid(), Duration::from_hours(1), ()), 1);
            }
            let looked = Cell::new(0);
            let mut scan = |fired: u64| {
                looked.set(0);
                timers.remove_fired(|timer| {
                    looked.set(looked.get() + 1);
                    timer.id() <= fired
                });
                (looked.get(), timers.set.len())
            };

            assert_eq!(scan(0), (TIMERS_MAX, TIMERS_MAX));
            assert_eq!(scan(0), (SCAN_LENGTH, TIMERS_MAX), "nothing was set since");
            assert_eq!(scan(u64::MAX), (TIMERS_MAX, 0));
            assert_eq!(scan(u64::MAX), (0, 0));
            assert_eq!(timers.bytes, 0);
        });
    }
}
