//! The response to one request, as the connection waits for it.
//!
//! ```text
//!   Waiting ── admitted ──▶ Handled by a process of its own ──▶ response, crash (500) or deadline (504)
//!      └── refused ──▶ Refused (429, 503)   └ in the connection's process, if the route says so ──▶ the same
//! ```

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use http::{Method, StatusCode, Version};
use http_body::Body as _;
use rusm_runtime::{Context, ExitReason, Handle, Pid, embed};
use rusm_text::escaped;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::body::Body;
use crate::connection::framing::{declare_framing, fit_http2};
use crate::connection::handling::{Handling, go_on, process, split};
use crate::connection::state::ConnectionState;
use crate::connection::tracked::TrackedBody;
use crate::connection::wait::LazyTimer;
use crate::handler::ResponseFuture;
use crate::limits::Limit;
use crate::request::{Params, Request, Response, plain};
use crate::stats::record::RequestRecord;

/// A request that is not handled yet.
pub(crate) struct Pending {
    pub(crate) head: http::request::Parts,
    pub(crate) body: Body,
    pub(crate) params: Params,
}

/// The response to a request. Dropped before it is ready, it kills the process of the request.
pub(crate) struct Answer {
    inner: Arc<ConnectionState>,
    /// `None` after the head of the response.
    record: Option<Arc<RequestRecord>>,
    state: State,
    deadline: Instant,
    timer: LazyTimer,
}

enum State {
    Refused(Option<Box<(Response, Handling)>>),
    Waiting(Box<Waiting>),
    Process(Option<Pid>),
    Connection(Box<InConnection>),
}

struct Waiting {
    admission: Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, Response>> + Send>>,
    next: Option<(Admitted, Handling)>,
}

/// The next step of a request that the limits admit.
enum Admitted {
    Handle(Pending),
    /// It leads to no route, or exceeds a limit.
    Refuse(Response),
}

/// A handler that runs in the connection's process.
struct InConnection {
    handler: ResponseFuture,
    /// `None` after the response.
    handling: Option<Handling>,
    context: Arc<Context>,
}

impl Answer {
    fn new(handling: &Handling, state: State) -> Self {
        let (inner, record) = (Arc::clone(&handling.inner), Arc::clone(&handling.record));
        let deadline = Instant::from_std(record.started) + inner.shared.limits.handler_timeout;
        Self { inner, record: Some(record), state, deadline, timer: LazyTimer::default() }
    }

    /// Answers at once.
    pub(crate) fn refusal(response: Response, handling: Handling) -> Self {
        let mut answer = Self::new(&handling, State::Refused(None));
        answer.state = State::Refused(Some(Box::new((response, handling))));
        answer
    }

    /// Lets the handler of the request's route answer, when the limits admit it.
    pub(crate) fn to(request: Pending, mut handling: Handling) -> Self {
        let mut answer = Self::new(&handling, State::Process(None));
        let route = &handling.record.route;
        if route.is_unlimited {
            answer.handle(request, handling);
            return answer;
        }
        if !answer.inner.has_rates(route) && answer.inner.shared.try_begin_flight() {
            handling.begin_flight();
            answer.handle(request, handling);
            return answer;
        }
        answer.wait(Admitted::Handle(request), handling);
        answer
    }

    /// Refuses a request, when the limits on the rate of all requests admit it.
    pub(crate) fn limited_refusal(response: Response, handling: Handling) -> Self {
        if handling.inner.shared.rates.is_empty() {
            return Self::refusal(response, handling);
        }
        let mut answer = Self::new(&handling, State::Process(None));
        answer.wait(Admitted::Refuse(response), handling);
        answer
    }

    fn wait(&mut self, next: Admitted, handling: Handling) {
        let admission = Box::pin(Arc::clone(&self.inner).admit(Arc::clone(&handling.record.route)));
        self.state = State::Waiting(Box::new(Waiting { admission, next: Some((next, handling)) }));
    }

