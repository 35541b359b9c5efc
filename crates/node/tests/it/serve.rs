//! `rusm serve` and `[[serve]]`, as a user sees them: requests, files, mistakes, reload and drain.

mod export;
mod reload;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::run::harness::{folder, full_pipe, prebuilt};

const DEADLINE: Duration = Duration::from_mins(2);

fn rusm(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.args(args).current_dir(dir).env_clear().stdin(Stdio::null());
    command.env("XDG_RUNTIME_DIR", dir).env("XDG_CACHE_HOME", dir.join("cache"));
    command
}

/// Runs a command that fails; returns its exit code and its last line.
fn failure(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = rusm(dir, args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text.lines().last().unwrap_or_default().to_owned())
}

/// A node that serves, and is killed if the test fails.
struct Served {
    child: Child,
    log: Receiver<String>,
    address: String,
}

impl Served {
    /// Starts a command, and waits for the line with its address.
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut child = rusm(dir, args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, log) = sync_channel(4096);
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let of_err = sender.clone();
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).try_for_each(|line| of_err.send(line))
        });
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut served = Self { child, log, address: String::new() };
        let line = served.wait("listening on http");
        line.rsplit("://").next().unwrap().clone_into(&mut served.address);
        served
    }

    fn wait(&mut self, words: &str) -> String {
        let (until, mut seen) = (Instant::now() + DEADLINE, Vec::new());
        loop {
            let Ok(line) = self.log.recv_timeout(until.saturating_duration_since(Instant::now())) else {
                panic!("no {words:?} in {seen:#?}")
            };
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
    }

    fn send(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "{head}\r\nconnection: close\r\n\r\n").unwrap();
        stream
    }

    /// Returns the status and the body of a response.
    fn get(&self, path: &str) -> (u16, String) {
        answer(self.send(&format!("GET {path} HTTP/1.1\r\nhost: test")))
    }

    fn signal(&self, signal: Signal) {
        kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {all:?}"));
    // A guest that is slow to end its response sends it in chunks.
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_owned() };
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let (chunk, rest) = rest.split_at(usize::from_str_radix(size, 16).unwrap());
        whole.push_str(chunk);
        body = rest.strip_prefix("\r\n").unwrap();
    }
    whole
}

#[test]
fn a_signal_does_not_wait_for_the_reader_of_the_addresses() {
    let dir = folder(&[]);
    std::fs::create_dir(dir.path().join("www")).unwrap();
    let (_nobody_reads, full) = full_pipe();
    let mut command = rusm(dir.path(), &["serve", "www", "--listen", "0"]);
    let mut child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let up = { log }.find(|line| line.contains("node is up"));
    let mut node = Served { child, log: sync_channel(1).1, address: String::new() };

    assert!(up.is_some());
    node.signal(Signal::TERM);

    assert_eq!(node.ended(), Some(0));
}

