//! One client's view of the stores, of their buckets, and of the keys of one bucket.
//!
//! Every client that may attach can see figures. Stored data is protected: keys and values require the control role,
//! and viewing a bucket is recorded in the audit log like a command.

use rusm_protocol::{ErrorCode, KeysInfo, KeysView, Role, ServerMessage, Stores, StoresView};

use crate::encode::stores as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe::{self, KeysQuery};

/// Maximum number of keys in a page.
const KEYS_MAX: u32 = 100;
/// Bytes of a key or a value that are shown.
pub(crate) const PREVIEW_BYTES: usize = 64;

/// A client's view of the stores.
pub(crate) struct StoresSource {
    view: StoresView,
    keys: Option<KeysQuery>,
    role: Role,
}

impl StoresSource {
    /// Creates a view for a client with this role.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: StoresView, role: Role) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        let keys = view.keys.as_ref().map(query).transpose()?;
        Ok(Self { view, keys, role })
    }

    /// Returns true if the view shows stored keys.
    pub(crate) const fn looks_into_a_bucket(&self) -> bool {
        self.keys.is_some()
    }

    fn keys(&self, node: &Node, view: &KeysView, query: &KeysQuery) -> KeysInfo {
        let page = match observe::storage(&node.runtime, view.store as usize) {
            _ if self.role != Role::Control => Err("keys and values require the control role".to_owned()),
            Some(storage) => storage.keys(&view.bucket, query),
            None => Err(format!("store {} does not exist", view.store)),
        };
        encode::keys(view, page)
    }
}

impl ViewSource for StoresSource {
    type Data = Stores;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Stores {
        let stores = encode::stores(&observe::stores(&node.runtime), self.view.window);
        let keys = self.view.keys.as_ref().zip(self.keys.as_ref()).map(|(view, query)| self.keys(node, view, query));
        let (tables, registries) = (observe::tables(&node.runtime), observe::registries(&node.runtime));
        let (tables, tables_total) = encode::tables(&tables, &registries);
        Stores { keys: keys.map(Box::new), tables, tables_total, ..stores }
    }

    fn message(&self, found: Stores, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Stores(Stores { id: self.view.id, seq, at_ms, cost_us, ..found })
    }
}

fn query(view: &KeysView) -> Result<KeysQuery, HostError> {
    if !(1..=KEYS_MAX).contains(&view.len) {
        let message = format!("a page of {} keys is not between 1 and {KEYS_MAX}", view.len);
        return Err(HostError { code: ErrorCode::OutOfRange, message });
    }
    let Some(after) = encode::from_hex(&view.after) else {
        let message = format!("after of {:?} is not a key in hexadecimal", crate::encode::text::cut(&view.after, 64));
        return Err(HostError { code: ErrorCode::Malformed, message });
    };
    Ok(KeysQuery {
        after,
        prefix: Vec::new(),
        limit: view.len as usize,
        key_bytes: PREVIEW_BYTES,
        value_bytes: PREVIEW_BYTES,
    })
}
