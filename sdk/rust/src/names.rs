//! Names of processes: a name belongs to at most one live process. Needs the capability `names`.

use crate::bindings::rusm::runtime::names;
use crate::{Error, Pid};

/// Registers a name for this process.
///
/// # Errors
/// [`Error::Taken`] if a live process has the name.
pub fn register(name: impl AsRef<str>) -> Result<(), Error> {
    Ok(names::register(name.as_ref())?)
}

/// Unregisters a name of this process.
///
/// # Errors
/// [`Error::NoSuch`] if this process does not have the name.
pub fn unregister(name: impl AsRef<str>) -> Result<(), Error> {
    Ok(names::unregister(name.as_ref())?)
}

/// Returns the process with this name.
pub fn whereis(name: impl AsRef<str>) -> Option<Pid> {
    names::whereis(name.as_ref()).map(Into::into)
}
