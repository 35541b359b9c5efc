//! Watching over SSH: `ssh -t host rusm-top` on the remote side, and a remote socket forwarded by `ssh -L`.
//!
//! The server is Debian's own, started on loopback with temporary keys. If it is not installed, the tests report that
//! and pass, unless `SSHD_REQUIRED` is set, as in CI after installing it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rusm_console::{Console, ConsoleConfig};
use rusm_runtime::{Config, Runtime};
use tempfile::TempDir;
use vt100::Parser;

const DEADLINE: Duration = Duration::from_mins(2);
const SSHD: &str = "/usr/sbin/sshd";

/// An SSH server that accepts only this test. It is stopped when dropped.
struct Server {
    child: Child,
    port: u16,
    dir: TempDir,
}

impl Server {
    fn start() -> Option<Self> {
        if !Path::new(SSHD).exists() {
            assert!(std::env::var_os("SSHD_REQUIRED").is_none(), "{SSHD} is missing (install openssh-server)");
            eprintln!("not tested: {SSHD} is missing (install openssh-server)");
            return None;
        }
        let dir = tempfile::tempdir().expect("a folder");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("permissions set");
        for key in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(dir.path().join(key))
                .status()
                .expect("ssh-keygen comes with the server");
            assert!(made.success());
        }
        // The server requires a folder that Debian's service creates at boot. If creating it fails, the server reports
        // the error itself.
        drop(fs::create_dir_all("/run/sshd"));
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nAllowStreamLocalForwarding yes\nSetEnv LC_ALL=C.UTF-8 RUSM_SOCKET_DIR={}\n",
            path("host"),
            path("user.pub"),
            path("rusm"),
        );
        fs::write(dir.path().join("config"), config).expect("a file");
        let log = fs::File::create(dir.path().join("log")).expect("a file");
        let child =
            Command::new(SSHD).args(["-D", "-e", "-f", &path("config")]).stderr(log).spawn().expect("process starts");
        let server = Self { child, port, dir };
        server.until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(server)
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let end = Instant::now() + DEADLINE;
        while !done() {
            let log = || fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "{what}: never\n{}", log());
            std::thread::yield_now();
        }
    }

    fn client(&self) -> Vec<String> {
        let key = self.dir.path().join("user").display().to_string();
        let port = self.port.to_string();
        let options = ["-F", "none", "-i", &key, "-p", &port, "-o", "StrictHostKeyChecking=no", "-o"];
        let known = format!("UserKnownHostsFile={}", self.dir.path().join("known").display());
        options.into_iter().map(str::to_owned).chain([known]).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts a node with a process to observe.
fn node(dir: &Path) -> (Runtime, Console) {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("runtime starts");
    let pid = runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).expect("process spawns");
    runtime.register(pid, "far-away").expect("the name is free");
    let config = ConsoleConfig { dir: dir.join("rusm"), ..ConsoleConfig::named("far") };
    let console = Console::bind(&runtime, config).expect("console binds");
    (runtime, console)
}

/// Reads a terminal until its screen satisfies `wanted`.
fn screen_until(output: &Receiver<Vec<u8>>, parser: &mut Parser, what: &str, wanted: impl Fn(&str) -> bool) {
    let end = Instant::now() + DEADLINE;
    while !wanted(&parser.screen().contents()) {
        let left = end.saturating_duration_since(Instant::now());
        match output.recv_timeout(left) {
            Ok(bytes) => parser.process(&bytes),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                panic!("{what}: never, on\n{}", parser.screen().contents())
            }
        }
    }
}

fn screen_shows(output: &Receiver<Vec<u8>>, parser: &mut Parser, text: &str) {
    screen_until(output, parser, text, |screen| screen.contains(text));
}

fn screen_lacks(output: &Receiver<Vec<u8>>, parser: &mut Parser, text: &str) {
    screen_until(output, parser, text, |screen| !screen.contains(text));
}

