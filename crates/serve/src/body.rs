//! Bodies of requests and responses.
//!
//! ```text
//!   request:   hyper ──▶ Body, counted and limited in bytes and time ──▶ handler
//!   response:  handler ──▶ Body ──▶ hyper; a stream is polled by the request's own process and passes a bounded channel
//! ```

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use crate::limits::client::ClientAccount;
use crate::limits::{HeldBytes, Limit, LimitHits, Limits};

/// An error of any type, as bodies of other libraries return it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Reason why a body ended early.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The body is longer than its limit: answer with 413.
    #[error("the body is longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// All bodies that are being collected are longer than their limit: answer with 503.
    #[error("the bodies of all requests together are longer than {limit_bytes} bytes")]
    TooMany {
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The body did not arrive in time: answer with 408.
    #[error("the body did not arrive within {limit:?}")]
    TooSlow {
        /// The limit.
        limit: Duration,
    },
    /// The client is gone, or the body is invalid.
    #[error("the body ended early: {0}")]
    Broken(#[source] BoxError),
}

/// The body of a request or a response: nothing, some bytes, or a stream of frames.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Body, Request};
///
/// async fn numbers(_: Request) -> Body {
///     let chunks = (1..=3).map(|number| Ok::<_, std::io::Error>(format!("{number}\n")));
///     Body::stream(futures_util::stream::iter(chunks))
/// }
/// ```
pub struct Body(Kind);

enum Kind {
    Empty,
    Full(Bytes),
    Incoming(Box<LimitedIncoming>),
    /// Frames that another process produces.
    Channel(mpsc::Receiver<Produced>),
    /// Frames of a stream, with the length that each chunk may have if it is known.
    Stream(UnsyncBoxBody<Bytes, BodyError>, Option<usize>),
}

/// A step of the process that produces a body.
#[derive(Debug)]
pub(crate) enum Produced {
    Frame(Frame<Bytes>),
    Failed(BodyError),
    /// The body is complete. Without it the process has crashed, and the client must see that the body is cut.
    End,
}

/// A step of the arrival of a request's body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival {
    /// Its reader waits.
    Wait,
    /// This number of bytes has arrived, or its end.
    Bytes(u64),
}

/// Receives the steps of an arrival.
pub(crate) type OnArrival = Box<dyn Fn(Arrival) + Send + Sync>;

/// The body of a request as it arrives.
struct LimitedIncoming {
    incoming: Incoming,
    left_bytes: u64,
    limit_bytes: u64,
    bodies_bytes: u64,
    timeout: Duration,
    /// Created when the body has to be waited for.
    deadline: Option<Pin<Box<Sleep>>>,
    started: Instant,
    hits: Arc<LimitHits>,
    client: Arc<ClientAccount>,
    on_arrival: OnArrival,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Empty => f.write_str("Body(empty)"),
            Kind::Full(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Kind::Incoming(_) | Kind::Channel(_) | Kind::Stream(..) => f.write_str("Body(stream)"),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl Body {
    /// Creates a body without bytes.
    pub const fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// Creates a body from a stream of chunks. The client receives each chunk as soon as it can be sent; the stream is
    /// polled no faster than the client reads. An error ends the connection, so the client sees that the body is cut.
    pub fn stream<S, D, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<D, E>> + Send + 'static,
        D: Into<Bytes>,
        E: Into<BoxError>,
    {
        let frames = stream.map(|chunk| match chunk {
            Ok(data) => Ok(Frame::data(data.into())),
            Err(error) => Err(BodyError::Broken(error.into())),
        });
        Self(Kind::Stream(http_body_util::StreamBody::new(frames).boxed_unsync(), None))
    }

    /// Creates a body from a body of another library.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if body.is_end_stream() {
            return Self::empty();
        }
        Self(Kind::Stream(body.map_err(|error| BodyError::Broken(error.into())).boxed_unsync(), None))
    }

