//! A node on another machine, reached through the user's own `ssh`.
//!
//! ```text
//!   ssh HOST 'list sockets' ──▶ one node ──▶ ssh -N -L LOCAL:REMOTE HOST ──▶ the local socket, as any other
//! ```
//!
//! The forwarding process is started again by the next attempt after it has ended. It ends with this program.

use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::connection::SshTarget;

/// Lists the sockets of the nodes of the user there: in the folder that nodes with the same environment use.
const LIST: &str = r#"for d in "$RUSM_SOCKET_DIR" "${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/rusm}" "/run/user/$(id -u)/rusm" "/tmp/rusm-$(id -u)"; do [ -n "$d" ] && ls -1 "$d"/*.sock 2>/dev/null && exit; done; true"#;
/// Maximum size of that list, in bytes.
const LIST_MAX_BYTES: usize = 32 * 1024;
/// Time within which ssh answers. The user may have to type a password first.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);
/// Interval between two looks at ssh and at the local socket.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Number of bytes of an error of ssh that are shown.
const ERROR_MAX_BYTES: usize = 4096;
/// Time within which the last words of an ssh that has ended are read.
const REST_WITHIN: Duration = Duration::from_millis(500);

/// A forwarded socket. Its files are removed, and ssh is ended, when it is dropped.
#[derive(Debug)]
pub(crate) struct Tunnel {
    ssh: Ssh,
    folder: PathBuf,
}

