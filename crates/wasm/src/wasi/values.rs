//! `wasi:config` and `wasi:logging`: the values of the guest's profile, and lines in the node's log.

use wasmtime::StoreContextMut;
use wasmtime::component::{HasSelf, Linker};

use self::bindings::wasi::config::store;
use self::bindings::wasi::logging::logging::{self, Level};
use crate::bindings::rusm::runtime::log::Level as LogLevel;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::host::write_line;

#[allow(
    missing_docs,
    missing_debug_implementations,
    unnameable_types,
    unreachable_pub,
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::clone_on_ref_ptr,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    clippy::or_fun_call,
    reason = "generated code"
)]
mod bindings {
    wasmtime::component::bindgen!({
        inline: "package rusm:values; world values { import wasi:config/store@0.2.0-rc.1; import wasi:logging/logging@0.1.0-draft; }",
        path: ["../../wit/wasi/config.wit", "../../wit/wasi/logging.wit"],
        world: "rusm:values/values",
    });
}

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
