//! Supervisors under thousands of seeded schedules. Children crash, are killed, terminated, restarted and deleted at
//! random; whenever the tree is at rest, its invariants are checked.
//!
//! Invariants (sentences 17 to 21): the children listed as running are exactly the living ones; children are in the
//! order of their start; a supervisor that ended left no child behind, and ended only when its restarts were used up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusm_fuzz::Rng;
use rusm_runtime::supervisor::{
    ChildError, ChildInfo, ChildSpec, ChildState, Restart, Shutdown, StartChildError, Strategy, Supervisor,
    SupervisorRef,
};
use rusm_runtime::{Context, ExitReason, Pid, Starting, test};

use crate::supervision::world::gave_up;

/// Schedules for each strategy.
const SEEDS: u64 = 1_000;
/// Number of random operations in a run.
const DEEDS: usize = 24;
/// More restarts than any run needs.
const PLENTY: u32 = 10_000;
const HOUR: Duration = Duration::from_hours(1);

/// Set of living processes, maintained by the processes themselves.
#[derive(Clone, Default)]
struct Roll(Arc<Mutex<BTreeSet<Pid>>>);

/// Removes a process from the roll when its future is dropped, however the process ended.
struct Entry(Roll, Pid);

impl Roll {
    fn enter(&self, pid: Pid) -> Entry {
        self.0.lock().insert(pid);
        Entry(self.clone(), pid)
    }

