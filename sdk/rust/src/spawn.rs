//! Starting processes.

use crate::bindings::rusm::runtime::process::{self, SpawnOptions, Ties};
use crate::{Error, MonitorRef, Pid};

/// Options of a new process. A value left out is that of this process, and no value can exceed it.
///
/// ```ignore
/// let worker = Spawn::myself().arg("worker").named("worker-1").spawn_link()?;
/// ```
#[derive(Clone, Debug)]
pub struct Spawn {
    pub(crate) module: String,
    pub(crate) options: SpawnOptions,
}

impl Spawn {
    /// Creates options for a process of the module with this name or path.
    pub fn module(module: impl Into<String>) -> Self {
        let options =
            SpawnOptions { args: Vec::new(), ties: Ties::empty(), name: None, profile: None, memory_max_bytes: None };
        Self { module: module.into(), options }
    }

    /// Creates options for a process of this process's module.
    pub fn myself() -> Self {
        Self::module("")
    }

    /// Adds an argument of its `run`.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.options.args.push(arg.into());
        self
    }

    /// Sets a name to register for it before its first instruction.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// Sets a capability profile of the node, narrowed to the capabilities of this process.
    pub fn profile(mut self, profile: impl Into<String>) -> Self {
        self.options.profile = Some(profile.into());
        self
    }

    /// Sets the maximum linear memory in bytes.
    pub fn memory_max_bytes(mut self, bytes: u64) -> Self {
        self.options.memory_max_bytes = Some(bytes);
        self
    }

    /// Starts the process.
    ///
    /// # Errors
    /// [`Error::NoSuch`] for the module or profile, [`Error::Taken`] for the name, or [`Error::Limit`].
    pub fn spawn(self) -> Result<Pid, Error> {
        self.start(Ties::empty()).map(|(pid, _)| pid)
    }

    /// Starts the process, linked to this process before its first instruction.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_link(self) -> Result<Pid, Error> {
        self.start(Ties::LINK).map(|(pid, _)| pid)
    }

    /// Starts the process, monitored by this process before its first instruction.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_monitor(self) -> Result<(Pid, MonitorRef), Error> {
        let (pid, monitor) = self.start(Ties::MONITOR)?;
        let monitor = monitor.ok_or_else(|| Error::Invalid("the node gave no monitor".into()))?;
        Ok((pid, monitor))
    }

    fn start(mut self, ties: Ties) -> Result<(Pid, Option<MonitorRef>), Error> {
        self.options.ties = ties;
        let spawned = process::spawn(&self.module, &self.options)?;
        Ok((spawned.pid.into(), spawned.monitor.map(MonitorRef)))
    }
}
