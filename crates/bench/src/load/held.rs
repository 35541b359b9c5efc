//! Held connections to a server: as many as were asked for, or as many as it accepts.

use super::dial::dial;
use super::options::Target;
use crate::context::RunContext;
use crate::run::error::RunError;
use crate::scenarios::serving::holders::HeldLoad;
use crate::scenarios::serving::wire::Wire;

/// Opens one connection and pings it.
pub(super) async fn probe(target: &Target) -> Result<(), String> {
    let (wire, mut stream) = (wire(target), dial(target).await?);
    wire.open(&mut stream).await.map_err(|error| format!("cannot open the connection: {error}"))?;
    wire.ping(&mut stream).await.map_err(|error| format!("no answer to a ping: {error}"))
}

/// Opens connections until one fails, and pings them in turn until the run stops.
pub(super) async fn run(target: &Target, context: &mut RunContext) -> Result<(), RunError> {
    let load = HeldLoad {
        address: target.address,
        wire: wire(target),
        wanted: u64::from(target.options.connections),
        ends: 1,
        timeout: target.options.timeout,
        finds_limit: true,
    };
    load.run(context).await
}

fn wire(target: &Target) -> Wire {
    if target.options.url.starts_with("http:") {
        Wire::http(&target.host, &target.path)
    } else {
        Wire::websocket(&target.host, &target.path)
    }
}
