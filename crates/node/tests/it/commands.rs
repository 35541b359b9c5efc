//! The `rusm` binary from a user's point of view: exit codes, one clear line for bad input, and a node that drains.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn rusm(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir).env_clear().env("XDG_RUNTIME_DIR", dir).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    rusm(dir).args(args).output().expect("the binary was built for this test")
}

fn refusal(dir: &Path, args: &[&str]) -> (i32, String) {
    let output = run(dir, args);
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A node without a screen; killed if the test fails.
struct Node(Child);

impl Node {
    /// Starts a node and waits until it reports that it is up.
    fn start(dir: &Path, args: &[&str]) -> Self {
        let (node, log) = Self::logging(dir, args);
        // Read the rest of the log, so that the node cannot block on it.
        std::thread::spawn(move || log.map_while(Result::ok).for_each(drop));
        node
    }

    /// Starts a node, waits until it is up, and returns it with the rest of its log.
    fn logging(dir: &Path, args: &[&str]) -> (Self, Lines<BufReader<ChildStderr>>) {
        let mut child = rusm(dir).arg("node").args(args).stderr(Stdio::piped()).spawn().expect("the binary was built");
        let mut log = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let node = Self(child);
        assert!(log.by_ref().map_while(Result::ok).any(|line| line.contains("node is up")), "the node did not start");
        (node, log)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("the node runs");
    }

    fn ends_with(mut self) -> Option<i32> {
        let until = Instant::now() + Duration::from_mins(2);
        loop {
            if let Some(status) = self.0.try_wait().expect("the node is a child of this process") {
                return status.code();
            }
            assert!(Instant::now() < until, "the node did not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn an_argument_or_a_path_that_is_no_utf8_is_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let strange = OsStr::from_bytes(b"\xff");

    let argument = rusm(dir.path()).arg(strange).output().unwrap();
    let name = rusm(dir.path()).arg0(strange).arg("--version").output().unwrap();

    let line = String::from_utf8_lossy(&argument.stderr).into_owned();
    assert_eq!((argument.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert_eq!(name.status.code(), Some(0));
}

#[test]
fn bad_input_gets_one_line_and_the_usage_code() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 14] = [
        (&["bench", "run", "spawn-strom"], r#"rusm: unknown scenario "spawn-strom": did you mean "spawn-storm"?"#),
        (
            &["bench", "run", "ping-pong", "--profile", "bal"],
            "node.profile of \"bal\" in --profile must be light, balanced or max: did you mean \"balanced\"?",
        ),
        (&["bench", "run", "ping-pong", "--config", "gone.toml"], "cannot read gone.toml"),
        (&["bench", "run", "ping-pong", "--param", "pear=1"], "pair"),
        (&["bench", "run", "ping-pong", "--param", "pairs=0"], "1"),
        (&["bench", "run", "ping-pong", "--param", "pairs"], "name=value"),
        (&["bench", "run", "ping-pong", "--for", "soon"], "must be a time above zero, such as"),
        (&["bench"], "rusm: rusm bench needs a command: see rusm bench --help"),
        (&["bench", "run"], "rusm: missing <ID>: see rusm bench run --help"),
        (&["--profil", "max"], "rusm: unknown argument \"--profil\": did you mean \"--profile\"?"),
        (&["node", "--schedulers", "0"], "node.schedulers of \"0\" in --schedulers must be a number between 1 and 64"),
        (&["node", "--profile", "maxi"], "in --profile must be light, balanced or max: did you mean \"max\"?"),
        (&["node", "--listen", "0.0.0.0:0"], "is neither 127.0.0.1 nor [::1]"),
        (&["node", "--listen", "127.0.0.2:0"], "is neither 127.0.0.1 nor [::1]"),
    ];
    for (args, wanted) in cases {
        let (code, line) = refusal(dir.path(), args);

        assert_eq!(code, 2, "{args:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
        assert!(line.contains(wanted), "{args:?}: {line}");
    }
}

#[test]
fn a_scenario_that_fails_is_reported_with_its_reason_and_exit_code_5() {
    let dir = tempfile::tempdir().unwrap();

    let output = run(
        dir.path(),
        &[
            "bench",
            "run",
            "parked",
            "--param",
            "processes=5000",
            "--process-limit",
            "1000",
            "--for",
            "1s",
            "--runs",
            "1",
        ],
    );

    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.contains("failed: 5000 processes are too many for this node, which has room for 1000"), "{stdout}");
    assert_eq!(output.status.code(), Some(5), "{stdout}");
}

#[test]
fn help_is_asked_for_and_no_mistake() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["--help"][..], &["bench", "--help"], &["bench", "run", "--help"], &["help", "node"], &["--version"]]
    {
        let output = run(dir.path(), args);

        assert!(output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_log_file_that_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for command in STARTS {
        let (code, line) = refusal(dir.path(), &[command, &["--log-file", "gone/log"]].concat());

        assert_eq!((code, line.lines().count()), (1, 1), "{line}");
        assert!(line.starts_with("rusm: cannot open the log file gone/log: "), "{line}");
    }
}

#[test]
fn without_a_terminal_the_observer_says_what_to_use_instead() {
    let dir = tempfile::tempdir().unwrap();

    let (code, line) = refusal(dir.path(), &[]);

    assert_eq!(code, 2, "{line}");
    assert!(line.contains("rusm node"), "{line}");
}

/// The commands that start a runtime.
const STARTS: [&[&str]; 2] = [&["node"], &["bench", "run", "ping-pong"]];

#[test]
fn mistakes_in_the_file_get_the_same_words_from_a_node_and_from_a_run() {
    let cases = [
        ("[node]\nnmae = \"a\"\n", "unknown setting \"node.nmae\" in rusm.toml: did you mean \"node.name\"?"),
        ("bogus = 1\n", "unknown setting \"bogus\" in rusm.toml"),
        ("[node]\nname = 3\n", "node.name of 3 in rusm.toml must be a string"),
    ];
    for (file, wanted) in cases {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rusm.toml"), file).unwrap();

        for command in STARTS {
            let (code, line) = refusal(dir.path(), command);

            assert_eq!((code, line.trim()), (2, format!("rusm: {wanted}").as_str()), "{command:?}");
        }
    }
}

#[test]
fn what_a_start_refuses_is_not_valid_for_check() {
    let cases = [
        ("[node]\nlisten = \"0.0.0.0:1\"\n", "address 0.0.0.0:1 is neither 127.0.0.1 nor [::1]"),
        ("[topics]\norders = \"disk\"\n", "topics.orders: it is on disk, and the node has no store: set store.path"),
        ("[store]\ncache = \"1MB\"\n", "store.cache of \"1MB\" in rusm.toml needs store.path: set it too"),
        ("[log]\nkeep = 3\n", "log.keep of \"3\" in rusm.toml needs log.max_bytes: set it too"),
        #[cfg(feature = "cluster")]
        ("[cluster]\njoin = [\"10.0.0.4\"]\n", "10.0.0.4:7447 is not a loopback address"),
        #[cfg(feature = "cluster")]
        (
            "[cluster]\nenabled = true\ncertificates = \"nowhere\"\n",
            "the certificate file nowhere/ca.pem does not exist",
        ),
    ];
    for (file, wanted) in cases {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rusm.toml"), file).unwrap();

        for command in [&["check", "rusm.toml"][..], &["node"]] {
            let (code, line) = refusal(dir.path(), command);

            assert_eq!((code, line.contains(wanted), line.lines().count()), (2, true, 1), "{command:?}: {line}");
        }
    }
}

#[test]
fn files_that_cannot_be_a_store_or_a_log_are_not_valid_for_check() {
    let cases = [
        ("[store]\npath = \".\"\n", "store.path is ., which is not a regular file"),
        ("[store]\npath = \"/dev/null\"\n", "store.path is /dev/null, which is not a regular file"),
        ("[store]\npath = \"rusm.toml\"\n", "store.path is rusm.toml, which is not a store"),
        ("[log]\nfile = \".\"\n", "log.file is ., which is a folder"),
        (
            "[log]\nfile = \"/dev/null\"\nmax_bytes = \"1MiB\"\n",
            "log.file is /dev/null, which is not a regular file: leave out log.max_bytes",
        ),
    ];
    for (file, wanted) in cases {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rusm.toml"), file).unwrap();

        let (code, line) = refusal(dir.path(), &["check", "rusm.toml"]);

        assert_eq!((code, line.trim()), (2, format!("rusm: rusm.toml: {wanted}").as_str()));
        let (code, line) = refusal(dir.path(), &["node"]);
        assert!(code > 0 && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn mistakes_in_the_environment_get_the_same_words_from_a_node_and_from_a_run() {
    let cases = [
        ("RUSM_SCHEDULERS", "abc", "node.schedulers of \"abc\" in RUSM_SCHEDULERS must be a number between 1 and 64"),
        ("RUSM_BOGUS", "1", "unknown setting \"RUSM_BOGUS\" in the environment"),
        ("RUSM_TOP_BOGUS", "1", "unknown setting \"RUSM_TOP_BOGUS\" in the environment"),
        ("RUSM_PROFILE", "ligth", "must be light, balanced or max: did you mean \"light\"?"),
        ("RUSM_LOG", "bogus=,", "log.level of \"bogus=,\" in RUSM_LOG must be a level"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (variable, value, wanted) in cases {
        for command in STARTS {
            let output = rusm(dir.path()).args(command).env(variable, value).output().expect("the binary was built");

            let line = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{command:?}: {line}");
            assert_eq!(line.lines().count(), 1, "{command:?}: {line}");
            assert!(line.contains(wanted), "{command:?}: {line}");
        }
    }
}

/// Returns the answer of a port of this machine.
fn get(port: u16, path: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost:{port}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_node_drains_on_a_signal_and_leaves_no_files_behind() {
    use rustix::process::Signal;
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::start(dir.path(), &["--name", "one", "--listen", "127.0.0.1:0"]);
        assert!(dir.path().join("rusm/one.sock").exists());
        let files = std::fs::read_dir(dir.path().join("rusm")).unwrap().map(|file| file.unwrap().file_name());
        let port =
            files.filter_map(|file| file.to_str()?.strip_prefix("tcp-")?.strip_suffix(".token")?.parse::<u16>().ok());
        let port = port.last().expect("the token of the TCP port");
        assert!(get(port, "/readyz").starts_with("HTTP/1.1 200 OK\r\n"));

        node.signal(signal);

        assert_eq!(node.ends_with(), Some(0), "{signal:?}");
        let left: Vec<_> = std::fs::read_dir(dir.path().join("rusm")).unwrap().collect();
        assert!(left.is_empty(), "{signal:?}: {left:?}");
    }
}

#[test]
fn a_node_whose_log_nobody_reads_any_more_drains_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (node, log) = Node::logging(dir.path(), &[]);
    drop(log);

    node.signal(rustix::process::Signal::TERM);

    assert_eq!(node.ends_with(), Some(0));
    assert!(!dir.path().join("rusm/rusm.sock").exists());
}

#[test]
fn the_doctor_fails_where_a_node_could_not_work_and_says_what_to_do() {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let sockets = dir.path().join("rusm");
    std::fs::DirBuilder::new().mode(0o700).create(&sockets).unwrap();
    let good = run(dir.path(), &["doctor", "--json"]);
    std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bad = run(dir.path(), &["doctor"]);

    let report: serde_json::Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!((good.status.code(), bad.status.code()), (Some(0), Some(1)), "{report}");
    assert!(report["checks"].as_array().unwrap().iter().all(|check| check["health"] != "fail"), "{report}");
    let text = String::from_utf8_lossy(&bad.stdout).into_owned();
    assert!(text.contains("fail  sockets") && text.contains("> chmod 700 "), "{text}");
}

#[test]
fn a_second_node_of_a_name_is_refused_with_the_socket_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let _first = Node::start(dir.path(), &["--name", "one"]);

    let (code, line) = refusal(dir.path(), &["node", "--name", "one"]);

    assert_eq!(code, 1, "{line}");
    assert!(line.contains("one.sock is in use by a running node"), "{line}");
}

#[test]
fn a_directory_that_others_could_replace_is_refused_by_one_line() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let [real, link, open] = ["real", "link", "open"].map(|name| dir.path().join(name));
    for (path, mode) in [(&real, 0o700), (&open, 0o777)] {
        std::fs::create_dir(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::os::unix::fs::symlink(&real, &link).unwrap();

    for (socket_dir, wanted) in [("link", "is a symbolic link"), ("link/", "is a symbolic link"), ("open/rusm", "0777")]
    {
        let mut node = rusm(dir.path());
        let output = node.arg("node").env("RUSM_SOCKET_DIR", dir.path().join(socket_dir)).output().unwrap();

        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{socket_dir}: {stderr}");
        assert!(stderr.starts_with("rusm: directory ") && stderr.contains(wanted), "{socket_dir}: {stderr}");
    }
}

/// Connects until the connection queue of the socket is full.
fn fill(socket: &Path) -> Vec<rustix::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect};
    let address = SocketAddrUnix::new(socket).expect("a short path");
    let next = || {
        let connection = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        rustix::io::ioctl_fionbio(&connection, true).expect("a socket can do that");
        connect(&connection, &address).ok().map(|()| connection)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn a_name_that_a_frozen_process_holds_is_refused_by_one_line_and_delays_no_start_for_long() {
    use rustix::process::Signal;
    let dir = tempfile::tempdir().unwrap();
    let frozen = Node::start(dir.path(), &["--name", "one"]);
    frozen.signal(Signal::STOP);
    let socket = dir.path().join("rusm/one.sock");
    let queued = fill(&socket);
    assert!(!queued.is_empty());

    let (code, line) = refusal(dir.path(), &["node", "--name", "one"]);
    frozen.signal(Signal::CONT);

    assert_eq!((code, line.lines().count()), (1, 1), "{line}");
    let wanted = format!("rusm: socket {} is held by another process, which does not answer", socket.display());
    assert!(line.starts_with(&wanted), "{line}");
}

#[test]
fn of_nodes_that_find_one_stale_socket_exactly_one_comes_up() {
    for _ in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(dir.path().join("rusm"))
            .unwrap();
        drop(std::os::unix::net::UnixListener::bind(dir.path().join("rusm/one.sock")).unwrap());

        let start = || {
            let mut command = rusm(dir.path());
            command.args(["node", "--name", "one"]).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut nodes = [start(), start(), start()].map(|mut child| {
            let log = BufReader::new(child.stderr.take().unwrap()).lines();
            (Node(child), log)
        });
        let first: Vec<String> = nodes.iter_mut().map(|(_, log)| log.next().unwrap().unwrap()).collect();

        assert_eq!(first.iter().filter(|line| line.contains("node is up")).count(), 1, "{first:?}");
        for ((node, _), line) in nodes.into_iter().zip(first) {
            if !line.contains("node is up") {
                assert!(line.starts_with("rusm: ") && line.contains("is in use by a running node"), "{line}");
                assert_eq!(node.ends_with(), Some(1));
            }
        }
    }
}

#[test]
fn a_node_that_stops_leaves_the_files_of_another_alone() {
    let dir = tempfile::tempdir().unwrap();
    let node = Node::start(dir.path(), &["--name", "one"]);
    let socket = dir.path().join("rusm/one.sock");
    std::fs::remove_file(&socket).unwrap();
    let _successor = std::os::unix::net::UnixListener::bind(&socket).unwrap();

    node.signal(rustix::process::Signal::TERM);

    assert_eq!(node.ends_with(), Some(0));
    assert!(socket.exists());
}

#[test]
fn help_on_an_output_that_is_full_is_an_error() {
    for args in [&["--help"][..], &["--version"], &["help", "run"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_rusm")).args(args).stdout(full).output().unwrap();

        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.starts_with("rusm: cannot write to stdout: No space left on device"), "{args:?}: {line}");
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{args:?}");
    }
}

/// Returns a command that starts `rusm node` under a limit of the shell.
fn limited(dir: &Path, limit: &str, args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_rusm"), "node"]).args(args);
    shell.current_dir(dir).env_clear().env("XDG_RUNTIME_DIR", dir).stdin(Stdio::null());
    shell
}

#[test]
fn with_few_open_files_a_node_says_how_many_observers_can_attach_and_they_can() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().unwrap();
    let mut child = limited(dir.path(), "-n 40", &["--name", "few", "--schedulers", "2"]);
    let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let _node = Node(child);

    let line = log.next().unwrap();
    assert!(line.contains(" of 32 observers can attach, because the limit is 40 open files: raise it to "), "{line}");
    let clients = line.split(" of 32").next().and_then(|start| start.rsplit(' ').next()).unwrap();
    let clients: usize = clients.parse().unwrap();
    assert!((1..32).contains(&clients), "{line}");
    assert!(log.next().unwrap().contains("node is up"));
    let attach = || {
        let socket = dir.path().join("rusm/few.sock");
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let head = "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (String::from_utf8_lossy(&status).into_owned(), stream)
    };
    let attached: Vec<_> = (0..clients).map(|_| attach()).collect();
    assert!(attached.iter().all(|(status, _)| status == "HTTP/1.1 101"), "{attached:?}");
    assert_eq!(attach().0, "HTTP/1.1 503");
}

#[test]
fn without_open_files_for_an_observer_a_node_refuses_to_start() {
    let dir = tempfile::tempdir().unwrap();
    for files in 10..32 {
        let mut node = limited(dir.path(), &format!("-n {files}"), &["--schedulers", "2"]);
        let mut child = node.stderr(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
        let node = Node(child);
        if line.contains("of 32 observers can attach") {
            continue;
        }

        assert!(line.starts_with("rusm: ") && line.contains("ulimit -n"), "{files}: {line}");
        assert_eq!(node.ends_with(), Some(1), "{files}: {line}");
    }
}

/// A library that cannot start a thread panics, so the commands that need threads try it first.
#[test]
fn without_the_threads_of_a_node_each_command_says_so_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["node"][..], &["run", "x.wasm"], &["bench", "run", "spawn-storm"], &["check", "x.toml"]] {
        let mut command = Command::new("prlimit");
        command.args(["--nproc=3:3", env!("CARGO_BIN_EXE_rusm")]).args(args).current_dir(dir.path());
        if rustix::process::geteuid().is_root() {
            // The limit does not hold for root.
            std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        }
        let output = match command.env_clear().env("XDG_RUNTIME_DIR", dir.path()).output() {
            Ok(output) if output.status.code() == Some(126) => return eprintln!("nobody may not run the program"),
            output => output.unwrap(),
        };

        let line = String::from_utf8(output.stderr).unwrap();
        assert!(line.starts_with("rusm: a node needs ") && line.contains("the limit is 3"), "{args:?}: {line}");
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{args:?}: {line}");
    }
}

#[test]
fn a_file_that_never_ends_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("rusm.toml")).unwrap();
    let cases: [&[&str]; 4] = [
        &["run"],
        &["node", "--config", "/dev/zero"],
        &["bench", "run", "--from", "/dev/zero"],
        &["bench", "compare", "/dev/zero", "/dev/zero"],
    ];
    for args in cases {
        let (code, line) = refusal(dir.path(), args);

        assert!(code != 0 && line.lines().count() == 1 && line.contains("it is longer than "), "{args:?}: {line}");
    }
}

#[test]
fn limits_with_which_nothing_can_run_get_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for (limit, message) in [("-n 6", "the open file limit is 6, "), ("-s 100", "the stack limit is 100 KiB, ")] {
        let ended = limited(dir.path(), limit, &[]).output().unwrap();

        let line = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), line.lines().count()), (Some(1), 1), "{line}");
        assert!(line.starts_with(&format!("rusm: {message}")), "{line}");
    }
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_not_the_end_of_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let store = limited(dir.path(), "-f 8", &[]).env("RUSM_STORE", dir.path().join("a.redb")).output().unwrap();
    let mut node = limited(dir.path(), "-f 0", &["--log-file"]);
    let node = Node(node.arg(&log).stderr(Stdio::piped()).spawn().unwrap());
    let until = Instant::now() + Duration::from_mins(2);
    while !dir.path().join("rusm/rusm.sock").exists() {
        assert!(Instant::now() < until, "the node did not start");
        std::thread::yield_now();
    }
    node.signal(rustix::process::Signal::TERM);

    let line = String::from_utf8_lossy(&store.stderr).into_owned();
    assert_eq!((store.status.code(), line.lines().count()), (Some(1), 1), "{line}");
    assert!(line.starts_with("rusm: the disk of ") && line.contains("is full"), "{line}");
    assert_eq!(node.ends_with(), Some(0), "a node that cannot write its log keeps running");
    assert_eq!(std::fs::metadata(log).unwrap().len(), 0);
}

#[test]
fn a_port_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let (code, line) = refusal(dir.path(), &["node", "--listen", &address]);

    assert_eq!(code, 1, "{line}");
    assert!(line.contains(&format!("address {address} is in use: choose another port")), "{line}");
}

