//! Starting guests: from outside the runtime, from native processes, from guests, and by supervisors.

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::bindings::rusm::runtime::process::SpawnOptions;
use super::bindings::rusm::runtime::types;
use super::body::{Permit, Start, run};
use super::capability::{Grant, SANDBOXED, UnknownWord};
use super::host::{beginning, name_refused};
use super::limits::{Bounds, Limits};
use super::module::{self, Module, ModuleError};
use super::quota::Quota;
use super::state::State;
use super::vitals::Vitals;
use super::{Inner, Wasm};
use rusm_runtime::embed::guest::{Beginning, GuestContext, NotBegun, RuntimeRef, spawn_from_outside};
use rusm_runtime::supervisor::ChildSpec;
use rusm_runtime::{Context, Handle, InitError, MonitorRef, Pid, RegisterError, SpawnError};

/// Maximum number of arguments that a guest may pass to a guest that it starts.
pub(super) const ARGS_MAX: usize = 1024;

/// Options of a guest process.
///
/// ```
/// use rusm_wasm::Guest;
///
/// let guest = Guest::default().args(["--port", "80"]).profile("network").name("web").memory_max_bytes(1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct Guest {
    args: Vec<String>,
    profile: Arc<str>,
    limits: Limits,
    beginning: Beginning,
    /// Quota of the guest that starts it.
    parent_quota: Option<Arc<Quota>>,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            args: Vec::new(),
            profile: SANDBOXED.into(),
            limits: Limits::default(),
            beginning: Beginning::default(),
            parent_quota: None,
        }
    }
}

impl Guest {
    /// Arguments of its `run`. Default: none.
    pub fn args<S: Into<String>>(self, args: impl IntoIterator<Item = S>) -> Self {
        Self { args: args.into_iter().map(Into::into).collect(), ..self }
    }

    /// Profile that grants its capabilities. Default: `sandboxed`.
    pub fn profile(self, profile: impl Into<Arc<str>>) -> Self {
        Self { profile: profile.into(), ..self }
    }

    /// Maximum linear memory in bytes. Default, and upper bound: what the node allows.
    pub fn memory_max_bytes(mut self, bytes: u64) -> Self {
        self.limits.memory_max_bytes = Some(bytes);
        self
    }

    /// All resource limits. Default, and upper bound: what the node and its profile allow.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Name to register for it before its first instruction.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.beginning.name = Some(name.into());
        self
    }

    /// Label that observers show beside its pid.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.beginning.label = Some(label.into());
        self
    }

    /// Runs it only on the scheduler with this number; see [`Context::spawn_pinned`].
    pub fn pinned(mut self, scheduler: usize) -> Self {
        self.beginning.scheduler = Some(scheduler);
        self
    }

    /// Links it to the process that starts it, before its first instruction. Has no effect from outside the runtime.
    pub fn linked(mut self) -> Self {
        self.beginning.link = true;
        self
    }

    /// Makes the process that starts it monitor it, from before its first instruction.
    pub fn monitored(mut self) -> Self {
        self.beginning.monitor = true;
        self
    }
}

