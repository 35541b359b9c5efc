//! The observer endpoint: samples the runtime and streams the samples to attached clients.
//!
//! ```text
//!   runtime ──▶ sampler ──▶ newest sample ──▶ session ──▶ observer      one thread, beside the schedulers
//!   Host   ◀────────── commands ◀──────────── session ◀── observer
//! ```
//!
//! An application calls [`Console::bind`] so that `rusm-top` can observe it:
//!
//! ```no_run
//! # mod rusm { pub use rusm_runtime::*; pub use rusm_console as console; }
//! use rusm::console::{Console, ConsoleConfig};
//! use rusm::{Config, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let console = Console::bind(&runtime, ConsoleConfig::named("my-app"))?;
//! println!("watch me: rusm-top {}", console.socket().display());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod config;
mod console;
mod encode;
mod endpoint;
mod host;
mod lints;
mod metrics;
mod rate_limit;
mod recorder;
mod sampler;
mod serving;
mod session;
mod view;

pub use config::{ConsoleConfig, Limits, LogFilter, LogLines, LogSource, RecorderConfig, TickRate, TickRateError};
pub use console::Console;
pub use endpoint::error::ConsoleError;
pub use endpoint::private_dir::{check_dir, runtime_dir};
pub use endpoint::{check_listen, check_name};
#[doc(hidden)] // For other sockets of a node.
pub use endpoint::{on_behalf::connect_on_behalf, owned_file::OwnedFile};
pub use host::{Host, HostError, NoScenarios, RunSnapshot};
pub use lints::{LintLevel, LintLevels, LintThresholds};
pub use serving::metrics_reader::MetricsReader;
pub use serving::readiness::Readiness;

pub use rusm_protocol::{Lint, LogLine, LogSnapshot};
