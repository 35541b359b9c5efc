//! Random bytes from the system. Needs the capability `random`.

use crate::Error;
use crate::bindings::rusm::runtime::random;

/// At most 65,536 of them at once.
///
/// # Errors
/// [`Error::Denied`]; [`Error::Limit`] for more than that.
pub fn bytes(count: u32) -> Result<Vec<u8>, Error> {
    Ok(random::bytes(count)?)
}

/// One number.
///
/// # Errors
/// [`Error::Denied`].
pub fn number() -> Result<u64, Error> {
    Ok(random::next()?)
}
