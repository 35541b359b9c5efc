//! Limits of a server. Each one is on by default, has the status code that its client receives, and counts how often it
//! was hit.

pub(crate) mod client;
pub(crate) mod memory;
pub(crate) mod rate;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use rusm_runtime::observe::{LimitBound, LimitReport};

use crate::limits::client::{ClientAccount, ClientAccounts};

/// Limits of a server. The defaults are meant for production.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use std::time::Duration;
///
/// use rusm::serve::Limits;
///
/// let strict = Limits { in_flight: 100, handler_timeout: Duration::from_secs(2), ..Limits::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of open connections, with `WebSocket`s. Further ones wait in the queue of the operating system. Default 10,000.
    pub connections: u32,
    /// Number of requests that are handled at once. Default 10,000.
    pub in_flight: u32,
    /// Number of requests that may wait until one of those in flight ends. Further ones get 503 with `Retry-After`.
    /// Default 1,000.
    pub queue: u32,
    /// Time that a request may wait in the queue, after which it gets 503. Default 5 s.
    pub queue_timeout: Duration,
    /// Bytes of the target of a request (414). Default 8 KiB.
    pub target_bytes: usize,
    /// Bytes of the names and values of a request's header fields (431). Default 16 KiB.
    pub head_bytes: usize,
    /// Number of header fields of a request (431). Default 100.
    pub head_fields: usize,
    /// Bytes of a request's body (413). Default 2 MiB.
    pub body_bytes: u64,
    /// Bytes of all bodies that handlers collect (503 with `Retry-After`) and of all messages of `WebSocket`s that are not
    /// whole (close code 1013) at a time; at most half of them of one client address. As many of handshakes of TLS, which
    /// wait for each other. Default an eighth of the memory of the machine or of the control group, at least 32 MiB.
    pub bodies_bytes: u64,
    /// Bytes of all responses that clients have not taken yet, at most half of them of one client address; a response that
    /// is streamed waits for room, another one gets 503 with `Retry-After`. While half is taken, a client that takes nothing
    /// for a second is disconnected. Default as for `bodies_bytes`.
    pub responses_bytes: u64,
    /// Time for the head of a request, from its first byte or from the start of the connection (408). Default 10 s.
    pub head_timeout: Duration,
    /// Time for the body of a request (408). Default 60 s.
    pub body_timeout: Duration,
    /// Time from the head of a request to the head of its response (504). If the handler waits for the body, the time
    /// begins when that has arrived. Default 30 s.
    pub handler_timeout: Duration,
    /// Time for which a connection may be open without a request and without a byte of a response that its client takes,
    /// after which it is closed. Default 60 s.
    pub idle_timeout: Duration,
    /// Time for which a client may accept no byte, after which it is disconnected. Default 30 s.
    pub write_timeout: Duration,
    /// Number of concurrent HTTP/2 streams of a connection. Default 100.
    pub h2_streams: u32,
    /// Number of streams of a connection that were reset and not handled yet, after which it is closed. Default 20.
    pub h2_resets: usize,
    /// Bytes of a WebSocket frame (close code 1009). Default 1 MiB.
    pub ws_frame_bytes: usize,
    /// Bytes of a WebSocket message (close code 1009). Default 1 MiB.
    pub ws_message_bytes: usize,
    /// Time without a frame from a WebSocket's client, after which the client is pinged, and after as long again
    /// disconnected. Default 30 s.
    pub ws_ping: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            in_flight: 10_000,
            queue: 1_000,
            queue_timeout: Duration::from_secs(5),
            target_bytes: 8 * 1024,
            head_bytes: 16 * 1024,
            head_fields: 100,
            body_bytes: 2 * 1024 * 1024,
            bodies_bytes: rusm_runtime::defaults::mailbox_total_bytes() / 2,
            responses_bytes: rusm_runtime::defaults::mailbox_total_bytes() / 2,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_mins(1),
            handler_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_secs(30),
            h2_streams: 100,
            h2_resets: 20,
            ws_frame_bytes: 1024 * 1024,
            ws_message_bytes: 1024 * 1024,
            ws_ping: Duration::from_secs(30),
        }
    }
}

/// Maximum effective time of a limit or a drain: adding a longer one to an instant can overflow.
pub(crate) const TIME_MAX: Duration = Duration::from_hours(24 * 365);

