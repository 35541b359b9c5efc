//! Limits on clients of the console, beyond which they are refused, slowed down or disconnected.

use std::time::Duration;

/// Limits on every connection. The defaults are meant for production; tests shorten the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Number of observers that may be attached at once. Default 32. Each costs up to 0.5 MiB, a file descriptor and
    /// its share of the console's time. A limit on open files (`ulimit -n`) that leaves less room reduces it.
    pub clients: u32,
    /// Number of pending handshakes of one listener, Unix or TCP. Default 64. Beyond it, the oldest is closed.
    pub handshakes: u32,
    /// Time limit for a whole handshake. Default 5 s.
    pub handshake: Duration,
    /// Connections per second that each listener accepts. Default 200. Further connections wait.
    pub connections_per_sec: u32,
    /// Commands per second, also the size of a burst. Default 20. Further commands are answered with an error.
    pub commands_per_sec: u32,
    /// WebSocket messages per second, including pings. Default 200. A client that sends more is disconnected.
    pub messages_per_sec: u32,
    /// Bytes per second read from a client. Default 256 KiB. Further bytes wait in the client's own socket.
    pub bytes_per_sec: u32,
    /// Time limit for a write, after which the connection is closed. Default 5 s.
    pub write: Duration,
    /// Interval at which a quiet connection is pinged. Default 15 s.
    pub ping_every: Duration,
    /// Time without any sign of life after which a connection is closed as dead. Default 45 s.
    pub dead_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 32,
            handshakes: 64,
            handshake: Duration::from_secs(5),
            connections_per_sec: 200,
            commands_per_sec: 20,
            messages_per_sec: 200,
            bytes_per_sec: 256 * 1024,
            write: Duration::from_secs(5),
            ping_every: Duration::from_secs(15),
            dead_after: Duration::from_secs(45),
        }
    }
}
