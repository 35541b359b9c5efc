//! Digests computed by the node. Needs the capability `crypto`.

use crate::Error;
use crate::bindings::rusm::runtime::crypto;

/// Hash function of the SHA-2 family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256, with a digest of 32 bytes.
    Sha256,
    /// SHA-384, with a digest of 48 bytes.
    Sha384,
    /// SHA-512, with a digest of 64 bytes.
    Sha512,
}

/// Returns the digest of `data`.
///
/// # Errors
/// [`Error::Denied`] without the capability.
pub fn digest(hash: Hash, data: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
    Ok(crypto::digest(hash.into(), data.as_ref())?)
}

/// Returns the keyed digest (HMAC, RFC 2104) of `data`.
///
/// # Errors
/// [`Error::Denied`] without the capability.
pub fn hmac(hash: Hash, key: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
    Ok(crypto::hmac(hash.into(), key.as_ref(), data.as_ref())?)
}

impl From<Hash> for crypto::Hash {
    fn from(hash: Hash) -> Self {
        match hash {
            Hash::Sha256 => Self::Sha256,
            Hash::Sha384 => Self::Sha384,
            Hash::Sha512 => Self::Sha512,
        }
    }
}
