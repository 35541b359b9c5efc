//! The signals that ask a program to end: the first one drains its node or stops its measurement, a second one ends it
//! at once.

pub(crate) mod own_thread;
pub(crate) mod service;

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rusm_bench::StopFlag;
use rusm_runtime::ShutdownReport;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use crate::bench::output::{is_printing, writes};
use crate::failure::{Failure, system};
use crate::logging;
use crate::signals::own_thread::{OwnThread, ReservedThread};
use crate::start::Node;

/// The signals that end the program.
const TERMINATION_SIGNALS: [TerminationSignal; 4] = [
    TerminationSignal { name: "SIGTERM", kind: SignalKind::terminate() },
    TerminationSignal { name: "SIGINT", kind: SignalKind::interrupt() },
    TerminationSignal { name: "SIGHUP", kind: SignalKind::hangup() },
    TerminationSignal { name: "SIGQUIT", kind: SignalKind::quit() },
];

/// Signals that arrive this soon after the first one count as the same request: `timeout` signals the program, and then
/// its process group.
const DUPLICATES_WITHIN: Duration = Duration::from_millis(250);

/// Time between two looks, after the first signal, at whether a report waits for a reader that has stopped.
const READER_CHECK: Duration = Duration::from_secs(3);

/// Time limit for a start to finish after a signal, so that everything it has created is removed in order.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// Tasks of threads, named in errors.
const START: &str = "start the node";
const STOP: &str = "stop the node";

/// A signal that asks a program to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminationSignal {
    pub(crate) name: &'static str,
    kind: SignalKind,
}

impl TerminationSignal {
    /// Returns the signal, to be sent to another program.
    pub(crate) fn signal(self) -> rustix::process::Signal {
        rustix::process::Signal::from_named_raw(self.kind.as_raw_value()).unwrap_or(rustix::process::Signal::TERM)
    }

    /// Returns the exit code of a program that this signal ended.
    pub(crate) fn code(self) -> u8 {
        u8::try_from(128 + self.kind.as_raw_value()).unwrap_or(u8::MAX)
    }
}

/// Receives the signals from its creation on. Before that, a signal ends the program and leaves its files behind.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(TerminationSignal, Signal)>,
    /// Signal received during the start, to be returned by the next call of `next`.
    early: Option<TerminationSignal>,
    /// Thread on which the node will stop.
    stopper: Option<ReservedThread>,
}

