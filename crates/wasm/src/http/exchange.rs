//! From a running guest to its response. The process of the request polls all of it.
//!
//! ```text
//!   guest ──▶ head ──▶ first frames ──▶ complete: one piece, with its length
//!                                  └──▶ the guest waits, or the body is long: a stream that runs the guest on
//!   guest after its body ──▶ runs on after the response
//! ```

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};
use parking_lot::Mutex;
use rusm_runtime::{Context, ExitReason};
use rusm_serve::http::StatusCode;
use rusm_serve::http::response::Parts;
use rusm_serve::websocket::{self, WebSocket};
use rusm_serve::{Body, BoxError, IntoResponse, Request, Response, finish_later};
use tokio::sync::oneshot;
use wasmtime_wasi_http::Error as HttpError;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use super::call::Replied;
use crate::guest::state::exchange::Upgrade;

/// Bytes of a body that are collected before it becomes a stream.
const COLLECTED_BYTES_MAX: usize = 64 * 1024;
/// Time after which a guest that writes frame after frame gives its scheduler to other processes. The ticks that interrupt
/// a guest do not: each frame is taken in the same poll.
const TURN: Duration = Duration::from_millis(1);

type GuestRun = Pin<Box<dyn Future<Output = ExitReason> + Send>>;

/// A guest that the parts of its response run on. Only one of them exists at a time.
#[derive(Clone)]
pub(crate) struct RunningGuest(Arc<Mutex<Progress>>);

enum Progress {
    Running(GuestRun),
    Ended(ExitReason),
}

impl RunningGuest {
    pub(crate) fn new(run: GuestRun) -> Self {
        Self(Arc::new(Mutex::new(Progress::Running(run))))
    }

    /// Runs the guest until it waits; returns the reason of its end once it has ended.
    fn poll(&self, cx: &mut TaskContext<'_>) -> Poll<ExitReason> {
        let mut progress = self.0.lock();
        let reason = match &mut *progress {
            Progress::Ended(reason) => return Poll::Ready(reason.clone()),
            Progress::Running(run) => std::task::ready!(run.as_mut().poll(cx)),
        };
        *progress = Progress::Ended(reason.clone());
        Poll::Ready(reason)
    }

    /// Runs the guest; true if it has ended with an error.
    fn has_failed(&self, cx: &mut TaskContext<'_>) -> bool {
        matches!(self.poll(cx), Poll::Ready(reason) if reason != ExitReason::Normal)
    }

    /// Returns the reason of the guest's end, if it has ended.
    fn ended(&self) -> Option<ExitReason> {
        match &*self.0.lock() {
            Progress::Ended(reason) => Some(reason.clone()),
            Progress::Running(_) => None,
        }
    }
}

/// Time since a guest that has frames ready gave its scheduler to other processes.
#[derive(Default)]
struct Turn(Option<Instant>);

impl Turn {
    fn is_over(&mut self) -> bool {
        self.0.get_or_insert_with(Instant::now).elapsed() >= TURN
    }
}

/// Runs the guest until it has written a frame that is not empty, it waits, or its turn is over.
fn poll_frame(
    running: &RunningGuest,
    body: &mut HyperOutgoingBody,
    turn: &mut Turn,
    cx: &mut TaskContext<'_>,
) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
    loop {
        if turn.is_over() {
            *turn = Turn::default();
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        // Frames wake the process like everything else that the guest waits for.
        drop(running.poll(cx));
        match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
            Poll::Pending => {
                *turn = Turn::default();
                return Poll::Pending;
            }
            frame @ Poll::Ready(_) => return frame,
        }
    }
}

/// Result of a guest for its request.
pub(crate) enum Answered {
    Response(Response),
    /// The guest has ended without a response that could be sent.
    Failed(ExitReason),
}

