//! A server of axum on tokio whose state is an actor: the first steps of a program that moves to rusm.
//!
//! ```text
//!   client ──▶ axum, on tokio ── a handler's call ──▶ Visits, on rusm's schedulers
//! ```
//!
//! `cargo run -p rusm-examples --bin tokio_app -- 8080`, then open `/pages/tea` in a browser. SIGTERM lets requests and
//! processes end first.

#![expect(clippy::print_stdout, reason = "an example that prints its address")]

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use rusm::prelude::*;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Counts the visits of each page. It was an `Arc<Mutex<HashMap<…>>>` before.
#[derive(Default)]
struct Visits(HashMap<String, u64>);

#[actor]
impl Visits {
    fn count(&mut self, page: String) -> u64 {
        let count = self.0.entry(page).or_default();
        *count += 1;
        *count
    }

    fn pages(&mut self) -> usize {
        self.0.len()
    }
}

/// The state of the handlers: with the handle they call processes.
#[derive(Clone)]
struct App {
    runtime: Handle,
    visits: VisitsRef,
}

/// A call that fails is the server's error.
async fn page(State(app): State<App>, Path(page): Path<String>) -> Result<String, StatusCode> {
    let count = app.visits.count(&app.runtime, page.clone()).await.or(Err(StatusCode::SERVICE_UNAVAILABLE))?;
    Ok(format!("visit {count} of {page}\n"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let port = std::env::args().nth(1).map_or(Ok(8080), |text| text.parse::<u16>())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let runtime = Runtime::start(Config::default())?;
    let visits = Visits::start(&runtime, Visits::default()).await?;
    let app = App { runtime: (*runtime).clone(), visits };
    let router = axum::Router::new().route("/pages/{page}", get(page)).with_state(app);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("http://{} - stop it with kill -TERM {}", listener.local_addr()?, std::process::id());

    let terminated = async move { _ = terminate.recv().await };
    axum::serve(listener, router).with_graceful_shutdown(terminated).await?;
    let pages = visits.pages(&*runtime).await?;
    let report = runtime.shutdown_async(Duration::from_secs(10)).await;
    println!("{pages} pages were visited; {} processes were killed", report.killed);
    Ok(())
}
