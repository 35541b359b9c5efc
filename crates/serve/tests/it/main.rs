//! A server from its clients' point of view, over real sockets.

mod client;
mod drain;
mod files;
mod h2;
mod http;
mod inline;
mod limits;
mod observed;
mod rfc6455;
mod slow_clients;
mod sse;
mod websocket;

use rusm_runtime::{Config, Runtime};
use rusm_serve::{Limits, Router, ServeConfig, Server};

/// Starts a runtime and a server on a free port.
fn serve(router: Router, limits: Limits) -> (Runtime, Server) {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("a runtime starts");
    let config = ServeConfig { limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router).expect("a port is free");
    (runtime, server)
}
