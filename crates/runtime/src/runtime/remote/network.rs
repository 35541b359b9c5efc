//! [`Network`]: the transport of frames between nodes, as the runtime uses it.

use std::task::Waker;

use crate::runtime::remote::frame::{Address, Frame};
use crate::runtime::remote::report::NetworkReport;

/// Reason why a frame was not accepted.
#[derive(Debug)]
pub enum Refused {
    /// The credit of the receiver or of the connection is used up.
    Busy(Frame),
    /// The node is not connected.
    NoConnection(Frame),
}

/// Figures of one connection, for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFigures {
    /// Last measured round-trip time, in nanoseconds; `None` if none was measured.
    pub rtt_ns: Option<u64>,
    /// Bytes sent, with the headers of the network.
    pub sent_bytes: u64,
    /// Bytes received, with the headers of the network.
    pub received_bytes: u64,
    /// Number of frames that may be sent before an acknowledgement arrives.
    pub credit_frames: u64,
    /// Number of sent frames that are not acknowledged.
    pub in_doubt_frames: u64,
    /// Estimated difference between the clocks of the nodes, in nanoseconds; positive if the other clock is ahead.
    pub clock_offset_ns: Option<i64>,
}

/// Transport of frames to other nodes. A node is given by the index that
/// [`Remote::connected`](crate::embed::remote::Remote::connected) returned.
///
/// The frames of one connection arrive completely and in the order of [`send`](Self::send), up to a point at which the
/// connection is lost. All methods return at once and never call the runtime.
pub trait Network: Send + Sync {
    /// Queues a frame.
    ///
    /// # Errors
    /// [`Refused`], which returns the frame. A frame without [credit](crate::embed::remote::Kind::needs_credit) is never
    /// [`Busy`](Refused::Busy).
    fn send(&self, node: u32, frame: Frame) -> Result<(), Refused>;

    /// Registers a sender whose frame was [`Busy`](Refused::Busy), to be woken once when there may be room for it or the
    /// connection is lost. `bytes` is the length of its payload. Returns false if the sender should try again at once: the frame
    /// would be accepted now, or the node is not connected.
    fn wait_for_room(&self, node: u32, to: Address, bytes: usize, sender: &Waker) -> bool;

    /// Returns the credit of frames that this node received for its process `to` and
    /// [withheld](crate::embed::remote::Delivered::Withheld): the mailbox has room again. `bytes` is the length of their
    /// payloads.
    fn release(&self, node: u32, to: Address, frames: u32, bytes: u64);

    /// Returns the maximum length of a payload, in bytes.
    fn payload_bytes_max(&self) -> usize {
        64 << 20
    }

    /// Returns the figures of a connection, for observers.
    fn figures(&self, node: u32) -> LinkFigures {
        let _ = node;
        LinkFigures::default()
    }
    /// Returns the state of the cluster with at most `names_max` of its names, for an observer who looks at it now: the
    /// network may ask other nodes for their vitals for some seconds.
    fn report(&self, names_max: usize) -> NetworkReport {
        let _ = names_max;
        NetworkReport::default()
    }
}
