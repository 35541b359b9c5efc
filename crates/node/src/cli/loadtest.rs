//! The command line of `rusm loadtest`. A load is required: `--rate`, `--max`, `--find-max`, or that of the report in
//! `--from`; the protocol `conn` has its own.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::bench::{KeepFlags, OutputFlags};
use super::common::CommonFlags;

/// Protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// A request and its response.
    Http,
    /// A message and the next message received.
    Ws,
    /// A connection, a request and the first events.
    Sse,
    /// Some bytes sent, and as many received.
    Tcp,
    /// As many held connections as --connections says or the server accepts, and pings on all of them.
    Conn,
}

#[derive(Debug, Args)]
pub(crate) struct LoadFlags {
    /// Protocol of the server.
    #[arg(required_unless_present = "from")]
    pub(crate) protocol: Option<Protocol>,
    /// URL of the server: `http://127.0.0.1:8080/path`, `https://…`, `ws://…`, `wss://…`, `tcp://127.0.0.1:7000`.
    #[arg(required_unless_present = "from")]
    pub(crate) url: Option<String>,
    /// Offers this many requests per second, whether or not earlier ones are answered.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true, conflicts_with_all = ["max", "find_max"])]
    pub(crate) rate: Option<f64>,
    /// Sends each request as soon as the previous one is answered: the maximum throughput, without a latency limit.
    #[arg(long, conflicts_with = "find_max")]
    pub(crate) max: bool,
    /// Finds the highest rate within the limits of --slo and --max-errors.
    #[arg(long)]
    pub(crate) find_max: bool,
    /// Latency limit, such as p99=20ms.
    #[arg(long, value_name = "p99=TIME", requires = "find_max")]
    pub(crate) slo: Option<String>,
    /// Maximum share of failed requests, such as 3% [default: 0%].
    #[arg(long, value_name = "PERCENT", requires = "find_max", allow_hyphen_values = true)]
    pub(crate) max_errors: Option<String>,
    /// Number of connections, each with one request in flight [default: 64].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) connections: Option<i64>,
    /// Time to measure after the warm-up [default: 5s].
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Maximum warm-up [default: 5s].
    #[arg(long, value_name = "TIME")]
    pub(crate) warm_up: Option<String>,
    /// Number of runs [default: 6, the fewest that give an interval].
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,
    /// The method of HTTP requests [default: GET].
    #[arg(long)]
    pub(crate) method: Option<String>,
    /// A header of HTTP requests; may be given several times.
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// The body of HTTP requests.
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// Sends HTTP requests by HTTP/2, one at a time on each connection.
    #[arg(long)]
    pub(crate) http2: bool,
    /// Size of each WebSocket or TCP message, such as 1KiB [default: 64].
    #[arg(long, value_name = "SIZE")]
    pub(crate) payload: Option<String>,
    /// Number of events that complete an SSE operation [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) events: Option<u32>,
    /// Time after which a request counts as failed [default: 10s].
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<String>,
    /// Trusts the certificates of this PEM file, for https and wss [default: the public authorities].
    #[arg(long, value_name = "FILE")]
    pub(crate) authority: Option<PathBuf>,
    /// Repeats the run of a report; other flags override its settings.
    #[arg(long, value_name = "REPORT", conflicts_with_all = ["protocol", "url"])]
    pub(crate) from: Option<PathBuf>,
    /// Draws the latency curve of --find-max into an SVG file.
    #[arg(long, value_name = "FILE", requires = "find_max")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) history: KeepFlags,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}
