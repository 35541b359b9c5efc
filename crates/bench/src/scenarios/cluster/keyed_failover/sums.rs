//! The keyed processes of a run, and the process through which a run controls another node: used by `member.rs`,
//! `events.rs` and `caller.rs`.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use rusm_cluster::node::{Deactivate, KeyCount, Keyed, KeyedConfig, KeyedError, Node};
use rusm_runtime::remote::Exports;
use rusm_runtime::{Context, Request};

/// Name under which other nodes start the process that controls a node.
pub(super) const CONTROL: &str = "bench/control";
/// Question to that process: how many keys has the node?
pub(super) const COUNT: &[u8] = b"count";
/// Request to it: let the node drain.
pub(super) const DRAIN: &[u8] = b"drain";
/// Message to it: leave the cluster.
pub(super) const LEAVE: &[u8] = b"leave";
/// Time that a node has to leave.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
/// Keys are never idle during a run.
const IDLE: Duration = Duration::from_hours(24);

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// Number of calls that were carried out.
    pub(super) sum: u64,
    /// Node of the process.
    pub(super) node: String,
}

impl Sum {
    fn encode(sum: u64, node: &str) -> Bytes {
        let mut out = BytesMut::with_capacity(8 + node.len());
        out.put_u64_le(sum);
        out.put_slice(node.as_bytes());
        out.freeze()
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let sum = bytes.try_get_u64_le().ok()?;
        Some(Self { sum, node: std::str::from_utf8(bytes).ok()?.to_owned() })
    }
}

/// Serves the keys of a run on a node.
pub(crate) fn serve(node: &Node) -> Result<Keyed, KeyedError> {
    let own: Arc<str> = node.identity().name.as_str().into();
    let body = move |ctx: Context, _key: String, sum: Option<u64>| sums(ctx, Arc::clone(&own), sum.unwrap_or_default());
    let suspend = |sum: u64| Bytes::copy_from_slice(&sum.to_le_bytes());
    let resume = |bytes: Bytes| bytes.as_ref().try_into().ok().map(u64::from_le_bytes);
    let config = KeyedConfig { idle: IDLE, keys_max: usize::MAX, state_bytes_max: u64::MAX };
    node.keyed_with_state("bench/sum", config, (suspend, resume), body)
}

/// Adds one for each call, until the key moves.
async fn sums(ctx: Context, own: Arc<str>, mut sum: u64) -> Option<u64> {
    loop {
        match ctx.receive().await.downcast::<Request<Bytes, Bytes>>() {
            Ok(Request { reply, .. }) => {
                sum += 1;
                // A caller that no longer waits has counted the call as failed.
                drop(reply.send(&ctx, Sum::encode(sum, &own)));
            }
            Err(other) if other.is::<Deactivate>() => return Some(sum),
            Err(_) => {}
        }
    }
}

/// A node and its keys, known after the runtime has started, and until the node ends: the exports of the runtime hold
/// this value, so the node would keep its runtime alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controlled(Arc<Mutex<Option<NodeWithKeys>>>);

type NodeWithKeys = (Arc<Node>, Keyed);

impl Controlled {
    /// Adds the process that controls the node.
    pub(crate) fn export(&self, exports: Exports) -> Exports {
        let controlled = self.clone();
        exports.spawnable(CONTROL, move |ctx, _| control(ctx, controlled.clone()))
    }

    pub(crate) fn set(&self, node: &Arc<Node>, keyed: &Keyed) {
        *self.0.lock() = Some((Arc::clone(node), keyed.clone()));
    }

    /// Lets the node go.
    pub(crate) fn clear(&self) {
        let node = self.0.lock().take();
        drop(node);
    }

    fn get(&self) -> Option<NodeWithKeys> {
        self.0.lock().clone()
    }
}

async fn control(ctx: Context, controlled: Controlled) {
    ctx.set_label("control of the node");
    let Some((node, keyed)) = controlled.get() else { return };
    loop {
        match ctx.receive().await.downcast::<Request<Bytes, Bytes>>() {
            Ok(Request { request, reply }) => {
                if request == DRAIN {
                    node.drain();
                }
                drop(reply.send(&ctx, encode(keyed.count())));
            }
            Err(other) => {
                if other.downcast::<Bytes>().is_ok_and(|message| message == LEAVE) {
                    let node = Arc::clone(&node);
                    ctx.spawn_blocking(move || node.leave(LEAVE_WITHIN)).await;
                }
            }
        }
    }
}

fn encode(count: KeyCount) -> Bytes {
    let mut out = BytesMut::with_capacity(16);
    out.put_u64_le(count.live as u64);
    out.put_u64_le(count.suspended as u64);
    out.freeze()
}

/// Reads the answer of the control process: the number of keys on the node.
pub(super) fn decode_count(mut bytes: &[u8]) -> Option<u64> {
    Some(bytes.try_get_u64_le().ok()? + bytes.try_get_u64_le().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_reads_back() {
        let sum = Sum { sum: 7, node: "n1".to_owned() };

        assert_eq!(Sum::decode(&Sum::encode(7, "n1")), Some(sum));
        assert_eq!(decode_count(&encode(KeyCount { live: 3, suspended: 4 })), Some(7));
        assert_eq!((Sum::decode(b"short"), decode_count(b"short")), (None, None));
    }
}
