//! `wasi:http` 0.2 of a guest: the call of its handler, and the requests that it sends itself.
//!
//! An instance handles one call at a time. A request of the guest to a host that it may not reach fails before it is
//! sent.

use rusm_serve::http::uri::Authority;
use tokio::sync::oneshot;
use wasmtime::component::{Linker, Resource};
use wasmtime::{Store, StoreContextMut};
use wasmtime_wasi_http::p2::bindings::Proxy;
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler::Host as OutgoingHandler;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttpCtxView, WasiHttpView};

use super::bounded;
use super::growing;
use super::request::Incoming;
use crate::guest::capability::Capability;
use crate::guest::state::GuestState;
use crate::guest::state::wasi::{Preview2, Wasi};

/// A response as a guest sends it.
pub(crate) type GuestResponse = rusm_serve::http::Response<HyperOutgoingBody>;
/// A response, or the error that the guest reports instead, in words.
pub(crate) type Replied = Result<GuestResponse, String>;
/// The way of a response from the guest.
pub(crate) type Reply = oneshot::Sender<Replied>;

impl WasiHttpView for GuestState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.count_call();
        match self.wasi.as_deref_mut() {
            Some(Wasi::Preview2(Preview2 { table, http, .. })) => {
                WasiHttpCtxView { hooks: &mut http.hooks, table, ctx: &mut http.ctx }
            }
            _ => unreachable!("a component that imports WASI gets it at its start"),
        }
    }
}

/// Links `wasi:http`. A forbidden request fails only when the guest sends it.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    linker.instance("wasi:http/outgoing-handler@0.2.12")?.func_wrap("handle", handle_outgoing)?;
    bounded::link(linker)?;
    growing::link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

type OutgoingArguments = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);
type OutgoingResult = wasmtime::Result<(Result<Resource<HostFutureIncomingResponse>, ErrorCode>,)>;

/// Sends a request of the guest to another server, if the guest has the capability and may reach that host.
fn handle_outgoing(
    mut caller: StoreContextMut<'_, GuestState>,
    (request, options): OutgoingArguments,
) -> OutgoingResult {
    let state = caller.data_mut();
    let authority = state.http().table.get(&request)?.authority.clone().unwrap_or_default();
    let refusal = match authority.parse::<Authority>() {
        Ok(authority) => (!state.may_send_to(&authority)).then_some(ErrorCode::HttpRequestDenied),
        Err(_) => Some(ErrorCode::HttpRequestUriInvalid),
    };
    if let Some(refusal) = refusal {
        // The call owns the request: a guest that is refused often must not fill its table of resources.
        state.http().table.delete(request)?;
        return Ok((Err(refusal),));
    }
    match OutgoingHandler::handle(&mut state.http(), request, options) {
        Ok(response) => Ok((Ok(response),)),
        Err(error) => error.downcast().map(|code| (Err(code),)),
    }
}

impl GuestState {
    /// Returns true if the guest may send requests to this server; observers see a refusal.
    pub(crate) fn may_send_to(&self, authority: &Authority) -> bool {
        if self.require(Capability::Http).is_err() {
            return false;
        }
        let named = authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, named)| named);
        let is_granted = self.info.grant.allows_host(authority.host(), named);
        if !is_granted {
            drop(self.refuse(Capability::Http));
        }
        is_granted
    }
}

/// Calls the handler of an instance with the request.
pub(crate) async fn call(
    store: &mut Store<GuestState>,
    proxy: &Proxy,
    incoming: Incoming,
    reply: Reply,
) -> wasmtime::Result<()> {
    let scheme = if incoming.is_tls() { Scheme::Https } else { Scheme::Http };
    let mut http = store.data_mut().http();
    let request = http.new_incoming_request(scheme, incoming.into_request())?;
    let out = http.new_response_outparam_from_callback(move |replied| {
        // Fails if the client has gone.
        drop(reply.send(replied.map_err(|code| format!("{code:?}"))));
    })?;
    proxy.wasi_http_incoming_handler().call_handle(&mut *store, request, out).await
}