/// Error returned if a guest could not be started.
#[derive(Debug, Error)]
pub enum GuestError {
    /// The runtime accepts no more processes.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// All instances are in use. Wait until some have ended, or start the node with a higher capacity.
    #[error("all {capacity} wasm instances are in use: raise the capacity of the wasm engine")]
    Capacity {
        /// Maximum number of live instances.
        capacity: u32,
    },
    /// The profile does not exist.
    #[error(transparent)]
    Profile(#[from] UnknownWord),
    /// The name is taken or not valid.
    #[error(transparent)]
    Name(#[from] RegisterError),
    /// No module has this name, and the node does not allow it as a path.
    #[error("module {name:?} does not exist")]
    NoModule {
        /// The requested name.
        name: String,
    },
    /// The file with this name could not be loaded as a module.
    #[error(transparent)]
    Module(#[from] ModuleError),
}

impl From<NotBegun> for GuestError {
    fn from(error: NotBegun) -> Self {
        match error {
            NotBegun::Spawn(error) => Self::Spawn(error),
            NotBegun::Name(error) => Self::Name(error),
        }
    }
}

impl GuestError {
    /// Returns the error as reported to guests.
    pub(super) fn to_guest(&self) -> types::Error {
        match self {
            Self::Spawn(_) | Self::Capacity { .. } => types::Error::Limit(self.to_string()),
            Self::Profile(_) | Self::NoModule { .. } => types::Error::NoSuch(self.to_string()),
            Self::Name(error) => name_refused(error.clone()),
            Self::Module(_) => types::Error::Invalid(self.to_string()),
        }
    }
}

impl Wasm {
    /// Starts a guest.
    ///
    /// # Errors
    /// [`GuestError`] for an unknown profile, a name that is taken, or no capacity for another guest or process. A
    /// later failure is the exit reason of the process.
    pub fn spawn(&self, runtime: &Handle, module: &Module, guest: &Guest) -> Result<Pid, GuestError> {
        self.0.is_used_in(RuntimeRef::from(runtime));
        let grant = self.0.config.profiles.grant(&guest.profile)?;
        let start = self.0.start(module, guest, grant)?;
        let vitals = start.permit.vitals();
        Ok(spawn_from_outside(runtime, &guest.beginning, vitals.mailbox_bounds(), vitals, |ctx| run(ctx, start))?)
    }

    /// Starts a guest from a native process, its parent.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_from(
        &self,
        ctx: &Context,
        module: &Module,
        guest: &Guest,
    ) -> Result<(Pid, Option<MonitorRef>), GuestError> {
        let grant = self.0.config.profiles.grant(&guest.profile)?;
        self.0.spawn_by(ctx, false, module, guest, grant)
    }

    /// Returns the child spec of a guest: permanent, with five seconds to stop, unless changed.
    ///
    /// Its label is the id of the child unless it has another.
    pub fn child(&self, id: impl Into<Arc<str>>, module: &Module, guest: Guest) -> ChildSpec {
        let grant = self.0.config.profiles.grant(&guest.profile);
        child(id.into(), Arc::clone(&self.0), module.clone(), guest, grant)
    }
}

/// Creates a child spec for a guest.
pub(super) fn child(
    id: Arc<str>,
    node: Arc<Inner>,
    module: Module,
    mut guest: Guest,
    grant: Result<Grant, UnknownWord>,
) -> ChildSpec {
    guest.beginning.link = true;
    guest.beginning.label.get_or_insert_with(|| Arc::clone(&id));
    ChildSpec::started_by(id, move |ctx| {
        let grant = grant.clone().map_err(|error| InitError::failed(&error))?;
        node.spawn_by(ctx, false, &module, &guest, grant).map(|(pid, _)| pid).map_err(|error| InitError::failed(&error))
    })
}

impl Inner {
    /// Starts a guest as a child of the running process; `by_guest` if that is a guest.
    fn spawn_by(
        self: &Arc<Self>,
        ctx: &Context,
        by_guest: bool,
        module: &Module,
        guest: &Guest,
        grant: Grant,
    ) -> Result<(Pid, Option<MonitorRef>), GuestError> {
        let process = GuestContext(ctx);
        self.is_used_in(process.runtime());
        let start = self.start(module, guest, grant)?;
        let vitals = start.permit.vitals();
        Ok(process.spawn_begun(by_guest, &guest.beginning, vitals.mailbox_bounds(), vitals, |ctx| run(ctx, start))?)
    }

    fn start(self: &Arc<Self>, module: &Module, guest: &Guest, grant: Grant) -> Result<Start, GuestError> {
        if !self.take() {
            return Err(GuestError::Capacity { capacity: self.config.capacity });
        }
        module.0.tally.begin();
        let bounds = Bounds::of(&self.config, guest.limits.narrowed_to(grant.limits()));
        let vitals = Vitals::new(Arc::clone(self), Arc::clone(&module.0), grant, bounds, guest.parent_quota.clone());
        Ok(Start { args: guest.args.clone(), permit: Permit(Arc::new(vitals)) })
    }
}

impl State {
    /// Starts a guest for this guest, with no more rights than this one has.
    pub(super) async fn spawn_guest(
        &mut self,
        module: &str,
        options: SpawnOptions,
    ) -> Result<(Pid, Option<MonitorRef>), types::Error> {
        self.may_have(&options.args)?;
        let module = self.module_called(module).await.map_err(|error| error.to_guest())?;
        let (guest, grant) = self.guest(options)?;
        let monitors = guest.beginning.monitor;
        if monitors && !self.has_room_for_monitor() {
            return Err(types::Error::Limit("too many monitors: demonitor some".to_owned()));
        }
        let spawned = self.vitals.node.spawn_by(&self.ctx, true, &module, &guest, grant);
        if monitors && spawned.is_err() {
            self.monitor_is_over();
        }
        spawned.map_err(|error| error.to_guest())
    }

    /// Checks the arguments that this guest passes to another: the node stores them.
    pub(super) fn may_have(&self, args: &[String]) -> Result<(), types::Error> {
        let bytes: usize = args.iter().map(String::len).sum();
        let bytes_max = self.vitals.bounds.message_max_bytes as usize;
        if args.len() <= ARGS_MAX && bytes <= bytes_max {
            return Ok(());
        }
        let words =
            format!("{} arguments of {bytes} bytes: at most {ARGS_MAX}, and {bytes_max} bytes together", args.len());
        Err(types::Error::Limit(words))
    }

    /// Resolves the options that this guest gives for another.
    pub(super) fn guest(&self, options: SpawnOptions) -> Result<(Guest, Grant), types::Error> {
        let grant = match &options.profile {
            None => self.vitals.grant.clone(),
            Some(profile) => {
                let grant = self.vitals.node.config.profiles.grant(profile);
                grant.map_err(|error| types::Error::NoSuch(error.to_string()))?.narrowed_to(&self.vitals.grant)
            }
        };
        let asked = Limits { memory_max_bytes: options.memory_max_bytes, ..Limits::default() };
        let guest = Guest {
            limits: asked.narrowed_to(self.vitals.bounds.limits()),
            beginning: beginning(&options),
            profile: Arc::clone(grant.profile()),
            args: options.args,
            parent_quota: Some(Arc::clone(self.vitals.quota())),
        };
        Ok((guest, grant))
    }

    /// Returns the module with this name, for this guest.
    pub(super) async fn module_called(&mut self, name: &str) -> Result<Module, GuestError> {
        if name.is_empty() {
            return Ok(Module(Arc::clone(&self.vitals.module)));
        }
        if let Some(module) = self.vitals.node.module(name) {
            return Ok(module);
        }
        if !self.vitals.node.config.spawn_by_path {
            return Err(GuestError::NoModule { name: name.to_owned() });
        }
        let (node, path) = (Arc::clone(&self.vitals.node), PathBuf::from(name));
        let load = move || {
            // Canonicalise the path, so that each file is loaded once regardless of its spelling.
            let path = path.canonicalize().map_err(|error| ModuleError::Read { path, error })?;
            let name: Arc<str> = path.to_string_lossy().into();
            if let Some(module) = node.module(&name) {
                return Ok(module);
            }
            let module = module::load_file(&node, name, &path)?;
            node.add(&module);
            Ok(module)
        };
        self.ctx.spawn_blocking(load).await.map_err(GuestError::Module)
    }
}
