//! The session of zenoh, and the runtime behind it, which can dial a node: the session alone cannot.

use std::net::SocketAddr;
use std::str::FromStr;
use std::thread;

use zenoh::Wait;
use zenoh::config::{Locator, ZenohId};
use zenoh::internal::runtime::{Runtime, RuntimeBuilder};
use zenoh_runtime::ZRuntime;

use super::life::LinkLife;

/// The session of zenoh of a node. It is opened and closed on threads without a tokio runtime.
pub(super) struct Transport {
    pub(super) session: zenoh::Session,
    runtime: Runtime,
    /// `tcp` or `quic`.
    protocol: &'static str,
}

impl Transport {
    /// Listens, and connects to the nodes to join in the background.
    pub(super) fn open(config: zenoh::Config, protocol: &'static str) -> Result<Self, zenoh::Error> {
        let mut runtime = ZRuntime::Application.block_in_place(RuntimeBuilder::new(config).build())?;
        let session = zenoh::session::init(runtime.clone().into()).wait()?;
        ZRuntime::Application.block_in_place(runtime.start())?;
        Ok(Self { session, runtime, protocol })
    }

    /// Returns the addresses at which this node listens.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.runtime.get_locators().iter().map(|locator| locator.address().to_string()).collect()
    }

    /// Connects to a node in the background, unless there is a connection.
    pub(super) fn dial(&self, life: &LinkLife) {
        let locator = |address: &SocketAddr| Locator::from_str(&format!("{}/{address}", self.protocol)).ok();
        let locators: Vec<Locator> = life.addresses.iter().filter_map(locator).collect();
        let Ok(id) = ZenohId::from_str(&life.id) else { return };
        let runtime = self.runtime.clone();
        drop(ZRuntime::Net.spawn(async move { runtime.connect_peer(&id.into(), &locators).await }));
    }

    /// Closes the session and all connections.
    pub(super) fn close(&self) {
        drop(self.session.close().wait());
        drop(self.runtime.close().wait());
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if !self.runtime.is_closed() {
            let runtime = self.runtime.clone();
            drop(thread::Builder::new().name("rusm-link".to_owned()).spawn(move || drop(runtime.close().wait())));
        }
    }
}
