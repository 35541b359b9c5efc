//! `rusm-top`, the terminal observer of a rusm node, as a library with a pure core.
//!
//! ```text
//!   socket task ──▶ inbox (newest frame, newest rows, 64 answers) ─┐
//!   keys, mouse, resize ───────────────────────────────────────────┼─▶ Msg ─▶ update(&mut Model, Msg, now)
//!   ticks, signals ────────────────────────────────────────────────┘             │                     │
//!                                                                                ▼                     ▼
//!                                         one write per frame ◀── view::draw(&Model)       Vec<Effect>: send, copy, …
//! ```
//!
//! [`model`] holds all state and draws nothing. [`view`] draws the model and changes nothing. `connection` and
//! [`terminal`] do the I/O, and [`run`] connects the parts. Model files use no terminal library and view files never
//! change a model: a test checks this in the sources.

pub mod cli;
pub mod connection;
pub mod demo;
mod exit;
mod export;
pub mod model;
mod once;
pub mod picture;
pub mod replay;
mod run;
mod start;
pub mod terminal;
pub mod view;

pub use cli::environment;
pub use cli::options::{Act, CONNECT_TIMEOUT, ColorChoice, Export, FPS_LOCAL, FPS_REMOTE, Once, Options, Source};
pub use exit::{Error, Exit};
pub use run::run;