    /// Runs the handler in a process.
    fn handle(&mut self, request: Pending, mut handling: Handling) {
        let inner = &self.inner;
        let Pending { head, body, params } = request;
        let trace = handling.record.trace.map(Box::new);
        let connection = Arc::clone(&inner.connection);
        let create = |context| Request { head, body, params, connection, trace, context };
        if let Some(context) = inner.context.as_ref().filter(|_| handling.record.route.is_inline) {
            handling.record.set_process(context.pid());
            let route = Arc::clone(&handling.record.route);
            let request = create(Arc::clone(context));
            match catch_unwind(AssertUnwindSafe(|| route.handler.handle(request))) {
                Ok(handler) => {
                    let (context, handling) = (Arc::clone(context), Some(handling));
                    self.state = State::Connection(Box::new(InConnection { handler, handling, context }));
                }
                Err(payload) => {
                    report_panic(&inner.shared.runtime, &handling.record, &payload);
                    handling.end_flight();
                    let response = Self::crashed(&handling.record);
                    self.state = State::Refused(Some(Box::new((response, handling))));
                }
            }
            return;
        }
        let run = |context: Context| process(handling, create(Arc::new(context)));
        let spawned = match &inner.context {
            Some(context) => embed::spawn_next(context, run),
            None => inner.shared.runtime.spawn(run),
        };
        // Without a process, its future was dropped, and the reply has ended.
        self.state = State::Process(spawned.ok());
    }

    fn poll_response(&mut self, task: &mut Task<'_>) -> Poll<Response> {
        loop {
            match &mut self.state {
                State::Refused(response) => {
                    let (response, mut handling) = *response.take().expect("it is polled until it is ready");
                    handling.end_activity(true);
                    return Poll::Ready(response);
                }
                State::Waiting(waiting) => {
                    let admitted = ready!(waiting.admission.as_mut().poll(task));
                    let (next, mut handling) = waiting.next.take().expect("it waits once");
                    match (admitted, next) {
                        (Ok(permit), Admitted::Handle(request)) => {
                            permit.forget();
                            handling.begin_flight();
                            self.deadline = Instant::now() + self.inner.shared.limits.handler_timeout;
                            self.handle(request, handling);
                        }
                        (Ok(_), Admitted::Refuse(response)) | (Err(response), _) => {
                            self.state = State::Refused(Some(Box::new((response, handling))));
                        }
                    }
                }
                State::Process(pid) => {
                    let Some(record) = &self.record else { return Poll::Pending };
                    let Some(_) = pid else {
                        return Poll::Ready(self.inner.refuse(Limit::Queue));
                    };
                    if let Poll::Ready(response) = record.reply.poll(task) {
                        *pid = None;
                        return Poll::Ready(response.unwrap_or_else(|| Self::crashed(record)));
                    }
                    ready!(self.poll_deadline(task));
                    return Poll::Ready(self.inner.refuse(Limit::HandlerTimeout));
                }
                State::Connection(running) => {
                    let handler = AssertUnwindSafe(|| running.handler.as_mut().poll(task));
                    match catch_unwind(handler) {
                        Ok(Poll::Ready(response)) => return Poll::Ready(running.finish(response)),
                        Ok(Poll::Pending) => {
                            running.show();
                            ready!(self.poll_deadline(task));
                            return Poll::Ready(self.inner.refuse(Limit::HandlerTimeout));
                        }
                        Err(payload) => {
                            let Some(record) = &self.record else { return Poll::Pending };
                            report_panic(&self.inner.shared.runtime, record, &payload);
                            return Poll::Ready(Self::crashed(record));
                        }
                    }
                }
            }
        }
    }

    fn poll_deadline(&mut self, task: &mut Task<'_>) -> Poll<()> {
        if !self.timer.is_set() {
            self.timer = std::mem::take(&mut *self.inner.handler_timer.lock());
        }
        loop {
            ready!(self.timer.poll(self.deadline, task));
            // The time for the handler begins when it has its body, at the latest when the time for that is over: a handler
            // may have given up its wait.
            let limits = &self.inner.shared.limits;
            let begin =
                |record: &Arc<RequestRecord>| Some(record.received()?.min(record.started + limits.body_timeout));
            let Some(begin) = self.record.as_ref().and_then(begin) else { return Poll::Ready(()) };
            let deadline = Instant::from_std(begin) + limits.handler_timeout;
            if deadline <= self.deadline {
                return Poll::Ready(());
            }
            self.deadline = deadline;
        }
    }