impl Limits {
    /// Returns the limits with times of at most [`TIME_MAX`].
    pub(crate) fn with_bounded_times(self) -> Self {
        let bounded = |time: Duration| time.min(TIME_MAX);
        Self {
            queue_timeout: bounded(self.queue_timeout),
            head_timeout: bounded(self.head_timeout),
            body_timeout: bounded(self.body_timeout),
            handler_timeout: bounded(self.handler_timeout),
            idle_timeout: bounded(self.idle_timeout),
            write_timeout: bounded(self.write_timeout),
            ws_ping: bounded(self.ws_ping),
            ..self
        }
    }

    /// Creates the accounts of all clients.
    pub(crate) fn client_accounts(&self) -> ClientAccounts {
        ClientAccounts::new(self.responses_bytes, self.bodies_bytes, self.body_bytes)
    }
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident $id:literal $status:expr),+ $(,)?) => {
        /// A limit that a client can hit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Limit {
            $($(#[$doc])* $name),+
        }

        impl Limit {
            /// All limits.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the name of the limit, as in [`Limits`] and in the settings file.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }

            /// Returns the status of the response; `None` if the connection is closed or waits instead.
            pub const fn status(self) -> Option<StatusCode> {
                match self { $(Self::$name => $status),+ }
            }
        }
    };
}

limits! {
    /// [`Limits::connections`].
    Connections "connections" None,
    /// [`Limits::in_flight`] and [`Limits::queue`].
    Queue "queue" Some(StatusCode::SERVICE_UNAVAILABLE),
    /// [`Limits::queue_timeout`].
    QueueTimeout "queue_timeout" Some(StatusCode::SERVICE_UNAVAILABLE),
    /// [`Limits::target_bytes`].
    TargetBytes "target_bytes" Some(StatusCode::URI_TOO_LONG),
    /// [`Limits::head_bytes`].
    HeadBytes "head_bytes" Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
    /// [`Limits::head_fields`].
    HeadFields "head_fields" Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
    /// [`Limits::body_bytes`].
    BodyBytes "body_bytes" Some(StatusCode::PAYLOAD_TOO_LARGE),
    /// [`Limits::bodies_bytes`].
    BodiesBytes "bodies_bytes" Some(StatusCode::SERVICE_UNAVAILABLE),
    /// [`Limits::responses_bytes`].
    ResponsesBytes "responses_bytes" Some(StatusCode::SERVICE_UNAVAILABLE),
    /// [`Limits::head_timeout`].
    HeadTimeout "head_timeout" Some(StatusCode::REQUEST_TIMEOUT),
    /// [`Limits::body_timeout`].
    BodyTimeout "body_timeout" Some(StatusCode::REQUEST_TIMEOUT),
    /// [`Limits::handler_timeout`].
    HandlerTimeout "handler_timeout" Some(StatusCode::GATEWAY_TIMEOUT),
    /// [`Limits::idle_timeout`].
    IdleTimeout "idle_timeout" None,
    /// [`Limits::write_timeout`].
    WriteTimeout "write_timeout" None,
    /// [`Limits::h2_streams`], [`Limits::h2_resets`] and other rules of HTTP/2.
    Http2 "h2" None,
    /// [`Limits::ws_frame_bytes`] and [`Limits::ws_message_bytes`].
    WsBytes "ws_bytes" None,
    /// [`Limits::ws_ping`].
    WsPing "ws_ping" None,
    /// The [rate limits](crate::RateLimit) of the server and of its routes.
    Rate "rate" Some(StatusCode::TOO_MANY_REQUESTS),
}

impl Limit {
    /// Returns the bound of the limit; `None` if it has several.
    fn bound(self, limits: &Limits) -> Option<LimitBound> {
        Some(match self {
            Self::Connections => LimitBound::Count(limits.connections.into()),
            Self::Queue => LimitBound::Count(limits.queue.into()),
            Self::QueueTimeout => LimitBound::Time(limits.queue_timeout),
            Self::TargetBytes => LimitBound::Bytes(limits.target_bytes as u64),
            Self::HeadBytes => LimitBound::Bytes(limits.head_bytes as u64),
            Self::HeadFields => LimitBound::Count(limits.head_fields as u64),
            Self::BodyBytes => LimitBound::Bytes(limits.body_bytes),
            Self::BodiesBytes => LimitBound::Bytes(limits.bodies_bytes),
            Self::ResponsesBytes => LimitBound::Bytes(limits.responses_bytes),
            Self::HeadTimeout => LimitBound::Time(limits.head_timeout),
            Self::BodyTimeout => LimitBound::Time(limits.body_timeout),
            Self::HandlerTimeout => LimitBound::Time(limits.handler_timeout),
            Self::IdleTimeout => LimitBound::Time(limits.idle_timeout),
            Self::WriteTimeout => LimitBound::Time(limits.write_timeout),
            Self::Http2 => LimitBound::Count(limits.h2_streams.into()),
            Self::WsBytes => LimitBound::Bytes(limits.ws_message_bytes as u64),
            Self::WsPing => LimitBound::Time(limits.ws_ping),
            Self::Rate => return None,
        })
    }
}

