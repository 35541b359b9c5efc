//! The nodes of a run: one in this program, and the others, which are programs that end with the run.
//!
//! A node ends when its stdin is closed, so none is left behind even if this program is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::member::{Member, MemberSettings};
use super::secret::RunSecret;
use super::served::READY;
use super::transport::TransportPing;

/// Time within which a node has to start, and to be connected.
const START_WITHIN: Duration = Duration::from_mins(1);
/// Time between two looks at something that is about to happen.
const CHECK: Duration = Duration::from_millis(2);
/// Name of the node of this program.
const OWN: &str = "bench";

/// A node that is another program.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    child: Child,
}

impl Peer {
    /// Starts a node, and waits until it says that it has started.
    fn start(settings: &MemberSettings, ping: Option<&str>) -> Result<Self, String> {
        let failed = |why: String| format!("node {} did not start: {why}", settings.name);
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(&program);
        command.args(["bench", "cluster-node", "--name", &settings.name]);
        command.args(["--schedulers", &settings.schedulers.to_string()]);
        command.arg("--secret").arg(&settings.secret);
        for address in &settings.join {
            command.args(["--join", address]);
        }
        command.args(ping.iter().flat_map(|address| ["--ping", address]));
        command.args(settings.serves_keys.then_some("--serves-keys"));
        let io = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = io.spawn().map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take();
        // Killed from here on, if anything fails.
        let peer = Self { name: settings.name.clone(), child };
        let (say, said) = channel();
        let read = move || {
            let mut line = String::new();
            let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
            // The receiver is gone after its time.
            drop(say.send(read.and_then(Result::ok).map(|_| line)));
        };
        Builder::new().name("rusm-bench-read".to_owned()).spawn(read).map_err(|error| failed(error.to_string()))?;
        match said.recv_timeout(START_WITHIN).ok().flatten().as_deref().map(str::trim) {
            Some(READY) => Ok(peer),
            Some("") => Err(failed(format!("{} does not start nodes: use the program rusm", program.display()))),
            Some(why) => Err(failed(why.to_owned())),
            None => Err(failed(format!("it said nothing that can be read within {} s", START_WITHIN.as_secs()))),
        }
    }

    /// Returns its process id in the operating system.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the node, and waits until it has ended.
    pub(super) fn kill(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The nodes of a run. Dropping it ends all of them.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Node of this program; `None` while it ends.
    own: Option<Member>,
    peers: Mutex<Vec<Peer>>,
    schedulers: usize,
    serves_keys: bool,
    secret: RunSecret,
}

impl Nodes {
    /// Starts the node of this program and `count` others, and waits until all are connected to it. The first of them answers
    /// the packets of `ping`. It blocks, so it needs a thread without a reactor.
    pub(super) fn start(
        count: u64,
        schedulers: usize,
        secret: RunSecret,
        ping: &TransportPing,
    ) -> Result<Self, String> {
        let nodes = Self::alone(schedulers, secret, false)?;
        for number in 1..=count {
            nodes.add(&format!("n{number}"), (number == 1).then(|| ping.address()))?;
        }
        Ok(nodes)
    }

    /// Does the same for nodes that serve the keys of a run.
    pub(super) fn start_keyed(count: u64, schedulers: usize) -> Result<Self, String> {
        let nodes = Self::alone(schedulers, RunSecret::create()?, true)?;
        for number in 1..=count {
            nodes.add(&format!("n{number}"), None)?;
        }
        Ok(nodes)
    }

    fn alone(schedulers: usize, secret: RunSecret, serves_keys: bool) -> Result<Self, String> {
        let (name, join, file) = (OWN.to_owned(), Vec::new(), secret.file().to_owned());
        let settings = MemberSettings { name, join, schedulers, serves_keys, secret: file };
        let own = Member::start(&settings, u128::from(std::process::id()))?;
        Ok(Self { own: Some(own), peers: Mutex::default(), schedulers, serves_keys, secret })
    }

    /// Returns the node of this program.
    ///
    /// # Panics
    /// Never: it is gone only while this value is dropped.
    pub(super) fn own(&self) -> &Member {
        self.own.as_ref().expect("the node ends with this value")
    }

    /// Returns the other nodes.
    pub(super) fn peers(&self) -> MutexGuard<'_, Vec<Peer>> {
        self.peers.lock()
    }

    /// Starts another node, and waits until it is connected.
    pub(super) fn add(&self, name: &str, ping: Option<&str>) -> Result<(), String> {
        let join = vec![self.own().address.clone()];
        let (schedulers, serves_keys) = (self.schedulers, self.serves_keys);
        let secret = self.secret.file().to_owned();
        let settings = MemberSettings { name: name.to_owned(), join, schedulers, serves_keys, secret };
        let peer = Peer::start(&settings, ping)?;
        let is_known = || self.own().runtime.node_named(name).is_some();
        wait_until(&format!("node {name} did not connect"), is_known)?;
        self.peers().push(peer);
        Ok(())
    }

    /// Returns the name of a node that has ended by itself.
    pub(super) fn ended(&self) -> Option<String> {
        let ended = |peer: &mut Peer| !matches!(peer.child.try_wait(), Ok(None));
        self.peers().iter_mut().find_map(|peer| ended(peer).then(|| peer.name.clone()))
    }
}

impl Nodes {
    /// Ends all nodes, and waits until they have ended. It blocks.
    pub(super) fn end(mut self) {
        self.peers().clear();
        let own = self.own.take();
        // Nothing is left to do if the thread fails.
        drop(on_plain_thread(move || drop(own)));
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.peers().clear();
        // The end of a node calls zenoh, which must not happen on a thread with a reactor, and takes a moment.
        if let Some(own) = self.own.take() {
            drop(Builder::new().name("rusm-bench-end".to_owned()).spawn(move || drop(own)));
        }
    }
}

/// Waits for something that has to happen after the start of a node. Otherwise fails with `what`.
pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), String> {
    let until = Instant::now() + START_WITHIN;
    while !done() {
        if Instant::now() > until {
            return Err(format!("{what} within {} s", START_WITHIN.as_secs()));
        }
        thread::park_timeout(CHECK);
    }
    Ok(())
}

/// Runs code on a thread without a reactor, and waits for it.
pub(super) fn on_plain_thread<T: Send + 'static>(code: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let thread = Builder::new().name("rusm-bench-link".to_owned()).spawn(code).map_err(|error| error.to_string())?;
    thread.join().map_err(|_panic| "a thread of the run failed".to_owned())
}
