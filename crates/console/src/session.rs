//! One observer's connection: reads commands, and sends only the newest frame and the rows that the client asked for.
//!
//! ```text
//!            ┌────────── commands: at most 20 a second ◀── socket
//!   session ─┤
//!            └─ frame (newest, or none) · rows · detail · replies ──▶ socket, each within 5 s
//! ```
//!
//! Everything periodic is sent at a tick of the node, so an observer causes no wake-ups of its own. Nothing is queued
//! for a client: while a write waits for a slow socket, each new frame replaces the previous one, and the next frame
//! sent reports how many were skipped. A write that exceeds its deadline ends the connection.

mod audit;
mod commands;
mod events;
mod frame_rate;
mod kill_all;
pub(crate) mod peer;
mod trace;

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use rusm_protocol::{Frame, ReportPart, ServerMessage, encode as to_text};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error as WsError};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use self::audit::Audit;
use self::events::EventsWatch;
use self::frame_rate::FrameRate;
use self::peer::Peer;
use self::trace::ClientTrace;
use super::budget::OrderBudget;
use super::encode::{self, RowEncoder};
use super::rate_limit::TokenBucket;
use super::sampler::sample::Sample;
use super::view::causes::CausesSource;
use super::view::cpu::CpuSource;
use super::view::engines::EnginesSource;
use super::view::filter::Filter;
use super::view::inspect::InspectSource;
use super::view::network::cluster::ClusterSource;
use super::view::network::serve::ServeSource;
use super::view::node::Node;
use super::view::results::ResultsSource;
use super::view::schedulers::SchedulersSource;
use super::view::stores::StoresSource;
use super::view::table::Table;
use super::view::table::window::{ViewSource, Window};
use super::view::time::TimeSource;
use super::view::topics::TopicsSource;
use super::view::tree::TreeSource;
use super::view::waits::WaitsSource;
use rusm_runtime::observe::ChildKey;
use rusm_runtime::{ExitReason, Pid};

/// Interval at which the one process in detail is sent.
const DETAIL_EVERY: Duration = Duration::from_millis(250);
/// Time for which a disconnected client may read the reason.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Tolerance for sending early: the node's tick and a client's intervals are not synchronised.
const EARLY_TOLERANCE: Duration = Duration::from_millis(5);

/// Reason why a session ended.
#[derive(Debug)]
pub(super) enum SessionEnd {
    /// The client left, or its connection broke.
    ClientClosed,
    /// The client broke a rule; the close frame says which.
    Disconnected(CloseCode, &'static str),
    /// The client was too slow or silent for too long; sending it the reason would take just as long.
    Lost(&'static str),
    /// The node is stopping.
    Stopping,
}

impl SessionEnd {
    /// Returns one phrase for the log.
    pub(super) const fn why(&self) -> &'static str {
        match self {
            Self::ClientClosed => "left",
            Self::Disconnected(_, why) | Self::Lost(why) => why,
            Self::Stopping => "the node is stopping",
        }
    }
}

/// One observer's connection and the views that it asked for.
pub(super) struct Session<S> {
    node: Rc<Node>,
    socket: WebSocketStream<S>,
    peer: Peer,
    /// CPU budget of the views of this client.
    budget: Rc<OrderBudget>,
    frame_rate: FrameRate,
    detail: bool,
    view: Option<Table>,
    /// Rows for a client that enabled detail and does not support views.
    legacy_rows: Option<Table>,
    inspect: Option<Window<InspectSource>>,
    causes: Option<Window<CausesSource>>,
    tree: Option<Window<TreeSource>>,
    engines: Option<Window<EnginesSource>>,
    time: Option<Window<TimeSource>>,
    stores: Option<Window<StoresSource>>,
    topics: Option<Window<TopicsSource>>,
    cpu: Option<Window<CpuSource>>,
    schedulers: Option<Window<SchedulersSource>>,
    serve: Option<Window<ServeSource>>,
    cluster: Option<Window<ClusterSource>>,
    results: Option<Window<ResultsSource>>,
    /// A part of a report, before it is sent.
    reporting: Option<ReportPart>,
    waits: Option<Window<WaitsSource>>,
    trace: Option<ClientTrace>,
    process: Option<(Pid, RowEncoder)>,
    /// An encoded answer to a request about the past, before it is sent.
    answer: Option<String>,
    /// A filter of processes to end, before it is applied.
    killing: Option<(Filter, ExitReason)>,
    /// A child to start again, before the request is sent to its supervisor.
    restarting: Option<(Pid, ChildKey)>,
    next_process: Instant,
    events: Option<EventsWatch>,
    commands: TokenBucket,
    audit: Audit,
    messages: TokenBucket,
    heard: Instant,
    /// Time of the last liveness check.
    checked: Instant,
    /// Pause between two samples at that time.
    pause: Duration,
    pinged_at: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    pub(super) fn new(node: Rc<Node>, socket: WebSocketStream<S>, peer: Peer) -> Self {
        let now = Instant::now();
        let limits = node.limits;
        let pause = node.pause();
        Self {
            budget: node.new_budget(),
            node,
            socket,
            peer,
            frame_rate: FrameRate::new(now),
            detail: false,
            view: None,
            legacy_rows: None,
            inspect: None,
            causes: None,
            tree: None,
            engines: None,
            time: None,
            stores: None,
            topics: None,
            cpu: None,
            schedulers: None,
            serve: None,
            cluster: None,
            results: None,
            reporting: None,
            waits: None,
            trace: None,
            process: None,
            answer: None,
            killing: None,
            restarting: None,
            next_process: now,
            events: None,
            commands: TokenBucket::new(limits.commands_per_sec, now),
            audit: Audit::new(now),
            messages: TokenBucket::new(limits.messages_per_sec, now),
            heard: now,
            checked: now,
            pause,
            pinged_at: now,
        }
    }

