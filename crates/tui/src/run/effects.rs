//! Executes the effects that the models request.

use std::path::Path;

use rusm_protocol::PROTOCOL_VERSION;

use super::sources::{Next, other_node};
use super::{EventLoop, Pace};
use crate::cli::config;
use crate::cli::options::Options;
use crate::connection::Target;
use crate::exit::{Error, Exit};
use crate::export;
use crate::export::save;
use crate::model::message::{Effect, Export, Msg, QuitReason};
use crate::once;
use crate::replay::index::Index;

impl EventLoop {
    /// Executes an effect that the model of a node requested.
    pub(super) fn execute(&mut self, node: usize, effect: Effect) -> Result<(), Error> {
        match effect {
            Effect::Send(message) => {
                // If the queue is full, the node does not read: the connection task will detect that and report it.
                let sent = self.nodes.get(node).outgoing.commands.try_send(message);
                tracing::trace!(?sent, "command");
            }
            Effect::Retry => self.nodes.get(node).outgoing.retry.notify_one(),
            Effect::Copy(text) => {
                let command = crossterm::clipboard::CopyToClipboard::to_clipboard_from(text);
                let mut bytes = String::new();
                if crossterm::Command::write_ansi(&command, &mut bytes).is_ok() {
                    self.screen.send(bytes.as_bytes()).map_err(Error::Terminal)?;
                }
            }
            Effect::Save { name, export } => {
                let text = match export {
                    Export::Text(text) => text,
                    Export::Screen => once::lines(&crate::replay::screen(&self.nodes.focused().model)),
                    Export::Picture => {
                        crate::picture::svg(&crate::replay::screen(&self.nodes.focused().model), &crate::picture::DARK)
                    }
                };
                self.feed(node, Msg::Saved(save::save(&name, &text)))?;
            }
            Effect::ExportTrace { .. } if self.exporting.is_some() => {
                self.feed(node, Msg::Saved(Err("the last export is not complete yet".to_owned())))?;
            }
            Effect::ExportTrace { name, until_ms, last } => {
                let source = self.nodes.get(node).source.clone();
                let options = Options { source, ..self.options.clone() };
                let saved = async move { export::save_span(&options, &name, until_ms, last).await };
                self.exporting = Some(Box::pin(saved));
            }
            Effect::Interval(time) => self.pace = Pace { frame_time: time, fastest: time },
            Effect::OpenRecording(path) => match self.openable(&path) {
                Ok(()) => {
                    self.next = Some(Next::Recording(path));
                    self.ending = Some(Ok(Exit::Done));
                }
                Err(why) => self.feed(node, Msg::Saved(Err(why)))?,
            },
            Effect::Attach(name) => match self.beside(std::slice::from_ref(&name)) {
                Ok(targets) => {
                    self.next = targets.into_iter().next().map(Next::Node);
                    self.ending = Some(Ok(Exit::Done));
                }
                Err(why) => self.feed(node, Msg::Saved(Err(why)))?,
            },
            Effect::AttachBeside(names) => match self.beside(&names) {
                Ok(targets) => {
                    self.next = Some(Next::Beside(targets));
                    self.ending = Some(Ok(Exit::Done));
                }
                Err(why) => self.feed(node, Msg::Saved(Err(why)))?,
            },
            Effect::NextNode => self.nodes.next(),
            Effect::OneNode => self.nodes.toggle_one(),
            Effect::SaveColumns { key, columns } => {
                let saved = match &self.options.config_file {
                    Some(path) => config::columns::save(path, key, &columns)
                        .map(|()| path.display().to_string())
                        .map_err(|error| error.to_string()),
                    None => Err("the columns are not saved: there is no folder for a config file".to_owned()),
                };
                self.feed(node, Msg::Saved(saved))?;
            }
            Effect::Repaint => self.screen.repaint(),
            // Ctrl-Z stops the whole job, as the terminal would.
            Effect::Suspend => self.stop(true)?,
            Effect::Quit(QuitReason::Requested) => self.ending = Some(Ok(Exit::Done)),
            Effect::Quit(QuitReason::NewerProtocol { theirs }) => {
                self.ending = Some(Err(Error::NewerProtocol { theirs, ours: PROTOCOL_VERSION }));
            }
        }
        Ok(())
    }

    /// Returns the targets of other nodes of the cluster.
    fn beside(&self, names: &[String]) -> Result<Vec<Target>, String> {
        if self.options.record.is_some() {
            return Err("this screen is being recorded: a recording has one node".to_owned());
        }
        let target =
            |name: &String| other_node(&self.options, self.nodes.first(), name).ok_or_else(|| unreachable(name));
        names.iter().map(target).collect()
    }

    /// Checks that a recording can be shown.
    fn openable(&self, path: &Path) -> Result<(), String> {
        if self.options.record.is_some() {
            return Err("this screen is being recorded: open the recording with --replay".to_owned());
        }
        Index::open(path).map(drop)
    }
}

fn unreachable(node: &str) -> String {
    format!("{node} cannot be reached from here: attach to its own address")
}
