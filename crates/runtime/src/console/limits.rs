//! What a client may ask of the console before it is refused, slowed down or sent away.

use std::time::Duration;

/// Limits on everybody who connects, whoever it is. The defaults are meant for production; tests shorten the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Observers that may be attached at once. Default 32. Each costs up to 0.5 MiB, a file descriptor and its share of the
    /// console's time. A limit on open files (`ulimit -n`) that leaves less room reduces it.
    pub clients: u32,
    /// Connections of one door, Unix or TCP, that may be at their handshake at once. Default 64. With more of them the one
    /// that has been at it for longest is hung up on.
    pub handshakes: u32,
    /// The longest time for a whole handshake. Default 5 s.
    pub handshake: Duration,
    /// Connections a second that are accepted at each door. Default 200. More of them wait.
    pub connections_per_sec: u32,
    /// Commands a second, and how many may come at once. Default 20. More of them are answered with an error.
    pub commands_per_sec: u32,
    /// WebSocket messages a second, pings among them. Default 200. Whoever sends more is sent away.
    pub messages_per_sec: u32,
    /// Bytes a second that are read from a client. Default 256 KiB. More of them wait in the client's own socket.
    pub bytes_per_sec: u32,
    /// A write that takes longer ends the connection. Default 5 s.
    pub write: Duration,
    /// A quiet connection is asked for a sign of life this often. Default 15 s.
    pub ping_every: Duration,
    /// A connection without one for so long is dead. Default 45 s.
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
