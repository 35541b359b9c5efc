//! Exports a span of the past as a trace: requests its instants one by one, at the pace that a node allows.

pub(crate) mod save;
mod trace;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use rusm_protocol::{ClientMessage, Hello, PROTOCOL_VERSION, Past, PastView, ServerMessage};
use tokio::time::{Instant, sleep, timeout_at};

use crate::cli::options::{Export, Options, Source};
use crate::connection::{ConnectionHandle, Inbox};
use crate::exit::{Error, Exit};
use crate::model::message::{LinkEvent, Msg};
use crate::start;

/// Time between two instants, in milliseconds.
const STEP_MS: u64 = 1000;
/// Time between two requests: a node accepts 20 commands per second.
const PACE: Duration = Duration::from_millis(60);

/// An export in progress: it returns the path of the file, or a line that says why there is none.
pub(crate) type Exporting = Pin<Box<dyn Future<Output = Result<String, String>>>>;

/// Writes the trace, and returns when it is complete.
///
/// # Errors
/// The errors of a connection, and a line if the node does not record or the file exists.
pub(crate) async fn run(options: &Options, export: &Export) -> Result<Exit, Error> {
    // Create the file first, so that a trace that cannot be written fails at once.
    let path = export.path.display();
    let file = save::create_private(&export.path).map_err(|error| Error::Recording(format!("{path}: {error}")))?;
    let mut unfinished = Unfinished(Some(&export.path));
    let (hello, instants) = collect(options, u64::MAX, export.last).await?;
    let mut out = BufWriter::new(file);
    let trace = trace::of(&hello.node.name, &instants);
    let written = serde_json::to_writer(&mut out, &trace).map_err(std::io::Error::from).and_then(|()| out.flush());
    written.map_err(Error::Output)?;
    unfinished.0 = None;
    Ok(Exit::Done)
}

/// A file that is removed when this is dropped, because a part of it is of no use.
struct Unfinished<'a>(Option<&'a Path>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            drop(std::fs::remove_file(path));
        }
    }
}

/// Saves the trace of a span that ends at `until_ms`, over a connection of its own; returns the path of the file.
///
/// # Errors
/// A line that says why the span could not be read or saved.
pub(crate) async fn save_span(options: &Options, name: &str, until_ms: u64, last: Duration) -> Result<String, String> {
    let (hello, instants) = collect(options, until_ms, last).await.map_err(|error| error.to_string())?;
    let trace = serde_json::to_string(&trace::of(&hello.node.name, &instants)).map_err(|error| error.to_string())?;
    save::save(name, &trace)
}

/// Waits until the export is complete, if there is one, and clears it.
pub(crate) async fn finished(exporting: &mut Option<Exporting>) -> Result<String, String> {
    let Some(export) = exporting else { return std::future::pending().await };
    let saved = export.await;
    *exporting = None;
    saved
}

/// Requests the instants of a span that ends at `until_ms`, oldest first.
async fn collect(options: &Options, until_ms: u64, last: Duration) -> Result<(Box<Hello>, Vec<Past>), Error> {
    let inbox = Inbox::default();
    let outgoing = start::attach(options, &inbox).await?;
    let deadline = Instant::now() + options.timeout;
    let hello = wait(&inbox, deadline, "sent no hello", |message| match message {
        ServerMessage::Hello(hello) => Some(hello),
        _ => None,
    })
    .await?;
    if hello.protocol_version > PROTOCOL_VERSION {
        return Err(Error::NewerProtocol { theirs: hello.protocol_version, ours: PROTOCOL_VERSION });
    }
    if matches!(options.source, Source::Replay { .. }) {
        // A recording answers only about the part that was played.
        let end = ClientMessage::Past(PastView { id: 0, at_ms: u64::MAX });
        drop(outgoing.commands.send(end).await);
    }
    let newest = request(options, &inbox, &outgoing, 1, u64::MAX).await?;
    let end_ms = newest.newest_ms.min(until_ms);
    let mut at_ms = end_ms.saturating_sub(last.as_millis() as u64).max(newest.oldest_ms);
    let mut instants: Vec<Past> = Vec::new();
    for id in 2.. {
        if at_ms > end_ms {
            break;
        }
        sleep(PACE).await;
        let past = request(options, &inbox, &outgoing, id, at_ms).await?;
        if instants.last().is_none_or(|last| last.at_ms < past.at_ms) {
            instants.push(past);
        }
        let Some(next_ms) = at_ms.checked_add(STEP_MS) else { break };
        at_ms = next_ms;
    }
    Ok((hello, instants))
}

async fn request(
    options: &Options,
    inbox: &Inbox,
    outgoing: &ConnectionHandle,
    id: u32,
    at_ms: u64,
) -> Result<Past, Error> {
    let sent = outgoing.commands.send(ClientMessage::Past(PastView { id, at_ms })).await;
    tracing::trace!(?sent, at_ms, "request");
    let deadline = Instant::now() + options.timeout;
    let past = wait(inbox, deadline, "did not answer about the past", |message| match message {
        ServerMessage::Past(past) if past.id == id => Some(Ok(past)),
        ServerMessage::Error { message, .. } => Some(Err(Error::Refused(message))),
        _ => None,
    })
    .await??;
    match past.refusal {
        Some(refusal) => Err(Error::Refused(refusal)),
        None => Ok(past),
    }
}

/// Waits for a message from which `pick` returns a value.
async fn wait<T>(
    inbox: &Inbox,
    deadline: Instant,
    missing: &str,
    mut pick: impl FnMut(ServerMessage) -> Option<T>,
) -> Result<T, Error> {
    loop {
        for msg in inbox.drain() {
            match msg {
                Msg::Server(message) => {
                    if let Some(found) = pick(message) {
                        return Ok(found);
                    }
                }
                Msg::Link(LinkEvent::Lost { reason, fault, .. }) => return Err(Error::lost(reason, fault)),
                Msg::Malformed(what) => return Err(Error::Refused(what)),
                _ => {}
            }
        }
        if timeout_at(deadline, inbox.ready()).await.is_err() {
            return Err(Error::Connect(format!("the node {missing} in time")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Demo;
    use crate::replay::recording::{Entry, header};

    #[tokio::test]
    async fn the_trace_of_a_recording_covers_all_of_it() {
        let mut demo = Demo::new(1);
        let mut text = header("demo") + "\n";
        let mut record = |message: ServerMessage, at: Duration| {
            text.extend(Entry::of(&Msg::Server(message), at).map(|entry| entry.line() + "\n"));
        };
        record(demo.hello(), Duration::ZERO);
        for second in 1..=6 {
            let at = Duration::from_secs(second);
            demo.poll(at).into_iter().for_each(|message| record(message, at));
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.rec");
        std::fs::write(&path, text).unwrap();
        let options = Options { source: Source::Replay { path, speed: 1.0 }, ..Options::default() };

        let (_, instants) = collect(&options, u64::MAX, Duration::from_mins(1)).await.unwrap();

        let covered = instants.last().map(|last| last.at_ms).zip(instants.first().map(|first| first.at_ms));
        assert!(covered.is_some_and(|(last, first)| last - first >= 4_000), "{covered:?}");
    }
}