    /// Serves the client until it leaves or is disconnected.
    pub(super) async fn run(mut self) -> SessionEnd {
        let end = match self.serve().await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        let close = match end {
            SessionEnd::ClientClosed | SessionEnd::Lost(_) => None,
            SessionEnd::Disconnected(code, why) => Some((code, why)),
            SessionEnd::Stopping => Some((CloseCode::Away, "the node is stopping")),
        };
        if !matches!(end, SessionEnd::Lost(_)) {
            // The client may be gone already, and then there is nothing to report.
            drop(timeout(CLOSE_TIMEOUT, self.close(close)).await);
        }
        end
    }

    /// Closes the connection and reads what the client still sends: unread bytes would reset the connection before the
    /// client has read the close frame.
    async fn close(&mut self, close: Option<(CloseCode, &'static str)>) {
        let said = match close {
            Some((code, why)) => {
                let reason = Utf8Bytes::from_static(why);
                self.socket.close(Some(CloseFrame { code, reason })).await
            }
            // Flush the answer to the client's close frame, if it sent one.
            None => self.socket.flush().await,
        };
        if matches!(said, Ok(()) | Err(WsError::ConnectionClosed)) {
            let stream = self.socket.get_mut();
            let mut unread = [0; 4096];
            if stream.shutdown().await.is_ok() {
                while stream.read(&mut unread).await.is_ok_and(|read| read > 0) {}
            }
        }
    }

    async fn serve(&mut self) -> Result<Infallible, SessionEnd> {
        let hello = self.node.hello(self.peer.role);
        self.send(&ServerMessage::Hello(Box::new(hello))).await?;
        let mut frames = self.node.frames();
        let mut stopping = self.node.stopping();
        loop {
            tokio::select! {
                message = self.socket.next() => self.on_message(message).await?,
                changed = frames.changed() => {
                    if changed.is_err() {
                        return Err(SessionEnd::Stopping);
                    }
                    let sample = Arc::clone(&frames.borrow_and_update());
                    self.offer_frame(&sample).await?;
                    self.check_liveness().await?;
                }
                _ = stopping.wait_for(|stopping| *stopping) => return Err(SessionEnd::Stopping),
            }
            self.send_what_is_due().await?;
        }
    }

    async fn check_liveness(&mut self) -> Result<(), SessionEnd> {
        let now = Instant::now();
        // A node that was itself suspended could neither receive nor ping meanwhile, so that time does not count.
        let pause = self.node.pause();
        self.heard += (now - self.checked).saturating_sub(2 * pause.max(self.pause));
        (self.checked, self.pause) = (now, pause);
        if now.saturating_duration_since(self.heard) >= self.node.limits.dead_after {
            return Err(SessionEnd::Lost("sent nothing for too long"));
        }
        if now.saturating_duration_since(self.pinged_at) >= self.node.limits.ping_every {
            self.pinged_at = now;
            self.write(Message::Ping(bytes::Bytes::new())).await?;
        }
        Ok(())
    }

    /// Sends rows and detail if they are due: at a tick, or at once after a command that changes them.
    async fn send_what_is_due(&mut self) -> Result<(), SessionEnd> {
        let soon = Instant::now() + EARLY_TOLERANCE;
        if self.detail && self.view.as_ref().is_some_and(|table| soon >= table.next_rows(&self.node, &self.budget)) {
            self.send_rows(soon).await?;
        }
        let node = &*self.node;
        let seen = [
            refresh(&mut self.inspect, node, &self.budget, soon),
            refresh(&mut self.causes, node, &self.budget, soon),
            refresh(&mut self.tree, node, &self.budget, soon),
            refresh(&mut self.engines, node, &self.budget, soon),
            refresh(&mut self.time, node, &self.budget, soon),
            refresh(&mut self.stores, node, &self.budget, soon),
            refresh(&mut self.topics, node, &self.budget, soon),
            refresh(&mut self.cpu, node, &self.budget, soon),
            refresh(&mut self.schedulers, node, &self.budget, soon),
            refresh(&mut self.serve, node, &self.budget, soon),
            refresh(&mut self.cluster, node, &self.budget, soon),
            refresh(&mut self.results, node, &self.budget, soon),
            refresh(&mut self.waits, node, &self.budget, soon),
        ];
        for message in seen.iter().flatten() {
            self.send(message).await?;
        }
        if let Some(trace) = self.trace.as_mut().and_then(|trace| trace.read(soon)) {
            self.trace.take_if(|trace| trace.is_over);
            self.send(&ServerMessage::Trace(trace)).await?;
        }
        if self.process.is_some() && soon >= self.next_process {
            self.next_process = soon + DETAIL_EVERY;
            self.send_process().await?;
        }
        if let Some(message) = self.events.as_mut().and_then(|watch| watch.message(&self.node, soon, DETAIL_EVERY)) {
            self.send(&message).await?;
        }
        Ok(())
    }

    async fn offer_frame(&mut self, sample: &Sample) -> Result<(), SessionEnd> {
        let now = Instant::now();
        let Some(skipped) = self.frame_rate.take(sample.seq, now, self.node.tick()) else { return Ok(()) };
        let Some(table) = &mut self.legacy_rows else {
            let text = || to_text(&ServerMessage::Tick { frame: Box::new(Frame { skipped, ..encode::frame(sample) }) });
            let text = self.node.frame_text(sample.seq, skipped, text);
            return self.write(Message::Text(text)).await;
        };
        let mut frame = Frame { skipped, ..encode::frame(sample) };
        frame.observer.processes = table.process_infos(&self.node, &self.budget, now).await;
        self.send(&ServerMessage::Tick { frame: Box::new(frame) }).await
    }

    async fn send_rows(&mut self, now: Instant) -> Result<(), SessionEnd> {
        let Some(table) = &mut self.view else { return Ok(()) };
        match table.rows(&self.node, &self.budget, now).await {
            Some(rows) => self.send(&ServerMessage::Rows(rows)).await,
            None => Ok(()),
        }
    }

    async fn send_process(&mut self) -> Result<(), SessionEnd> {
        let Some((pid, encoder)) = &mut self.process else { return Ok(()) };
        let process = encoder.detail(&self.node.runtime, *pid).map(Box::new);
        let pid = pid.to_string();
        if process.is_none() {
            self.process = None;
        }
        self.send(&ServerMessage::Process { process, pid }).await
    }

    async fn on_message(&mut self, message: Option<Result<Message, WsError>>) -> Result<(), SessionEnd> {
        self.heard = Instant::now();
        if !self.messages.take(self.heard) {
            return Err(SessionEnd::Disconnected(CloseCode::Policy, "sent too many messages"));
        }
        match message {
            Some(Ok(Message::Text(text))) => self.command(&text).await,
            Some(Ok(Message::Binary(_))) => {
                Err(SessionEnd::Disconnected(CloseCode::Unsupported, "only text frames are accepted"))
            }
            Some(Ok(Message::Close(_))) | None => Err(SessionEnd::ClientClosed),
            Some(Ok(_)) => Ok(()),
            Some(Err(WsError::Capacity(CapacityError::MessageTooLong { .. }))) => {
                Err(SessionEnd::Disconnected(CloseCode::Size, "a message may have at most 64 KiB"))
            }
            Some(Err(WsError::Utf8(_))) => {
                Err(SessionEnd::Disconnected(CloseCode::Invalid, "text frames must be UTF-8"))
            }
            Some(Err(WsError::Protocol(_))) => {
                Err(SessionEnd::Disconnected(CloseCode::Protocol, "not a WebSocket frame"))
            }
            Some(Err(_)) => Err(SessionEnd::ClientClosed),
        }
    }

    async fn send(&mut self, message: &ServerMessage) -> Result<(), SessionEnd> {
        self.write(Message::text(to_text(message))).await
    }

    async fn write(&mut self, message: Message) -> Result<(), SessionEnd> {
        match timeout(self.node.limits.write, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(WsError::WriteBufferFull(_))) => Err(SessionEnd::Lost("would receive a message that is too large")),
            Ok(Err(_)) => Err(SessionEnd::ClientClosed),
            Err(_) => Err(SessionEnd::Lost("did not read for too long")),
        }
    }
}

fn refresh<S: ViewSource>(
    window: &mut Option<Window<S>>,
    node: &Node,
    budget: &OrderBudget,
    now: Instant,
) -> Option<ServerMessage> {
    window.as_mut()?.read(node, budget, now)
}
