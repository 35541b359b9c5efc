//! Instances that wait for their next request, for routes that reuse them.
//!
//! ```text
//!   request ends normally ──▶ kept: for its connection, or for any request, up to a number of instances and of requests
//!      error, trap, kill ──▶ dropped            ◀── the next request takes it as it is, in its own process
//!   connection ends, or another route needs an instance ──▶ dropped
//! ```
//!
//! An instance is used by one request at a time. What a request leaves in its memory, the next one finds.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rusm_runtime::{Handle, Pid};

use super::instance::Instance;
use crate::engine::idle_instances::IdleInstances;

/// Number of requests after which an instance of a pool is replaced, unless set.
pub const REQUESTS_OF_POOLED: u32 = 1_000;

/// The requests that share an instance.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{InstanceReuse, REQUESTS_OF_POOLED};
///
/// // At most eight instances wait; each answers a thousand requests.
/// let reuse = InstanceReuse::Pool { idle: 8, requests: REQUESTS_OF_POOLED };
/// assert_ne!(reuse, InstanceReuse::default(), "by default, each request has its own");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstanceReuse {
    /// Each request has an instance of its own. Requests share nothing.
    #[default]
    Request,
    /// The requests of a connection have an instance, one after the other. It ends with the connection. Concurrent
    /// HTTP/2 requests have further ones.
    Connection,
    /// Instances are kept for the next requests of any client.
    Pool {
        /// Maximum number of instances that wait for a request. If none waits, a new one is started.
        idle: u32,
        /// Number of requests after which an instance is replaced by a new one.
        requests: u32,
    },
}

/// The waiting instances of one route.
pub(crate) struct WarmInstances {
    reuse: InstanceReuse,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    #[expect(clippy::vec_box, reason = "an instance is boxed while a request uses it")]
    pool: Vec<Box<Instance>>,
    /// The connections that have used an instance and are open.
    connections: HashMap<Pid, Option<Box<Instance>>>,
}

impl WarmInstances {
    pub(crate) fn new(reuse: InstanceReuse) -> Self {
        Self { reuse, waiting: Mutex::default() }
    }

    /// Returns true if each request has an instance of its own.
    pub(crate) const fn is_never(&self) -> bool {
        matches!(self.reuse, InstanceReuse::Request)
    }

    /// Returns an instance for a request of this connection.
    pub(crate) fn take(&self, connection: Pid) -> Option<Box<Instance>> {
        match self.reuse {
            InstanceReuse::Request => None,
            InstanceReuse::Connection => self.waiting.lock().connections.get_mut(&connection)?.take(),
            InstanceReuse::Pool { .. } => self.waiting.lock().pool.pop(),
        }
    }

    /// Keeps an instance that has answered a request of this connection, or drops it.
    pub(crate) fn put(self: &Arc<Self>, mut instance: Box<Instance>, connection: Pid, runtime: &Handle) {
        instance.leave_process();
        match self.reuse {
            InstanceReuse::Request => {}
            InstanceReuse::Pool { idle, requests } => {
                let mut waiting = self.waiting.lock();
                if instance.requests() < requests && waiting.pool.len() < idle as usize {
                    waiting.pool.push(instance);
                }
            }
            InstanceReuse::Connection => {
                if !self.follow(connection, runtime) {
                    return;
                }
                let mut waiting = self.waiting.lock();
                if let Some(place @ None) = waiting.connections.get_mut(&connection) {
                    *place = Some(instance);
                }
            }
        }
    }

    /// Starts a process that forgets the connection when it ends, unless there is one. Returns false if it cannot be
    /// started.
    fn follow(self: &Arc<Self>, connection: Pid, runtime: &Handle) -> bool {
        if self.waiting.lock().connections.contains_key(&connection) {
            return true;
        }
        self.waiting.lock().connections.insert(connection, None);
        let weak = Arc::downgrade(self);
        let followed = runtime.spawn(async move |ctx| {
            ctx.set_label("instance of a connection");
            ctx.monitor(connection);
            ctx.receive().await;
            let ended = weak.upgrade().and_then(|warm| warm.waiting.lock().connections.remove(&connection));
            drop(ended);
        });
        if followed.is_err() {
            self.waiting.lock().connections.remove(&connection);
        }
        followed.is_ok()
    }
}

impl IdleInstances for WarmInstances {
    fn release_one(&self) -> bool {
        let mut waiting = self.waiting.lock();
        let released = waiting.pool.pop().or_else(|| waiting.connections.values_mut().find_map(Option::take));
        drop(waiting);
        released.is_some()
    }
}
