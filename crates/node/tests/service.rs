//! A node as a service: what it tells its manager, and the signals that do not end it.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

fn rusm(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir).env_clear().env("XDG_RUNTIME_DIR", dir).stdin(Stdio::null());
    command
}

/// A node with a manager; killed if the test fails.
struct Service {
    node: Child,
    manager: UnixDatagram,
}

impl Service {
    fn start(dir: &Path) -> Self {
        let path = dir.join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let mut command = rusm(dir);
        command.args(["node", "--name", "served"]).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
        let node = command.stderr(Stdio::piped()).spawn().expect("the binary was built");
        Self { node, manager }
    }

    /// Waits until the node tells this; signs of life in between do not count.
    fn tells(&self, expected: &str) {
        let mut bytes = [0; 256];
        loop {
            let len = self.manager.recv(&mut bytes).unwrap_or_else(|error| panic!("{expected} was not told: {error}"));
            let told = String::from_utf8_lossy(&bytes[..len]).into_owned();
            if told == expected {
                return;
            }
            assert_eq!(told, "WATCHDOG=1", "before {expected}");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.node), signal).expect("the node runs");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.node.kill());
        drop(self.node.wait());
    }
}

fn log_contains(path: &Path, text: &str) {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let log = fs::read_to_string(path).unwrap_or_default();
        if log.contains(text) {
            return;
        }
        assert!(Instant::now() < until, "{text:?} is not in {}: {log}", path.display());
        std::thread::yield_now();
    }
}

#[test]
fn a_node_says_when_it_is_up_lives_reloads_and_drains() {
    let dir = tempfile::tempdir().unwrap();
    let (config, log, old) = (dir.path().join("rusm.toml"), dir.path().join("log"), dir.path().join("log.old"));
    fs::write(&config, "[log]\nfile = \"log\"\nlevel = \"info\"\n").unwrap();
    let mut service = Service::start(dir.path());
    service.tells("READY=1");
    service.tells("WATCHDOG=1");
    log_contains(&log, "node is up");

    // Another program rotates the log.
    fs::rename(&log, &old).unwrap();
    service.signal(Signal::USR1);
    log_contains(&log, "the log file was opened again");
    assert!(!fs::read_to_string(&old).unwrap().contains("opened again"));

    // A folder has the name of the log: it goes on in the old file, and says so.
    let moved = dir.path().join("moved");
    fs::rename(&log, &moved).unwrap();
    fs::create_dir(&log).unwrap();
    service.signal(Signal::USR1);
    log_contains(&moved, "the log file cannot be opened again, and the old one stays in use");
    fs::remove_dir(&log).unwrap();
    fs::rename(&moved, &log).unwrap();

    // A mistake in the configuration changes nothing, and is one line.
    fs::write(&config, "[log]\nlevel = \"info\"\nfiel = \"log\"\n").unwrap();
    let check = rusm(dir.path()).arg("check").output().unwrap();
    assert_eq!(check.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&check.stderr).contains("did you mean"), "{check:?}");
    service.signal(Signal::HUP);
    service.tells("RELOADING=1");
    service.tells("READY=1");
    log_contains(&log, "settings are not valid, and the node keeps its own");

    let text =
        "[node]\ntick_hz = 20\n[log]\nlevel = \"rusm=debug,info\"\nfile = \"log\"\n[supervisor]\nintensity = 2\n";
    fs::write(&config, text).unwrap();
    let check = rusm(dir.path()).args(["check", "rusm.toml"]).output().unwrap();
    let stdout = String::from_utf8_lossy(&check.stdout).into_owned();
    assert_eq!((check.status.code(), &*stdout), (Some(0), "rusm.toml is valid: 0 [[process]], 0 [[serve]]\n"));
    service.signal(Signal::HUP);
    service.tells("RELOADING=1");
    service.tells("READY=1");
    log_contains(&log, "level=\"rusm=debug,info\"");
    log_contains(&log, "need a restart have changed changes=\"[supervisor], node.tick_hz\"");

    // A configuration that cannot be read to its end delays neither the signs of life nor the signals.
    fs::remove_file(&config).unwrap();
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    service.signal(Signal::HUP);
    service.tells("RELOADING=1");
    service.tells("WATCHDOG=1");
    service.signal(Signal::TERM);
    service.tells("STOPPING=1");
    assert_eq!(service.node.wait().unwrap().code(), Some(0));
}

#[test]
fn the_files_that_a_configuration_names_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("rusm.toml");
    fs::write(&config, "[[process]]\nname = \"one\"\nmodule = \"gone.wasm\"\n").unwrap();
    refuses(dir.path(), "gone.wasm");

    fs::write(dir.path().join("garbage.wasm"), "garbage").unwrap();
    let site = |route: &str| format!("[[serve]]\nlisten = \"127.0.0.1:0\"\n[[serve.route]]\n{route}\n");
    for (text, named) in [
        (site("pattern = \"/*\"\nmodule = \"garbage.wasm\""), "garbage.wasm"),
        (site("pattern = \"/*\"\nfolder = \"rusm.toml\""), "rusm.toml"),
        (site("pattern = \"/*/*\"\nfolder = \".\""), "/*/*"),
        (site("pattern = \"GET /healthz\"\nfolder = \".\""), "/healthz"),
        (
            "[[serve]]\nlisten = \"127.0.0.1:0\"\ncertificate = \"rusm.toml\"\nkey = \"rusm.toml\"\n[[serve.route]]\npattern = \"/*\"\nfolder = \".\"\n"
                .to_owned(),
            "certificate",
        ),
    ] {
        fs::write(&config, &text).unwrap();
        refuses(dir.path(), named);
    }
    fs::write(&config, site("pattern = \"/*\"\nfolder = \".\"")).unwrap();
    assert!(rusm(dir.path()).arg("check").output().unwrap().status.success());
}

#[test]
fn a_file_whose_folder_is_missing_is_refused_before_the_start() {
    let dir = tempfile::tempdir().unwrap();
    for (text, named) in [
        ("[store]\npath = \"no/such/kv.redb\"", "store.path is "),
        ("[log]\nfile = \"no/such/node.log\"", "log.file is "),
    ] {
        fs::write(dir.path().join("rusm.toml"), text).unwrap();
        refuses(dir.path(), named);
    }
}

/// Checks that `rusm check` ends with one line that contains this.
fn refuses(dir: &Path, named: &str) {
    let check = rusm(dir).arg("check").output().unwrap();
    let line = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(check.status.code() == Some(2) && line.lines().count() == 1 && line.contains(named), "{named}: {line}");
}

#[test]
fn files_for_operating_a_node_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["systemd"][..], "Type=notify"),
        (&["completions", "bash"], "_rusm"),
        (&["man"], ".TH rusm"),
        (&["man", "bench", "run"], "rusm-bench-run"),
        (&["grafana"], "rusm_processes"),
    ] {
        let output = rusm(dir.path()).arg("ops").args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{args:?}");
    }
}
