//! A service that computes SHA-2 digests; the node does the arithmetic.
//!
//! ```text
//!   call, tag 0 or 256    bytes ──▶ their SHA-256
//!   call, tag 384, 512    bytes ──▶ their SHA-384, SHA-512
//!   call, tag 1           n (four bytes, little-endian) ──▶ SHA-256 applied n times to 32 zero bytes
//! ```

use rusm::crypto::{Hash, digest};
use rusm::{Error, Message, Received, Tag};

fn run() -> Result<(), Error> {
    rusm::label("digest service");
    loop {
        if let Received::Message(request) = rusm::receive() {
            request.reply(answer(&request)?);
        }
    }
}

fn answer(request: &Message) -> Result<Vec<u8>, Error> {
    match request.tag {
        Tag(0 | 256) => digest(Hash::Sha256, &request.body),
        Tag(384) => digest(Hash::Sha384, &request.body),
        Tag(512) => digest(Hash::Sha512, &request.body),
        Tag(1) => chain(&request.body),
        Tag(other) => Ok(format!("error: tag {other} must be 0, 1, 256, 384 or 512").into_bytes()),
    }
}

/// Computes a chain of digests, each of the previous one: much work for one message.
fn chain(length: &[u8]) -> Result<Vec<u8>, Error> {
    let Ok(length) = length.try_into().map(u32::from_le_bytes) else {
        return Ok(b"error: the length of a chain has four bytes".to_vec());
    };
    (0..length).try_fold(vec![0; 32], |link, _| digest(Hash::Sha256, link))
}

rusm::actor!(run);