#[test]
fn a_component_is_served_without_a_file_and_drained_by_a_signal() {
    let dir = folder(&[]);
    let mut node = Served::start(dir.path(), &["serve", &prebuilt("wasi/http.wasm"), "--listen", "0"]);

    assert_eq!(node.get("/a?b"), (200, "hello from /a?b\n".to_owned()));
    assert_eq!(node.get("/trap").0, 500);
    assert_eq!((node.get("/healthz").0, node.get("/readyz").0), (200, 200));
    let socket = dir.path().join("rusm/http.sock");
    assert!(socket.exists(), "observers attach as to each node");
    // A request in flight ends; a new connection is not accepted.
    let slow = node.send("GET /pause HTTP/1.1\r\nhost: test");
    let handled = node.get("/");
    node.signal(Signal::TERM);
    let begun = Instant::now();

    assert_eq!(handled.0, 200);
    assert_eq!(answer(slow), (200, "paused\n".to_owned()));
    assert_eq!(node.ended(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "it ends when the last request does");
    assert!(TcpStream::connect(&node.address).is_err());
}

#[test]
fn a_drain_ends_in_time_whatever_a_guest_does() {
    let dir = folder(&[]);
    let args = ["serve", &prebuilt("wasi/http.wasm"), "--listen", "0", "--drain", "1"];
    let mut node = Served::start(dir.path(), &args);
    let spinner = node.send("GET /spin HTTP/1.1\r\nhost: test");
    let sleeper = node.send("GET /sleep HTTP/1.1\r\nhost: test");
    assert_eq!(node.get("/").0, 200);

    let begun = Instant::now();
    node.signal(Signal::TERM);

    assert_eq!(node.ended(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    drop((spinner, sleeper));
}

#[test]
fn a_folder_is_served_without_a_file() {
    let dir = folder(&[("secret.txt", "no")]);
    let site = dir.path().join("site");
    std::fs::create_dir_all(site.join("sub")).unwrap();
    std::fs::write(site.join("index.html"), "<p>start").unwrap();
    std::fs::write(site.join("sub/index.html"), "<p>sub").unwrap();
    let mut node = Served::start(dir.path(), &["serve", "site", "--listen", "0"]);

    assert_eq!(node.get("/"), (200, "<p>start".to_owned()));
    assert_eq!(node.get("/sub/"), (200, "<p>sub".to_owned()));
    assert_eq!((node.get("/../secret.txt").0, node.get("/missing").0), (404, 404));
    node.signal(Signal::INT);
    assert_eq!(node.ended(), Some(0));
}

#[test]
fn a_file_that_cannot_be_opened_for_now_is_not_missing() {
    let dir = folder(&[]);
    std::fs::create_dir(dir.path().join("site")).unwrap();
    std::fs::write(dir.path().join("site/a.txt"), "a file").unwrap();
    let mut node = Served::start(dir.path(), &["serve", "site", "--listen", "0"]);
    let mut connection = BufReader::new(TcpStream::connect(&node.address).unwrap());
    connection.get_ref().set_read_timeout(Some(DEADLINE)).unwrap();
    let mut get = |path: &str| {
        write!(connection.get_mut(), "GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(connection.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        connection.read_exact(&mut body).unwrap();
        head
    };

    let before = get("/a.txt");
    let pid = Some(rustix::process::Pid::from_child(&node.child));
    let full = Rlimit { current: Some(0), maximum: getrlimit(Resource::Nofile).maximum };
    let old = prlimit(pid, Resource::Nofile, full).unwrap();
    let during = get("/a.txt");
    prlimit(pid, Resource::Nofile, old).unwrap();
    let after = get("/a.txt");
    let missing = get("/b.txt");

    assert!(before.starts_with("HTTP/1.1 200") && after.starts_with("HTTP/1.1 200"), "{before}{after}");
    assert!(during.starts_with("HTTP/1.1 503") && during.contains("retry-after: 1\r\n"), "{during}");
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    node.wait("cannot read a file error=\"Too many open files");
}

#[test]
fn files_that_clients_do_not_take_leave_half_of_the_descriptors() {
    let dir = folder(&[("small.txt", "small")]);
    std::fs::File::create(dir.path().join("large.bin")).unwrap().set_len(64 << 20).unwrap();
    let node = Served::start(dir.path(), &["serve", ".", "--listen", "0"]);
    let few = Rlimit { current: Some(256), maximum: getrlimit(Resource::Nofile).maximum };
    prlimit(Some(rustix::process::Pid::from_child(&node.child)), Resource::Nofile, few).unwrap();

    // None of these clients reads more than the status of its response.
    let mut clients: Vec<TcpStream> = (0..90).map(|_| node.send("GET /large.bin HTTP/1.1\r\nhost: test")).collect();
    let status = |client: &mut TcpStream| {
        let mut line = [0; 12];
        client.read_exact(&mut line).unwrap();
        String::from_utf8_lossy(&line[9..]).into_owned()
    };
    let statuses: Vec<String> = clients.iter_mut().map(status).collect();

    let count = |status: &str| statuses.iter().filter(|seen| *seen == status).count();
    assert!(count("200") >= 1 && count("503") >= 1 && count("200") + count("503") == 90, "{statuses:?}");
    assert_eq!(node.get("/small.txt"), (200, "small".to_owned()));
}

#[test]
fn routes_of_a_file_lead_to_guests_and_folders_in_each_kind_of_node() {
    let guest = prebuilt("wasi/http.wasm");
    let file = format!(
        "[modules]\napp = {guest:?}\n[[serve]]\nlisten = 0\n[serve.limits]\nbody_bytes = 10\n[[serve.route]]\npattern = \
         \"GET /users/:id\"\nmodule = \"app\"\n[[serve.route]]\npattern = \"/api/*\"\nmodule = \"app\"\n[[serve.route]]\n\
         pattern = \"GET /*\"\nfolder = \"public\"\n[[serve.route]]\npattern = \"POST /echo\"\nmodule = \"app\"\n"
    );
    let dir = folder(&[("rusm.toml", &file)]);
    std::fs::create_dir(dir.path().join("public")).unwrap();
    std::fs::write(dir.path().join("public/a.txt"), "a file").unwrap();
    for command in ["node", "serve"] {
        let mut node = Served::start(dir.path(), &[command]);
        let post = |path: &str, body: &str| {
            let head = format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}", body.len());
            let mut stream = node.send(&head);
            stream.write_all(body.as_bytes()).unwrap();
            answer(stream)
        };

        assert_eq!(node.get("/users/7"), (200, "hello from /users/7\n".to_owned()));
        assert_eq!(post("/api/x", ""), (200, "hello from /api/x\n".to_owned()));
        assert_eq!(post("/echo", "short"), (200, "short".to_owned()));
        assert_eq!(post("/echo", "much too long").0, 413);
        assert_eq!(node.get("/a.txt"), (200, "a file".to_owned()));
        assert_eq!(post("/users/7", "").0, 405);
        node.signal(Signal::TERM);
        assert_eq!(node.ended(), Some(0), "{command}");
    }
}

#[test]
fn a_changed_component_answers_without_a_pause() {
    let dir = folder(&[]);
    let module = dir.path().join("app.wasm");
    std::fs::copy(prebuilt("wasi/http.wasm"), &module).unwrap();
    let mut node = Served::start(dir.path(), &["serve", "app.wasm", "--listen", "0", "--watch"]);
    let slow = node.send("GET /pause HTTP/1.1\r\nhost: test");
    assert_eq!(node.get("/").0, 200);

    // A custom section makes it another file with the same behaviour.
    let mut bytes = std::fs::read(&module).unwrap();
    bytes.extend([0, 3, 1, b'x', 0]);
    std::fs::write(dir.path().join("new.wasm"), bytes).unwrap();
    std::fs::rename(dir.path().join("new.wasm"), &module).unwrap();
    node.wait("module was read again, and answers from now on");

    assert_eq!(answer(slow).0, 200, "a request in flight ends with the old one");
    assert_eq!(node.get("/").0, 200);
    std::fs::write(&module, "broken").unwrap();
    node.wait("the old one stays");
    assert_eq!(node.get("/").0, 200);
    node.signal(Signal::TERM);
    assert_eq!(node.ended(), Some(0));
}

#[test]
fn a_mistake_is_one_line_that_says_what_to_do() {
    let dir = folder(&[("empty.toml", ""), ("key.toml", "[[serve]]\nlisten = \"x\"\n"), ("text.wasm", "text")]);
    let fails = |args: &[&str]| failure(dir.path(), &[&["serve"], args].concat());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let nothing = fails(&[]);
    let empty = fails(&["empty.toml"]);
    let gone = fails(&["gone.wasm"]);
    let text = fails(&["text.wasm"]);
    let actor = fails(&[&prebuilt("rust/hello.wasm")]);
    let core = fails(&[&prebuilt("wat/hello.wasm")]);
    let busy = fails(&[&prebuilt("wasi/http.wasm"), "--listen", &address]);
    let flag = fails(&["empty.toml", "--listen", "1"]);
    let wrong = fails(&[&prebuilt("wasi/http.wasm"), "--listen", "nowhere"]);

    assert!(nothing.1.contains("nothing to serve"), "{nothing:?}");
    assert!(empty.1.contains("has no [[serve]] entry"), "{empty:?}");
    assert!(gone.1.contains("cannot read gone.wasm"), "{gone:?}");
    assert!(text.1.contains("text.wasm"), "{text:?}");
    assert!(actor.1.contains("answers no requests: it must export wasi:http/incoming-handler@0.2"), "{actor:?}");
    assert!(core.1.contains("is a module and answers no requests"), "{core:?}");
    assert!(busy.1.contains(&format!("cannot listen on {address}")), "{busy:?}");
    assert!(flag.1.contains("--listen is for a component or a folder: set serve.listen in empty.toml"), "{flag:?}");
    assert!(wrong.1.contains("serve.listen of \"nowhere\" in --listen must be an address"), "{wrong:?}");
    let codes = [nothing, empty, gone, text, actor, core, flag, wrong].map(|(code, _)| code);
    assert_eq!(codes, [Some(2); 8]);
    assert_eq!(busy.0, Some(1));
}

#[test]
fn a_project_that_does_not_fit_on_the_disk_leaves_nothing() {
    let dir = folder(&[]);
    // A limit of the shell on the size of each file acts like a full disk, in the middle of the project.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1; exec \"$0\" new --http rust sub/shop", env!("CARGO_BIN_EXE_rusm")]);

    let failed = shell.current_dir(dir.path()).output().unwrap();
    let again = rusm(dir.path(), &["new", "--http", "rust", "shop"]).output().unwrap();

    let line = String::from_utf8(failed.stderr).unwrap();
    assert!(line.starts_with("rusm: cannot write sub/shop/"), "{line}");
    assert_eq!(failed.status.code(), Some(1));
    assert!(!dir.path().join("sub").exists());
    assert!(again.status.success());
}

#[test]
fn a_new_project_has_a_program_that_answers() {
    let dir = folder(&[]);
    let created = rusm(dir.path(), &["new", "--http", "rust", "my-shop"]).output().unwrap();
    let shown = String::from_utf8(created.stdout).unwrap();
    assert!(created.status.success() && shown.contains("rusm serve --watch"), "{shown}");
    let read = |file: &str| std::fs::read_to_string(dir.path().join("my-shop").join(file)).unwrap();
    assert!(read("Cargo.toml").contains("name = \"my-shop\"") && read("src/lib.rs").contains("export!"));
    assert_eq!(failure(dir.path(), &["new", "--http", "rust", "my-shop"]).0, Some(2));
    assert_eq!(failure(dir.path(), &["new", "--http", "cobol", "x"]).0, Some(2));
    assert_eq!(failure(dir.path(), &["build"]).0, Some(2));

    // The settings name a folder, so the program must be there whatever the environment says.
    let cargo = dir.path().join("cargo");
    std::fs::write(&cargo, "#!/bin/sh\necho \"$@\" >arguments\n").unwrap();
    std::fs::set_permissions(&cargo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut build = rusm(dir.path(), &["build", "my-shop"]);
    assert!(build.env("PATH", dir.path()).env("CARGO_TARGET_DIR", "/elsewhere").status().unwrap().success());
    assert!(read("arguments").contains("--target-dir target"), "{}", read("arguments"));

    // The output of cargo is prebuilt; the settings of the project lead to it.
    let release = dir.path().join("my-shop/target/wasm32-wasip2/release");
    std::fs::create_dir_all(&release).unwrap();
    std::fs::copy(prebuilt("wasi/hello.wasm"), release.join("my_shop.wasm")).unwrap();
    let settings = read("rusm.toml").replace("127.0.0.1:8080", "127.0.0.1:0");
    std::fs::write(dir.path().join("my-shop/rusm.toml"), settings).unwrap();
    let mut node = Served::start(&dir.path().join("my-shop"), &["serve"]);

    assert_eq!(node.get("/"), (200, "it works: try /hello/you\n".to_owned()));
    assert_eq!(node.get("/hello/me"), (200, "hello, me\n".to_owned()));
    assert_eq!(node.get("/other").0, 404);
    node.signal(Signal::TERM);
    assert_eq!(node.ended(), Some(0));
}
