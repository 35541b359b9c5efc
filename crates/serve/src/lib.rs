//! HTTP, WebSocket and server-sent events on rusm: each connection and each request is a process.
//!
//! ```text
//!   Server ──▶ acceptors ──▶ connection ──▶ request ──▶ response
//!                            a process      a process: a pid, a label, busy time, an exit reason
//! ```
//!
//! A handler is an asynchronous function from a [`Request`] to a response. It runs in a process of its own: a panic
//! answers 500 to that client alone, a client that leaves ends it, and observers see what it does.
//!
//! ```no_run
//! # mod rusm { pub use rusm_runtime::*; pub use rusm_serve as serve; }
//! use rusm::{Config, Runtime};
//! use rusm::serve::{Request, Router, ServeConfig, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::start(Config::default())?;
//! let router = Router::new()
//!     .route("GET /", async |_: Request| "hello\n")?
//!     .route("GET /users/:id", async |request: Request| format!("user {}\n", request.param("id").unwrap_or("")))?;
//! let server = Server::start(&runtime, ServeConfig::listen(([127, 0, 0, 1], 8080)), router)?;
//! println!("http://{}", server.local_addr());
//! # Ok(())
//! # }
//! ```
//!
//! [`service`] makes a handler of an axum `Router` or any other service of tower, [`websocket::upgrade`] one of a
//! WebSocket, [`events`] one of a stream of events. [`Limits`] are on by default. [`Server::drain`] ends a server without
//! cutting a request.

mod body;
mod connection;
mod drain;
mod files;
mod handler;
mod limits;
mod request;
mod router;
mod server;
mod shared;
mod sse;
mod stats;
mod tls;
mod upgrade;
pub mod websocket;

pub use body::{Body, BodyError, BoxError, Collected};
pub use connection::rest::finish_later;
pub use files::Files;
pub use handler::{Handler, ResponseFuture, TowerService, service};
pub use http;
pub use limits::rate::RateLimit;
pub use limits::{Limit, Limits};
pub use request::trace::{SpanId, TRACEPARENT, TraceContext, TraceId};
pub use request::{Connection, Html, IntoResponse, Params, Request, Response};
#[cfg(feature = "json")]
pub use request::{Json, JsonError};
pub use router::{RouteError, Router};
pub use rusm_runtime::observe::{LiveKind, LiveRequest, RouteReport, ServerReport};
pub use server::{ServeConfig, ServeError, Server, listeners};
pub use sse::{Event, events};
pub use tls::{TlsError, TlsFiles};
