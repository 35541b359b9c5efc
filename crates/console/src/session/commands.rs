//! Carries out the commands of a client.

use std::time::{Duration, Instant};

use rusm_protocol::{
    ClientMessage, ClusterView, DecodeError, ErrorCode, InspectView, KillReason, LOG_FILTER_MAX_BYTES, ReportPart,
    ServeView, ServerMessage, StoresView, TraceRequest, TreeView, View, decode_client, encode as to_text,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::Message;

use super::{
    CausesSource, ClientTrace, ClusterSource, CpuSource, EnginesSource, EventsWatch, InspectSource, ResultsSource,
    RowEncoder, SchedulersSource, ServeSource, Session, SessionEnd, StoresSource, Table, TimeSource, TopicsSource,
    TreeSource, ViewSource, WaitsSource, Window,
};
use crate::host::HostError;
use crate::session::kill_all::{exit_reason, kill_all};
use crate::view::filter::Filter;
use crate::view::tree::child_at;
use rusm_runtime::observe::{self, ChildKey, EndedBy};
use rusm_runtime::supervisor::{ChildRef, SupervisorRef};
use rusm_runtime::{ExitReason, Pid};

/// Time within which a child runs again, before its client gets an error.
const RESTART_WITHIN: Duration = Duration::from_secs(2);

/// Frame rates that a client may ask for, in hertz.
const FRAME_HZ: std::ops::RangeInclusive<f64> = 0.1..=60.0;

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub(super) async fn command(&mut self, text: &str) -> Result<(), SessionEnd> {
        let message = decode_client(text);
        let id = match &message {
            Ok(message) => message.command_id(),
            Err(_) => rusm_protocol::command_id(text),
        };
        let done = if self.commands.take(Instant::now()) {
            message.map_err(|error| not_understood(&error)).and_then(|message| self.execute(message))
        } else {
            let limit = self.node.limits.commands_per_sec;
            let message = format!("more than {limit} commands a second: this command was not executed");
            Err(HostError { code: ErrorCode::RateLimited, message })
        };
        if let Some((filter, reason)) = self.killing.take() {
            return self.kill_all(&filter, &reason, id).await;
        }
        if let Some(part) = self.reporting.take() {
            return self.send(&ServerMessage::Report(part)).await;
        }
        if let Some(answer) = self.answer.take() {
            return self.write(Message::text(answer)).await;
        }
        let done = match self.restarting.take() {
            Some((supervisor, key)) => self.restart_child(supervisor, key).await,
            None => done,
        };
        match (done, id) {
            (Ok(()), Some(id)) => self.send(&ServerMessage::Ack { id }).await,
            (Ok(()), None) => Ok(()),
            (Err(error), id) => self.send(&ServerMessage::Error { message: error.message, code: error.code, id }).await,
        }
    }

    fn execute(&mut self, message: ClientMessage) -> Result<(), HostError> {
        if changes_the_node(&message) && !self.audit(&message) {
            let message = if self.node.read_only {
                "this node is read-only: observers cannot change it"
            } else {
                "this connection may only observe: attach with the control token"
            };
            let message = message.to_owned();
            return Err(HostError { code: ErrorCode::Forbidden, message });
        }
        match message {
            ClientMessage::Run { scenario, params, settings, .. } => {
                self.node.host.measure(&scenario, &params, &settings)
            }
            ClientMessage::Stop { .. } => {
                self.node.host.stop();
                Ok(())
            }
            ClientMessage::Pause { paused, .. } => self.node.host.pause(paused),
            ClientMessage::SetResourceProfile { profile, .. } => self.node.host.set_profile(&profile),
            ClientMessage::SetObserverDetail { enabled } => self.set_detail(enabled),
            ClientMessage::Watch { frame_hz } => self.watch(frame_hz),
            ClientMessage::View(view) => self.set_view(view),
            ClientMessage::Detail { pid } => {
                self.process = pid.map(|pid| parse_pid(&pid)).transpose()?.map(|pid| (pid, RowEncoder::default()));
                self.next_process = Instant::now();
                Ok(())
            }
            ClientMessage::Inspect { view } => self.set_inspect(view.as_ref()),
            ClientMessage::Causes { view } => show(&mut self.causes, view.map(CausesSource::new)),
            ClientMessage::Tree { view } => self.set_tree(view),
            ClientMessage::Engines { view } => show(&mut self.engines, view.map(EnginesSource::new)),
            ClientMessage::Time { view } => show(&mut self.time, view.map(TimeSource::new)),
            ClientMessage::Stores { view } => self.set_stores(view),
            ClientMessage::Topics { view } => show(&mut self.topics, view.map(TopicsSource::new)),
            ClientMessage::Cpu { view } => show(&mut self.cpu, view.map(CpuSource::new)),
            ClientMessage::Schedulers { view } => show(&mut self.schedulers, view.map(SchedulersSource::new)),
            ClientMessage::Serve { view } => self.set_serve(view),
            ClientMessage::Cluster { view } => self.set_cluster(view),
            ClientMessage::Trace { trace, .. } => self.set_trace(trace),
            ClientMessage::Waits { view } => show(&mut self.waits, view.map(WaitsSource::new)),
            ClientMessage::Events(request) => {
                let watch = |request| EventsWatch::new(request, self.peer.role, Instant::now());
                self.events = request.enabled.then_some(request).map(watch);
                Ok(())
            }
            ClientMessage::Results { view } => show(&mut self.results, view.map(ResultsSource::new)),
            ClientMessage::Report { run, offset, id } => {
                let part = self.node.host.report(run, offset)?;
                self.reporting = Some(ReportPart { id, ..part });
                Ok(())
            }
            ClientMessage::Past(view) => {
                self.answer = Some(self.node.recording.borrow().past(view.id, view.at_ms));
                Ok(())
            }
            ClientMessage::History(view) => {
                let history = self.node.recording.borrow().history(view.id);
                self.answer = Some(to_text(&ServerMessage::History(history)));
                Ok(())
            }
            ClientMessage::RestartChild { path, .. } => {
                self.restarting = Some(child_at(&self.node.runtime, &path)?);
                Ok(())
            }
            ClientMessage::Kill { pid, reason, text, .. } => self.kill(&pid, reason, text.as_deref()),
            ClientMessage::SetLogFilter { filter, .. } => self.set_log_filter(&filter),
            ClientMessage::KillAll { filter, reason, .. } => {
                self.killing = Some((kill_filter(&filter)?, exit_reason(reason, None)?));
                Ok(())
            }
        }
    }

    /// Logs a command; returns true if the client has permission for it.
    fn audit(&mut self, command: &dyn std::fmt::Debug) -> bool {
        self.audit.log(&self.peer, command, &mut self.node.refusals.borrow_mut(), Instant::now())
    }

    fn set_stores(&mut self, view: Option<StoresView>) -> Result<(), HostError> {
        let keys = view.as_ref().and_then(|view| view.keys.clone());
        let source = view.map(|view| StoresSource::new(view, self.peer.role));
        if matches!(&source, Some(Ok(source)) if source.looks_into_a_bucket()) {
            // The view itself contains the refusal for a client without the control role.
            self.audit(&keys);
        }
        show(&mut self.stores, source)
    }

    fn set_tree(&mut self, view: Option<TreeView>) -> Result<(), HostError> {
        let source = view.map(TreeSource::new).transpose()?;
        let before = self.tree.as_mut().map(Window::source_mut);
        let source = match (source, before) {
            (Some(source), Some(before)) => Some(source.continuing(before)),
            (source, _) => source,
        };
        show(&mut self.tree, source.map(Ok))
    }

    fn set_serve(&mut self, view: Option<ServeView>) -> Result<(), HostError> {
        let source = view.map(ServeSource::new).transpose()?;
        let before = self.serve.as_mut().map(Window::source_mut);
        let source = match (source, before) {
            (Some(source), Some(before)) => Some(source.continuing(before)),
            (source, _) => source,
        };
        show(&mut self.serve, source.map(Ok))
    }

    fn set_cluster(&mut self, view: Option<ClusterView>) -> Result<(), HostError> {
        let source = view.map(ClusterSource::new).transpose()?;
        let before = self.cluster.as_mut().map(Window::source_mut);
        let source = match (source, before) {
            (Some(source), Some(before)) => Some(source.continuing(before)),
            (source, _) => source,
        };
        show(&mut self.cluster, source.map(Ok))
    }

    fn set_inspect(&mut self, view: Option<&InspectView>) -> Result<(), HostError> {
        let source = view.cloned().map(|view| InspectSource::new(view, self.peer.role));
        if matches!(&source, Some(Ok(source)) if source.shows_values()) {
            self.audit(&view);
        }
        show(&mut self.inspect, source)
    }

    fn watch(&mut self, frame_hz: f64) -> Result<(), HostError> {
        if !FRAME_HZ.contains(&frame_hz) {
            let (min, max) = (FRAME_HZ.start(), FRAME_HZ.end());
            return Err(HostError::out_of_range(format!("frame_hz of {frame_hz} is not between {min} and {max}")));
        }
        self.frame_rate.set_period(Duration::from_secs_f64(1.0 / frame_hz));
        Ok(())
    }

    fn set_detail(&mut self, enabled: bool) -> Result<(), HostError> {
        let now = Instant::now();
        self.detail = enabled;
        if let Some(table) = &mut self.view {
            table.wake(now);
        }
        self.legacy_rows = (enabled && self.view.is_none()).then(|| Table::legacy(now)).transpose()?;
        Ok(())
    }

    fn set_view(&mut self, view: View) -> Result<(), HostError> {
        let now = Instant::now();
        match &mut self.view {
            Some(table) => table.show(view, now)?,
            None => self.view = Some(Table::new(view, now)?),
        }
        self.legacy_rows = None;
        self.detail = true;
        Ok(())
    }

    /// Asks a supervisor to start a child again.
    async fn restart_child(&self, supervisor: Pid, key: ChildKey) -> Result<(), HostError> {
        let failed = |message: String| HostError { code: ErrorCode::Failed, message };
        let replaced = SupervisorRef::of(supervisor).replace_child(&self.node.runtime, ChildRef::Key(key));
        match tokio::time::timeout(RESTART_WITHIN, replaced).await {
            Ok(Ok(_pid)) => Ok(()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!(
                "{supervisor} is still busy after {} s, perhaps with stopping the child: it starts when that is done",
                RESTART_WITHIN.as_secs()
            ))),
        }
    }

    /// Ends the processes that a filter matches, and reports their number to the client.
    async fn kill_all(&mut self, filter: &Filter, reason: &ExitReason, id: Option<u64>) -> Result<(), SessionEnd> {
        let killed = kill_all(&self.node.runtime, filter, reason).await;
        match id {
            Some(id) => self.send(&ServerMessage::Killed { id, processes: killed.processes, left: killed.left }).await,
            None => Ok(()),
        }
    }

    fn set_trace(&mut self, trace: Option<TraceRequest>) -> Result<(), HostError> {
        // End the previous trace first, whatever becomes of the new one.
        self.trace = None;
        if let Some(request) = trace {
            let pid = parse_pid(&request.pid)?;
            self.trace = Some(ClientTrace::start(&self.node.runtime, pid, request)?);
        }
        Ok(())
    }

    fn set_log_filter(&self, filter: &str) -> Result<(), HostError> {
        let Some(log) = &self.node.log_filter else {
            let message = "the filter of this program's log cannot be changed".to_owned();
            return Err(HostError { code: ErrorCode::Unknown, message });
        };
        if filter.len() > LOG_FILTER_MAX_BYTES {
            let message = format!("a filter of {} bytes: at most {LOG_FILTER_MAX_BYTES}", filter.len());
            return Err(HostError::out_of_range(message));
        }
        log(filter).map_err(HostError::out_of_range)
    }

    fn kill(&self, pid: &str, reason: KillReason, text: Option<&str>) -> Result<(), HostError> {
        let reason = exit_reason(reason, text)?;
        let pid = parse_pid(pid)?;
        if !self.node.runtime.is_alive(pid) {
            return Err(HostError { code: ErrorCode::Unknown, message: format!("no process {pid}") });
        }
        let by = EndedBy::Observer(self.peer.name.as_str().into());
        observe::note_end_by(&self.node.runtime, pid, by);
        self.node.runtime.exit(pid, reason);
        Ok(())
    }
}

