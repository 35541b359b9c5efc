//! `rusm:runtime/names`.

use super::convert;
use crate::bindings::rusm::runtime::names::Host;
use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::name::check_name;
use crate::guest::state::GuestState;
use rusm_runtime::RegisterError;

impl Host for GuestState {
    fn register(&mut self, name: String) -> Result<(), Error> {
        self.record_call(HostCall::Register);
        self.require(Capability::Names)?;
        check_name(&name)?;
        self.check_registrations()?;
        self.ctx.register(&name).map_err(refused)
    }

    fn unregister(&mut self, name: String) -> Result<(), Error> {
        self.record_call(HostCall::Unregister);
        self.require(Capability::Names)?;
        check_name(&name)?;
        let gone = || Error::NoSuch(format!("this process has no name {name:?}"));
        if self.ctx.whereis(&name) != Some(self.ctx.pid()) {
            return Err(gone());
        }
        if self.ctx.runtime().unregister(&name) { Ok(()) } else { Err(gone()) }
    }

    fn whereis(&mut self, name: String) -> Option<Pid> {
        self.record_call(HostCall::Whereis);
        self.require(Capability::Names).ok()?;
        check_name(&name).ok()?;
        self.ctx.whereis(&name).inspect(|pid| self.allow_sending_to(*pid)).map(convert::pid)
    }
}

/// Converts the error of a registration.
pub(crate) fn refused(error: RegisterError) -> Error {
    match error {
        RegisterError::Taken { name, holder } => Error::Taken(format!("name {name:?} is taken by {holder}")),
        RegisterError::NoProcess { .. } => Error::NoProcess,
        RegisterError::Name(error) => Error::Invalid(error.to_string()),
    }
}
