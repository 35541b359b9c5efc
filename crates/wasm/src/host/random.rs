//! `rusm:runtime/random`.

use crate::bindings::rusm::runtime::random::Host;
use crate::bindings::rusm::runtime::types::Error;
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;

/// Maximum number of random bytes generated without a yield: per call, or per piece for WASI.
pub(crate) const BYTES_MAX: u32 = 65_536;

impl Host for GuestState {
    fn bytes(&mut self, count: u32) -> Result<Vec<u8>, Error> {
        self.record_call(HostCall::Random);
        self.require(Capability::Random)?;
        if count > BYTES_MAX {
            return Err(Error::Limit(format!("cannot return {count} random bytes at once: the limit is {BYTES_MAX}")));
        }
        let mut bytes = vec![0; count as usize];
        getrandom::fill(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    fn next(&mut self) -> Result<u64, Error> {
        self.record_call(HostCall::Random);
        self.require(Capability::Random)?;
        getrandom::u64().map_err(failed)
    }
}

fn failed(error: getrandom::Error) -> Error {
    Error::Limit(format!("the system returned no random bytes: {error}"))
}