    fn alive(&self) -> BTreeSet<Pid> {
        self.0.lock().clone()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}

/// Body of a child, which ends with the reason that it receives. Slow children trap exits and take time to stop.
async fn live(ctx: Context, starting: Starting, roll: Roll, slow: bool) -> ExitReason {
    let _entry = roll.enter(ctx.pid());
    ctx.trap_exits(slow);
    starting.acknowledge();
    if let Ok(reason) = ctx.receive().await.downcast() {
        return reason;
    }
    ctx.sleep(Duration::from_millis(3)).await;
    ExitReason::Shutdown
}

fn child(name: usize, roll: &Roll) -> ChildSpec {
    let (roll, slow) = (roll.clone(), name % 3 == 1);
    let restart = [Restart::Permanent, Restart::Transient, Restart::Permanent, Restart::Temporary][name % 4];
    // Some slow children are killed before they have stopped.
    let shutdown =
        if name.is_multiple_of(2) { Shutdown::Infinity } else { Shutdown::Timeout(Duration::from_millis(1)) };
    ChildSpec::acknowledged(format!("{name:03}"), move |ctx, starting| live(ctx, starting, roll.clone(), slow))
        .restart(restart)
        .shutdown(shutdown)
}

fn tree(strategy: Strategy, intensity: u32, roll: &Roll) -> Supervisor {
    let inner = Supervisor::new(strategy).intensity(intensity, HOUR);
    let inner = (4..7).fold(inner, |inner, name| inner.child(child(name, roll)));
    let root = Supervisor::new(strategy).intensity(PLENTY, HOUR);
    let root = (0..4).fold(root, |root, name| root.child(child(name, roll)));
    root.child(ChildSpec::supervisor("inner", inner))
}

fn running(children: &[ChildInfo]) -> Vec<Pid> {
    let pid = |child: &ChildInfo| match child.state {
        ChildState::Running(pid) => Some(pid),
        _ => None,
    };
    children.iter().filter_map(pid).collect()
}

/// Returns the children of a supervisor and of its inner supervisor; `None` if the supervisor has ended.
async fn children_of(ctx: &Context, root: SupervisorRef) -> Option<Vec<ChildInfo>> {
    let mut all = Vec::new();
    for child in root.which_children(ctx).await.ok()? {
        if &*child.id == "inner" {
            if let ChildState::Running(pid) = child.state {
                all.extend(SupervisorRef::of(pid).which_children(ctx).await.unwrap_or_default());
            }
        } else {
            all.push(child);
        }
    }
    Some(all)
}

/// Lets the tree come to rest and compares it with the roll.
async fn check(ctx: &Context, root: SupervisorRef, roll: &Roll) -> Vec<ChildInfo> {
    // After this much virtual time every process is idle.
    ctx.sleep(Duration::from_secs(1)).await;
    let children = children_of(ctx, root).await.expect("it has restarts left");
    let listed: BTreeSet<Pid> = running(&children).into_iter().collect();
    assert_eq!(roll.alive(), listed, "living processes and those listed as running");
    for child in &children {
        let runs = matches!(child.state, ChildState::Running(_));
        assert!(runs || child.restart != Restart::Temporary, "{child:?} must be removed when it has ended");
    }
    let own = root.which_children(ctx).await.expect("it has restarts left");
    let first: Vec<&str> = own.iter().map(|child| &*child.id).filter(|id| *id < "004").collect();
    assert!(first.is_sorted(), "not in the order of their start: {first:?}");
    let counts = root.count_children(ctx).await.expect("it has restarts left");
    assert_eq!((counts.specs, counts.active), (own.len(), running(&own).len()));
    children
}

async fn deed(ctx: &Context, root: SupervisorRef, roll: &Roll, dice: &mut Rng, next: &mut usize) {
    let children = children_of(ctx, root).await.expect("it has restarts left");
    let pids = running(&children);
    let own = root.which_children(ctx).await.expect("it has restarts left");
    let Some(pid) = pids.get(dice.below(pids.len().max(1))).copied() else { return };
    let Some(id) = own.get(dice.below(own.len().max(1))).map(|child| Arc::clone(&child.id)) else { return };
    match dice.below(10) {
        0..3 => drop(ctx.try_send(pid, ExitReason::other("crash"))),
        3 => drop(ctx.try_send(pid, ExitReason::Normal)),
        4..6 => ctx.exit(pid, ExitReason::Killed),
        6 => drop(root.terminate_child(ctx, &*id).await),
        7 => match root.restart_child(ctx, &*id).await {
            Ok(_) | Err(ChildError::Running | ChildError::NotFound | ChildError::Init(_)) => {}
            Err(error) => panic!("{error}"),
        },
        8 => drop(root.delete_child(ctx, &*id).await),
        _ => {
            *next += 1;
            match root.start_child(ctx, child(*next, roll)).await {
                // The child may receive an exit signal while it starts.
                Ok(_) | Err(StartChildError::Init(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn storm(ctx: Context, strategy: Strategy, seed: u64) {
    let (roll, mut dice, mut next) = (Roll::default(), Rng::new(seed), 100);
    let root = tree(strategy, 2, &roll).start_link(&ctx).await.expect("all start");
    for _ in 0..DEEDS {
        deed(&ctx, root, &roll, &mut dice, &mut next).await;
        if dice.below(4) == 0 {
            check(&ctx, root, &roll).await;
        }
    }
    check(&ctx, root, &roll).await;
    let end = ctx.runtime().watch(root.pid());
    ctx.trap_exits(true);
    ctx.exit(root.pid(), ExitReason::Shutdown);
    assert_eq!(end.await, ExitReason::Shutdown);
    assert_eq!(roll.alive(), BTreeSet::new(), "no child is left");
}

fn storms(strategy: Strategy) {
    let asked = std::env::var(test::SEED_VARIABLE).ok().map(|seed| seed.parse::<u64>().expect("a number"));
    for seed in asked.map_or(0..SEEDS, |seed| seed..seed + 1) {
        // Runs the same operations under several schedules.
        test::explore([seed], |ctx| storm(ctx, strategy, seed / 4));
    }
}

#[test]
fn s18_one_for_one_keeps_its_children_under_every_schedule() {
    storms(Strategy::OneForOne);
}

#[test]
fn s18_one_for_all_keeps_its_children_under_every_schedule() {
    storms(Strategy::OneForAll);
}

#[test]
fn s18_rest_for_one_keeps_its_children_under_every_schedule() {
    storms(Strategy::RestForOne);
}

#[test]
fn s20_under_every_schedule_the_window_allows_exactly_its_restarts() {
    test::explore(0..SEEDS, |ctx| async move {
        let roll = Roll::default();
        ctx.trap_exits(true);
        let supervisor = Supervisor::new(Strategy::OneForOne).intensity(3, HOUR);
        let supervisor = (0..4).fold(supervisor, |all, name| all.child(child(name * 4, &roll)));
        let root = supervisor.start_link(&ctx).await.expect("all start");
        let end = ctx.runtime().watch(root.pid());
        let children = running(&root.which_children(&ctx).await.expect("the supervisor is alive"));

        // Three restarts within the window are allowed.
        for pid in &children[..3] {
            ctx.exit(*pid, ExitReason::Killed);
        }
        assert_eq!(check(&ctx, root, &roll).await.len(), 4);
        // An hour later the window is empty, so three more restarts are allowed.
        ctx.sleep(HOUR).await;
        for pid in &running(&root.which_children(&ctx).await.expect("the supervisor is alive"))[..3] {
            ctx.exit(*pid, ExitReason::Killed);
        }
        assert_eq!(check(&ctx, root, &roll).await.len(), 4);
        // The fourth restart exceeds the limit.
        ctx.exit(children[3], ExitReason::Killed);
        assert!(gave_up(&end.await));
        assert_eq!(roll.alive(), BTreeSet::new(), "no child is left");
    });
}
