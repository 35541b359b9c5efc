//! The servers of a node, from their settings to their end.
//!
//! ```text
//!   Site ─▶ modules compiled, folders opened ─▶ Router ─▶ Server
//!            ▲ a file has changed: new Router;  requests in flight keep the old one
//!   drain: /readyz off ─▶ all servers stop accepting ─▶ requests end, at the latest after the drain
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_runtime::Handle;
use rusm_serve::http::StatusCode;
use rusm_serve::{Files, Request, RouteError, Router, ServeConfig, ServeError, Server, TlsError, TlsFiles};
use rusm_store::Store;
use rusm_wasm::{EngineError, GuestOptions, Module, Wasm, WasmConfig};
use thiserror::Error;

use crate::run::file_watcher::FileWatcher;
use crate::run::source::{self, SourceError};
use crate::settings::app::{App, stem};
use crate::settings::serve::{Site, SiteGuest, Target};

/// Interval at which the files are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(150);

/// Reason why a server was not started.
#[derive(Debug, Error)]
pub(crate) enum SiteError {
    #[error(transparent)]
    Server(#[from] ServeError),
    #[error(transparent)]
    Certificate(#[from] TlsError),
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Module(#[from] SourceError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("cannot serve {path}: {source}")]
    Folder { path: PathBuf, source: io::Error },
}

/// The servers of a node.
#[derive(Debug)]
pub(crate) struct Sites {
    /// Compiles and runs the components; `None` if there is no route to one.
    wasm: Option<Wasm>,
    app: Arc<App>,
    servers: Vec<RunningSite>,
    /// True until the drain begins.
    is_ready: Arc<AtomicBool>,
    certificates: ReloadTurn,
    modules: ReloadTurn,
    /// The modules of the routes that answer now.
    in_use: Mutex<BTreeMap<PathBuf, Module>>,
}

/// Files that are read again together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reloaded {
    Certificates,
    Modules,
}

impl Reloaded {
    /// Returns the files of this kind.
    fn files(self, app: &App) -> Vec<PathBuf> {
        match self {
            Self::Certificates => {
                let certificates = app.sites.iter().filter_map(|site| site.tls.as_ref());
                certificates.flat_map(|tls| [tls.certificate.clone(), tls.key.clone()]).collect()
            }
            Self::Modules => {
                let routes = app.sites.iter().flat_map(|site| &site.routes);
                routes.filter_map(|route| Some(route.guest()?.module.clone())).collect()
            }
        }
    }
}

/// The files of a kind, and the order of their reloads.
#[derive(Debug)]
struct ReloadTurn {
    files: Vec<PathBuf>,
    /// Began before the files were read for the first time: a file that was replaced meanwhile counts as changed. Taken by
    /// the thread that watches.
    watcher: Mutex<Option<FileWatcher>>,
    /// Held while changed files are put into use: what was read later replaces what was read before.
    reloading: Mutex<()>,
    /// True while a thread of `reload_all` has not begun.
    is_due: AtomicBool,
}

impl ReloadTurn {
    fn of(files: Vec<PathBuf>) -> Self {
        let watcher = Mutex::new(Some(FileWatcher::new(files.iter().cloned())));
        Self { files, watcher, reloading: Mutex::default(), is_due: AtomicBool::new(false) }
    }
}

#[derive(Debug)]
struct RunningSite {
    site: Site,
    server: Server,
}

impl Sites {
    fn new(wasm: Option<Wasm>, app: &Arc<App>) -> Self {
        Self {
            wasm,
            app: Arc::clone(app),
            servers: Vec::new(),
            is_ready: Arc::new(AtomicBool::new(true)),
            certificates: ReloadTurn::of(Reloaded::Certificates.files(app)),
            modules: ReloadTurn::of(Reloaded::Modules.files(app)),
            in_use: Mutex::default(),
        }
    }

    /// Checks the servers of an application without starting one: compiles their modules, opens their folders and
    /// certificates, and builds their routes.
    ///
    /// # Errors
    /// [`SiteError`] for the first that could not start.
    pub(crate) fn check(app: &Arc<App>, wasm: Wasm) -> Result<(), SiteError> {
        let sites = Self::new(Some(wasm), app);
        let modules = sites.compiled(|_| true)?;
        for site in &app.sites {
            site.tls.as_ref().map_or(Ok(()), TlsFiles::check)?;
            sites.router(site, &modules)?;
        }
        Ok(())
    }

    /// Starts the servers of an application. `wasm` is its engine of guests, if it has one already.
    ///
    /// # Errors
    /// [`SiteError`] for the first server that cannot start; then none runs.
    pub(crate) fn start(
        runtime: &Handle,
        app: &Arc<App>,
        wasm: Option<Wasm>,
        store: Option<Store>,
    ) -> Result<Self, SiteError> {
        let has_guests = app.sites.iter().any(|site| site.guests().next().is_some());
        let wasm = match wasm {
            None if has_guests => Some(Wasm::start(WasmConfig { store, ..app.wasm.clone() })?),
            wasm => wasm,
        };
        let mut sites = Self::new(wasm, app);
        let modules = sites.compiled(|_| true)?;
        for site in &app.sites {
            let config = ServeConfig {
                name: site.name.clone(),
                tls: site.tls.clone(),
                limits: site.limits,
                rate_limits: site.rates.clone(),
                access_log: site.access_log,
                ..ServeConfig::listen(site.listen)
            };
            let server = Server::start(runtime, config, sites.router(site, &modules)?)?;
            sites.servers.push(RunningSite { site: site.clone(), server });
        }
        *sites.in_use.lock() = modules;
        Ok(sites)
    }

    /// Returns the addresses of the servers as URLs, in the order of the settings.
    pub(crate) fn urls(&self) -> impl Iterator<Item = String> {
        self.servers.iter().map(|running| {
            let scheme = if running.site.tls.is_some() { "https" } else { "http" };
            format!("{scheme}://{}", running.server.local_addr())
        })
    }

    /// Compiles the modules of all routes with paths that `is_due` selects; the others stay as they are.
    fn compiled(&self, is_due: impl Fn(&Path) -> bool) -> Result<BTreeMap<PathBuf, Module>, SourceError> {
        let Some(wasm) = &self.wasm else { return Ok(BTreeMap::new()) };
        let guests = self.app.sites.iter().flat_map(Site::guests);
        let mut modules = BTreeMap::new();
        for SiteGuest { module: path, .. } in guests {
            if modules.contains_key(path) {
                continue;
            }
            let name = self.name_of(path);
            // The engine may have a newer one, which was refused.
            let known = || self.in_use.lock().get(path).cloned().or_else(|| wasm.module(&name));
            let module = match known() {
                Some(module) if !is_due(path) => module,
                _ => load(wasm, &name, path)?,
            };
            modules.insert(path.clone(), module);
        }
        Ok(modules)
    }

    /// Returns the name of a module: its name in `[modules]`, the name of its file, or its path if another file has the
    /// same name.
    fn name_of(&self, path: &Path) -> String {
        if let Some((name, _)) = self.app.modules.iter().find(|(_, module)| *module == path) {
            return name.clone();
        }
        let name = stem(path);
        let of_sites = self.app.sites.iter().flat_map(Site::guests);
        let mut others = of_sites.map(|guest| &guest.module).chain(self.app.processes.iter().map(|one| &one.module));
        let is_taken =
            self.app.modules.contains_key(&name) || others.any(|other| *other != path && stem(other) == name);
        if is_taken { path.display().to_string() } else { name }
    }

    fn router(&self, site: &Site, modules: &BTreeMap<PathBuf, Module>) -> Result<Router, SiteError> {
        let mut router = Router::new();
        for route in &site.routes {
            let (pattern, rates) = (&route.pattern, route.rates.iter().copied());
            router = match &route.target {
                Target::Folder(path) => {
                    let files = Files::open(path);
                    let files = files.map_err(|source| SiteError::Folder { path: path.clone(), source })?;
                    router.limited_route(pattern, rates, files)?
                }
                Target::Guest(guest) => router.limited_route(pattern, rates, self.handler(guest, modules)?)?,
            };
        }
        if !site.has_health {
            return Ok(router);
        }
        let is_ready = Arc::clone(&self.is_ready);
        let ready = move |_: Request| {
            let is_ready = is_ready.load(Relaxed);
            async move {
                if is_ready { (StatusCode::OK, "ready\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "draining\n") }
            }
        };
        Ok(router.unlimited_route("GET /healthz", async |_: Request| "ok\n")?.unlimited_route("GET /readyz", ready)?)
    }

    fn handler(
        &self,
        guest: &SiteGuest,
        modules: &BTreeMap<PathBuf, Module>,
    ) -> Result<rusm_wasm::HttpGuest, SiteError> {
        let (Some(wasm), Some(module)) = (&self.wasm, modules.get(&guest.module)) else {
            unreachable!("the engine is started, and all modules are compiled, before the routers are built")
        };
        let options = GuestOptions::default().args(&guest.args).profile(guest.profile.as_str()).limits(guest.limits);
        let why = |why: String| SourceError::Unfit { path: guest.module.clone(), why };
        Ok(wasm.http_guest(module, options, guest.reuse).map_err(|error| why(error.to_string()))?)
    }

    /// Watches the certificates, and with `modules` also the modules, on threads that end with the servers: a change takes
    /// effect for the next connection or request, and on an error the old file stays in use.
    ///
    /// The threads are their own because a slow disk or a long compilation must not delay the signals, nor a compilation
    /// the certificates.
    ///
    /// # Errors
    /// The operating system's error if a thread cannot start.
    pub(crate) fn follow_changes(this: &Arc<Self>, modules: bool) -> io::Result<()> {
        let kinds = [Reloaded::Certificates, Reloaded::Modules];
        for kind in kinds.into_iter().filter(|kind| modules || *kind == Reloaded::Certificates) {
            let turn = this.turn(kind);
            let watcher = turn.watcher.lock().take();
            let Some(mut watcher) = watcher.filter(|_| !turn.files.is_empty()) else { continue };
            let sites = Arc::downgrade(this);
            let follow = move || {
                while sites.strong_count() != 0 {
                    thread::park_timeout(POLL_INTERVAL);
                    let changed = watcher.poll();
                    if let Some(sites) = Weak::upgrade(&sites).filter(|_| !changed.is_empty()) {
                        sites.reload(kind, || changed);
                    }
                }
            };
            thread::Builder::new().name("rusm-reload".to_owned()).spawn(follow)?;
        }
        Ok(())
    }

    /// Reads all certificates, modules and folders again, on threads of their own as in
    /// [`follow_changes`](Self::follow_changes).
    ///
    /// # Errors
    /// The operating system's error if a thread cannot start.
    pub(crate) fn reload_all(this: &Arc<Self>) -> io::Result<()> {
        for kind in [Reloaded::Certificates, Reloaded::Modules] {
            let turn = this.turn(kind);
            if turn.is_due.swap(true, Relaxed) {
                // A thread that has not begun will see the newest files.
                continue;
            }
            if turn.reloading.is_locked() {
                tracing::info!(target: "rusm::serve", "files are read again when the reload before it is done");
            }
            let sites = Arc::clone(this);
            let reload = move || sites.reload(kind, || sites.turn(kind).files.clone());
            if let Err(error) = thread::Builder::new().name("rusm-reload".to_owned()).spawn(reload) {
                turn.is_due.store(false, Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    const fn turn(&self, kind: Reloaded) -> &ReloadTurn {
        match kind {
            Reloaded::Certificates => &self.certificates,
            Reloaded::Modules => &self.modules,
        }
    }

    /// Puts changed files of a kind into use, after those that changed before.
    fn reload(&self, kind: Reloaded, changed: impl FnOnce() -> Vec<PathBuf>) {
        let turn = self.turn(kind);
        let _reloading = turn.reloading.lock();
        turn.is_due.store(false, Relaxed);
        match kind {
            Reloaded::Certificates => self.reload_certificates(&changed()),
            Reloaded::Modules => self.reload_modules(&changed()),
        }
    }

    fn reload_certificates(&self, changed: &[PathBuf]) {
        for running in &self.servers {
            let uses = |tls: &&TlsFiles| changed.contains(&tls.certificate) || changed.contains(&tls.key);
            let Some(tls) = running.site.tls.as_ref().filter(uses) else { continue };
            let file = tls.certificate.display();
            match running.server.reload_certificate() {
                Ok(()) => tracing::info!(target: "rusm::serve", %file, "certificate was read again, and is in use"),
                Err(error) => {
                    tracing::error!(target: "rusm::serve", %file, "cannot use the certificate that was read again; the old one stays: {error}");
                }
            }
        }
    }

    /// Compiles the changed modules of the routes, and opens their folders again: another folder may have the same path.
    fn reload_modules(&self, changed: &[PathBuf]) {
        let what = if changed.is_empty() { "folder" } else { "module" };
        let names: Vec<_> = changed.iter().map(|path| path.display().to_string()).collect();
        let files = (!names.is_empty()).then(|| names.join(", "));
        let rebuilt = || -> Result<_, SiteError> {
            let modules = self.compiled(|path| changed.iter().any(|changed| changed == path))?;
            let routers = self.servers.iter().map(|running| self.router(&running.site, &modules));
            Ok((routers.collect::<Result<Vec<Router>, _>>()?, modules))
        };
        match rebuilt() {
            Ok((new, modules)) => {
                *self.in_use.lock() = modules;
                for (running, router) in self.servers.iter().zip(new) {
                    running.server.set_router(router);
                }
                tracing::info!(target: "rusm::serve", files, "{what} was read again, and answers from now on");
            }
            Err(error) => {
                tracing::error!(target: "rusm::serve", files, "cannot use the {what} that was read again; the old one stays: {error}");
            }
        }
    }

    /// Ends the servers: `/readyz` turns off, they stop accepting, and requests end. Returns at the latest after `drain`.
    pub(crate) fn drain(&self, drain: Duration) {
        let end = Instant::now() + drain;
        self.is_ready.store(false, Relaxed);
        for running in &self.servers {
            running.server.begin_drain(drain);
        }
        for running in &self.servers {
            let address = running.server.local_addr();
            if !running.server.wait_drained(end.saturating_duration_since(Instant::now())) {
                tracing::warn!(target: "rusm::serve", %address, "connections were cut at the end of the drain");
            }
        }
    }
}

/// Compiles a component; later lookups of this name find the new code.
fn load(wasm: &Wasm, name: &str, path: &Path) -> Result<Module, SourceError> {
    let bytes = source::read(path)?;
    let module = wasm.load(name, &bytes).map_err(|error| source::load_error(path, error))?;
    tracing::debug!(module = name, kind = module.kind(), path = %path.display(), "module is compiled");
    Ok(module)
}