/// Runs the guest until its response can be sent.
pub(crate) async fn answered(
    running: &RunningGuest,
    head: oneshot::Receiver<Replied>,
    context: &Arc<Context>,
) -> Answered {
    let mut response = match replied(running, head).await {
        Ok(Ok(mut response)) => {
            let upgrade = response.extensions_mut().remove::<Upgrade>();
            if let Some((request, handover)) = upgrade.and_then(|upgrade| upgrade.take()) {
                return Answered::Response(upgraded(request, handover, running, context));
            }
            let (parts, body) = response.into_parts();
            match collect(running, body).await {
                Collected::All(frames) => Response::from_parts(parts, whole(frames)),
                Collected::First(frames, body) => streamed(parts, frames, body, running, context),
                Collected::Failed(reason) => return Answered::Failed(reason),
            }
        }
        Ok(Err(code)) => {
            tracing::debug!(pid = %context.pid(), code, "a guest answered with an error");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error\n").into_response()
        }
        Err(reason) => return Answered::Failed(reason),
    };
    if running.ended().is_none() {
        finish_later(&mut response, run_on(running, context));
    }
    Answered::Response(response)
}

/// Runs the guest to its end, after its response.
fn run_on(running: &RunningGuest, context: &Arc<Context>) -> impl Future<Output = ()> + Send + use<> {
    let (running, context) = (running.clone(), Arc::clone(context));
    async move {
        let reason = poll_fn(|cx| running.poll(cx)).await;
        if reason != ExitReason::Normal {
            context.exit(context.pid(), reason);
        }
    }
}

/// Upgrades the connection to a WebSocket, and hands it to the guest. If that is not possible, the client is told so, and
/// the guest learns it.
fn upgraded(
    request: Request,
    handover: oneshot::Sender<WebSocket>,
    running: &RunningGuest,
    context: &Arc<Context>,
) -> Response {
    let rest = run_on(running, context);
    let mut response = websocket::upgrade(request, async move |socket| {
        // Fails if the guest has ended.
        drop(handover.send(socket));
        rest.await;
    });
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        finish_later(&mut response, run_on(running, context));
    }
    response
}

/// Runs the guest until it has sent the head of its response, or has ended.
async fn replied(running: &RunningGuest, head: oneshot::Receiver<Replied>) -> Result<Replied, ExitReason> {
    let mut head = Some(head);
    poll_fn(|cx| {
        let ended = running.poll(cx);
        if let Some(receiver) = &mut head
            && let Poll::Ready(replied) = Pin::new(receiver).poll(cx)
        {
            // On an error the guest has dropped its way to answer; it may still run.
            head = None;
            if let Ok(replied) = replied {
                return Poll::Ready(Ok(replied));
            }
        }
        ended.map(Err)
    })
    .await
}

enum Collected {
    All(Frames),
    First(Frames, HyperOutgoingBody),
    Failed(ExitReason),
}

/// Collects a body as far as the guest writes it without waiting.
async fn collect(running: &RunningGuest, mut body: HyperOutgoingBody) -> Collected {
    let (mut frames, mut bytes, mut turn) = (Frames::default(), 0, Turn::default());
    let end = poll_fn(|cx| {
        loop {
            match poll_frame(running, &mut body, &mut turn, cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    bytes += frame.data_ref().map_or(0, Bytes::len);
                    frames.0.push_back(Ok(frame));
                    // A body that says so is complete, even if the guest's turn is over.
                    if body.is_end_stream() {
                        return Poll::Ready(true);
                    }
                    if bytes > COLLECTED_BYTES_MAX {
                        return Poll::Ready(false);
                    }
                }
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Ready(Some(Err(error))) => {
                    frames.0.push_back(Err(error.to_string().into()));
                    return Poll::Ready(false);
                }
                Poll::Pending => return Poll::Ready(false),
            }
        }
    });
    let is_complete = end.await;
    let failed = poll_fn(|cx| Poll::Ready(running.has_failed(cx).then(|| running.poll(cx)))).await;
    match failed {
        Some(Poll::Ready(reason)) => Collected::Failed(reason),
        _ if is_complete => Collected::All(frames),
        _ => Collected::First(frames, body),
    }
}

