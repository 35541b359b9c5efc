//! The guests of an application under their supervisor, and the results of their runs.
//!
//! Each start of a child uses the module that its name denotes at that moment. So all starts after a recompilation use
//! the new module, and a child keeps its position in the order when it is stopped and started again.

use std::sync::Arc;
use std::time::Duration;

use rusm_runtime::supervisor::{AutoShutdown, ChildError, ChildSpec, GaveUp, Restart, Supervisor, SupervisorRef};
use rusm_runtime::{ExitReason, Handle, InitError, Watch};
use rusm_wasm::{GuestOptions, Wasm};

use crate::failure::{Failure, GuestsError};
use crate::run::exits::ExitRecorder;
use crate::run::modules::{Modules, compile, module_name};
use crate::settings::app::{App, Process};
use crate::signals::own_thread::OwnThread;

/// Time limit for the last ends to be reported after their supervisor has ended.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The guests of an application.
#[derive(Debug)]
pub(crate) struct Guests {
    wasm: Wasm,
    runtime: Handle,
    app: Arc<App>,
    /// Label that observers see next to the pid of the supervisor.
    label: Arc<str>,
    /// True if guests that have ended wait for a change of their module.
    waits_for_changes: bool,
    exits: ExitRecorder,
    supervisor: Option<SupervisorRef>,
    end: Option<Watch>,
    /// Reason of the supervisor's end.
    reason: Option<ExitReason>,
}

impl Guests {
    /// Creates the guests' descriptions; no guest runs yet.
    pub(crate) fn new(wasm: Wasm, runtime: Handle, app: Arc<App>, label: &str, waits_for_changes: bool) -> Self {
        let exits = ExitRecorder::new(app.guests() as usize);
        Self {
            wasm,
            runtime,
            app,
            label: label.into(),
            waits_for_changes,
            exits,
            supervisor: None,
            end: None,
            reason: None,
        }
    }

    /// Starts all guests, in order.
    ///
    /// # Errors
    /// Returns the error of the guest that did not start; then none of them runs.
    pub(crate) async fn start(&mut self) -> Result<(), Failure> {
        let supervision = self.app.supervision;
        let mut supervisor = Supervisor::new(supervision.strategy)
            .intensity(supervision.intensity.restarts, supervision.intensity.period);
        if let Some(backoff) = supervision.backoff {
            supervisor = supervisor.backoff(backoff);
        }
        if self.ends_by_itself() {
            supervisor = supervisor.auto_shutdown(AutoShutdown::AllSignificant);
        }
        for process in &self.app.processes {
            supervisor = process.ids().fold(supervisor, |supervisor, id| supervisor.child(self.child(process, id)));
        }
        let started = supervisor.start(&self.runtime).await.map_err(GuestsError::Start)?;
        self.end = Some(self.runtime.watch(started.pid()));
        self.supervisor = Some(started);
        tracing::info!(target: "rusm::run", guests = self.app.guests(), "guests have started");
        Ok(())
    }

    /// Returns true if the run is over once the last guest has ended normally. False if a guest
    /// is permanent, or if changed files restart guests.
    fn ends_by_itself(&self) -> bool {
        !self.waits_for_changes && self.app.processes.iter().all(|process| process.restart != Restart::Permanent)
    }

    fn child(&self, process: &Process, id: Arc<str>) -> ChildSpec {
        let (wasm, exits, restart) = (self.wasm.clone(), self.exits.clone(), process.restart);
        let module = module_name(&self.app, &process.module);
        let (guest, label) = (guest(process, &id), Arc::clone(&self.label));
        let start = {
            let id = Arc::clone(&id);
            move |ctx: &rusm_runtime::Context| {
                ctx.set_label(Arc::clone(&label));
                let module = wasm.module(&module).ok_or_else(|| InitError::failed(&"its module no longer exists"))?;
                let started = wasm.spawn_watched(ctx, &module, &guest).map_err(|error| InitError::failed(&error))?;
                let (pid, end) = started;
                exits.started(ctx.pid(), &id, restart, pid, end);
                Ok(pid)
            }
        };
        ChildSpec::started_by(id, start).restart(restart).shutdown(process.shutdown).significant(self.ends_by_itself())
    }

