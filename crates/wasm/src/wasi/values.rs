//! `wasi:config` and `wasi:logging`: the values of the guest's profile, and lines in the node's log.

use wasmtime::StoreContextMut;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::rusm::runtime::log::Level as LogLevel;
use crate::bindings::wasi_values::wasi::config::store;
use crate::bindings::wasi_values::wasi::logging::logging::{self, Level};
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::host::write_line;

/// Links both. `wasi:logging` is also linked without its version, which some toolchains leave out.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    store::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    logging::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    linker.instance("wasi:logging/logging")?.func_wrap(
        "log",
        |mut caller: StoreContextMut<'_, GuestState>, (level, context, message): (Level, String, String)| {
            logging::Host::log(caller.data_mut(), level, context, message);
            Ok(())
        },
    )
}

impl store::Host for GuestState {
    fn get(&mut self, key: String) -> Result<Option<String>, store::Error> {
        Ok(self.info.grant.values().get(&key).cloned())
    }

    fn get_all(&mut self) -> Result<Vec<(String, String)>, store::Error> {
        Ok(self.info.grant.values().iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}

impl logging::Host for GuestState {
    fn log(&mut self, level: Level, context: String, message: String) {
        self.record_call(HostCall::Log);
        let level = match level {
            Level::Trace | Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error | Level::Critical => LogLevel::Error,
        };
        let text = if context.is_empty() { message } else { format!("{context}: {message}") };
        write_line(&self.info, self.ctx.pid(), level, &text);
    }
}