impl Signals {
    /// Starts to listen, on the reactor that the caller has entered.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(crate) fn listen() -> io::Result<Self> {
        Self::listen_to(|_| true)
    }

    /// Like [`listen`](Self::listen), for a [`Service`](service::Service): SIGHUP may have another meaning.
    pub(crate) fn of_service() -> io::Result<Self> {
        let is_reload = |kind| kind == SignalKind::hangup() && service::reloads_on_hangup();
        Self::listen_to(|kind| !is_reload(kind))
    }

    fn listen_to(ends: impl Fn(SignalKind) -> bool) -> io::Result<Self> {
        let ending = TERMINATION_SIGNALS.into_iter().filter(|termination| ends(termination.kind));
        let streams = ending.map(|termination| Ok((termination, signal(termination.kind)?)));
        Ok(Self { streams: streams.collect::<io::Result<_>>()?, early: None, stopper: None })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> TerminationSignal {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Drops the signals that are waiting: another listener has received them too, and has acted on them.
    pub(crate) fn discard(&mut self) {
        while self.poll_next(&mut Context::from_waker(Waker::noop())).is_ready() {}
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<TerminationSignal> {
        if let Some(early) = self.early.take() {
            return Poll::Ready(early);
        }
        let received = self
            .streams
            .iter_mut()
            .find_map(|(termination, signal)| signal.poll_recv(cx).is_ready().then_some(*termination));
        received.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Stops a measurement at the first signal, so that its partial results are reported. A further signal ends the
/// program. Without one it ends too if the reader of the report has stopped.
#[derive(Debug, Default)]
pub(crate) struct StopOnSignal {
    stop: StopFlag,
    first: Arc<OnceLock<TerminationSignal>>,
}

impl StopOnSignal {
    /// Starts to listen on its own thread.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let this = Self::default();
        let (stop, first) = (this.stop.clone(), Arc::clone(&this.first));
        let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let reactor = reactor.map_err(system("wait for signals"))?;
        let mut signals = {
            let _entered = reactor.enter();
            Signals::listen().map_err(system("wait for signals"))?
        };
        let wait = move || {
            let termination = reactor.block_on(signals.next());
            if is_printing() {
                logging::exit(termination.code());
            }
            let duplicates_end = Instant::now() + DUPLICATES_WITHIN;
            _ = first.set(termination);
            stop.set();
            rusm_log::last_words(format_args!(
                "rusm: {}: the results so far are reported; a second signal ends the program at once",
                termination.name
            ));
            let mut seen = writes();
            loop {
                let next = async { timeout(READER_CHECK, signals.next()).await };
                let code = match reactor.block_on(next) {
                    Ok(another) if Instant::now() >= duplicates_end => Some(another.code()),
                    Ok(_) => None,
                    Err(_) => {
                        let now = writes();
                        let is_stuck = now == std::mem::replace(&mut seen, now) && now % 2 == 1;
                        is_stuck.then(|| termination.code())
                    }
                };
                if let Some(code) = code {
                    logging::exit(code);
                }
            }
        };
        let listener = std::thread::Builder::new().name("rusm-signals".to_owned()).spawn(wait);
        listener.map_err(system("wait for signals"))?;
        Ok(this)
    }

    /// Returns the flag that the first signal sets.
    pub(crate) const fn flag(&self) -> &StopFlag {
        &self.stop
    }

    /// Returns the exit code of the signal if one was received, and `otherwise` if none was.
    pub(crate) fn code(&self, otherwise: u8) -> u8 {
        self.first.get().map_or(otherwise, |termination| termination.code())
    }
}

/// Runs a command on a reactor of this thread. What it has left on other threads, such as a compilation, ends with the
/// program, and does not delay its end.
pub(crate) fn block_on<T>(what: &str, command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let reactor = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system(what))?;
    let ended = reactor.block_on(command);
    reactor.shutdown_background();
    ended
}

/// Starts a node on its own thread: a start that waits for the system, or for a compilation, must not keep signals from
/// ending the program.
///
/// After a signal the start gets [`START_TIMEOUT`] to finish; the signal then ends the node in the usual way.
pub(crate) async fn start<T, F>(signals: &mut Signals, start: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Failure> + Send + 'static,
{
    // Clients of a server take threads too: at the stop of the node all of them may be in use.
    signals.stopper = Some(ReservedThread::start(START)?);
    let mut starting = OwnThread::start(START, start)?;
    let joined = tokio::select! {
        biased;
        joined = &mut starting => joined,
        termination = signals.next() => {
            let duplicates_end = tokio::time::Instant::now() + DUPLICATES_WITHIN;
            let second = async {
                tokio::time::sleep_until(duplicates_end).await;
                signals.discard();
                signals.next().await
            };
            let joined = tokio::select! {
                biased;
                joined = tokio::time::timeout(START_TIMEOUT, &mut starting) => joined.ok(),
                _ = second => None,
            };
            signals.early = Some(termination);
            let Some(joined) = joined else { std::process::exit(termination.code().into()) };
            joined
        }
    };
    joined?
}

/// Ends the node once its processes have ended; a further signal ends the program without waiting for them.
pub(crate) async fn drain(node: Node, signals: &mut Signals) -> Result<ShutdownReport, Failure> {
    let thread = signals.stopper.take().map_or_else(|| ReservedThread::start(STOP), Ok)?;
    let mut stopping = thread.run(STOP, move || node.stop());
    let duplicates_end = Instant::now() + DUPLICATES_WITHIN;
    loop {
        tokio::select! {
            stopped = &mut stopping => return stopped,
            termination = signals.next() => {
                if Instant::now() < duplicates_end {
                    continue;
                }
                tracing::warn!(signal = termination.name, "node ends without waiting for its processes");
                logging::exit(termination.code());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_still_runs_on_another_thread_does_not_delay_the_end() {
        let (release, released) = channel::<()>();
        let (ended, end) = channel();
        std::thread::spawn(move || {
            let command = async move {
                let (begun, has_begun) = tokio::sync::oneshot::channel();
                drop(tokio::task::spawn_blocking(move || {
                    _ = begun.send(());
                    _ = released.recv();
                }));
                _ = has_begun.await;
                Ok(())
            };
            _ = ended.send(block_on("wait", command).is_ok());
        });

        assert_eq!(end.recv_timeout(Duration::from_mins(1)), Ok(true));
        drop(release);
    }
}
