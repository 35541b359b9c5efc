//! State of a guest that observers read: written by its scheduler, readable from any thread.
//!
//! All parts of a guest share one `GuestInfo`, so a start counts a reference to engine-wide state only once.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use crate::engine::inner::EngineInner;
use crate::guest::capability::{Capability, Grant};
use crate::guest::limits::EffectiveLimits;
use crate::guest::log_rate_limiter::{LogRateLimiter, log_budget_of_guest};
use crate::guest::quota::Quota;
use crate::module::Loaded;
use rusm_runtime::embed::bump;
use rusm_runtime::embed::guest::MailboxBounds;
use rusm_runtime::observe::{BodyBacktrace, BodyFact, BodyInfo};

/// The calls into the node, with their names for observers.
macro_rules! host_calls {
    ($($call:ident $word:literal),* $(,)?) => {
        /// Kind of a call that a guest makes into the node.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "used by the store feature only"))]
        #[repr(u8)]
        pub(crate) enum HostCall { $($call),* }

        const HOST_CALLS: &[&str] = &[$($word),*];
    };
}

host_calls! {
    Nothing "", Self_ "self", Parent "parent", Label "label", Spawn "spawn", Send "send", TrySend "try-send",
    Receive "receive", ReceiveTagged "receive-tagged", Call "call", Reply "reply", Link "link", Unlink "unlink",
    Monitor "monitor", Demonitor "demonitor", TrapExits "trap-exits", Exit "exit", Sleep "sleep", Yield "yield",
    Register "register", Unregister "unregister", Whereis "whereis", Join "join", Leave "leave", Members "members",
    MonitorGroup "monitor-group", DemonitorGroup "demonitor-group", SendAfter "send-after", SendEvery "send-every",
    Cancel "cancel", Supervise "supervise", NowNs "now-ns", UnixMs "unix-ms", Log "log", Random "random",
    Digest "digest", Hmac "hmac", StreamOpen "stream-open", StreamAccept "stream-accept", StreamWrite "stream-write",
    StreamRead "stream-read", StreamClose "stream-close", KvGet "kv-get", KvPut "kv-put", KvDelete "kv-delete",
    KvCompareAndSet "kv-compare-and-set", KvCommit "kv-commit", KvScan "kv-scan", TopicPublish "topic-publish",
    TopicSubscribe "topic-subscribe", TopicListen "topic-listen", TopicHear "topic-hear", TopicNext "topic-next",
    TopicAck "topic-ack", TopicNack "topic-nack", TopicExtend "topic-extend",
    TopicUnsubscribe "topic-unsubscribe",
}

/// Statistics, limits and grants of one guest. The thread that runs the guest writes the counters.
///
/// With its reference counts it is larger than glibc's fast bins hold. In a fast bin it would force glibc to
/// consolidate them before the next large allocation, such as the store of the next guest.
#[repr(align(16))]
pub(crate) struct GuestInfo {
    pub(crate) node: Arc<EngineInner>,
    pub(crate) module: Arc<Loaded>,
    pub(crate) grant: Grant,
    pub(crate) bounds: EffectiveLimits,
    /// Quota of the guest that started it.
    parent_quota: Option<Arc<Quota>>,
    /// Created when it sends its first long message or starts a guest.
    quota: OnceLock<Arc<Quota>>,
    /// Created by its first line in the log.
    log: OnceLock<Box<Mutex<LogRateLimiter>>>,
    /// Created by the first request for a backtrace.
    backtrace: Mutex<Option<Box<BodyBacktrace>>>,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) table_elements: AtomicU64,
    host_calls: AtomicU64,
    slices: AtomicU64,
    pauses: AtomicU64,
    /// Tick at which the guest's turn began.
    slice_began: AtomicU64,
    refusals: AtomicU32,
    log_cut: AtomicU32,
    last_call: AtomicU8,
    /// An observer wants to see where the guest runs.
    backtrace_wanted: AtomicBool,
    /// The program logs its end.
    logs_own_end: bool,
}

impl GuestInfo {
    pub(crate) fn new(
        node: Arc<EngineInner>,
        module: Arc<Loaded>,
        grant: Grant,
        bounds: EffectiveLimits,
        parent_quota: Option<Arc<Quota>>,
        logs_own_end: bool,
    ) -> Self {
        Self {
            node,
            module,
            grant,
            bounds,
            parent_quota,
            quota: OnceLock::new(),
            log: OnceLock::new(),
            backtrace: Mutex::new(None),
            memory_bytes: AtomicU64::new(0),
            table_elements: AtomicU64::new(0),
            host_calls: AtomicU64::new(0),
            slices: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
            slice_began: AtomicU64::new(0),
            refusals: AtomicU32::new(0),
            log_cut: AtomicU32::new(0),
            last_call: AtomicU8::new(HostCall::Nothing as u8),
            backtrace_wanted: AtomicBool::new(false),
            logs_own_end,
        }
    }

    /// Returns the bounds of its messages.
    pub(crate) fn mailbox_bounds(&self) -> MailboxBounds {
        MailboxBounds { confined: !self.grant.has(Capability::Send), capacity: self.bounds.mailbox_capacity }
    }

