//! Limits of the wire. A packet beyond one of them is not read.

/// Maximum length of a packet, in bytes.
pub const PACKET_BYTES_MAX: usize = 128 << 10;
/// Maximum length of a chunk, and of a message that travels in one frame, in bytes.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Maximum length of a message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Maximum number of targets in one frame of credit.
pub const CREDIT_ENTRIES_MAX: usize = 1_024;
/// Length of a stream packet before its first frame: type, tag, number of the first frame.
pub const STREAM_HEADER_BYTES: usize = 1 + 8 + 8;
/// Length of a frame before its body: type and length.
pub const FRAME_HEADER_BYTES: usize = 1 + 4;
/// Length of a data frame without its payload.
pub const DATA_HEADER_BYTES: usize = FRAME_HEADER_BYTES + 1 + 8 + 8;
/// Minimum and maximum of the window that a node may announce, in frames.
pub const WINDOW_FRAMES: (u32, u32) = (16, 1 << 20);
/// Minimum and maximum of the window that a node may announce, in bytes.
pub const WINDOW_BYTES: (u32, u32) = (1 << 10, 1 << 30);
/// Minimum and maximum of the credit of one target that a node may announce, in messages.
pub const TARGET_MESSAGES: (u32, u32) = (1, 1 << 20);
