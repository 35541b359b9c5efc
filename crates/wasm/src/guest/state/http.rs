//! State of `wasi:http` of a guest.

use std::future::Future;
use std::sync::Arc;

use rusm_serve::http::{Request, Response};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

use crate::guest::shared_budget::SharedBudget;
use crate::guest::state::resources::{BODY_CHUNK_BYTES, FIELDS_BYTES_MAX};
use crate::http::outgoing::{self, Bounds, Finished};
use crate::wasi::name_lookups::NameLookups;

/// State of `wasi:http` of one guest.
pub(crate) struct HttpState {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

impl HttpState {
    pub(crate) fn new(lookups: Arc<NameLookups>, memory: Option<Arc<SharedBudget>>) -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(FIELDS_BYTES_MAX);
        Self { ctx, hooks: Hooks(Bounds { lookups, of_guest: Arc::default(), memory }) }
    }
}

/// Sends requests after they were granted.
pub(crate) struct Hooks(Bounds);

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Finished,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Finished), Error>> + Send> {
        Box::new(outgoing::send(request, options, self.0.clone()))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_BYTES
    }
}
