//! Length of the names that guests pass.

use crate::bindings::rusm::runtime::types::Error;

/// Maximum length of a name, a path or an identifier that a guest passes, in bytes.
pub(crate) const NAME_MAX_BYTES: usize = 4_096;

/// Checks the length of a name before anything else is done with it: a call is not interrupted, and a guest may pass as
/// many bytes as its memory holds.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.len() <= NAME_MAX_BYTES {
        return Ok(());
    }
    Err(Error::Invalid(format!("a name of {} bytes is too long: the limit is {NAME_MAX_BYTES}", name.len())))
}
