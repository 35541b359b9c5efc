//! The signals that ask a program to end: the first drains its node or stops its measurement, a second one ends it at once.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rusm_bench::StopFlag;
use rusm_runtime::Shutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::bench::is_printing;
use crate::failure::{Failure, system};
use crate::logging;
use crate::start::Node;

/// Which they are.
const ENDINGS: [Ending; 4] = [
    Ending { name: "SIGTERM", kind: SignalKind::terminate() },
    Ending { name: "SIGINT", kind: SignalKind::interrupt() },
    Ending { name: "SIGHUP", kind: SignalKind::hangup() },
    Ending { name: "SIGQUIT", kind: SignalKind::quit() },
];

/// Signals that come so soon after the first mean the same: `timeout` tells the program, and then the group it is in.
const ECHO: Duration = Duration::from_millis(250);

/// The longest time that a start may go on after a signal, so that what it has created is removed in order.
const START_MAX: Duration = Duration::from_secs(2);

/// A signal that asks a program to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) name: &'static str,
    kind: SignalKind,
}

impl Ending {
    /// The signal, to be sent to another program.
    pub(crate) fn signal(self) -> rustix::process::Signal {
        rustix::process::Signal::from_named_raw(self.kind.as_raw_value()).unwrap_or(rustix::process::Signal::TERM)
    }

    /// The exit code of a program that it ended.
    pub(crate) fn code(self) -> u8 {
        u8::try_from(128 + self.kind.as_raw_value()).unwrap_or(u8::MAX)
    }
}

/// Hears them from when it is made on; until then they end the program and leave its files behind.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Ending, Signal)>,
    /// A signal that was received during the start, for the next caller of `next`.
    early: Option<Ending>,
}

impl Signals {
    /// Listens on the reactor that the caller is in.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn listen() -> io::Result<Self> {
        let streams = ENDINGS.into_iter().map(|ending| Ok((ending, signal(ending.kind)?)));
        Ok(Self { streams: streams.collect::<io::Result<_>>()?, early: None })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Ending {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Forgets those that came: somebody else has heard them too, and done what they ask for.
    pub(crate) fn forget(&mut self) {
        while self.poll_next(&mut Context::from_waker(Waker::noop())).is_ready() {}
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if let Some(early) = self.early.take() {
            return Poll::Ready(early);
        }
        let came =
            self.streams.iter_mut().find_map(|(ending, signal)| signal.poll_recv(cx).is_ready().then_some(*ending));
        came.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Has the first signal stop what is measured, so that what was measured until then is reported; a further one ends the program.
#[derive(Debug, Default)]
pub(crate) struct StopOnSignal {
    stop: StopFlag,
    first: Arc<OnceLock<Ending>>,
}

impl StopOnSignal {
    /// Listens on a thread of its own.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let this = Self::default();
        let (stop, first) = (this.stop.clone(), Arc::clone(&this.first));
        let reactor = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let reactor = reactor.map_err(system("wait for signals"))?;
        let mut signals = {
            let _entered = reactor.enter();
            Signals::listen().map_err(system("wait for signals"))?
        };
        let wait = move || {
            let ending = reactor.block_on(signals.next());
            if is_printing() {
                logging::exit(ending.code());
            }
            let echoes_end = Instant::now() + ECHO;
            _ = first.set(ending);
            stop.set();
            rusm_log::last_words(format_args!(
                "rusm: {}: what was measured so far is reported; a second signal ends this at once",
                ending.name
            ));
            loop {
                let ending = reactor.block_on(signals.next());
                if Instant::now() >= echoes_end {
                    logging::exit(ending.code());
                }
            }
        };
        let listener = std::thread::Builder::new().name("rusm-signals".to_owned()).spawn(wait);
        listener.map_err(system("wait for signals"))?;
        Ok(this)
    }

    /// What the first signal sets.
    pub(crate) const fn flag(&self) -> &StopFlag {
        &self.stop
    }

    /// The exit code: that of the signal if one came.
    pub(crate) fn code(&self, otherwise: u8) -> u8 {
        self.first.get().map_or(otherwise, |ending| ending.code())
    }
}

/// Starts a node on a thread of its own: a start that waits for the system must not keep signals from ending the program.
///
/// After a signal the start gets [`START_MAX`] to finish; the node then ends by the signal in the usual way.
pub(crate) async fn start<F>(signals: &mut Signals, start: F) -> Result<Node, Failure>
where
    F: FnOnce() -> Result<Node, Failure> + Send + 'static,
{
    let mut starting = tokio::task::spawn_blocking(start);
    let joined = tokio::select! {
        biased;
        joined = &mut starting => joined,
        ending = signals.next() => {
            let echoes_end = tokio::time::Instant::now() + ECHO;
            let second = async {
                tokio::time::sleep_until(echoes_end).await;
                signals.forget();
                signals.next().await
            };
            let joined = tokio::select! {
                biased;
                joined = tokio::time::timeout(START_MAX, &mut starting) => joined.ok(),
                _ = second => None,
            };
            signals.early = Some(ending);
            let Some(joined) = joined else { std::process::exit(ending.code().into()) };
            joined
        }
    };
    joined.map_err(|error| system("start the node")(error.into()))?
}

/// Ends the node when its processes have ended; a further signal ends the program without waiting for them.
pub(crate) async fn drain(node: Node, signals: &mut Signals) -> Result<Shutdown, Failure> {
    let mut stopping = tokio::task::spawn_blocking(move || node.stop());
    let echoes_end = Instant::now() + ECHO;
    loop {
        tokio::select! {
            stopped = &mut stopping => return stopped.map_err(|error| system("stop the node")(error.into())),
            ending = signals.next() => {
                if Instant::now() < echoes_end {
                    continue;
                }
                tracing::warn!(signal = ending.name, "node ends without waiting for its processes");
                logging::exit(ending.code());
            }
        }
    }
}
