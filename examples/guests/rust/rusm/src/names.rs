//! Names: at most one live process has each. Needs the capability `names`.

use crate::bindings::rusm::runtime::names;
use crate::{Error, Pid};

/// Registers this process.
///
/// # Errors
/// [`Error::Taken`].
pub fn register(name: impl AsRef<str>) -> Result<(), Error> {
    Ok(names::register(name.as_ref())?)
}

/// Gives up a name of this process.
///
/// # Errors
/// [`Error::NoSuch`].
pub fn unregister(name: impl AsRef<str>) -> Result<(), Error> {
    Ok(names::unregister(name.as_ref())?)
}

/// Who has the name.
pub fn whereis(name: impl AsRef<str>) -> Option<Pid> {
    names::whereis(name.as_ref()).map(Into::into)
}
