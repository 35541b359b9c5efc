//! Accounts of client addresses: each takes at most half of the memory that all clients of a server share.
//!
//! ```text
//!   part of a response ──▶ half of its client ──▶ memory of all     a share of both
//!   body of a request  ──▶ half of its client, and all              counted by HeldBytes
//! ```

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use crate::limits::memory::MemoryBudget;
use crate::limits::rate::network_of;

/// The accounts of all clients.
#[derive(Debug)]
pub(crate) struct ClientAccounts {
    responses: Arc<MemoryBudget>,
    responses_bytes: u64,
    bodies_bytes: u64,
    /// By address. What no connection uses any more is removed when the table grows.
    accounts: Mutex<HashMap<IpAddr, Weak<ClientAccount>>>,
}

/// The account of a client address, shared by its connections.
#[derive(Debug)]
pub(crate) struct ClientAccount {
    all: Arc<MemoryBudget>,
    own: MemoryBudget,
    /// Bytes of its bodies and messages that are being collected, and their limit.
    pub(super) bodies_bytes: AtomicU64,
    pub(super) bodies_bytes_max: u64,
}

/// A share of the memory for responses, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl ClientAccounts {
    /// Creates the accounts for this memory for responses, for bodies, and for one body.
    pub(crate) fn new(responses_bytes: u64, bodies_bytes: u64, body_bytes: u64) -> Self {
        Self {
            responses: Arc::new(MemoryBudget::new(responses_bytes)),
            responses_bytes: responses_bytes.div_ceil(2),
            // One body must fit.
            bodies_bytes: bodies_bytes.div_ceil(2).max(body_bytes),
            accounts: Mutex::default(),
        }
    }

    /// Returns the account of a client.
    pub(crate) fn of(&self, client: IpAddr) -> Arc<ClientAccount> {
        let client = network_of(client);
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get(&client).and_then(Weak::upgrade) {
            return account;
        }
        if accounts.len() == accounts.capacity() {
            accounts.retain(|_, account| account.strong_count() > 0);
        }
        let account = Arc::new(ClientAccount {
            all: Arc::clone(&self.responses),
            own: MemoryBudget::new(self.responses_bytes),
            bodies_bytes: AtomicU64::new(0),
            bodies_bytes_max: self.bodies_bytes,
        });
        accounts.insert(client, Arc::downgrade(&account));
        account
    }
}

impl ClientAccount {
    /// Takes a share of the memory for responses, if there is room for it.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Share> {
        let bytes = self.own.at_most(bytes);
        Some(Share { _own: self.own.try_take(bytes)?, _all: self.all.try_take(bytes)? })
    }

    /// Takes a share of the memory for responses, and waits for it in turn.
    pub(crate) async fn take(&self, bytes: usize) -> Option<Share> {
        let bytes = self.own.at_most(bytes);
        Some(Share { _own: self.own.take(bytes).await?, _all: self.all.take(bytes).await? })
    }

    /// Returns true while half of the memory for responses is taken.
    pub(crate) fn is_short(&self) -> bool {
        self.all.is_short()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn a_client_that_holds_its_half_leaves_the_other_half_to_others() {
        let clients = ClientAccounts::new(8 << 10, 0, 0);
        let (one, other) = (clients.of(address(1)), clients.of(address(2)));

        let held = [one.try_take(2 << 10), one.try_take(2 << 10)];

        assert!(held.iter().all(Option::is_some) && one.try_take(1).is_none());
        assert!(one.is_short(), "it is cut if it takes nothing of its half");
        assert!(clients.of(address(1)).try_take(1).is_none(), "another connection of the same client");
        assert!(other.try_take(4 << 10).is_some());
        drop(held);
        let longer = one.try_take(usize::MAX);
        assert!(longer.is_some() && other.try_take(4 << 10).is_some(), "what is longer than its half takes all of it");
    }

    #[test]
    fn accounts_without_connections_are_forgotten() {
        let clients = ClientAccounts::new(1 << 20, 1 << 20, 1 << 20);
        let kept = clients.of(address(0));

        for last in 1..=255 {
            drop(clients.of(address(last)));
        }

        assert!(clients.accounts.lock().len() < 16, "{}", clients.accounts.lock().len());
        assert!(Arc::ptr_eq(&kept, &clients.of(address(0))));
    }
}
