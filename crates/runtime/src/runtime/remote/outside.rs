//! Calls and watches of code outside of processes: a process does them on its behalf, because another node knows only
//! processes.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::links::signal::Down;
use crate::mailbox::call::{CallError, PendingReply};
use crate::mailbox::request::ReplyTo;
use crate::process::context::Context;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;

impl Handle {
    /// Returns the end of a process of another node; `None` if no process can wait for it.
    pub(crate) fn watch_remote(&self, pid: Pid) -> Option<oneshot::Receiver<ExitReason>> {
        let (tell, told) = oneshot::channel();
        let watch = move |ctx: Context| async move {
            let reference = ctx.monitor(pid);
            loop {
                let down = ctx.receive_of::<Down>().await;
                if down.reference == reference {
                    // The future may have been dropped.
                    drop(tell.send(down.reason));
                    return;
                }
            }
        };
        self.spawn(watch).ok().map(|_| told)
    }

    /// Calls a process of another node: a process of this node awaits the reply.
    pub(crate) async fn call_remote<M, R>(
        &self,
        to: Pid,
        timeout: Duration,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> Result<R, CallError>
    where
        M: Send + 'static,
        R: Send + 'static,
    {
        if !self.shared.is_sendable::<M>(to) {
            return Err(CallError::NotPortable { to, request: std::any::type_name::<M>() });
        }
        let (give_reply, reply) = oneshot::channel();
        let (give, answer) = oneshot::channel();
        let wait = move |ctx: Context| async move {
            let pending = PendingReply::<R>::of(&ctx, to);
            // The caller may have stopped waiting, here and below.
            drop(give_reply.send(pending.reply_to()));
            let answer = ctx.within(timeout, pending).await;
            drop(give.send(answer));
        };
        let lost = CallError::NoConnection { to };
        if self.spawn(wait).is_err() {
            return Err(lost);
        }
        let Ok(reply) = reply.await else { return Err(lost) };
        let sent = async {
            self.send(to, make(reply)).await;
            answer.await
        };
        match self.within(timeout, sent).await {
            None | Some(Ok(None)) => Err(CallError::Timeout { to, timeout }),
            Some(Ok(Some(answer))) => answer.map_err(|why| CallError::unanswered(to, why)),
            Some(Err(_)) => Err(lost),
        }
    }
}
