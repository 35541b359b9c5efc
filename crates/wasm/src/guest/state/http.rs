//! State of `wasi:http` of a guest.

use rusm_serve::http;
use wasmtime_wasi_http::{Error as HttpError, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpHooks};

type Outgoing = Box<dyn Future<Output = Result<Sent, HttpError>> + Send>;
type Sent = (http::Response<WasiBody>, Box<dyn Future<Output = Result<(), HttpError>> + Send>);

/// State of `wasi:http` of one guest.
#[derive(Default)]
pub(crate) struct HttpState {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

#[derive(Default)]
pub(crate) struct Hooks;

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        _: http::Request<WasiBody>,
        _: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), HttpError>> + Send>,
    ) -> Outgoing {
        Box::new(async { Err(HttpError::HttpRequestDenied) })
    }
}
