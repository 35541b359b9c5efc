//! Guests of `wasi:http` and `rusm:http` as handlers of a server: an instance for each request, in the process of that request.
//!
//! ```text
//!   Request ──▶ limits of the engine ──▶ instance ──▶ exchange ──▶ Response
//!               503 if none is free      │ preempted, bounded in memory, killed with its process
//!                                        └ a trap before the response: 500, and the process exits with the trap
//! ```
//!
//! Components of `wasi:http/proxy` 0.2 and `wasi:http/service` 0.3 run unchanged; those that export `rusm:http/handler`
//! get each request as one record. All of WASI is linked; calls without a
//! capability are denied when they are made. A route may reuse instances: see [`InstanceReuse`].

mod bounded;
pub(crate) mod call;
pub(crate) mod exchange;
mod growing;
pub(crate) mod handler;
mod instance;
pub(crate) mod outgoing;
pub(crate) mod request;
pub(crate) mod service;
mod warm;

use std::fmt::Display;
use std::sync::{Arc, Weak};

use rusm_runtime::embed::guest::GuestContext;
use rusm_runtime::{Context, ExitReason, Pid};
use rusm_serve::http::header::RETRY_AFTER;
use rusm_serve::http::{HeaderValue, StatusCode};
use rusm_serve::{Handler, IntoResponse, Request, Response, ResponseFuture};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::bindings::rusm::runtime::log::Level;
use crate::engine::inner::{EngineInner, Wasm};
use crate::guest::body::{GuestFuture, Permit, store};
use crate::guest::capability::{Grant, UnknownName};
use crate::guest::guest_info::GuestInfo;
use crate::guest::spawn::{GuestError, GuestOptions};
use crate::guest::state::GuestState;
use crate::guest::traps::MemoryLimit;
use crate::host::write_line;
use crate::module::{Code, Module};
use call::Reply;
use exchange::{Answered, RunningGuest, answered};
use instance::{EntryPoint, Instance, Work};
use request::{BodyFailure, Incoming};
use warm::WarmInstances;

pub use warm::{InstanceReuse, REQUESTS_OF_POOLED};

/// Reason why a module cannot handle requests.
#[derive(Debug, Error)]
pub enum HttpGuestError {
    /// It exports no handler of requests.
    #[error(
        "{name} is a {kind} and answers no requests: it must export wasi:http/incoming-handler@0.2, \
         wasi:http/handler@0.3 or rusm:http/handler"
    )]
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

/// A component of `wasi:http` that handles requests; cheap to clone.
///
/// ```no_run
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_serve as serve; pub use rusm_wasm as wasm; }
/// use rusm::serve::{Router, ServeConfig, Server};
/// use rusm::wasm::{GuestOptions, HttpGuest, InstanceReuse, Wasm, WasmConfig};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let wasm = Wasm::start(WasmConfig::default())?;
/// let module = wasm.load_file("shop", "shop.wasm")?; // exports `wasi:http/incoming-handler`
/// let options = GuestOptions::default().profile("network");
/// let shop: HttpGuest = wasm.http_guest(&module, options, InstanceReuse::Request)?;
/// let router = Router::new().route("GET /shop/*", shop)?;
/// let _server = Server::start(&runtime, ServeConfig::listen(([127, 0, 0, 1], 8080)), router)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HttpGuest(Arc<HttpGuestInner>);

struct HttpGuestInner {
    node: Arc<EngineInner>,
    module: Module,
    options: GuestOptions,
    grant: Grant,
    warm: Arc<WarmInstances>,
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
    pub fn http_guest(
        &self,
        module: &Module,
        options: GuestOptions,
        reuse: InstanceReuse,
    ) -> Result<HttpGuest, HttpGuestError> {
        let grant = self.0.config.profiles.grant(&options.profile)?;
        if !module.is_http() {
            return Err(HttpGuestError::NotHttp { name: module.name().to_owned(), kind: module.kind() });
        }
        let warm = Arc::new(WarmInstances::new(reuse));
        if !warm.is_never() {
            let set: Weak<WarmInstances> = Arc::downgrade(&warm);
            self.0.idle.add(set);
        }
        Ok(HttpGuest(Arc::new(HttpGuestInner {
            node: Arc::clone(&self.0),
            module: module.clone(),
            options,
            grant,
            warm,
        })))
    }
}

impl Module {
    /// Returns true if it answers HTTP requests.
    pub fn is_http(&self) -> bool {
        matches!(self.0.code, Code::Http(_) | Code::Service(_) | Code::Handler(_))
    }
}

impl Handler for HttpGuest {
    fn handle(&self, request: Request) -> ResponseFuture {
        Box::pin(answer(Arc::clone(&self.0), request))
    }
}

