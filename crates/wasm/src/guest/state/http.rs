//! State of `wasi:http` of a guest.

use std::future::Future;

use rusm_serve::http::{Request, Response};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

use crate::guest::state::resources::{BODY_CHUNK_BYTES, FIELDS_BYTES_MAX};
use crate::http::outgoing::{self, Finished};

/// State of `wasi:http` of one guest.
pub(crate) struct HttpState {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

impl Default for HttpState {
    fn default() -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(FIELDS_BYTES_MAX);
        Self { ctx, hooks: Hooks }
    }
}

/// Sends requests after they were granted.
#[derive(Default)]
pub(crate) struct Hooks;

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Finished,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Finished), Error>> + Send> {
        Box::new(outgoing::send(request, options))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_BYTES
    }
}
