//! Sends commands to a node without a screen, and prints what became of each.
//!
//! ```text
//!   hello ──▶ one command ──▶ ack, killed or error ──▶ one line ──▶ the next command
//! ```

use std::io::{self, Write};

use rusm_protocol::{ClientMessage, ErrorCode, KillReason, PROTOCOL_VERSION, Role, ServerMessage};
use rusm_text::escaped;
use rustix::process::Signal;
use tokio::time::{Instant, timeout_at};

use crate::cli::options::{Act, Options};
use crate::connection::{ConnectionHandle, Inbox};
use crate::exit::{Error, Exit};
use crate::model::message::{LinkEvent, Msg};
use crate::start;

/// Executes the commands in their order, and stops at the first that the node refuses.
///
/// # Errors
/// The errors of [`run`](crate::run), and every refusal of the node: unknown processes and wrong values are usage errors.
pub(crate) async fn execute(options: &Options, out: &mut impl Write) -> Result<Exit, Error> {
    let inbox = Inbox::default();
    let outgoing = start::attach(options, &inbox).await?;
    let mut actor = Actor { options, inbox, outgoing };
    actor.greeting().await?;
    for (id, act) in (1..).zip(&options.acts) {
        let done = actor.send(id, act).await?;
        match writeln!(out, "{done}").and_then(|()| out.flush()) {
            Ok(()) => {}
            // The reader closed the pipe. End as SIGPIPE would, which Rust ignores by default.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Signal(Signal::PIPE.as_raw())),
            Err(error) => return Err(Error::Output(error)),
        }
    }
    Ok(Exit::Done)
}

struct Actor<'a> {
    options: &'a Options,
    inbox: Inbox,
    outgoing: ConnectionHandle,
}

impl Actor<'_> {
    /// Waits for the greeting of the node, which says what this client may do.
    async fn greeting(&mut self) -> Result<(), Error> {
        let hello = self.answer(|message| match message {
            ServerMessage::Hello(hello) => Some(hello),
            _ => None,
        });
        let hello = hello.await?;
        if hello.protocol_version > PROTOCOL_VERSION {
            return Err(Error::NewerProtocol { theirs: hello.protocol_version, ours: PROTOCOL_VERSION });
        }
        if hello.role != Role::Control {
            let name = &hello.node.name;
            return Err(Error::Refused(format!(
                "{name} lets this connection only observe: attach with the control token"
            )));
        }
        Ok(())
    }

    /// Sends one command. Returns the line about its success.
    async fn send(&mut self, id: u64, act: &Act) -> Result<String, Error> {
        let (message, done) = command(id, act);
        if self.outgoing.commands.try_send(message).is_err() {
            return Err(Error::Connect("the node reads no commands".to_owned()));
        }
        let answer = self.answer(|message| match message {
            ServerMessage::Ack { id: answered } if answered == id => Some(Ok(done.clone())),
            ServerMessage::Killed { id: answered, processes, left } if answered == id => {
                let left = if left > 0 { format!(", {left} still match") } else { String::new() };
                let noun = if processes == 1 { "process" } else { "processes" };
                Some(Ok(format!("{processes} {noun} ended{left}")))
            }
            ServerMessage::Error { id: Some(answered), message, code } if answered == id => Some(Err((code, message))),
            _ => None,
        });
        answer.await?.map_err(|(code, message)| match code {
            ErrorCode::Unknown | ErrorCode::OutOfRange | ErrorCode::Malformed => Error::Usage(message),
            _ => Error::Refused(message),
        })
    }

    /// Waits for the first message that `wanted` accepts.
    async fn answer<T>(&mut self, mut wanted: impl FnMut(ServerMessage) -> Option<T>) -> Result<T, Error> {
        let until = Instant::now() + self.options.timeout;
        loop {
            for msg in self.inbox.drain() {
                match msg {
                    Msg::Link(LinkEvent::Lost { reason, fault, .. }) => return Err(Error::lost(reason, fault)),
                    Msg::Malformed(what) => return Err(Error::Refused(what)),
                    Msg::Server(message) => {
                        if let Some(found) = wanted(message) {
                            return Ok(found);
                        }
                    }
                    _ => {}
                }
            }
            if timeout_at(until, self.inbox.ready()).await.is_err() {
                let seconds = self.options.timeout.as_secs_f64();
                return Err(Error::Connect(format!("the node did not answer within {seconds} s")));
            }
        }
    }
}

/// Returns the message of a command, and the line about its success.
fn command(id: u64, act: &Act) -> (ClientMessage, String) {
    let id = Some(id);
    match act {
        Act::Kill { pid, reason, text } => {
            let done = match reason {
                KillReason::Kill => format!("{pid} killed"),
                KillReason::Shutdown => format!("{pid} asked to shut down"),
                KillReason::Error => format!("{pid} ended: {}", escaped(text.as_deref().unwrap_or_default())),
            };
            (ClientMessage::Kill { pid: pid.clone(), reason: *reason, text: text.clone(), id }, done)
        }
        Act::KillAll { filter, reason } => {
            (ClientMessage::KillAll { filter: filter.clone(), reason: *reason, id }, String::new())
        }
        Act::Stop => (ClientMessage::Stop { id }, "no scenario is running any more".to_owned()),
        Act::LogFilter(filter) => (
            ClientMessage::SetLogFilter { filter: filter.clone(), id },
            format!("the log has the filter {}", escaped(filter)),
        ),
    }
}