/// Parses the filter of a command that ends processes.
fn kill_filter(text: &str) -> Result<Filter, HostError> {
    let filter = Filter::parse(text).map_err(|error| HostError::out_of_range(error.to_string()))?;
    if !filter.rates().is_empty() {
        let message = "a rate cannot select the processes to end: compare reds, msgs or busy instead".to_owned();
        return Err(HostError::out_of_range(message));
    }
    if filter.is_empty() {
        let message = "an empty filter would end every process: select some, for example with module=NAME".to_owned();
        return Err(HostError::out_of_range(message));
    }
    Ok(filter)
}

/// Replaces the source of a window, or closes the window.
fn show<S: ViewSource>(window: &mut Option<Window<S>>, source: Option<Result<S, HostError>>) -> Result<(), HostError> {
    *window = source.transpose()?.map(|source| Window::new(source, window.as_ref()));
    Ok(())
}

fn not_understood(error: &DecodeError) -> HostError {
    let code = match error {
        DecodeError::Unknown { .. } | DecodeError::UnknownWord { .. } => ErrorCode::Unknown,
        DecodeError::TooLarge { .. } | DecodeError::Malformed { .. } => ErrorCode::Malformed,
    };
    HostError { code, message: error.to_string() }
}

fn parse_pid(text: &str) -> Result<Pid, HostError> {
    text.parse().map_err(|error| {
        let text: String = text.chars().take(64).collect();
        HostError { code: ErrorCode::Malformed, message: format!("{text:?}: {error}") }
    })
}

const fn changes_the_node(message: &ClientMessage) -> bool {
    matches!(
        message,
        ClientMessage::Run { .. }
            | ClientMessage::Stop { .. }
            | ClientMessage::Pause { .. }
            | ClientMessage::SetResourceProfile { .. }
            | ClientMessage::RestartChild { .. }
            | ClientMessage::SetLogFilter { .. }
            | ClientMessage::Kill { .. }
            | ClientMessage::KillAll { .. }
    )
}
