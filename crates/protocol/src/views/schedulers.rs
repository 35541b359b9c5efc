//! Schedulers on the wire: what each does now, its queues and its rates.

use serde::{Deserialize, Serialize};

use crate::ViewWindow;

/// A client's view of the node's schedulers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchedulersView {
    /// Echoed in the answers, so that a client can drop answers to an earlier view.
    pub id: u32,
    /// Range of schedulers, by number.
    #[serde(default)]
    pub window: ViewWindow,
    /// Refreshes per second, 1–10.
    #[serde(default = "default_schedulers_hz")]
    pub hz: f64,
}

const fn default_schedulers_hz() -> f64 {
    4.0
}

impl Default for SchedulersView {
    fn default() -> Self {
        Self { id: 0, window: ViewWindow::default(), hz: default_schedulers_hz() }
    }
}

/// A window of the node's schedulers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedulers {
    /// Id of the view that this answers.
    pub id: u32,
    /// Number of this window, counted per client.
    pub seq: u64,
    /// Uptime of the node when this was sampled, in milliseconds.
    pub at_ms: u64,
    /// CPU time of sampling, in microseconds.
    pub cost_us: f64,
    /// Number of schedulers of the node.
    pub total: u64,
    /// Number of schedulers before the first one of this window.
    pub offset: u64,
    /// Number of runnable processes in the queue that all schedulers take from.
    pub injected: u64,
    /// Schedulers of the window.
    pub schedulers: Vec<SchedulerInfo>,
    /// A scheduler that sleeps although processes wait at another one; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleInfo>,
}

/// State of one scheduler. Rates cover the time since this client's last window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchedulerInfo {
    /// Number of the scheduler, from 0.
    pub number: u32,
    /// Share of time in which its thread was not asleep, 0–1.
    pub awake: f64,
    /// Share of one core that its thread used, 0–1; absent if the system does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Share of time in which its thread was ready but waited for a core, 0–1; absent if the system does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_wait: Option<f64>,
    /// Number of runnable processes that wait here, in all queues of this scheduler.
    pub ready: u64,
    /// Part of `ready` that only this scheduler may run.
    pub pinned: u64,
    /// Part of `ready` that used up a time slice and waits behind the others.
    pub preempted: u64,
    /// Age of the oldest process in its queue, in microseconds, exact to a slice of 250; absent if none waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_us: Option<u64>,
    /// Process inside a poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    /// Name or label of that process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time since the current slice began, in microseconds: an upper bound of the time of the current poll. Absent while
    /// the scheduler sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_us: Option<u64>,
    /// Time for which it has slept, in microseconds; absent while it is awake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asleep_us: Option<u64>,
    /// Polls of processes per second.
    pub polls_per_sec: f64,
    /// Messages received by its processes per second.
    pub messages_per_sec: f64,
    /// Processes that it stole from others per second.
    pub steals_per_sec: f64,
    /// Processes that others took from its queues per second.
    pub stolen_per_sec: f64,
    /// Number of times per second that it went to sleep.
    pub parks_per_sec: f64,
    /// Number of times per second that it woke up.
    pub wakes_per_sec: f64,
    /// Polls per second that ended because the time slice was used up.
    pub preemptions_per_sec: f64,
}

/// A scheduler that sleeps although processes wait at another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleInfo {
    /// Number of the scheduler that sleeps.
    pub idle: u32,
    /// Number of the scheduler with the most waiting processes.
    pub busy: u32,
    /// Number of processes that wait there.
    pub ready: u64,
    /// Part of `ready` that no other scheduler may run.
    pub pinned: u64,
    /// Processes that others took from there per second.
    pub stolen_per_sec: f64,
}
