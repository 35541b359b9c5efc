//! Connections that are held open, up to the limit of file descriptors: what an idle connection costs, and that each one
//! still answers.
//!
//! ```text
//!   ramp: clients open connections ──▶ three pings on each ──▶ the run: pings on all of them, in turn
//!                                                              server: each connection is a process
//! ```

use std::time::Duration;

use http::StatusCode;
use rusm_protocol::Unit;
use rusm_serve::{Request, Router};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::serving::descriptors::{Descriptors, ENDS};
use crate::scenarios::serving::holders::HeldLoad;
use crate::scenarios::serving::host::{CO_RESIDENT, Host};
use crate::scenarios::serving::wire::Wire;
use crate::scenarios::serving::ws_echo::echo;

/// Time after which a connection or a ping has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Scenario with connections that are held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionScale;

impl Scenario for ConnectionScale {
    fn card(&self) -> Card {
        Card {
            id: "connection-scale",
            family: Family::Actors,
            label: "Connection scale",
            description: "Connections held open, up to the limit of file descriptors, that all answer pings.",
            details: &[
                "The headline is the number of connections held. One operation is a ping that was answered.",
                "Latency is from before a ping is sent until its answer is read.",
                "The soft limit of file descriptors is raised to the hard limit. A connection takes two, because both \
                 ends are in this process; a higher target is lowered to what they allow.",
                "After the ramp each connection must answer three pings, or the run fails. Then the run pings all of \
                 them in turn.",
                "The clients come from addresses of 127/8, 20,000 connections from each: one address has 28,000 ports.",
                "The bytes of a connection are the growth of resident memory until it has answered its pings. They \
                 include its process and the client's socket, but not the buffers of the kernel.",
                CO_RESIDENT,
                "A good result: the target is held. Goal: at most 10 KiB for a connection with its process.",
            ],
            ops_label: "pings/s",
            latency_label: Some("ping to answer"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "connections",
                    description: "Connections to hold; 10M is as many as the limit of file descriptors allows.",
                    kind: Kind::Count { min: 1, max: 10_000_000, default: 1_000 },
                },
                Parameter {
                    name: "protocol",
                    description: "Kind of the connections: WebSockets, or kept connections of HTTP/1.1.",
                    kind: Kind::Choice { words: &["websocket", "http"] },
                },
            ],
            source_file: file!(),
            timed: "ping",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let wanted = context.params().number("connections");
            let target = wanted.min(Descriptors::raise(ENDS).connections_max()).max(1);
            let is_websocket = context.params().word("protocol") == "websocket";
            let router = if is_websocket {
                Router::new().route("GET /", echo)
            } else {
                Router::new().route("GET /", |_: Request| std::future::ready(StatusCode::NO_CONTENT))
            };
            let host = Host::start(context, self.card().id, target, router)?;
            let (address, authority) = (host.address(), host.address().to_string());
            let wire = if is_websocket { Wire::websocket(&authority, "/") } else { Wire::http(&authority, "/") };
            let load = HeldLoad { address, wire, wanted, ends: ENDS, timeout: TIMEOUT, finds_limit: false };
            let outcome = load.run(context).await;
            host.show(context);
            outcome
        })
    }
}
