//! Faults at bad moments: exit signals to supervisors, and deaths while a supervisor is busy with another child.

use rusm_runtime::{Context, ExitReason, Watch};
use tokio::sync::oneshot;

use super::{Held, Request, TreeBug, TreeDriver, below, is_idle, reason};
use crate::tree_script::{Action, Id, Supervisor, Why};

impl TreeDriver {
    /// Sends an exit signal to a supervisor. After a kill, waits for the ends of all supervisors that it causes: by
    /// then all processes affected have been notified.
    pub(super) async fn exit_supervisor(&self, ctx: &Context, own: Supervisor, why: Why) -> &'static str {
        let Some(supervisor) = self.supervisor(ctx, own).await else { return "nobody" };
        if why != Why::Kill || self.tree.has(TreeBug::SupervisorsSurviveKills) {
            ctx.exit(supervisor.pid(), reason(why));
            return "ok";
        }
        let Ok(below) = below(ctx, supervisor).await else { return "gone" };
        let dying = std::iter::once(supervisor).chain(below.into_iter().map(|(_, supervisor)| supervisor));
        let ends: Vec<Watch> = dying.map(|supervisor| ctx.runtime().watch(supervisor.pid())).collect();
        ctx.exit(supervisor.pid(), ExitReason::Killed);
        for end in ends {
            end.await;
        }
        "ok"
    }

    /// Ends a child; if the child is restarted, performs other actions before the restart is complete.
    pub(super) async fn during(&mut self, ctx: &Context, id: Id, why: Why, actions: &[Action]) -> &'static str {
        let Some(pid) = self.child(ctx, id) else { return "nobody" };
        let (tell, told) = oneshot::channel();
        self.tree.log.lock().hold = Some((id, tell));
        ctx.send(pid, Request::End(why)).await;
        let held = tokio::select! {
            biased;
            held = told => held.ok(),
            _ = self.settle(ctx) => None,
        };
        self.tree.log.lock().hold = None;
        let Some(held) = held else { return "free" };
        for action in actions {
            self.meanwhile(ctx, &held, action).await;
        }
        // The child may have been ended in the meantime.
        held.release.send(()).unwrap_or_default();
        "held"
    }

    async fn meanwhile(&self, ctx: &Context, held: &Held, action: &Action) {
        let (Action::End(id, why) | Action::Exit(id, why)) = action else { return };
        let Some(pid) = self.child(ctx, *id) else { return };
        let signal = if *why == Why::Kill { ExitReason::Killed } else { reason(*why) };
        if pid == held.pid {
            // The child neither receives nor traps exits yet.
            if matches!(action, Action::Exit(..)) && *why != Why::Normal && !self.tree.has(TreeBug::WhoStartsIsDeaf) {
                let end = ctx.runtime().watch(pid);
                ctx.exit(pid, signal);
                end.await;
            }
            return;
        }
        let end = ctx.runtime().watch(pid);
        match action {
            Action::Exit(..) => ctx.exit(pid, signal),
            _ if self.tree.has(TreeBug::DeathsDuringARestartAreMissed) => ctx.send(pid, Request::Slip(*why)).await,
            _ => ctx.send(pid, Request::End(*why)).await,
        }
        if !is_idle(ctx, pid).await {
            end.await;
        }
    }
}
