//! Reads the terminal on a thread of its own: a read of a terminal blocks, and not every system can wait for
//! `/dev/tty` without a thread.
//!
//! ```text
//!   terminal ──▶ thread: poll, read ──▶ channel ──▶ Keyboard::next ──▶ inputs
//! ```

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use super::input::{Input, Parser};

/// Maximum number of bytes of one read.
const READ_MAX: usize = 4096;
/// Maximum number of reads that wait to be handled. The terminal keeps what comes meanwhile.
const WAITING_MAX: usize = 8;

/// Time within which an input must be complete. Without this limit, keys that are pressed while a paste lacks its end would
/// keep the paste open.
const INCOMPLETE_MAX: Duration = Duration::from_secs(10);

/// Input of the user. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Keyboard {
    reads: Receiver<io::Result<Vec<u8>>>,
    parser: Parser,
    /// Time of the last bytes.
    read_at: Instant,
    /// Time of the last bytes that completed an input.
    input_at: Instant,
    /// The thread ends when this is closed.
    _end: UnixStream,
}

impl Keyboard {
    /// Starts to read the terminal: the standard input, or `/dev/tty` if that is something else.
    ///
    /// # Errors
    /// If no terminal can be opened, or the system refuses a thread.
    pub(crate) fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let terminal =
            if stdin.is_terminal() { File::from(stdin.as_fd().try_clone_to_owned()?) } else { File::open("/dev/tty")? };
        Self::of(terminal)
    }

    fn of(terminal: File) -> io::Result<Self> {
        let (end, ended) = UnixStream::pair()?;
        let (send, reads) = channel(WAITING_MAX);
        let body = move || read(terminal, &ended.into(), &send);
        std::thread::Builder::new().name("rusm-top-input".to_owned()).spawn(body)?;
        let now = Instant::now();
        Ok(Self { reads, parser: Parser::default(), read_at: now, input_at: now, _end: end })
    }

    /// Returns the next inputs, at least one; `None` after the end of the terminal. Nothing is lost if the future is
    /// dropped.
    ///
    /// # Errors
    /// If reading fails.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Vec<Input>>> {
        loop {
            let silent_at = self.parser.patience().map(|patience| self.read_at + patience);
            let give_up_at = silent_at.map(|silent_at| silent_at.min(self.input_at + INCOMPLETE_MAX));
            let silence = sleep_until(give_up_at.unwrap_or(self.read_at));
            let inputs = tokio::select! {
                read = self.reads.recv() => match read? {
                    Ok(bytes) => {
                        self.read_at = Instant::now();
                        if self.parser.patience().is_none() {
                            self.input_at = self.read_at;
                        }
                        self.parser.feed(&bytes)
                    }
                    Err(error) => return Some(Err(error)),
                },
                () = silence, if give_up_at.is_some() => self.parser.give_up().into_iter().collect(),
            };
            if !inputs.is_empty() {
                self.input_at = Instant::now();
                return Some(Ok(inputs));
            }
        }
    }
}

fn read(mut terminal: File, ended: &OwnedFd, send: &Sender<io::Result<Vec<u8>>>) {
    let mut bytes = vec![0; READ_MAX];
    loop {
        let read = wait(&terminal, ended).and_then(|is_open| if is_open { terminal.read(&mut bytes) } else { Ok(0) });
        let (read, is_last) = match read {
            Ok(0) => return,
            Ok(length) => (Ok(bytes[..length].to_vec()), false),
            Err(error) if [ErrorKind::Interrupted, ErrorKind::WouldBlock].contains(&error.kind()) => continue,
            Err(error) => (Err(error), true),
        };
        if send.blocking_send(read).is_err() || is_last {
            return;
        }
    }
}

/// Waits for input. Returns false if the keyboard was dropped.
fn wait(terminal: &File, ended: &OwnedFd) -> io::Result<bool> {
    let mut sources = [PollFd::new(terminal, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
    poll(&mut sources, None)?;
    Ok(sources[1].revents().is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::model::input::key::Key;

    fn keyboard() -> (std::io::PipeWriter, Keyboard) {
        let (terminal, keys) = std::io::pipe().expect("a pipe");
        (keys, Keyboard::of(File::from(OwnedFd::from(terminal))).expect("a thread"))
    }

    async fn next(keyboard: &mut Keyboard) -> Vec<Input> {
        keyboard.next().await.expect("the terminal is open").expect("it can be read")
    }

    #[tokio::test]
    async fn text_without_its_end_is_given_up_and_the_next_key_is_a_key() {
        let (mut keys, mut keyboard) = keyboard();

        keys.write_all(b"\x1b[200~no end").unwrap();
        assert_eq!(next(&mut keyboard).await, [Input::Paste("no end".to_owned())]);
        keys.write_all(b"q").unwrap();
        assert_eq!(next(&mut keyboard).await, [Input::Key(Key::char('q'))]);
    }

    #[tokio::test]
    async fn keys_do_not_keep_a_paste_without_its_end_open() {
        let (mut keys, mut keyboard) = keyboard();
        let typing = async {
            keys.write_all(b"\x1b[200~").unwrap();
            loop {
                keys.write_all(b"q").unwrap();
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let reading = async {
            let pasted = next(&mut keyboard).await;
            assert!(matches!(&pasted[..], [Input::Paste(text)] if text.starts_with("qqq")), "{pasted:?}");
            assert_eq!(next(&mut keyboard).await, [Input::Key(Key::char('q'))]);
        };

        tokio::select! {
            () = typing => unreachable!("it types without end"),
            () = reading => {}
        }
    }

    #[tokio::test]
    async fn the_end_of_the_terminal_ends_the_inputs() {
        let (mut keys, mut keyboard) = keyboard();

        keys.write_all(b"j").unwrap();
        assert_eq!(next(&mut keyboard).await, [Input::Key(Key::char('j'))]);
        drop(keys);
        assert!(keyboard.next().await.is_none());
    }
}
