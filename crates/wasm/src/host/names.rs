//! `rusm:runtime/names`.

use super::words;
use crate::bindings::rusm::runtime::names::Host;
use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::capability::Capability;
use crate::state::State;
use crate::vitals::HostCall;
use rusm_runtime::RegisterError;

impl Host for State {
    fn register(&mut self, name: String) -> Result<(), Error> {
        self.asks(HostCall::Register);
        self.may(Capability::Names)?;
        self.may_hold_more()?;
        self.ctx.register(&name).map_err(refused)
    }

    fn unregister(&mut self, name: String) -> Result<(), Error> {
        self.asks(HostCall::Unregister);
        self.may(Capability::Names)?;
        let gone = || Error::NoSuch(format!("this process has no name {name:?}"));
        if self.ctx.whereis(&name) != Some(self.ctx.pid()) {
            return Err(gone());
        }
        if self.ctx.runtime().unregister(&name) { Ok(()) } else { Err(gone()) }
    }

    fn whereis(&mut self, name: String) -> Option<Pid> {
        self.asks(HostCall::Whereis);
        self.may(Capability::Names).ok()?;
        self.ctx.whereis(&name).inspect(|pid| self.meets(*pid)).map(words::pid)
    }
}

/// Converts the error of a registration.
pub(crate) fn refused(error: RegisterError) -> Error {
    match error {
        RegisterError::Taken { name, holder } => Error::Taken(format!("name {name:?} is taken by {holder}")),
        RegisterError::NoProcess { .. } => Error::NoProcess,
        length @ RegisterError::Length { .. } => Error::Invalid(length.to_string()),
    }
}
