//! Work of a request's process after the end of its response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::request::Response;

/// An extension of a response, from the handler to the process that runs it.
#[derive(Clone)]
pub(crate) struct Rest(Arc<Mutex<Option<Work>>>);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

/// Lets the process of a request run a future after the last byte of the response was produced. The client does not
/// wait for it. It is dropped if the response is cut, and after [`Limits::handler_timeout`](crate::Limits).
pub fn finish_later(response: &mut Response, work: impl Future<Output = ()> + Send + 'static) {
    response.extensions_mut().insert(Rest(Arc::new(Mutex::new(Some(Box::pin(work))))));
}

impl Rest {
    pub(crate) async fn run(self, limit: Duration) {
        let work = self.0.lock().take();
        if let Some(work) = work
            && tokio::time::timeout(limit, work).await.is_err()
        {
            tracing::debug!(?limit, "work after a response took too long, and was dropped");
        }
    }
}
