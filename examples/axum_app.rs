//! An axum router inside of rusm: each request is a process with a pid, its CPU time and an exit reason.
//!
//! ```text
//!   client ──▶ rusm::serve ── a process per request ──▶ axum Router ── call ──▶ Visits (an actor)
//! ```
//!
//! `cargo run -p rusm-examples --bin axum_app -- 8080`, then open `/pages/tea` in a browser. `/crash` ends its own process:
//! the client gets 500, and the others go on.

#![expect(clippy::print_stdout, reason = "an example that prints its address")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use rusm::prelude::*;
use rusm::serve::{Router, ServeConfig, Server, service};
use tokio::signal::unix::{SignalKind, signal};

/// Counts the visits of each page.
#[derive(Default)]
struct Visits(HashMap<String, u64>);

#[actor]
impl Visits {
    fn count(&mut self, page: String) -> u64 {
        let count = self.0.entry(page).or_default();
        *count += 1;
        *count
    }
}

/// The context is that of the request's process. A call that fails is the server's error.
async fn page(
    State(visits): State<VisitsRef>,
    Extension(ctx): Extension<Arc<Context>>,
    Path(page): Path<String>,
) -> Result<String, StatusCode> {
    let count = visits.count(&ctx, page.clone()).await.or(Err(StatusCode::SERVICE_UNAVAILABLE))?;
    Ok(format!("visit {count} of {page}, by process {}\n", ctx.pid()))
}

async fn crash() -> StatusCode {
    panic!("as asked")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map_or(Ok(8080), |text| text.parse::<u16>())?;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let runtime = Runtime::start(Config::default())?;
    let visits = Visits::start(&runtime, Visits::default()).await?;
    let app = axum::Router::new().route("/pages/{page}", get(page)).route("/crash", get(crash)).with_state(visits);
    let router = Router::new().route("/*", service(app))?;
    let server = Server::start(&runtime, ServeConfig::listen(([127, 0, 0, 1], port)), router)?;
    println!("http://{} - press ctrl-c to stop", server.local_addr());

    interrupts.recv().await;
    server.drain_async(Duration::from_secs(5)).await;
    runtime.shutdown_async(Duration::from_secs(1)).await;
    Ok(())
}