    /// Creates the body of a request.
    pub(crate) fn incoming(
        incoming: Incoming,
        limits: &Limits,
        (hits, client): (&Arc<LimitHits>, &Arc<ClientAccount>),
        on_arrival: OnArrival,
    ) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        Self(Kind::Incoming(Box::new(LimitedIncoming {
            incoming,
            left_bytes: limits.body_bytes,
            limit_bytes: limits.body_bytes,
            bodies_bytes: limits.bodies_bytes,
            timeout: limits.body_timeout,
            deadline: None,
            started: Instant::now(),
            hits: Arc::clone(hits),
            client: Arc::clone(client),
            on_arrival,
        })))
    }

    pub(crate) const fn channel(frames: mpsc::Receiver<Produced>) -> Self {
        Self(Kind::Channel(frames))
    }

    /// Returns the bytes of a body that is complete and not empty.
    pub(crate) const fn complete_mut(&mut self) -> Option<&mut Bytes> {
        match &mut self.0 {
            Kind::Full(bytes) => Some(bytes),
            Kind::Empty | Kind::Incoming(_) | Kind::Channel(_) | Kind::Stream(..) => None,
        }
    }

    /// Returns the length that each chunk of a stream may have, if it is known.
    pub(crate) const fn chunk_bytes(&self) -> Option<usize> {
        match &self.0 {
            Kind::Stream(_, chunk_bytes) => *chunk_bytes,
            Kind::Empty | Kind::Full(_) | Kind::Incoming(_) | Kind::Channel(_) => None,
        }
    }

    /// Declares the length that each chunk of a stream may have, so that memory is there before one is created.
    pub(crate) fn of_chunks(self, bytes: usize) -> Self {
        match self.0 {
            Kind::Stream(stream, _) => Self(Kind::Stream(stream, Some(bytes))),
            other => Self(other),
        }
    }

    /// Returns true if the process that produced the body has ended before the end of it.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(&self.0, Kind::Channel(frames) if frames.is_closed() && frames.is_empty())
    }

    /// Returns true if all bytes are known already.
    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.0, Kind::Empty | Kind::Full(_))
    }

    /// Returns the whole body.
    ///
    /// # Errors
    /// [`BodyError`] if it is too long, too slow, or cut, or if too many bodies are being collected.
    pub async fn bytes(self) -> Result<Bytes, BodyError> {
        Ok(self.collected().await?.data)
    }

    /// Returns the whole body with its trailers.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub async fn collected(mut self) -> Result<Collected, BodyError> {
        let mut held = self.held_bytes();
        let mut trailers = None;
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = self.frame().await {
            let data = match frame?.into_data() {
                Ok(data) => data,
                Err(other) => {
                    trailers = other.into_trailers().ok();
                    continue;
                }
            };
            if let Some((held, limit_bytes)) = &mut held
                && !held.add(data.len() as u64)
            {
                return Err(BodyError::TooMany { limit_bytes: *limit_bytes });
            }
            if first.is_empty() {
                first = data;
            } else {
                if rest.is_empty() {
                    rest.extend_from_slice(&first);
                }
                rest.extend_from_slice(&data);
            }
        }
        let data = if rest.is_empty() { first } else { rest.freeze() };
        Ok(Collected { data, trailers })
    }

    /// Returns the account of a request's body that is about to be collected, and its limit.
    fn held_bytes(&self) -> Option<(HeldBytes, u64)> {
        match &self.0 {
            Kind::Incoming(incoming) => {
                let held = HeldBytes::new(&incoming.hits, &incoming.client, incoming.bodies_bytes);
                Some((held, incoming.bodies_bytes))
            }
            Kind::Empty | Kind::Full(_) | Kind::Channel(_) | Kind::Stream(..) => None,
        }
    }

    /// Returns the next chunk of the body; `None` at its end. Trailers are skipped.
    ///
    /// # Errors
    /// [`BodyError`] if the body is too long, too slow, or cut.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        while let Some(frame) = self.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

impl LimitedIncoming {
    fn poll_frame(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(task) else {
            (self.on_arrival)(Arrival::Wait);
            let end = self.started + self.timeout;
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            ready!(deadline.as_mut().poll(task));
            self.hits.count(Limit::BodyTimeout);
            (self.on_arrival)(Arrival::Bytes(0));
            return Poll::Ready(Some(Err(BodyError::TooSlow { limit: self.timeout })));
        };
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len) as u64,
            Some(Err(_)) | None => 0,
        };
        (self.on_arrival)(Arrival::Bytes(bytes));
        let frame = match frame {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::Broken(error.into())))),
            Some(Ok(frame)) => frame,
        };
        let Some(left) = self.left_bytes.checked_sub(bytes) else {
            self.hits.count(Limit::BodyBytes);
            return Poll::Ready(Some(Err(BodyError::TooLong { limit_bytes: self.limit_bytes })));
        };
        self.left_bytes = left;
        Poll::Ready(Some(Ok(frame)))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Incoming(incoming) => incoming.poll_frame(task),
            Kind::Channel(frames) => match ready!(frames.poll_recv(task)) {
                Some(Produced::Frame(frame)) => Poll::Ready(Some(Ok(frame))),
                Some(Produced::Failed(error)) => {
                    self.0 = Kind::Empty;
                    Poll::Ready(Some(Err(error)))
                }
                Some(Produced::End) => {
                    self.0 = Kind::Empty;
                    Poll::Ready(None)
                }
                None => Poll::Ready(Some(Err(BodyError::Broken("its process has ended".into())))),
            },
            Kind::Stream(stream, _) => Pin::new(stream).poll_frame(task),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Empty => true,
            Kind::Full(_) | Kind::Channel(_) => false,
            Kind::Incoming(incoming) => incoming.incoming.is_end_stream(),
            Kind::Stream(stream, _) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Channel(_) => SizeHint::default(),
            Kind::Incoming(incoming) => incoming.incoming.size_hint(),
            Kind::Stream(stream, _) => stream.size_hint(),
        }
    }
}

/// The sum of the trailers and the data of a body, read to its end.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Body, Request};
///
/// /// Answers with the number of bytes of the request's body.
/// async fn count(mut request: Request) -> String {
///     match std::mem::take(request.body()).collected().await {
///         Ok(body) => format!("{} bytes, {} trailers", body.data.len(), body.trailers.map_or(0, |fields| fields.len())),
///         Err(error) => error.to_string(),
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The data.
    pub data: Bytes,
    /// The trailers, if there were any.
    pub trailers: Option<HeaderMap>,
}

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(if bytes.is_empty() { Kind::Empty } else { Kind::Full(bytes) })
    }
}

macro_rules! from_bytes {
    ($($kind:ty),+) => {
        $(impl From<$kind> for Body {
            fn from(bytes: $kind) -> Self {
                Bytes::from(bytes).into()
            }
        })+
    };
}

from_bytes!(&'static str, &'static [u8], String, Vec<u8>);
