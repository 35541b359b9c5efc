//! The other nodes of a scenario: what the program does when a run starts it again.
//!
//! ```text
//!   the run ── arguments ──▶ this program ── "ready", or the reason why not ──▶ the run
//!           ── stdin stays open ──▶ until it is closed, or this program is killed
//! ```

use std::io::{self, Read, Write};
use std::thread::Builder;

use super::member::{Member, MemberSettings};
use super::transport;

/// Arguments of a node that a scenario starts.
#[derive(Clone, Debug)]
pub struct ClusterNodeArgs {
    /// The node.
    pub member: MemberSettings,
    /// Address of the link that measures: its packets are sent back.
    pub ping: Option<String>,
}

/// First line of a node that has started.
pub(super) const READY: &str = "ready";

/// Runs a node of a scenario until stdin is closed: when the run ends it, or when the program of the run has ended. It
/// says on stdout whether it has started.
///
/// # Errors
/// Returns an error if stdout is closed, or if no thread can be started.
pub fn serve_cluster_node(args: &ClusterNodeArgs) -> io::Result<()> {
    let mut out = io::stdout();
    let started = start(args);
    match &started {
        Ok(_) => writeln!(out, "{READY}")?,
        Err(error) => writeln!(out, "{}", error.replace('\n', " "))?,
    }
    out.flush()?;
    if started.is_ok() {
        // The node may be stuck, so the end of the run does not wait for it.
        let wait = Builder::new().name("rusm-bench-end".to_owned()).spawn(|| {
            let mut rest = Vec::new();
            drop(io::stdin().read_to_end(&mut rest));
            std::process::exit(0);
        })?;
        drop(wait.join());
    }
    Ok(())
}

type Started = (Member, Option<std::sync::Arc<rusm_cluster::NetworkLink>>);

fn start(args: &ClusterNodeArgs) -> Result<Started, String> {
    let echo = args.ping.as_deref().map(|ping| transport::echo(ping, &args.member.secret)).transpose()?;
    // The system gives the number of a program to no other for a while.
    let member = Member::start(&args.member, u128::from(std::process::id()))?;
    Ok((member, echo))
}
