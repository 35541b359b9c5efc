//! The body of a response on its way to the client, which completes the record of its request at its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::body::{Body, BodyError};
use crate::stats::record::RequestRecord;

/// The body of a response.
#[derive(Debug)]
pub(crate) struct TrackedBody {
    body: Body,
    record: Arc<RequestRecord>,
    /// True if the bytes of the body are counted here, and not by the connection.
    is_counted: bool,
}

impl TrackedBody {
    pub(crate) const fn new(body: Body, record: Arc<RequestRecord>, is_counted: bool) -> Self {
        Self { body, record, is_counted }
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(task);
        if self.is_counted
            && let Poll::Ready(Some(Ok(frame))) = &polled
        {
            self.record.add_out(frame.data_ref().map_or(0, Bytes::len) as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.record.set_body_done();
    }
}
