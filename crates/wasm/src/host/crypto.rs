//! `rusm:runtime/crypto`: digests, computed by the node.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::bindings::rusm::runtime::crypto::{Hash, Host};
use crate::bindings::rusm::runtime::types::Error;
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;

/// Maximum number of bytes per call, key and data together: more would take longer than a tick or two, and keep the
/// scheduler from its other processes.
const DATA_MAX_BYTES: usize = 512 << 10;

impl Host for GuestState {
    fn digest(&mut self, hash: Hash, data: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.record_call(HostCall::Digest);
        self.require(Capability::Crypto)?;
        check(data.len())?;
        Ok(digest(hash, &data))
    }

    fn hmac(&mut self, hash: Hash, key: Vec<u8>, data: Vec<u8>) -> Result<Vec<u8>, Error> {
        self.record_call(HostCall::Hmac);
        self.require(Capability::Crypto)?;
        check(data.len() + key.len())?;
        hmac(hash, &key, &data)
    }
}

fn check(bytes: usize) -> Result<(), Error> {
    if bytes <= DATA_MAX_BYTES {
        return Ok(());
    }
    Err(Error::Limit(format!("cannot digest {bytes} bytes at once: the limit is {DATA_MAX_BYTES}")))
}

/// Computes the digest of `data`.
pub(crate) fn digest(hash: Hash, data: &[u8]) -> Vec<u8> {
    match hash {
        Hash::Sha256 => Sha256::digest(data).to_vec(),
        Hash::Sha384 => Sha384::digest(data).to_vec(),
        Hash::Sha512 => Sha512::digest(data).to_vec(),
    }
}

fn hmac(hash: Hash, key: &[u8], data: &[u8]) -> Result<Vec<u8>, Error> {
    fn keyed<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Result<Vec<u8>, Error> {
        let mut mac = <M as KeyInit>::new_from_slice(key).map_err(|error| Error::Invalid(error.to_string()))?;
        mac.update(data);
        Ok(mac.finalize().into_bytes().to_vec())
    }
    match hash {
        Hash::Sha256 => keyed::<Hmac<Sha256>>(key, data),
        Hash::Sha384 => keyed::<Hmac<Sha384>>(key, data),
        Hash::Sha512 => keyed::<Hmac<Sha512>>(key, data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|half| char::from_digit(half.into(), 16))
            .collect()
    }

    #[test]
    fn digests_are_those_of_the_standards() {
        // FIPS 180-2, appendix B.1, and RFC 4231, test case 2.
        let abc = digest(Hash::Sha256, b"abc");
        let mac = hmac(Hash::Sha256, b"Jefe", b"what do ya want for nothing?").unwrap();

        assert_eq!(hex(&abc), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
