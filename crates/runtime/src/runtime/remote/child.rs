//! Children of supervisors on other nodes.
//!
//! ```text
//!   supervisor ◀─ link ─▶ local child ◀─ link ─▶ process on the first connected node of a list
//! ```
//!
//! The local child stands for the remote process: it ends with its reason, and with `noconnection` if its node is lost.
//! So restarts, stops and lists are those of a local child. A restart takes the first node that is connected then.

use std::sync::Arc;

use bytes::Bytes;

use crate::links::signal::Exit;
use crate::process::context::Context;
use crate::process::exit::ExitReason;
use crate::process::start::Starting;
use crate::runtime::remote::ask::AskError;
use crate::supervision::supervisor::ChildSpec;

impl ChildSpec {
    /// Creates a permanent worker on another node: the first of `nodes` that is connected and starts it. `name` is the
    /// name of a body that these nodes [export](crate::remote::Exports::spawnable).
    ///
    /// The supervisor lists the local process that stands for the worker.
    pub fn remote<N: Into<Arc<str>>>(
        id: impl Into<Arc<str>>,
        nodes: impl IntoIterator<Item = N>,
        name: impl Into<Arc<str>>,
        argument: Bytes,
    ) -> Self {
        let nodes: Arc<[Arc<str>]> = nodes.into_iter().map(Into::into).collect();
        let name = name.into();
        Self::acknowledged(id, move |ctx, starting| {
            let (nodes, name, argument) = (Arc::clone(&nodes), Arc::clone(&name), argument.clone());
            stand_for(ctx, starting, nodes, name, argument)
        })
    }
}

async fn stand_for(
    ctx: Context,
    starting: Starting,
    nodes: Arc<[Arc<str>]>,
    name: Arc<str>,
    argument: Bytes,
) -> ExitReason {
    ctx.trap_exits(true);
    let mut error: Option<AskError> = None;
    let mut child = None;
    for node in &*nodes {
        match ctx.spawn_link_on(node, &name, argument.clone()).await {
            Ok(pid) => {
                child = Some(pid);
                break;
            }
            Err(failed) => error = Some(failed),
        }
    }
    let Some(child) = child else {
        let reason = error.map_or_else(|| ExitReason::other("the list of nodes is empty"), ExitReason::other);
        return starting.refuse(&ctx, reason);
    };
    starting.acknowledge();
    loop {
        let exit = ctx.receive_of::<Exit>().await;
        if exit.from == child {
            return exit.reason;
        }
        // From the supervisor: the worker is asked to stop, and its end is awaited. The supervisor kills this process
        // after its timeout; the link then ends the worker.
        ctx.exit(child, exit.reason);
    }
}