    /// Answers for a handler that has panicked, or was killed.
    fn crashed(record: &RequestRecord) -> Response {
        record.set_crashed();
        plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    }
}

/// Returns true if responses with this status are sent without a body. The library ensures that only for some, and only for
/// HTTP/1.1.
fn has_no_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Drops the body of a response to `HEAD`, which declares its length. The library does so for HTTP/1.1, and not for HTTP/2.
fn describe_only(response: &mut Response) {
    if let Some(bytes) = response.body().size_hint().exact().filter(|bytes| *bytes > 0) {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| bytes.into());
    }
    *response.body_mut() = Body::empty();
}

/// Maximum number of bytes of the message of a panic in a line.
const MESSAGE_MAX_BYTES: usize = 4096;

/// Logs a panic in the connection's process; a process of its own would be reported by the runtime.
fn report_panic(runtime: &Handle, record: &RequestRecord, payload: &Box<dyn Any + Send>) {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let message = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    let route = record.route.label();
    tracing::error!(%route, reason = message, "a handler panicked");
    embed::print_without_subscriber(runtime, || {
        format!("a handler of {} panicked: {}", escaped(route), escaped(&message).within(MESSAGE_MAX_BYTES))
    });
}

impl InConnection {
    /// Shows a request that waits to observers.
    fn show(&mut self) {
        if let Some(handling) = &mut self.handling
            && !handling.is_shown()
        {
            handling.enter(self.context.pid());
        }
    }

    /// Returns the response. What remains, for example a WebSocket, is done by a process.
    fn finish(&mut self, response: Response) -> Response {
        let (response, after) = split(response);
        let Some(mut handling) = self.handling.take() else { return response };
        match after {
            None => handling.end_activity(true),
            Some(after) => {
                let run = |context: Context| async move {
                    context.set_label(handling.record.route.stats().process_label());
                    handling.enter(context.pid());
                    go_on(after, handling, Arc::new(context)).await;
                };
                // Without a process the body is cut, which the client sees.
                if let Err(error) = self.context.try_spawn(run) {
                    tracing::warn!(%error, "a response was cut");
                }
            }
        }
        response
    }
}

impl Future for Answer {
    type Output = Result<http::Response<TrackedBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut response = ready!(this.poll_response(task));
        let Some(record) = this.record.take() else { return Poll::Pending };
        let now = std::time::Instant::now();
        let took = now.saturating_duration_since(record.started);
        let mut held = None;
        if has_no_body(response.status()) {
            *response.body_mut() = Body::empty();
        }
        declare_framing(&mut response, &record.method);
        let is_h2 = this.inner.context.is_none();
        if is_h2 {
            fit_http2(response.headers_mut());
            if let Err(limit) = this.inner.count_fields(response.headers_mut()) {
                response = this.inner.refuse(limit);
            }
        }
        if record.method != Method::HEAD {
            match this.inner.count_body(response.body_mut()) {
                Ok(counted) => held = counted,
                Err(limit) => response = this.inner.refuse(limit),
            }
        }
        record.route.stats().end(Some(response.status()), took);
        record.set_answered(response.status(), took);
        this.inner.activity.note_answer(Instant::from_std(now));
        if is_h2 && record.method == Method::HEAD {
            describe_only(&mut response);
        }
        let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if this.inner.shared.is_draining() && record.version < Version::HTTP_2 && !is_upgrade {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let h2 = is_h2.then(|| Arc::clone(&this.inner));
        Poll::Ready(Ok(response.map(|body| TrackedBody::new(body, record, held.filter(|_| is_h2), h2))))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.timer.is_set() {
            *self.inner.handler_timer.lock() = std::mem::take(&mut self.timer);
        }
        if let State::Process(Some(pid)) = self.state {
            self.inner.shared.runtime.exit(pid, ExitReason::Killed);
        }
        // The client has gone before the response.
        if let Some(record) = self.record.take() {
            record.route.stats().end(None, record.started.elapsed());
        }
    }
}
