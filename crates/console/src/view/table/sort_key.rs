//! Sort keys of the process table: numbers, names, and rates, which need two looks at each process.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusm_protocol::Column;

use crate::budget::rate_span;
use rusm_runtime::Handle;
use rusm_runtime::observe::{self, BodyFact, ProcessRef};

/// Minimum time over which the counters of a large table are compared.
const RATE_SPAN: Duration = Duration::from_millis(2_400);
/// Minimum time for a small table, and for the first looks of a view, so that the view shows rates early.
const SHORT_RATE_SPAN: Duration = Duration::from_millis(400);

/// Rates of one process, for a filter: per second, a share in thousandths of a per cent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FilterRates([u64; 4]);

impl FilterRates {
    /// Maximum number of rates that a filter may compare: all that exist.
    pub(crate) const LEN: usize = 4;

    /// Returns the rate of a column.
    pub(crate) fn of(&self, column: Column) -> u64 {
        Self::index(column).map_or(0, |at| self.0[at])
    }

    /// Reads the rates of a process.
    pub(crate) fn read(rates: &mut [Rates], seen: &ProcessRef<'_>, pass: Pass) -> Self {
        let mut out = Self::default();
        for rates in rates {
            let added = rates.key(seen, pass);
            if let Some(at) = Self::index(rates.column) {
                out.0[at] = rates.per_second(added);
            }
        }
        out
    }

    const fn index(column: Column) -> Option<usize> {
        match column {
            Column::RedsPerSec => Some(0),
            Column::MsgsPerSec => Some(1),
            Column::BusyPct => Some(2),
            Column::ArrivalsPerSec => Some(3),
            _ => None,
        }
    }
}

/// Returns the fact that fills a column, for columns that only some bodies can fill.
pub(crate) const fn fact_of(column: Column) -> Option<&'static str> {
    match column {
        Column::Profile => Some("profile"),
        Column::LinearMemoryBytes => Some("linear_memory_bytes"),
        Column::TableElements => Some("table_elements"),
        Column::EpochSlices => Some("epoch_slices_total"),
        Column::LastHostCall => Some("last_host_call"),
        Column::SentBytes => Some("sent_bytes"),
        _ => None,
    }
}

/// Returns the number of messages that have arrived at a process. It is read in two steps, and wrong by those that the
/// process takes between them.
pub(crate) fn arrivals(seen: &ProcessRef<'_>) -> u64 {
    seen.mailbox_len() + seen.messages()
}

/// Returns the number by which a column orders.
#[inline]
pub(crate) fn number(column: Column, seen: &ProcessRef<'_>, now_ms: u64) -> u64 {
    match column {
        Column::Reds => seen.reductions(),
        Column::MemoryBytes => seen.memory_bytes(),
        Column::MailboxLen => seen.mailbox_len(),
        Column::MailboxBytes => seen.mailbox_bytes(),
        Column::Links => observe::link_counts(seen).0,
        Column::Monitors => observe::link_counts(seen).1,
        Column::Messages => seen.messages(),
        Column::AgeMs => now_ms.saturating_sub(seen.spawned_ms()),
        Column::Parent => u64::from(seen.parent_slot()),
        // The busiest state comes first when the largest number does.
        Column::State => u64::MAX - seen.state() as u64,
        Column::Pid => u64::from(seen.slot()),
        // A process that does not report the fact comes after those that report zero.
        column => match fact_of(column).and_then(|name| observe::body_info_of(seen)?.fact(name)) {
            Some(BodyFact::Bytes(count) | BodyFact::Count(count)) => count.saturating_add(1),
            _ => 0,
        },
    }
}

/// A name in either direction, ignoring case. Processes without a name come last in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameKey {
    name: Option<Arc<str>>,
    desc: bool,
}

impl NameKey {
    /// Returns the text of a column for a process.
    pub(crate) fn of(column: Column, seen: &ProcessRef<'_>, desc: bool) -> Self {
        let told = || observe::body_info_of(seen);
        let name = match (column, fact_of(column)) {
            (Column::Kind, _) => Some(told().map_or_else(|| "native".into(), |body_info| body_info.kind().into())),
            (Column::Module, _) => told().and_then(|body_info| body_info.source()),
            (_, Some(fact)) => told().and_then(|body_info| body_info.fact(fact)).and_then(|fact| match fact {
                BodyFact::Text(text) => Some(text),
                BodyFact::Bytes(_) | BodyFact::Count(_) => None,
            }),
            _ => {
                let (name, label) = observe::names(seen);
                name.or(label)
            }
        };
        Self { name, desc }
    }
}

impl Ord for NameKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let (Some(a), Some(b)) = (&self.name, &other.name) else {
            return self.name.is_some().cmp(&other.name.is_some());
        };
        let by_name = lower_case(a).cmp(lower_case(b)).then_with(|| a.cmp(b));
        if self.desc { by_name } else { by_name.reverse() }
    }
}

impl PartialOrd for NameKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn lower_case(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| byte.to_ascii_lowercase())
}

/// The kind of a pass that reads processes for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Reads a few processes, to estimate where a window is.
    AtSome,
    /// Reads every process.
    AtAll,
    /// Reads processes that an earlier pass for this order has read.
    Again,
}