    /// Waits until the supervisor has ended and the ends of all its guests are recorded. Returns at once if it had
    /// ended before.
    pub(crate) async fn ended(&mut self) {
        self.supervisor_ended().await;
        (self.end, self.supervisor) = (None, None);
        // The guests ended before their supervisor, but the notifications may still be in flight.
        let reported = async {
            while !self.exits.are_all_reported() {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(REPORT_TIMEOUT, reported).await.is_err() {
            tracing::debug!("not all ends of guests were reported");
        }
    }

    /// Waits until the supervisor has ended. Nothing is lost if the future is dropped.
    async fn supervisor_ended(&mut self) {
        if let Some(end) = &mut self.end {
            self.reason = Some(end.await);
            self.end = None;
        }
    }

    /// Waits until all has ended, and logs why.
    async fn report_end(&mut self) {
        self.ended().await;
        if let Err(failure) = self.result() {
            tracing::error!(target: "rusm::run", "{failure}; waiting for a module to change");
        }
    }

    /// Checks that no guest has failed up to now.
    ///
    /// # Errors
    /// Returns an error that names the guest that was given up, or that ended abnormally.
    pub(crate) fn result(&self) -> Result<(), Failure> {
        let Some(end) = self.exits.failure_cause() else { return Ok(()) };
        let (id, reason) = (end.id.to_string(), end.reason);
        if end.restart == Restart::Temporary {
            return Err(GuestsError::Ended { id, reason }.into());
        }
        if self.supervisor.is_some() {
            return Ok(());
        }
        let gave_up = match &self.reason {
            // The guests ended before anyone could watch.
            None | Some(ExitReason::NoProcess) => true,
            Some(ExitReason::ShutdownWith(why)) => why.value::<GaveUp>().is_some(),
            Some(_) => false,
        };
        if let Some(reason) = self.reason.clone().filter(|_| !gave_up) {
            return Err(GuestsError::Supervisor(reason).into());
        }
        Err(GuestsError::GivenUp { id, reason, intensity: self.app.supervision.intensity }.into())
    }

    /// Recompiles modules whenever their files change, and restarts their guests; never returns.
    pub(crate) async fn restart_on_changes(&mut self, mut modules: Modules) {
        loop {
            let changed = tokio::select! {
                changed = modules.changed() => changed,
                () = self.supervisor_ended(), if self.supervisor.is_some() => {
                    self.report_end().await;
                    continue;
                }
            };
            for (name, path) in changed {
                let (wasm, module) = (self.wasm.clone(), name.clone());
                let compile = move || compile(&wasm, &module, &path).map_err(Failure::from);
                let compiled = match OwnThread::start("compile a module", compile) {
                    Ok(compiling) => compiling.await.flatten(),
                    Err(failure) => Err(failure),
                };
                match compiled {
                    Ok(()) => {
                        // It may have given up while the module was compiled.
                        if self.supervisor.is_some_and(|supervisor| !self.runtime.is_alive(supervisor.pid())) {
                            self.report_end().await;
                        }
                        tracing::info!(target: "rusm::run", module = name, "module has changed: restarting its guests");
                        self.restart_module(&name).await;
                    }
                    Err(failure) => {
                        tracing::error!(target: "rusm::run", module = name, "module has changed, but the old one keeps running: {failure}");
                    }
                }
            }
        }
    }

    /// Stops the guests of a module one after the other, and starts each again.
    async fn restart_module(&mut self, module: &str) {
        let Some(supervisor) = self.supervisor else {
            if let Err(failure) = self.start().await {
                tracing::error!(target: "rusm::run", "{failure}; waiting for a module to change");
            }
            return;
        };
        let app = Arc::clone(&self.app);
        for process in app.processes.iter().filter(|process| module_name(&app, &process.module) == module) {
            for id in process.ids() {
                if let Err(error) = self.restart_child(supervisor, process, &id).await {
                    tracing::error!(target: "rusm::run", guest = &*id, "cannot restart a guest: {error}");
                }
            }
        }
    }

    async fn restart_child(&self, supervisor: SupervisorRef, process: &Process, id: &Arc<str>) -> Result<(), String> {
        match supervisor.terminate_child(&self.runtime, &**id).await {
            Ok(()) | Err(ChildError::NotFound) => {}
            Err(error) => return Err(error.to_string()),
        }
        match supervisor.restart_child(&self.runtime, &**id).await {
            Ok(_) => Ok(()),
            // A supervisor forgets a temporary child when it ends.
            Err(ChildError::NotFound) => {
                let started = supervisor.start_child(&self.runtime, self.child(process, Arc::clone(id))).await;
                started.map(drop).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

fn guest(process: &Process, id: &Arc<str>) -> GuestOptions {
    let guest = GuestOptions::default().args(&process.args).profile(process.profile.as_str()).limits(process.limits);
    let mut guest = guest.label(Arc::clone(id)).linked().logs_own_end();
    if let Some(name) = &process.register {
        guest = guest.name(name.as_str());
    }
    guest
}