#[test]
fn a_run_takes_the_settings_of_a_node_and_prints_json_with_its_environment() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rusm.toml"), "[node]\nprofile = \"light\"\nschedulers = 5\n").unwrap();

    let run = ["bench", "run", "ping-pong", "--for", "200ms", "--runs", "1", "--json", "--param", "pairs=2"];
    let output = rusm(dir.path()).args(run).env("RUSM_SCHEDULERS", "1").output().expect("the binary was built");

    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The verdict depends on the other programs on the machine, but the exit code must always match it.
    let code = match report["verdict"].as_str() {
        Some("steady") => 0,
        Some("not_steady" | "disturbed") => 6,
        other => panic!("the run went wrong: {other:?}: {report}"),
    };
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    let run = &report["runs"][0];
    assert_eq!((run["profile"].as_str(), run["schedulers"].as_u64()), (Some("light"), Some(1)));
    assert!(run["ops_total"].as_u64().unwrap() > 0);
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
}

#[test]
fn completions_and_manual_pages_cover_the_commands() {
    let dir = tempfile::tempdir().unwrap();
    let printed = |arguments: &[&str]| {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };

    assert!(
        printed(&["completions", "bash"]).contains("loadtest") && printed(&["completions", "fish"]).contains("doctor")
    );
    assert!(
        printed(&["man"]).contains(".TH rusm 1") && printed(&["man", "bench", "run"]).contains(".TH rusm-bench-run 1")
    );
    let (code, line) = refusal(dir.path(), &["man", "bnech"]);
    assert_eq!((code, line.as_str()), (2, "rusm: unknown command \"bnech\": did you mean \"bench\"?\n"));
}
