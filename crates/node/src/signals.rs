//! The signals that ask a program to end: the first drains its node or stops its measurement, a second one ends it at once.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rusm_bench::StopFlag;
use rusm_runtime::Shutdown;
use tokio::signal::unix::{Signal, SignalKind, signal};

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

/// A signal that asks a program to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) name: &'static str,
    kind: SignalKind,
}

impl Ending {
    /// The exit code of a program that it ended.
    pub(crate) fn code(self) -> u8 {
        u8::try_from(128 + self.kind.as_raw_value()).unwrap_or(u8::MAX)
    }
}

/// Hears them from when it is made on; until then they end the program and leave its files behind.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Ending, Signal)>);

impl Signals {
    /// Listens on the reactor that the caller is in.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn listen() -> io::Result<Self> {
        ENDINGS.into_iter().map(|ending| Ok((ending, signal(ending.kind)?))).collect::<io::Result<_>>().map(Self)
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
        let came = self.0.iter_mut().find_map(|(ending, signal)| signal.poll_recv(cx).is_ready().then_some(*ending));
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
