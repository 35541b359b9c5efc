//! Starting guests: from outside the runtime, from native processes, from guests, and by supervisors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::bindings::rusm::runtime::process::SpawnOptions;
use crate::bindings::rusm::runtime::types;
use crate::engine::inner::{EngineInner, Wasm};
use crate::guest::body::{GuestStart, Permit, run};
use crate::guest::capability::{Grant, SANDBOXED, UnknownName};
use crate::guest::guest_info::GuestInfo;
use crate::guest::limits::{EffectiveLimits, GuestLimits};
use crate::guest::name::check_name;
use crate::guest::quota::Quota;
use crate::guest::shared_budget::BudgetShare;
use crate::guest::state::GuestState;
use crate::host::{name_refused, spawn_params};
use crate::module::load::load_file;
use crate::module::{Module, ModuleError};
use rusm_runtime::embed::guest::{GuestContext, RuntimeRef, SpawnFailure, SpawnParams, spawn_guest_external};
use rusm_runtime::supervisor::ChildSpec;
use rusm_runtime::{Context, Handle, InitError, MonitorRef, Pid, RegisterError, SpawnError, Watch};

/// Maximum number of arguments that a guest may pass to a guest that it starts.
pub(crate) const ARGS_MAX: usize = 1024;
/// Maximum number of bytes of all of them: the node stores them as long as the process lives.
const ARGS_BYTES_MAX: usize = 64 * 1024;

/// Options of a guest process.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::GuestOptions;
///
/// let guest = GuestOptions::default().args(["--port", "80"]).profile("network").name("web").memory_max_bytes(1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct GuestOptions {
    args: Vec<String>,
    pub(crate) profile: Arc<str>,
    limits: GuestLimits,
    params: SpawnParams,
    /// Quota of the guest that starts it.
    parent_quota: Option<Arc<Quota>>,
    logs_own_end: bool,
}

impl Default for GuestOptions {
    fn default() -> Self {
        Self {
            args: Vec::new(),
            profile: SANDBOXED.into(),
            limits: GuestLimits::default(),
            params: SpawnParams::default(),
            parent_quota: None,
            logs_own_end: false,
        }
    }
}

impl GuestOptions {
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
    pub fn limits(self, limits: GuestLimits) -> Self {
        Self { limits, ..self }
    }

    /// Name to register for it before its first instruction.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.params.name = Some(name.into());
        self
    }

    /// Label that observers show beside its pid.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.params.label = Some(label.into());
        self
    }

    /// Leaves its crash out of the log of crashes, for a program that logs the ends of its guests itself.
    pub fn logs_own_end(mut self) -> Self {
        self.logs_own_end = true;
        self
    }

    /// Runs it only on the scheduler with this number; see [`Context::spawn_pinned`].
    pub fn pinned(mut self, scheduler: usize) -> Self {
        self.params.scheduler = Some(scheduler);
        self
    }

    /// Links it to the process that starts it, before its first instruction; see [`Wasm::spawn_from`].
    pub fn linked(mut self) -> Self {
        self.params.link = true;
        self
    }

    /// Makes the process that starts it monitor it, from before its first instruction; see [`Wasm::spawn_from`].
    pub fn monitored(mut self) -> Self {
        self.params.monitor = true;
        self
    }
}