async fn answer(guest: Arc<HttpGuestInner>, request: Request) -> Response {
    let context = Arc::clone(request.context());
    let connection = request.connection().pid;
    let process = GuestContext(&context);
    guest.node.show_in_runtime(process.runtime());
    let (info, source) = match guest.source(connection) {
        Ok(source) => source,
        Err(error) => return try_later(&error),
    };
    let mut body_failure = BodyFailure::default();
    let work = if matches!(guest.module.0.code, Code::Handler(_)) {
        Work::Record(request)
    } else {
        match Incoming::of(request) {
            Ok(incoming) => {
                body_failure = incoming.body_failure();
                Work::Resource(incoming)
            }
            Err(refusal) => return *refusal,
        }
    };
    let own = process.become_guest(info.mailbox_bounds(), Arc::clone(&info) as _);
    let (reply, head) = oneshot::channel();
    process.account_memory((bytes_of(run) + size_of::<GuestState>()) as u64);
    let warm = (!guest.warm.is_never()).then(|| (Arc::clone(&guest.warm), connection));
    let future = Box::pin(run(own, Arc::clone(&info), source, warm, work, reply));
    let running = RunningGuest::new(Box::pin(GuestFuture::new(future, Arc::clone(&info))));
    match answered(&running, head, &context).await {
        Answered::Response(response) => response,
        Answered::Failed(reason) => failed(&context, &info, reason, &body_failure).await,
    }
}

/// The origin of the instance for a request.
enum Source {
    New { args: Vec<String>, permit: Permit },
    Warm(Box<Instance>),
}

/// The place of the instance after the request.
type Home = Option<(Arc<WarmInstances>, Pid)>;

impl HttpGuestInner {
    /// Returns an instance that waits, or the permit for a new one.
    fn source(&self, connection: Pid) -> Result<(Arc<GuestInfo>, Source), GuestError> {
        if let Some(instance) = self.warm.take(connection) {
            let info = self.node.info(&self.module, &self.options, self.grant.clone());
            return Ok((info, Source::Warm(instance)));
        }
        if self.node.live() >= self.node.config.capacity {
            self.node.idle.release_one();
        }
        let start = self.node.start(&self.module, &self.options, self.grant.clone())?;
        Ok((start.permit.info(), Source::New { args: start.args, permit: start.permit }))
    }
}

const fn bytes_of<F>(_: fn(Context, Arc<GuestInfo>, Source, Home, Work, Reply) -> F) -> usize {
    size_of::<F>()
}

/// Runs the guest from its instantiation, or from its next request, to its return.
async fn run(ctx: Context, info: Arc<GuestInfo>, source: Source, home: Home, work: Work, reply: Reply) -> ExitReason {
    let node = &info.node;
    let mut instance = match source {
        Source::Warm(mut instance) => {
            instance.enter_process(ctx, &info);
            instance
        }
        Source::New { args, permit } => {
            let code = &info.module.code;
            let mut store = store(code.engine(node), ctx, &info, args);
            match EntryPoint::instantiate(&mut store, code).await {
                Ok(entry) => Box::new(Instance::new(store, entry, permit)),
                Err(error) => return node.ended(Err(error), store.data_mut()),
            }
        }
    };
    let answered = instance.answer(work, reply).await;
    let reason = node.ended(answered.map(|()| ExitReason::Normal), instance.state());
    if let (ExitReason::Normal, Some((warm, connection))) = (&reason, home) {
        let runtime = instance.state().ctx.runtime();
        warm.put(instance, connection, &runtime);
    }
    reason
}

/// Answers a request that the guest has failed. The process exits with the reason, after which its client receives 500;
/// if the client's own body was the cause, it is told so. Without memory for one more guest, the client receives 503.
async fn failed(context: &Context, info: &GuestInfo, reason: ExitReason, body_failure: &BodyFailure) -> Response {
    if let Some(response) = body_failure.response() {
        return response;
    }
    let reason = match reason {
        ExitReason::Normal => ExitReason::other("the guest returned without a response"),
        reason => reason,
    };
    if let ExitReason::Other(detail) = &reason
        && detail.value::<MemoryLimit>().is_some_and(|limit| limit.of_all_guests)
    {
        // Nothing crashes, so no other line tells it.
        write_line(info, context.pid(), Level::Error, &format!("a request failed: {reason}"));
        return try_later(&reason);
    }
    context.exit(context.pid(), reason);
    std::future::pending().await
}

/// Answers 503: the engine has no instance, or no memory, for this request.
fn try_later(reason: &dyn Display) -> Response {
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response();
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
