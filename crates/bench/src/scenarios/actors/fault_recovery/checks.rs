//! Intervals at which a driver checks its children, and the check at the end of the run.

use std::time::Duration;

use rusm_runtime::Context;
use rusm_runtime::supervisor::{ChildState, SupervisorRef};

/// Interval at which a driver checks the stop flag.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Maximum number of checks after the stop; by then every crash must have been recovered. A busy machine takes seconds.
pub(super) const LOOKS_MAX: u32 = 1_500;
/// Window of the restart intensity: short, so that the supervisor never gives up in a storm of crashes.
pub(super) const PERIOD: Duration = Duration::from_millis(1);

/// Returns the number of children that do not run at the end, plus the number of crashes without a restart.
pub(super) async fn faults_of(ctx: &Context, supervisor: &SupervisorRef, children: u64, crashes: u64) -> u64 {
    let family = supervisor.which_children(ctx).await.unwrap_or_default();
    let runs = |state| matches!(state, ChildState::Running(_));
    let active = family.iter().filter(|child| runs(child.state)).count() as u64;
    let restarts: u64 = family.iter().map(|child| child.restarts_total).sum();
    children.saturating_sub(active) + crashes.saturating_sub(restarts)
}