/// Error returned if a guest could not be started.
#[derive(Debug, Error)]
pub enum GuestError {
    /// The runtime accepts no more processes.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A guest that is linked or monitored was started from outside.
    #[error("a guest that is linked or monitored needs a process that starts it: call Wasm::spawn_from")]
    NoParent,
    /// All instances are in use. Wait until some have ended, or start the node with a higher capacity.
    #[error("all {capacity} wasm instances are in use: raise the capacity of the wasm engine")]
    Capacity {
        /// Maximum number of live instances.
        capacity: u32,
    },
    /// The profile does not exist.
    #[error(transparent)]
    Profile(#[from] UnknownName),
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

impl From<SpawnFailure> for GuestError {
    fn from(error: SpawnFailure) -> Self {
        match error {
            SpawnFailure::Spawn(error) => Self::Spawn(error),
            SpawnFailure::Name(error) => Self::Name(error),
        }
    }
}

impl GuestError {
    /// Returns the error as reported to guests.
    pub(crate) fn to_guest(&self) -> types::Error {
        match self {
            Self::Spawn(_) | Self::Capacity { .. } => types::Error::Limit(self.to_string()),
            Self::Profile(_) | Self::NoModule { .. } => types::Error::NoSuch(self.to_string()),
            Self::Name(error) => name_refused(error.clone()),
            Self::Module(_) | Self::NoParent => types::Error::Invalid(self.to_string()),
        }
    }
}

impl Wasm {
    /// Starts a guest without a parent. A process that is its parent calls [`spawn_from`](Self::spawn_from).
    ///
    /// # Errors
    /// [`GuestError`] for an unknown profile, a name that is taken, no capacity for another guest or process, or a guest that
    /// is linked or monitored, which needs a parent. A later failure is the exit reason of the process.
    pub fn spawn(&self, runtime: &Handle, module: &Module, guest: &GuestOptions) -> Result<Pid, GuestError> {
        if guest.params.link || guest.params.monitor {
            return Err(GuestError::NoParent);
        }
        self.0.show_in_runtime(RuntimeRef::from(runtime));
        let grant = self.0.config.profiles.grant(&guest.profile)?;
        let start = self.0.start(module, guest, grant)?;
        let info = start.permit.info();
        Ok(spawn_guest_external(runtime, &guest.params, info.mailbox_bounds(), info, |ctx| run(ctx, start))?)
    }

    /// Starts a guest from a native process, its parent.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_from(
        &self,
        ctx: &Context,
        module: &Module,
        guest: &GuestOptions,
    ) -> Result<(Pid, Option<MonitorRef>), GuestError> {
        let grant = self.0.config.profiles.grant(&guest.profile)?;
        self.0.spawn_by(ctx, false, module, guest, grant, None)
    }

    /// Like [`spawn_from`](Self::spawn_from), with a watch on the guest from its start: its exit reason is never missed.
    ///
    /// # Errors
    /// As for [`spawn`](Self::spawn).
    pub fn spawn_watched(
        &self,
        ctx: &Context,
        module: &Module,
        guest: &GuestOptions,
    ) -> Result<(Pid, Watch), GuestError> {
        let grant = self.0.config.profiles.grant(&guest.profile)?;
        let mut end = None;
        let (pid, _) = self.0.spawn_by(ctx, false, module, guest, grant, Some(&mut end))?;
        Ok((pid, end.unwrap_or_else(|| ctx.runtime().watch(pid))))
    }

    /// Returns the child spec of a guest: permanent, with five seconds to stop, unless changed.
    ///
    /// Its label is the id of the child unless it has another.
    pub fn child(&self, id: impl Into<Arc<str>>, module: &Module, guest: GuestOptions) -> ChildSpec {
        let grant = self.0.config.profiles.grant(&guest.profile);
        child(id.into(), Arc::clone(&self.0), module.clone(), guest, grant, None)
    }
}

/// Creates a child spec for a guest, which keeps `share`.
pub(crate) fn child(
    id: Arc<str>,
    node: Arc<EngineInner>,
    module: Module,
    mut guest: GuestOptions,
    grant: Result<Grant, UnknownName>,
    share: Option<Arc<BudgetShare>>,
) -> ChildSpec {
    guest.params.link = true;
    guest.params.label.get_or_insert_with(|| Arc::clone(&id));
    ChildSpec::started_by(id, move |ctx| {
        // Kept for as long as the specification.
        let _ = &share;
        let grant = grant.clone().map_err(|error| InitError::failed(&error))?;
        node.spawn_by(ctx, false, &module, &guest, grant, None)
            .map(|(pid, _)| pid)
            .map_err(|error| InitError::failed(&error))
    })
}

impl EngineInner {
    /// Starts a guest as a child of the running process; `by_guest` if that is a guest.
    fn spawn_by(
        self: &Arc<Self>,
        ctx: &Context,
        by_guest: bool,
        module: &Module,
        guest: &GuestOptions,
        grant: Grant,
        watched: Option<&mut Option<Watch>>,
    ) -> Result<(Pid, Option<MonitorRef>), GuestError> {
        let process = GuestContext(ctx);
        self.show_in_runtime(process.runtime());
        let start = self.start(module, guest, grant)?;
        let info = start.permit.info();
        Ok(process.spawn_guest(by_guest, &guest.params, info.mailbox_bounds(), info, watched, |ctx| run(ctx, start))?)
    }