/// A running ssh, which is ended and awaited when it is dropped.
#[derive(Debug)]
struct Ssh {
    child: Child,
    errors: Output,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The tunnel of a dialer: none before the first attempt.
#[derive(Debug, Default)]
pub(crate) struct TunnelState {
    tunnel: Option<Tunnel>,
    was_open: bool,
}

impl TunnelState {
    /// Returns the local socket, and opens the tunnel if it does not exist or has ended.
    pub(crate) async fn socket(&mut self, target: &SshTarget, program: &[String]) -> Result<PathBuf, String> {
        if self.tunnel.as_mut().is_none_or(|tunnel| !tunnel.is_open()) {
            self.tunnel = None;
            let mut program = if program.is_empty() { vec!["ssh".to_owned()] } else { program.to_vec() };
            if self.was_open {
                // The screen has the terminal now: ssh must not ask for a password there.
                program.extend(["-o", "BatchMode=yes"].map(str::to_owned));
            }
            self.tunnel = Some(Tunnel::open(target, &program).await?);
            self.was_open = true;
        }
        Ok(self.tunnel.as_ref().map(Tunnel::socket).unwrap_or_default())
    }
}

impl Tunnel {
    /// Finds the node and forwards its socket.
    ///
    /// # Errors
    /// If ssh fails, or if there is not exactly one node to attach to; the error has what ssh said.
    pub(crate) async fn open(target: &SshTarget, program: &[String]) -> Result<Self, String> {
        let remote = remote_socket(target, program).await?;
        let folder = private_folder().map_err(|error| format!("cannot create a folder for a socket: {error}"))?;
        let local = socket_in(&folder);
        let mut command = ssh(target, program);
        command.args(["-N", "-o", "ExitOnForwardFailure=yes", "-L"]);
        command.arg(format!("{}:{remote}", local.display())).args(["--", &target.host()]);
        let started = Ssh::start(command.stdout(Stdio::null()));
        let mut tunnel = Self { ssh: started.inspect_err(|_| drop(std::fs::remove_dir_all(&folder)))?, folder };
        let until = Instant::now() + ANSWER_WITHIN;
        loop {
            if tunnel.ssh.ended().is_some() {
                return Err(tunnel.ssh.said().await);
            }
            if UnixStream::connect(tunnel.socket()).await.is_ok() {
                return Ok(tunnel);
            }
            if Instant::now() >= until {
                return Err(format!("ssh to {} forwards nothing after 60 s", target.host()));
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the local socket.
    pub(crate) fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Returns true while ssh runs.
    pub(crate) fn is_open(&mut self) -> bool {
        self.ssh.ended().is_none()
    }
}

impl Ssh {
    fn start(command: &mut Command) -> Result<Self, String> {
        let started = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("cannot start ssh: {error}"))?;
        let errors = Output::of(child.stderr.take(), ERROR_MAX_BYTES);
        Ok(Self { child, errors })
    }

    /// Returns the status of an ssh that has ended.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns what a failed ssh has said, in one line.
    async fn said(&self) -> String {
        let text = self.errors.rest().await;
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it failed without a word");
        format!("ssh: {}", rusm_text::escaped(last.trim()).within(200))
    }
}

/// The output of a program, read from a pipe by a thread. A child of the program may keep the pipe open after its end.
#[derive(Debug)]
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Output {
    /// Reads a pipe to its end, and keeps the last bytes.
    fn of(pipe: Option<impl Read + Send + 'static>, most: usize) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&bytes);
        let read = move || {
            let Some(mut pipe) = pipe else { return };
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut chunk) {
                let mut kept = kept.lock();
                kept.extend_from_slice(&chunk[..length]);
                let excess = kept.len().saturating_sub(most);
                kept.drain(..excess);
            }
        };
        Self { bytes, reader: std::thread::spawn(read) }
    }

    fn len(&self) -> usize {
        self.bytes.lock().len()
    }

    /// Returns what the program has written, after its end.
    async fn rest(&self) -> Vec<u8> {
        let until = Instant::now() + REST_WITHIN;
        while !self.reader.is_finished() && Instant::now() < until {
            sleep(LOOK_EVERY).await;
        }
        self.bytes.lock().clone()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("node.sock")
}

/// Creates a folder that only this user can read.
fn private_folder() -> std::io::Result<PathBuf> {
    let base = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute() && dir.is_dir());
    let base = base.unwrap_or_else(std::env::temp_dir);
    let mut number = 0_u32;
    loop {
        let folder = base.join(format!("rusm-top-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn ssh(target: &SshTarget, program: &[String]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    if let Some(port) = target.port {
        command.args(["-p", &port.to_string()]);
    }
    command
}

/// Returns the path of the node's socket on the other machine.
async fn remote_socket(target: &SshTarget, program: &[String]) -> Result<String, String> {
    let mut command = ssh(target, program);
    command.args(["--", &target.host(), LIST]);
    let mut ssh = Ssh::start(command.stdout(Stdio::piped()))?;
    let list = Output::of(ssh.child.stdout.take(), LIST_MAX_BYTES + 1);
    let too_long = || format!("ssh to {} lists more than {} KiB of sockets", target.host(), LIST_MAX_BYTES / 1024);
    let until = Instant::now() + ANSWER_WITHIN;
    let status = loop {
        match ssh.ended() {
            Some(status) => break status,
            None if Instant::now() >= until => {
                return Err(format!("ssh to {} did not answer within 60 s", target.host()));
            }
            None if list.len() > LIST_MAX_BYTES => return Err(too_long()),
            None => sleep(LOOK_EVERY).await,
        }
    };
    if !status.success() {
        return Err(ssh.said().await);
    }
    let list = list.rest().await;
    if list.len() > LIST_MAX_BYTES {
        return Err(too_long());
    }
    let list = String::from_utf8_lossy(&list);
    choose(target, &list)
}

/// Chooses the socket of the wanted node, or of the only one.
fn choose(target: &SshTarget, list: &str) -> Result<String, String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().trim_end_matches(".sock").to_owned();
    // A path with a colon could not be told from the rest of the forwarding.
    let is_plain = |path: &&str| path.starts_with('/') && !path.contains(':') && path.is_ascii();
    let sockets: Vec<&str> = list.lines().map(str::trim).filter(is_plain).collect();
    let names = || sockets.iter().map(|path| rusm_text::escaped(name(path)).to_string()).collect::<Vec<_>>().join(", ");
    let own: Vec<&str> = sockets.iter().copied().filter(|path| !name(path).contains('@')).collect();
    let host = target.host();
    match (&target.node, &sockets[..]) {
        (_, []) => Err(format!("no node is running on {host}")),
        (Some(node), _) => match sockets.iter().find(|path| name(path) == *node) {
            Some(path) => Ok((*path).to_owned()),
            None => Err(format!("no node named {node:?} on {host}; running there: {}", names())),
        },
        // The others lead through a node to another one.
        (None, _) if own.len() == 1 => Ok(own[0].to_owned()),
        (None, _) => {
            Err(format!("several nodes are running on {host}: {}; name one, as in ssh://{host}/NAME", names()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(node: Option<&str>) -> SshTarget {
        SshTarget { user: Some("kay".to_owned()), host: "far".to_owned(), port: None, node: node.map(str::to_owned) }
    }

    #[test]
    fn the_only_node_or_the_named_one_is_chosen() {
        let two = "/run/user/1000/rusm/kv.sock\n/run/user/1000/rusm/web.sock\nMotd: hello\n";

        assert_eq!(choose(&target(Some("web")), two).unwrap(), "/run/user/1000/rusm/web.sock");
        assert_eq!(choose(&target(None), "/tmp/rusm-0/kv.sock\n").unwrap(), "/tmp/rusm-0/kv.sock");
        assert_eq!(choose(&target(None), "\n").unwrap_err(), "no node is running on kay@far");
        let several = choose(&target(None), two).unwrap_err();
        assert_eq!(several, "several nodes are running on kay@far: kv, web; name one, as in ssh://kay@far/NAME");
        let other = choose(&target(Some("x")), two).unwrap_err();
        assert_eq!(other, "no node named \"x\" on kay@far; running there: kv, web");
    }

    #[tokio::test]
    async fn a_list_without_end_is_refused() {
        let program = ["sh", "-c", "yes /run/user/1000/rusm/kv.sock"].map(str::to_owned);

        let error = Tunnel::open(&target(None), &program).await.unwrap_err();

        assert_eq!(error, "ssh to kay@far lists more than 32 KiB of sockets");
    }

    #[tokio::test]
    async fn a_failed_ssh_is_explained_by_its_last_line() {
        let program = ["sh", "-c", "echo warn >&2; echo 'far: Name or service not known' >&2; exit 255"];
        let program = program.map(str::to_owned);

        let error = Tunnel::open(&target(None), &program).await.unwrap_err();

        assert_eq!(error, "ssh: far: Name or service not known");
    }

    #[tokio::test]
    async fn a_child_of_ssh_that_stays_delays_no_error() {
        let program = ["sh", "-c", "sleep 600 & echo $! >&2; exit 1"].map(str::to_owned);

        let error = Tunnel::open(&target(None), &program).await.unwrap_err();

        let child = error.trim_start_matches("ssh: ");
        let ended = Command::new("kill").arg(child).status().unwrap();
        assert!(ended.success(), "{error}: the child still runs");
    }
}
