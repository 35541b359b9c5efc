//! An instance of a component of `wasi:http`, for one request or for several, one after the other.

use std::sync::Arc;

use rusm_runtime::Context;
use rusm_serve::Request;
use wasmtime::Store;
use wasmtime_wasi_http::p2::bindings::Proxy;
use wasmtime_wasi_http::p3::bindings::Service;

use super::call::{self, Reply};
use super::request::Incoming;
use super::{handler, service};
use crate::bindings::http::Service as RecordHandler;
use crate::engine::pooled_future::PooledFuture;
use crate::guest::body::Permit;
use crate::guest::guest_info::GuestInfo;
use crate::guest::state::GuestState;
use crate::module::Code;

/// An instance, in the store of the process that uses it now.
pub(crate) struct Instance {
    store: Store<GuestState>,
    entry: EntryPoint,
    /// Number of requests that it has answered.
    requests: u32,
    /// Dropped after everything else.
    permit: Permit,
}

/// The handler of an instance.
pub(crate) enum EntryPoint {
    Proxy(Proxy),
    Service(Service),
    Handler(RecordHandler),
}

/// A request in the form that the handler expects.
pub(crate) enum Work {
    /// For `wasi:http`.
    Resource(Incoming),
    /// For `rusm:http`.
    Record(Request),
}

impl EntryPoint {
    /// Instantiates a component.
    pub(crate) async fn instantiate(store: &mut Store<GuestState>, code: &Code) -> wasmtime::Result<Self> {
        match code {
            Code::Http(pre) => Ok(Self::Proxy(PooledFuture::new(pre.instantiate_async(store)).await?)),
            Code::Service(pre) => Ok(Self::Service(PooledFuture::new(pre.instantiate_async(store)).await?)),
            Code::Handler(pre) => Ok(Self::Handler(PooledFuture::new(pre.instantiate_async(store)).await?)),
            _ => Err(wasmtime::format_err!("not a component of wasi:http")),
        }
    }
}

impl Instance {
    pub(crate) const fn new(store: Store<GuestState>, entry: EntryPoint, permit: Permit) -> Self {
        Self { store, entry, requests: 0, permit }
    }

    /// Answers a request. After an error the instance must not be used again.
    pub(crate) async fn answer(&mut self, work: Work, reply: Reply) -> wasmtime::Result<()> {
        self.requests = self.requests.saturating_add(1);
        let store = &mut self.store;
        match (&self.entry, work) {
            (EntryPoint::Proxy(proxy), Work::Resource(incoming)) => call::call(store, proxy, incoming, reply).await,
            (EntryPoint::Service(service), Work::Resource(incoming)) => {
                Box::pin(service::call(store, service, incoming, reply)).await
            }
            (EntryPoint::Handler(service), Work::Record(request)) => {
                Box::pin(handler::call(store, service, request, reply)).await
            }
            _ => Err(wasmtime::format_err!("the request has not the form that the component expects")),
        }
    }

    /// Number of requests that it has answered.
    pub(crate) const fn requests(&self) -> u32 {
        self.requests
    }

    pub(crate) fn state(&mut self) -> &mut GuestState {
        self.store.data_mut()
    }

    /// Gives up what belongs to the process that has used it.
    pub(crate) fn leave_process(&mut self) {
        self.state().leave_process();
    }

    /// Goes on as the guest of another process.
    pub(crate) fn enter_process(&mut self, ctx: Context, info: &Arc<GuestInfo>) {
        self.permit.0 = Arc::clone(info);
        self.state().enter_process(ctx, info);
        self.store.set_epoch_deadline(1);
    }
}
