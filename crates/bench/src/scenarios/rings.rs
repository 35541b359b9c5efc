//! Scenarios of rings and streams, and the loads that they share.

pub(crate) mod cases;
pub(crate) mod copy;
pub(crate) mod load;
pub(crate) mod pipe_live;
pub(crate) mod ring_chunk;
pub(crate) mod ring_contention;
pub(crate) mod ring_footprint;
pub(crate) mod ring_sharing;
pub(crate) mod ring_size;
pub(crate) mod ring_slow;
pub(crate) mod ring_versus;
pub(crate) mod ring_wake;
pub(crate) mod rivals;
pub(crate) mod stream_pipe;
