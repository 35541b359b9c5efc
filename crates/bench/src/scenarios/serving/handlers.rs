//! Handlers of the scenarios of serving: native code, or a guest in one of three languages.
//!
//! ```text
//!   handler=native ──▶ a function ────────────────┐
//!   handler=rust|c ──▶ engine ──▶ component ──────┤──▶ Router ──▶ Host
//!   the scenario's twin in TypeScript ──▶ the same┘
//! ```
//!
//! The components are the prebuilt guests of `examples/guests`: each echoes requests at `/echo` and messages at `/socket`.
//! The component `feed` sends the messages of a topic as events.

use rusm_serve::{Handler, RouteError, Router};
use rusm_wasm::{Capability, GuestOptions, HttpGuest, InstanceReuse, Profiles, WasmConfig};

use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::run::error::RunError;
use crate::scenarios::wasm::guests::{Code, Guests, prebuilt};

/// Maximum number of core instances in a guest. `QuickJS` with its adapters needs thirteen.
const PARTS_MAX: u32 = 16;
/// Profile of a guest that sends the messages of a topic.
const FEED: &str = "feed";
/// Requests after which an instance of a pool is replaced.
const REQUESTS_OF_POOLED: u32 = 1_000;

/// The handlers that a scenario offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handlers {
    /// Native code, Rust or C, chosen by a parameter.
    Chosen,
    /// A guest in TypeScript.
    TypeScript,
}

/// Parameter of a scenario with [`Handlers::Chosen`].
pub(super) const HANDLER: Parameter = Parameter {
    name: "handler",
    description: "What answers: native code, or a guest in this language.",
    kind: Kind::Choice { words: &["native", "rust", "c"] },
};

/// Parameter with the lifetime of a guest's instance.
pub(super) const INSTANCES: Parameter = Parameter {
    name: "instances",
    description: "A guest's instance serves one request, a connection's requests, or those of a pool one at a time.",
    kind: Kind::Choice { words: &["request", "connection", "pool"] },
};

impl Handlers {
    /// Returns one of two values: for the scenario itself, or for its twin.
    pub(super) const fn pick<T: Copy>(self, chosen: T, twin: T) -> T {
        match self {
            Self::Chosen => chosen,
            Self::TypeScript => twin,
        }
    }

    fn language(self, context: &RunContext) -> &'static str {
        match self {
            Self::Chosen => context.params().word("handler"),
            Self::TypeScript => "typescript",
        }
    }

    /// Returns true if a guest answers.
    pub(super) fn is_guest(self, context: &RunContext) -> bool {
        self.language(context) != "native"
    }

    /// Returns a router with one route, to the native handler or to a guest.
    ///
    /// # Errors
    /// [`RunError::Lacks`] if memory for this number of guests is lacking.
    pub(super) async fn router(
        self,
        context: &mut RunContext,
        (guests, reuse): (u64, InstanceReuse),
        (native_route, native): (&str, impl Handler),
        guest_route: &str,
    ) -> Result<Result<Router, RouteError>, RunError> {
        let code = match self.language(context) {
            "rust" => prebuilt!("wasi/sockets.wasm"),
            "c" => prebuilt!("c/web.wasm"),
            "typescript" => prebuilt!("ts/web.wasm"),
            _ => return Ok(Router::new().route(native_route, native)),
        };
        let config = WasmConfig::default();
        let guest = guest(context, (guests, reuse), config, GuestOptions::default(), code).await?;
        Ok(Router::new().route(guest_route, guest))
    }

    /// Returns a router with the route `GET /TOPIC`, which sends the messages of a topic as events. The handler is the
    /// native one, or a guest that may use only this topic.
    ///
    /// # Errors
    /// [`RunError::Lacks`] if memory for this number of guests is lacking.
    pub(super) async fn feed(
        self,
        context: &mut RunContext,
        guests: u64,
        topic: &str,
        native: impl Handler,
    ) -> Result<Result<Router, RouteError>, RunError> {
        let route = format!("GET /{topic}");
        if self == Self::Chosen {
            return Ok(Router::new().route(&route, native));
        }
        let mut profiles = Profiles::default();
        profiles.set(FEED, [Capability::Topics].into_iter().collect());
        profiles.set_topics(FEED, [topic]);
        let config = WasmConfig { profiles, topics: true, ..WasmConfig::default() };
        let options = GuestOptions::default().profile(FEED);
        let guest =
            guest(context, (guests, InstanceReuse::Request), config, options, prebuilt!("ts/feed.wasm")).await?;
        Ok(Router::new().route(&route, guest))
    }
}

/// Returns the lifetime of a guest's instance that a scenario with [`INSTANCES`] was asked for.
pub(super) fn reuse(context: &RunContext, guests: u64) -> InstanceReuse {
    match context.params().word("instances") {
        "connection" => InstanceReuse::Connection,
        "pool" => InstanceReuse::Pool { idle: guests as u32, requests: REQUESTS_OF_POOLED },
        _ => InstanceReuse::Request,
    }
}

/// Starts an engine, and returns the component as a handler.
async fn guest(
    context: &mut RunContext,
    (guests, reuse): (u64, InstanceReuse),
    config: WasmConfig,
    options: GuestOptions,
    code: Code,
) -> Result<HttpGuest, RunError> {
    // Instances of clients that have left may not have ended yet.
    let capacity = u32::try_from(2 * guests).unwrap_or(u32::MAX).max(16);
    let config = WasmConfig { capacity, parts_max: PARTS_MAX, ..config };
    let engine = Guests::start(context, config).await?;
    let module = engine.load(context, "web", code).await?;
    let guest = engine.wasm.http_guest(&module, options, reuse);
    guest.map_err(|error| RunError::Lacks(error.to_string()))
}