    pub(crate) fn start(
        self: &Arc<Self>,
        module: &Module,
        guest: &GuestOptions,
        grant: Grant,
    ) -> Result<GuestStart, GuestError> {
        if !self.acquire_instance() {
            return Err(GuestError::Capacity { capacity: self.config.capacity });
        }
        module.0.counters.begin();
        Ok(GuestStart { args: guest.args.clone(), permit: Permit(self.info(module, guest, grant)) })
    }

    /// Returns the info of a guest that begins.
    pub(crate) fn info(self: &Arc<Self>, module: &Module, guest: &GuestOptions, grant: Grant) -> Arc<GuestInfo> {
        let bounds = EffectiveLimits::of(&self.config, guest.limits.narrowed_to(grant.limits()));
        let parent_quota = guest.parent_quota.clone();
        let module = Arc::clone(&module.0);
        Arc::new(GuestInfo::new(Arc::clone(self), module, grant, bounds, parent_quota, guest.logs_own_end))
    }
}

impl GuestState {
    /// Starts a guest for this guest, with no more rights than this one has.
    pub(crate) async fn spawn_guest(
        &mut self,
        module: &str,
        options: SpawnOptions,
    ) -> Result<(Pid, Option<MonitorRef>), types::Error> {
        check_args(&options.args)?;
        check_name(module)?;
        let module = self.resolve_module(module).await.map_err(|error| error.to_guest())?;
        let (guest, grant) = self.guest(options)?;
        let monitors = guest.params.monitor;
        if guest.params.link || monitors {
            self.check_ends(!monitors)?;
        }
        if monitors && !self.has_room_for_monitor() {
            return Err(types::Error::Limit("too many monitors: demonitor some".to_owned()));
        }
        let spawned = self.info.node.spawn_by(&self.ctx, true, &module, &guest, grant, None);
        if monitors && spawned.is_err() {
            self.monitor_is_over();
        }
        spawned.map_err(|error| error.to_guest())
    }

    /// Checks that the mailbox has room for the end of a linked or monitored process or a supervisor: that is delivered at
    /// any time, so a guest that starts such processes and receives nothing could fill the memory. `is_exit` is false if
    /// the end is a message even to a guest that does not trap exits.
    pub(crate) fn check_ends(&self, is_exit: bool) -> Result<(), types::Error> {
        if self.process().mailbox_has_room(self.ctx.pid(), is_exit) {
            return Ok(());
        }
        let text =
            "the mailbox is full: receive messages before you start linked or monitored processes or supervisors";
        Err(types::Error::Limit(text.to_owned()))
    }

    /// Resolves the options that this guest gives for another.
    pub(crate) fn guest(&self, options: SpawnOptions) -> Result<(GuestOptions, Grant), types::Error> {
        for name in [&options.profile, &options.name].into_iter().flatten() {
            check_name(name)?;
        }
        let grant = match &options.profile {
            None => self.info.grant.clone(),
            Some(profile) => {
                let grant = self.info.node.config.profiles.grant(profile);
                grant.map_err(|error| types::Error::NoSuch(error.to_string()))?.narrowed_to(&self.info.grant)
            }
        };
        let asked = GuestLimits { memory_max_bytes: options.memory_max_bytes, ..GuestLimits::default() };
        let guest = GuestOptions {
            limits: asked.narrowed_to(self.info.bounds.limits()),
            params: spawn_params(&options),
            profile: Arc::clone(grant.profile()),
            args: options.args,
            parent_quota: Some(Arc::clone(self.info.quota())),
            logs_own_end: false,
        };
        Ok((guest, grant))
    }