/// Returns a complete body, in one piece unless it has trailers.
fn whole(frames: Frames) -> Body {
    let mut pieces = frames.0.iter().filter_map(|frame| frame.as_ref().ok()?.data_ref());
    if frames.0.iter().flatten().any(Frame::is_trailers) {
        return Body::new(frames);
    }
    let bytes = pieces.clone().map(Bytes::len).sum();
    match (frames.0.len(), pieces.next()) {
        (1, Some(only)) => only.clone().into(),
        (_, None) => Body::empty(),
        (_, Some(first)) => {
            let mut all = BytesMut::with_capacity(bytes);
            all.extend_from_slice(first);
            pieces.for_each(|piece| all.extend_from_slice(piece));
            all.freeze().into()
        }
    }
}

/// Frames that are known, of which the last may be an error.
#[derive(Default)]
struct Frames(VecDeque<Result<Frame<Bytes>, BoxError>>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.0.pop_front())
    }
}

fn streamed(
    parts: Parts,
    frames: Frames,
    body: HyperOutgoingBody,
    running: &RunningGuest,
    context: &Arc<Context>,
) -> Response {
    let (running, context) = (running.clone(), Arc::clone(context));
    let stream = GuestBody { frames, body, turn: Turn::default(), running, context };
    Response::from_parts(parts, Body::new(stream))
}

/// A body that runs its guest on.
struct GuestBody {
    frames: Frames,
    body: HyperOutgoingBody,
    turn: Turn,
    running: RunningGuest,
    context: Arc<Context>,
}

impl HttpBody for GuestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(frame) = self.frames.0.pop_front() {
            return Poll::Ready(Some(frame));
        }
        let this = &mut *self;
        let frame = poll_frame(&this.running, &mut this.body, &mut this.turn, cx);
        if matches!(frame, Poll::Ready(None)) {
            drop(this.running.poll(cx));
        }
        if let Some(reason) = this.running.ended().filter(|reason| *reason != ExitReason::Normal) {
            // This process ends now, without the end of the body: the client sees that it is cut, and it counts as a crash.
            this.context.exit(this.context.pid(), reason);
            return Poll::Pending;
        }
        frame.map(|frame| frame.map(|frame| frame.map_err(|error| error.to_string().into())))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// A body with a frame ready at each poll, without an end.
    struct Endless(Bytes);

    impl HttpBody for Endless {
        type Data = Bytes;
        type Error = HttpError;

        fn poll_frame(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
            Poll::Ready(Some(Ok(Frame::data(self.0.clone()))))
        }
    }

    fn endless(frame: &'static [u8]) -> (RunningGuest, HyperOutgoingBody) {
        let never = std::future::pending::<ExitReason>();
        (RunningGuest::new(Box::pin(never)), HyperOutgoingBody::new(Endless(Bytes::from_static(frame))))
    }

    /// A body of one frame that says that it is the last one.
    struct Last(Option<Bytes>);

    impl HttpBody for Last {
        type Data = Bytes;
        type Error = HttpError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut TaskContext<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
            self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_none()
        }
    }

    #[test]
    fn a_whole_body_has_its_length_even_if_the_guest_goes_on() {
        let mut task = TaskContext::from_waker(Waker::noop());
        let running = RunningGuest::new(Box::pin(std::future::pending::<ExitReason>()));
        let body = HyperOutgoingBody::new(Last(Some(Bytes::from_static(b"whole"))));

        let collected = pin!(collect(&running, body)).poll(&mut task);

        assert!(matches!(collected, Poll::Ready(Collected::All(frames)) if frames.0.len() == 1));
    }

    #[test]
    fn a_guest_that_writes_without_end_gives_its_scheduler_back() {
        let mut task = TaskContext::from_waker(Waker::noop());
        for frame in [&b""[..], b"x"] {
            let (running, body) = endless(frame);
            let Poll::Ready(Collected::First(frames, mut body)) = pin!(collect(&running, body)).poll(&mut task) else {
                panic!("the response begins");
            };
            assert_eq!(frames.0.is_empty(), frame.is_empty());

            let mut turn = Turn::default();
            while poll_frame(&running, &mut body, &mut turn, &mut task).is_ready() {}
        }
    }
}