    /// Returns the quota, which counts the bytes of sent messages.
    #[inline]
    pub(crate) fn quota(&self) -> &Arc<Quota> {
        self.quota
            .get_or_init(|| Quota::of_guest(self.bounds.sent_max_bytes, &self.node.quota, self.parent_quota.as_ref()))
    }

    #[inline]
    pub(crate) fn record_call(&self, call: HostCall) {
        bump(&self.host_calls, 1);
        self.last_call.store(call as u8, Ordering::Relaxed);
    }

    /// Records the tick at which the guest's turn began.
    #[inline]
    pub(crate) fn begin_slice(&self, tick: u64) {
        self.slice_began.store(tick, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn slice_began(&self) -> u64 {
        self.slice_began.load(Ordering::Relaxed)
    }

    /// Counts a turn that ended because its time was up.
    pub(crate) fn count_slice(&self) {
        bump(&self.slices, 1);
    }

    /// Counts a pause because the guest exceeded its CPU share.
    pub(crate) fn count_pause(&self) {
        bump(&self.pauses, 1);
    }

    /// Returns true if an observer wants to see where the guest runs, once for each request.
    #[inline]
    pub(crate) fn wants_backtrace(&self) -> bool {
        self.backtrace_wanted.load(Ordering::Relaxed) && self.backtrace_wanted.swap(false, Ordering::Relaxed)
    }

    /// Keeps the functions in which the guest runs now, innermost first.
    pub(crate) fn keep_backtrace(&self, frames: Vec<String>) {
        *self.backtrace.lock() = Some(Box::new(BodyBacktrace { frames, taken: Instant::now() }));
    }

    /// Spends a log line; returns the number of lines that were cut before it, or `None` if this one is cut.
    pub(crate) fn spend_log_line(&self, now: Instant, bytes: usize) -> Option<u64> {
        let budget = self.log.get_or_init(|| Box::new(log_budget_of_guest(&self.node.config)));
        let mut budget = budget.lock();
        let spent = budget.spend(now, bytes).and_then(|cut| {
            let of_all = self.node.log.lock().spend(now, bytes);
            if of_all.is_none() {
                budget.count_cut(cut + 1);
            }
            of_all.map(|_| cut)
        });
        if spent.is_none() {
            self.log_cut.fetch_add(1, Ordering::Relaxed);
            self.node.log_cut.fetch_add(1, Ordering::Relaxed);
        }
        spent
    }

    /// Counts a call for which the guest lacks a capability. Returns true for the first one.
    pub(crate) fn count_refusal(&self) -> bool {
        let before = self.refusals.load(Ordering::Relaxed);
        self.refusals.store(before.saturating_add(1), Ordering::Relaxed);
        before == 0
    }
}

impl BodyInfo for GuestInfo {
    fn logs_own_end(&self) -> bool {
        self.logs_own_end
    }

    fn kind(&self) -> &'static str {
        "wasm"
    }

    fn request_backtrace(&self) {
        self.backtrace_wanted.store(true, Ordering::Relaxed);
    }

    fn backtrace(&self) -> Option<BodyBacktrace> {
        self.backtrace.lock().as_deref().cloned()
    }

    fn source(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.module.name))
    }

    fn facts(&self) -> Vec<(&'static str, BodyFact)> {
        FACTS.iter().filter_map(|name| Some((*name, self.fact(name)?))).collect()
    }

    fn fact(&self, name: &str) -> Option<BodyFact> {
        let count = |counter: &AtomicU64| BodyFact::Count(counter.load(Ordering::Relaxed));
        Some(match name {
            "form" => BodyFact::Text(self.module.code.kind().into()),
            "profile" => BodyFact::Text(Arc::clone(self.grant.profile())),
            "linear_memory_bytes" => BodyFact::Bytes(self.memory_bytes.load(Ordering::Relaxed)),
            "linear_memory_max_bytes" => BodyFact::Bytes(self.bounds.memory_max_bytes),
            "table_elements" => count(&self.table_elements),
            "cpu_max_percent" => BodyFact::Count(self.bounds.cpu_max_percent.into()),
            "rests_total" => count(&self.pauses),
            "epoch_slices_total" => count(&self.slices),
            "host_calls_total" => count(&self.host_calls),
            "last_host_call" => BodyFact::Text(HOST_CALLS[usize::from(self.last_call.load(Ordering::Relaxed))].into()),
            "refusals_total" => BodyFact::Count(self.refusals.load(Ordering::Relaxed).into()),
            "log_lines_cut_total" => BodyFact::Count(self.log_cut.load(Ordering::Relaxed).into()),
            "sent_bytes" => BodyFact::Bytes(self.quota.get().map_or(0, |quota| quota.held_bytes())),
            "sent_max_bytes" => BodyFact::Bytes(self.bounds.sent_max_bytes),
            _ => return None,
        })
    }
}

const FACTS: [&str; 14] = [
    "form",
    "profile",
    "linear_memory_bytes",
    "linear_memory_max_bytes",
    "table_elements",
    "epoch_slices_total",
    "cpu_max_percent",
    "rests_total",
    "host_calls_total",
    "last_host_call",
    "refusals_total",
    "log_lines_cut_total",
    "sent_bytes",
    "sent_max_bytes",
];
