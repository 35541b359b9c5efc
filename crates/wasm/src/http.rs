//! Guests of `wasi:http` as handlers of a server: an instance for each request, in the process of that request.
//!
//! ```text
//!   Request ──▶ limits of the engine ──▶ instance ──▶ exchange ──▶ Response
//!               503 if none is free      │ preempted, bounded in memory, killed with its process
//!                                        └ a trap before the response: 500, and the process exits with the trap
//! ```
//!
//! Components of `wasi:http/proxy` run unchanged. All of WASI is linked; calls without a capability are denied when they
//! are made.

pub(crate) mod call;
pub(crate) mod exchange;
pub(crate) mod request;

use std::sync::Arc;

use rusm_runtime::embed::guest::GuestContext;
use rusm_runtime::{Context, ExitReason};
use rusm_serve::http::header::RETRY_AFTER;
use rusm_serve::http::{HeaderValue, StatusCode};
use rusm_serve::{Handler, IntoResponse, Request, Response, ResponseFuture};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::bindings::rusm::runtime::log::Level;
use crate::engine::inner::{EngineInner, Wasm};
use crate::guest::body::{GuestFuture, store};
use crate::guest::capability::{Grant, UnknownName};
use crate::guest::guest_info::GuestInfo;
use crate::guest::spawn::{GuestError, GuestOptions};
use crate::guest::state::GuestState;
use crate::host::write_line;
use crate::module::{Code, Module};
use call::{GuestResponse, Replied};
use exchange::{Answered, RunningGuest, answered};
use request::{BodyFailure, Incoming};

/// Reason why a module cannot handle requests.
#[derive(Debug, Error)]
pub enum HttpGuestError {
    /// It is not a component of `wasi:http`.
    #[error("{name} is a {kind} and answers no requests: it must export wasi:http/incoming-handler@0.2")]
    NotHttp {
        /// Name of the module.
        name: String,
        /// Its kind.
        kind: &'static str,
    },
    /// The profile does not exist.
    #[error(transparent)]
    Profile(#[from] UnknownName),
}

/// A component of `wasi:http` that handles requests, each with an instance of its own; cheap to clone.
#[derive(Clone)]
pub struct HttpGuest(Arc<HttpGuestInner>);

struct HttpGuestInner {
    node: Arc<EngineInner>,
    module: Module,
    options: GuestOptions,
    grant: Grant,
}

impl std::fmt::Debug for HttpGuest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HttpGuest").field(&self.0.module).finish()
    }
}

impl Wasm {
    /// Returns a handler of requests from a component of `wasi:http`. Of the options, arguments, profile and limits
    /// apply.
    ///
    /// # Errors
    /// [`HttpGuestError`] if the module answers no requests, or the profile does not exist.
    pub fn http_guest(&self, module: &Module, options: GuestOptions) -> Result<HttpGuest, HttpGuestError> {
        let grant = self.0.config.profiles.grant(&options.profile)?;
        if !module.is_http() {
            return Err(HttpGuestError::NotHttp { name: module.name().to_owned(), kind: module.kind() });
        }
        Ok(HttpGuest(Arc::new(HttpGuestInner { node: Arc::clone(&self.0), module: module.clone(), options, grant })))
    }
}

impl Module {
    /// Returns true if it answers requests of `wasi:http`.
    pub fn is_http(&self) -> bool {
        matches!(self.0.code, Code::Http(_))
    }
}

impl Handler for HttpGuest {
    fn handle(&self, request: Request) -> ResponseFuture {
        Box::pin(answer(Arc::clone(&self.0), request))
    }
}

async fn answer(guest: Arc<HttpGuestInner>, request: Request) -> Response {
    let context = Arc::clone(request.context());
    let process = GuestContext(&context);
    guest.node.show_in_runtime(process.runtime());
    let start = match guest.node.start(&guest.module, &guest.options, guest.grant.clone()) {
        Ok(start) => start,
        Err(error) => return no_instance(&error),
    };
    let incoming = match Incoming::of(request) {
        Ok(incoming) => incoming,
        Err(refusal) => return *refusal,
    };
    let info = start.permit.info();
    let body_failure = incoming.body_failure();
    let own = process.become_guest(info.mailbox_bounds(), Arc::clone(&info) as _);
    let (reply, head) = oneshot::channel();
    process.account_memory((bytes_of(run) + size_of::<GuestState>()) as u64);
    let future = Box::pin(run(own, Arc::clone(&info), start.args, incoming, reply));
    let running = RunningGuest::new(Box::pin(GuestFuture::new(future, start.permit)));
    match answered(&running, head, &context).await {
        Answered::Response(response) => response,
        Answered::Failed(reason) => failed(&context, &info, reason, &body_failure).await,
    }
}

type Reply = oneshot::Sender<Replied<GuestResponse>>;

const fn bytes_of<F>(_: fn(Context, Arc<GuestInfo>, Vec<String>, Incoming, Reply) -> F) -> usize {
    size_of::<F>()
}

/// Runs the guest from its instantiation to its return.
async fn run(ctx: Context, info: Arc<GuestInfo>, args: Vec<String>, incoming: Incoming, reply: Reply) -> ExitReason {
    let mut store = store(ctx, &info, args);
    let ended = match &info.module.code {
        Code::Http(pre) => call::call(&mut store, pre, incoming, reply).await,
        _ => Ok(ExitReason::other("not a component of wasi:http")),
    };
    info.node.ended(ended, store.data_mut())
}

/// Answers a request that the guest has failed. The process exits with the reason, after which its client receives 500;
/// if the client's own body was the cause, it is told so.
async fn failed(context: &Context, info: &GuestInfo, reason: ExitReason, body_failure: &BodyFailure) -> Response {
    if let Some(response) = body_failure.response() {
        return response;
    }
    let reason = match reason {
        ExitReason::Normal => ExitReason::other("the guest returned without a response"),
        reason => reason,
    };
    report(context, info, &reason);
    context.exit(context.pid(), reason);
    std::future::pending().await
}

/// Writes the failure of a request to the log, within the guest's budget.
fn report(context: &Context, info: &GuestInfo, reason: &ExitReason) {
    write_line(info, context.pid(), Level::Error, &format!("a request failed: {reason}"));
}

/// Answers 503: the engine has no instance for this request.
fn no_instance(error: &GuestError) -> Response {
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
