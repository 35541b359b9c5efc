//! The request that a guest of `rusm:http` answers now, and what it has made of its connection.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rusm_serve::websocket::WebSocket;
use rusm_serve::{Request, http};
use tokio::sync::{mpsc, oneshot};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

/// The request of a guest, until it ends.
pub(crate) struct Exchange {
    /// Its head; taken by an upgrade.
    pub(crate) request: Option<Request>,
    /// Taken by the response.
    pub(crate) reply: Option<oneshot::Sender<Result<http::Response<HyperOutgoingBody>, String>>>,
    /// The body that the guest writes.
    pub(crate) parts: Option<mpsc::Sender<Bytes>>,
    pub(crate) socket: Option<WebSocket>,
}

/// An extension of a response: the connection becomes a WebSocket, which is handed to the guest.
#[derive(Clone)]
pub(crate) struct Upgrade(Arc<Mutex<Option<Handover>>>);

/// The request to upgrade, and the way of the socket to the guest.
type Handover = (Request, oneshot::Sender<WebSocket>);

impl Upgrade {
    pub(crate) fn new(request: Request, handover: oneshot::Sender<WebSocket>) -> Self {
        Self(Arc::new(Mutex::new(Some((request, handover)))))
    }

    pub(crate) fn take(&self) -> Option<Handover> {
        self.0.lock().take()
    }
}