    /// Returns the module with this name, for this guest.
    pub(crate) async fn resolve_module(&mut self, name: &str) -> Result<Module, GuestError> {
        if name.is_empty() {
            return Ok(Module(Arc::clone(&self.info.module)));
        }
        if let Some(module) = self.info.node.module(name) {
            return Ok(module);
        }
        if !self.info.node.config.spawn_by_path {
            return Err(GuestError::NoModule { name: name.to_owned() });
        }
        let path = PathBuf::from(name);
        // Each file is loaded once, regardless of the spelling of its path.
        let resolve = move || path.canonicalize().map_err(|error| ModuleError::Read { path, error });
        let path = self.ctx.spawn_blocking(resolve).await.map_err(GuestError::Module)?;
        // The name stands for the file, so two files must not have the same.
        let name =
            path.to_str().ok_or_else(|| GuestError::Module(unread(&path, "its path is not UTF-8".to_owned())))?;
        let name: Arc<str> = name.into();
        let node = Arc::clone(&self.info.node);
        if let Some(module) = node.module(&name) {
            return Ok(module);
        }
        let permit = Arc::clone(&node.loads).acquire_owned().await;
        let load = move || {
            // Loading goes on if the guest ends.
            let _permit = permit;
            // Another guest may have loaded it meanwhile.
            if let Some(module) = node.module(&name) {
                return Ok(module);
            }
            let bytes = fs::metadata(&path).map_err(|error| ModuleError::Read { path: path.clone(), error })?.len();
            let _held = hold_file(&node, &path, bytes)?;
            let kept = keep_module(&node, &path, bytes)?;
            let module = load_file(&node, name, &path, Some(bytes))?;
            node.add(&module);
            if let Some(kept) = kept {
                kept.keep();
            }
            Ok(module)
        };
        self.ctx.spawn_blocking(load).await.map_err(GuestError::Module)
    }
}

/// Counts the bytes of a file as memory of guests, until the result is dropped.
fn hold_file(node: &EngineInner, path: &Path, bytes: u64) -> Result<Option<BudgetShare>, ModuleError> {
    let Some(memory) = &node.shared_memory else { return Ok(None) };
    memory.take(bytes).map(Some).ok_or_else(|| unread(path, memory.full().to_string()))
}

/// Counts the code of a file as memory of the modules that guests start by their paths, until the result is dropped.
fn keep_module(node: &EngineInner, path: &Path, bytes: u64) -> Result<Option<BudgetShare>, ModuleError> {
    // Code of the machine takes about twice as many bytes as that of a module.
    const FACTOR: u64 = 2;
    const BYTES_MIN: u64 = 64 << 10;
    let Some(memory) = &node.path_memory else { return Ok(None) };
    memory.take(bytes.max(BYTES_MIN).saturating_mul(FACTOR)).map(Some).ok_or_else(|| {
        let max_bytes = memory.full().max_bytes;
        unread(path, format!("modules that guests start by their paths take at most {max_bytes} bytes of memory"))
    })
}

fn unread(path: &Path, why: String) -> ModuleError {
    ModuleError::Read { path: path.to_owned(), error: io::Error::other(why) }
}

/// Checks the arguments that a guest passes to another: the node stores them.
pub(crate) fn check_args(args: &[String]) -> Result<(), types::Error> {
    let bytes: usize = args.iter().map(String::len).sum();
    if args.len() <= ARGS_MAX && bytes <= ARGS_BYTES_MAX {
        return Ok(());
    }
    let count = args.len();
    let text = format!("{count} arguments of {bytes} bytes: at most {ARGS_MAX}, and {ARGS_BYTES_MAX} bytes together");
    Err(types::Error::Limit(text))
}