/// Earlier counter values of each slot, for orders by a rate.
///
/// Counters are read at intervals, and all orders between two readings use the rates of the first. So nothing shuffles
/// while a client scrolls, and no client's view changes the time over which another client's rates are computed.
#[derive(Debug)]
pub(crate) struct Rates {
    column: Column,
    past: Vec<Past>,
    looked_at: Option<Instant>,
    /// Number of looks taken; the first cannot be compared with an earlier one.
    looks: u32,
    looking: bool,
    /// CPU time of the last order by these rates.
    cost: Duration,
    /// The node's era in which the looks began.
    era: u64,
    /// The node's idle progress at the last look, and whether it was equal at the look before; if so, all rates are
    /// zero.
    still: Option<u64>,
    all_zero: bool,
    /// Time between the last two looks; zero before the second one.
    span: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Past {
    generation: u32,
    counter: u32,
    /// Increase between the last two looks.
    added: u32,
}

impl Rates {
    /// Returns the size of the stored counters, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.past.capacity() * size_of::<Past>()) as u64
    }

    pub(crate) const fn new(column: Column, era: u64) -> Self {
        Self {
            column,
            past: Vec::new(),
            looked_at: None,
            looks: 0,
            looking: false,
            cost: Duration::ZERO,
            era,
            still: None,
            all_zero: false,
            span: Duration::ZERO,
        }
    }

    /// Restarts with the next look if a run has started or ended since the last one.
    pub(crate) const fn follow(&mut self, era: u64) {
        if self.era != era {
            self.era = era;
            self.looks = 0;
        }
    }

    /// Records the cost of an order by these rates: the lower it is, the sooner counters are read again.
    pub(crate) const fn spent(&mut self, cost: Duration) {
        self.cost = cost;
    }

    pub(crate) const fn column(&self) -> Column {
        self.column
    }

    /// Returns the time at which the counters behind the rates were read.
    pub(crate) const fn looked_at(&self) -> Option<Instant> {
        self.looked_at
    }

    /// Decides whether the next order reads the counters again; returns true if its rates will be provisional.
    pub(crate) fn prepare(&mut self, runtime: &Handle, now: Instant) -> bool {
        let slots = observe::table_parts(runtime) * observe::TABLE_PART_SLOTS;
        let longest = if self.looks < 2 { SHORT_RATE_SPAN } else { RATE_SPAN };
        let span = rate_span(self.cost, SHORT_RATE_SPAN, longest);
        self.looking = self.looked_at.is_none_or(|then| now - then >= span);
        if self.looking {
            self.span = self.looked_at.map_or(Duration::ZERO, |then| now - then);
            self.looked_at = Some(now);
            self.looks += 1;
            let still = observe::idle_progress(runtime);
            self.all_zero = still.is_some() && still == self.still;
            self.still = still;
            if self.past.len() < slots {
                self.past.resize(slots, Past::default());
            }
        }
        self.looks < 2
    }

    /// Returns the idle progress during which all rates stay zero.
    pub(crate) fn still(&self) -> Option<u64> {
        self.still.filter(|_| self.all_zero)
    }

    /// Returns the increase of a process's counter; the whole counter for a new process.
    #[inline]
    pub(crate) fn key(&mut self, seen: &ProcessRef<'_>, pass: Pass) -> u64 {
        let counter = self.counter(seen);
        let generation = seen.generation();
        let Some(earlier) = self.past.get_mut(seen.slot() as usize) else {
            return u64::from(counter);
        };
        let same = earlier.generation == generation;
        let counter = if same { not_before(earlier.counter, counter) } else { counter };
        let added = match (same, self.looking && pass != Pass::Again) {
            (true, true) => counter.wrapping_sub(earlier.counter),
            (true, false) => earlier.added,
            (false, _) => counter,
        };
        if self.looking && pass == Pass::AtAll {
            *earlier = Past { generation, counter, added };
        }
        u64::from(added)
    }

    /// Converts an increase of the counter to a rate per second, or to thousandths of a per cent for the share of a
    /// scheduler. Before the second look, all rates are zero.
    fn per_second(&self, added: u64) -> u64 {
        let seconds = self.span.as_secs_f64();
        if self.looks < 2 || seconds <= 0.0 {
            return 0;
        }
        match self.column {
            // The counter is in 1,024 ns.
            Column::BusyPct => (added as f64 * 1024.0 / (seconds * 1e9) * 100_000.0) as u64,
            _ => (added as f64 / seconds) as u64,
        }
    }

    /// Returns the counter behind the rate; its low bits suffice for a difference.
    #[inline]
    fn counter(&self, seen: &ProcessRef<'_>) -> u32 {
        match self.column {
            Column::BusyPct => (seen.busy_ns() >> 10) as u32,
            Column::MsgsPerSec => seen.messages() as u32,
            Column::ArrivalsPerSec => arrivals(seen) as u32,
            _ => seen.reductions() as u32,
        }
    }
}

/// Returns a counter, or its earlier value if that is higher: the number of arrivals may be too high at one look.
const fn not_before(earlier: u32, counter: u32) -> u32 {
    if counter.wrapping_sub(earlier) > i32::MAX as u32 { earlier } else { counter }
}
