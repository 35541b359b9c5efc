//! The body of a response on its way to the client, which completes the record of its request at its end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::body::{Body, BodyError};
use crate::connection::framing::fit_http2;
use crate::connection::handling::PIECE_BYTES;
use crate::connection::state::ConnectionState;
use crate::limits::memory::Held;
use crate::stats::record::RequestRecord;

/// The body of a response.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    body: Body,
    record: Arc<RequestRecord>,
    /// Account of a complete body of HTTP/2. The body is sent in pieces, and each one shows that the client takes it.
    held: Option<Arc<Held>>,
    /// Bytes of the body that are to be sent in further pieces.
    rest: Bytes,
    /// The connection of HTTP/2: what its client takes is counted here, for each stream. HTTP/1.1 counts the bytes of its
    /// connection.
    h2: Option<Arc<ConnectionState>>,
}

impl TrackedBody {
    pub(crate) const fn new(
        body: Body,
        record: Arc<RequestRecord>,
        held: Option<Arc<Held>>,
        h2: Option<Arc<ConnectionState>>,
    ) -> Self {
        Self { body, record, held, rest: Bytes::new(), h2 }
    }

    /// Cuts the next piece of a body that was polled as a whole. HTTP/2 asks for it when the client has taken those before.
    fn piece(&mut self) -> Option<Bytes> {
        if let Some(held) = &self.held {
            held.note_progress();
        }
        let bytes = self.rest.len().min(PIECE_BYTES);
        (bytes > 0).then(|| self.rest.split_to(bytes))
    }

    /// Prepares trailers. A client of HTTP/2 can let those of all its streams wait, like heads.
    fn trailers(&self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BodyError> {
        let Some(connection) = &self.h2 else { return Ok(frame) };
        let mut fields = match frame.into_trailers() {
            Ok(fields) => fields,
            Err(other) => return Ok(other),
        };
        fit_http2(&mut fields);
        connection.count_fields(&mut fields).map_err(|limit| {
            connection.shared.stats.hit(limit);
            BodyError::Broken(format!("its trailers exceed the limit `{}`", limit.id()).into())
        })?;
        Ok(Frame::trailers(fields))
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(connection) = &self.h2 {
            connection.activity.note_taken();
        }
        if !self.rest.is_empty() {
            return Poll::Ready(self.piece().map(Frame::data).map(Ok));
        }
        let polled = Pin::new(&mut self.body).poll_frame(task);
        let Poll::Ready(Some(Ok(frame))) = polled else {
            let is_failed = matches!(polled, Poll::Ready(Some(Err(_))));
            if is_failed && self.body.is_abandoned() && !self.record.is_body_done.load(Relaxed) {
                self.record.set_crashed();
            }
            return polled;
        };
        if self.h2.is_some() {
            self.record.add_out(frame.data_ref().map_or(0, Bytes::len) as u64);
        }
        match frame.into_data() {
            Ok(data) if self.h2.is_some() => {
                self.rest = data;
                Poll::Ready(self.piece().map(Frame::data).map(Ok))
            }
            Ok(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Err(trailers) => Poll::Ready(Some(self.trailers(trailers))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.len() {
            0 => self.body.size_hint(),
            bytes => SizeHint::with_exact(bytes as u64),
        }
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.record.set_body_done();
    }
}
