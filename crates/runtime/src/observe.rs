//! Observation of a runtime while it runs. Only [`while_paused`] stops the runtime; nothing else slows it down.
//!
//! The functions read relaxed atomics that processes and schedulers update anyway. A [`ProcessRef`] of a process reads
//! 64 bytes of a dense table, so a scan of a million processes takes milliseconds; [`process`] also looks up names.
//!
//! ```
//! # use rusm_runtime as rusm;
//! use rusm::{Config, Runtime, observe};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let pid = runtime.spawn(|ctx| async move { drop(ctx.receive().await) })?;
//! let seen = observe::process(&runtime, pid).expect("it waits for a message");
//! assert_eq!(seen.parent, None);
//! assert_eq!(observe::totals(&runtime).live, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod body_info;
mod cpu;
pub(crate) mod diagnosis;
pub(crate) mod events;
pub(crate) mod extensions;
pub(crate) mod inspect;
pub(crate) mod kinds;
mod memory;
pub(crate) mod metrics;
pub(crate) mod processes;
mod schedulers;
mod streams;
mod supervision;
mod time;
pub(crate) mod totals;

pub use body_info::{BodyBacktrace, BodyFact, BodyInfo};
pub use cpu::{ended_groups, kind};
pub use diagnosis::queues::{SchedulerQueue, queues};
pub use diagnosis::trace::{TraceEnd, TraceEvent, TraceKind, TraceLimits, TraceReport};
pub use diagnosis::traces::{TraceHandle, TraceScope, extend_trace, start_trace, stop_trace, trace_report};
pub use diagnosis::waits::{Wait, WaitTarget, waits_of, waits_of_part, waits_on_buffers};
pub use events::{EventKind, RuntimeEvent};
pub use extensions::engines::{
    CacheReport, Engine, EngineReport, FaultReport, MemoryRegion, MemoryUse, ModuleReport, Slots,
};
pub use extensions::peers::{
    ClusterName, LinkFigures, NetworkPeer, NetworkReport, NodeVitals, PeerReport, Phase, RemoteIdentity, SeenVitals,
    network, peers, vitals,
};
pub use extensions::servers::{HttpServer, LimitBound, LimitReport, LiveKind, LiveRequest, RouteReport, ServerReport};
pub use extensions::stores::{BucketReport, KeyReport, KeysPage, KeysQuery, Storage, StorageReport};
pub use extensions::tables::{RegistryReport, TableReport};
pub use extensions::{engines, registries, servers, storage, stores, tables};
pub use inspect::causes::{CAUSE_INTERVAL, CAUSE_INTERVALS, CAUSES_MAX, CauseKind, CauseReport};
pub use inspect::ended::{EndedBy, EndedProcess, LastFigures};
pub use inspect::histogram::DelayCounts;
pub use inspect::watch::{DelayReport, Preview, PreviewedMessage, WatchReport};
pub use inspect::{
    Belongings, Bond, EndReach, Watching, bonds, cause_backtrace, causes, child_of, children_of, delays, end_reach,
    ended, keep_ended, note_end_by, process_belongings, recent_delays, set_sampling, watch,
};
pub use kinds::{EndedGroup, ProcessKind};
pub use memory::{RuntimeMemory, memory, resident_bytes};
pub use metrics::metrics;
pub use processes::{
    ProcessRef, ProcessReport, ProcessState, TABLE_PART_SLOTS, body_info, body_info_of, display_name, for_each_process,
    link_counts, links, names, process, process_in_slot, process_limit, process_ref, table_parts,
};
pub use schedulers::{
    SchedulerCounters, SchedulerReport, SchedulerWatch, injected, polled, running, running_processes,
    scheduler_reports, schedulers, stuck,
};
pub use streams::streams;
pub use supervision::{SupervisionCounters, restart_pressure, supervision};
pub use time::{ticker_driver, tickers, timers};
pub use totals::{Totals, event_counts, events, idle_progress, mailbox_bytes, totals, uptime, while_paused};

pub use crate::links::registry::ProcessLinks;
pub use crate::mailbox::budget::MailboxBytes;
pub use crate::stream::ring::{ReaderView, RingView};
pub use crate::supervision::supervisor::queries::{
    child, child_positions, children, supervisor, top_positions, top_supervisors,
};
pub use crate::supervision::supervisor::restart_pressure::RestartPressure;
pub use crate::supervision::supervisor::tree::{
    ChildCounts, ChildEnd, ChildKey, ChildPage, ChildReport, ChildStatus, SupervisorReport,
};
pub use crate::time::timers::timer::TimerCounters;
pub use crate::topic::topics;