/// Counts how often each limit was hit, and the bytes of the bodies and messages that are being collected.
#[derive(Debug, Default)]
pub(crate) struct LimitHits {
    hits: [AtomicU64; Limit::ALL.len()],
    bodies_bytes: AtomicU64,
}

/// Bytes of a body or of a message that is being collected. They are free again when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    hits: Arc<LimitHits>,
    client: Arc<ClientAccount>,
    limit_bytes: u64,
    bytes: u64,
}

impl HeldBytes {
    pub(crate) fn new(hits: &Arc<LimitHits>, client: &Arc<ClientAccount>, limit_bytes: u64) -> Self {
        Self { hits: Arc::clone(hits), client: Arc::clone(client), limit_bytes, bytes: 0 }
    }

    /// Sets the number of bytes. Returns false if all bodies and messages together, or those of the client, are longer than
    /// their limit then.
    #[inline]
    pub(crate) fn set(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes {
            return self.add(bytes - self.bytes);
        }
        if bytes < self.bytes {
            self.free(self.bytes - bytes);
            self.bytes = bytes;
        }
        true
    }

    /// Adds bytes. Returns false as [`set`](Self::set).
    pub(crate) fn add(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        // Relaxed: only the sum matters.
        let fits_client = self.client.bodies_bytes.fetch_add(bytes, Relaxed) + bytes <= self.client.bodies_bytes_max;
        let fits = self.hits.bodies_bytes.fetch_add(bytes, Relaxed) + bytes <= self.limit_bytes && fits_client;
        if !fits {
            self.hits.count(Limit::BodiesBytes);
        }
        fits
    }

    fn free(&self, bytes: u64) {
        self.hits.bodies_bytes.fetch_sub(bytes, Relaxed);
        self.client.bodies_bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.free(self.bytes);
    }
}

impl LimitHits {
    pub(crate) fn count(&self, limit: Limit) {
        self.hits[limit as usize].fetch_add(1, Relaxed);
    }

    /// Returns all limits with their bounds and counts.
    pub(crate) fn reports(&self, limits: &Limits) -> Vec<LimitReport> {
        let report = |&limit: &Limit| LimitReport {
            name: limit.id(),
            bound: limit.bound(limits),
            status: limit.status().map(|status| status.as_u16()),
            hits_total: self.hits[limit as usize].load(Relaxed),
        };
        Limit::ALL.iter().map(report).collect()
    }

    /// Returns the limits that were hit, with their counts.
    pub(crate) fn totals(&self) -> Vec<(Limit, u64)> {
        let totals = Limit::ALL.iter().map(|&limit| (limit, self.hits[limit as usize].load(Relaxed)));
        totals.filter(|(_, total)| *total > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_their_bytes_and_give_them_back() {
        let hits = Arc::new(LimitHits::default());
        let limits = Limits { bodies_bytes: 14, body_bytes: 10, ..Limits::default() };
        let clients = limits.client_accounts();
        let held = |last| HeldBytes::new(&hits, &clients.of([192, 0, 2, last].into()), limits.bodies_bytes);
        let [mut one, mut other] = [1, 2].map(held);

        assert!(one.add(6) && other.add(8) && !other.add(1));
        assert_eq!(hits.totals(), [(Limit::BodiesBytes, 1)]);
        drop(other);
        assert!(one.add(4));
        assert!(one.set(3) && one.set(7));
        assert_eq!(hits.bodies_bytes.load(Relaxed), 7);
        let mut another = held(1);
        assert!(!another.add(4), "of the same client");
        drop((one, another));
        assert_eq!(hits.bodies_bytes.load(Relaxed), 0);
    }

    #[test]
    fn each_limit_has_its_own_counter() {
        let hits = LimitHits::default();
        for &limit in Limit::ALL {
            hits.count(limit);
        }
        hits.count(Limit::BodyBytes);

        let totals = hits.totals();

        assert_eq!(totals.len(), Limit::ALL.len());
        assert!(totals.iter().all(|(limit, total)| *total == if *limit == Limit::BodyBytes { 2 } else { 1 }));
    }
}
