//! Scenarios of serving: clients and server are processes of the node under load, and talk over loopback.

pub(crate) mod connection_scale;
pub(crate) mod connection_storm;
pub(crate) mod descriptors;
pub(crate) mod handlers;
pub(crate) mod holders;
pub(crate) mod host;
pub(crate) mod http_throughput;
pub(crate) mod sse_fanout;
pub(crate) mod wire;
pub(crate) mod ws_echo;
