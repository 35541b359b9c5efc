//! Random bytes from the operating system. Needs the capability `random`.

use crate::Error;
use crate::bindings::rusm::runtime::random;

/// Returns `count` random bytes, at most 65,536.
///
/// # Errors
/// [`Error::Denied`] without the capability; [`Error::Limit`] for a larger `count`.
pub fn bytes(count: u32) -> Result<Vec<u8>, Error> {
    Ok(random::bytes(count)?)
}

/// Returns a random number.
///
/// # Errors
/// [`Error::Denied`] without the capability.
pub fn number() -> Result<u64, Error> {
    Ok(random::next()?)
}