#[test]
fn over_ssh_the_screen_is_drawn_slowly_and_keys_go_through() {
    let Some(server) = Server::start() else { return };
    let (_runtime, console) = node(server.dir.path());
    let size = PtySize { rows: 40, cols: 120, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new("ssh");
    command.args(server.client());
    let target = console.socket().display();
    command.args(["-t", "127.0.0.1", &format!("{} {target} --tab processes", env!("CARGO_BIN_EXE_rusm-top"))]);
    command.env("TERM", "xterm-256color");
    let mut child = pair.slave.spawn_command(command).expect("ssh starts");
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().expect("a reader");
    let mut keys = pair.master.take_writer().expect("a writer");
    let (sender, output) = sync_channel(1024);
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n) = reader.read(&mut buffer) {
            if n == 0 || sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    let cells = |n| NonZero::new(n).expect("a size");
    let mut parser = Parser::new(cells(40), cells(120), 0);

    screen_shows(&output, &mut parser, "far-away");
    keys.write_all(b"1").expect("keys go in");
    screen_shows(&output, &mut parser, " at 4 Hz");
    keys.write_all(b"3").expect("keys go in");
    keys.write_all(b"?").expect("keys go in");
    screen_shows(&output, &mut parser, "help: Processes");
    keys.write_all(b"\x1b").expect("keys go in");
    screen_lacks(&output, &mut parser, "help: Processes");
    keys.write_all(b"q").expect("keys go in");

    assert_eq!(child.wait().expect("it ends").exit_code(), 0);
}

#[test]
fn a_forwarded_socket_is_a_target_like_any_other() {
    let Some(server) = Server::start() else { return };
    let (_runtime, console) = node(server.dir.path());
    let near: PathBuf = server.dir.path().join("near.sock");
    let mut tunnel = Command::new("ssh")
        .args(server.client())
        .args(["-N", "-L", &format!("{}:{}", near.display(), console.socket().display()), "127.0.0.1"])
        .stdin(Stdio::null())
        .spawn()
        .expect("ssh starts");
    server.until("the socket is forwarded", || UnixStream::connect(&near).is_ok());

    let seen = Command::new(env!("CARGO_BIN_EXE_rusm-top"))
        .args([&format!("unix:{}", near.display()), "--once"])
        .output()
        .expect("rusm-top runs");
    let direct = Command::new(env!("CARGO_BIN_EXE_rusm-top"))
        .args([&format!("unix:{}", console.socket().display()), "--once"])
        .env_remove("SSH_CONNECTION")
        .output()
        .expect("rusm-top runs");
    drop(tunnel.kill());
    drop(tunnel.wait());

    let text = String::from_utf8_lossy(&seen.stdout);
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
    assert!(text.contains("far-away") && text.contains(" at 4 Hz"), "{text}");
    let text = String::from_utf8_lossy(&direct.stdout);
    assert!(text.contains("far-away") && text.contains(" at 10 Hz"), "{text}");
}

#[test]
fn an_ssh_target_finds_the_node_and_forwards_its_socket() {
    let Some(server) = Server::start() else { return };
    let (_runtime, _console) = node(server.dir.path());
    let ssh = format!("ssh {}", server.client().join(" "));
    let top = |target: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rusm-top"));
        command.args([target, "--once", "--ssh", &ssh]).stdin(Stdio::null()).output().expect("rusm-top runs")
    };

    let seen = top(&format!("ssh://127.0.0.1:{}/far", server.port));
    let other = top(&format!("ssh://127.0.0.1:{}/near", server.port));

    let text = String::from_utf8_lossy(&seen.stdout);
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
    assert!(text.contains("far-away") && text.contains(" at 4 Hz"), "{text}");
    let why = String::from_utf8_lossy(&other.stderr);
    assert_eq!(why, "rusm-top: no node named \"near\" on 127.0.0.1; running there: far\n");
    assert_eq!(other.status.code(), Some(3));
}
