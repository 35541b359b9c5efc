//! Tests of the public API: processes, messages, links, timers, supervisors, rings, topics and counters.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

#[path = "../common/ask.rs"]
mod ask;
mod bonds;
mod calls;
mod combinators;
mod counters;
mod counters_faults;
mod crash_lines;
mod crashes;
#[path = "../common/crew.rs"]
mod crew;
mod double_panic;
mod ending;
#[path = "../common/eventually.rs"]
mod eventually;
mod groups;
mod guarded;
mod hooks;
mod last_words;
mod life;
mod limiters;
mod log_lines;
mod mailbox_budget;
mod mailbox_capacity;
mod messages;
mod metrics;
#[path = "../common/network.rs"]
mod network;
mod pipelines;
mod process_limit;
mod remote;
mod restart_wakes;
mod ring;
#[path = "../common/rings.rs"]
mod rings;
mod rings_model;
mod rings_observed;
mod rings_schedules;
mod rings_waiting;
mod schedulers_observed;
mod servers;
mod state_machines;
mod streams;
mod supervision;
mod supervision_schedules;
mod tasks;
mod tickers;
mod tickers_virtual;
mod timers;
mod topics;
mod topics_leases;
mod topics_model;
mod topics_publisher;
mod topics_streams;
mod topics_waiting;
mod traces;
mod virtual_time;
mod waits;
