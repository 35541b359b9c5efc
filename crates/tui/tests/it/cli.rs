//! Runs `rusm-top` as a program: its output without a screen, and its exit codes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use futures_util::{SinkExt, StreamExt};
use rusm_protocol::{
    ClientMessage, Frame, Hello, NodeInfo, PROTOCOL_VERSION, Role, ServerMessage, decode_client, encode,
};
use rusm_tui::model::tab::Tab;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// Returns a command with a clean environment, so that the caller's variables are ignored.
fn rusm_top(runtime_folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm-top"));
    command.env_clear().env("XDG_RUNTIME_DIR", runtime_folder).env("LANG", "C.UTF-8").stdin(Stdio::null());
    command
}

fn ran(arguments: &[&str]) -> Output {
    let folder = TempDir::new().expect("a temporary folder");
    rusm_top(folder.path()).args(arguments).output().expect("rusm-top runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

fn error_line(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("text");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    text.trim().to_owned()
}

#[test]
fn a_limit_on_file_sizes_is_an_error_in_one_line() {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("manual");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 1; exec \"$0\" man > \"$1\"", env!("CARGO_BIN_EXE_rusm-top")]).arg(&file);

    let output = command.output().expect("the shell runs");

    assert_eq!(code(&output), 1, "{output:?}");
    assert!(error_line(&output).contains("File too large"), "{output:?}");
}

#[test]
fn stdout_that_is_no_terminal_is_refused_with_a_way_out() {
    let output = ran(&["--demo"]);

    assert_eq!(code(&output), 2);
    assert!(error_line(&output).contains("stdout is not a terminal: `rusm-top --once`"));
}

#[test]
fn no_node_is_one_line_and_exit_code_3() {
    for arguments in [&["--once"][..], &["--once", "kv"], &["--once", "/nowhere/kv.sock"], &["--once", "127.0.0.1:1"]] {
        let output = ran(arguments);

        assert_eq!(code(&output), 3, "{arguments:?}: {}", error_line(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn wrong_arguments_are_named_and_exit_code_2() {
    let wrong = [
        (&["--tab", "ports"][..], "expected one of node, bench, processes"),
        (&["--tab", "nodes"], "did you mean \"node\"?"),
        (&["--sort", "xyzzy"], "expected one of pid, name"),
        (&["--color", "pink"], "[possible values: auto, always, never, 16, 256, true]"),
        (&["--timeout", "1e300"], "expected more than 0 and at most 3600 seconds"),
        (&["--filtr", "x"], "'--filter'"),
        (&["--fps", "0"], "1..=60"),
        (&["--timeout", "soon"], "expected seconds"),
        (&["wss://host:1"], "expected a node name"),
        (&["--json"], "--once"),
        (&["--demo", "kv"], "cannot be used with"),
    ];
    for (arguments, says) in wrong {
        let output = ran(arguments);

        assert_eq!(code(&output), 2, "{arguments:?}");
        let line = error_line(&output);
        assert!(line.starts_with("rusm-top: ") && line.contains(says), "{arguments:?}: {line}");
    }
}

#[test]
fn a_variable_that_nobody_knows_is_refused() {
    let folder = TempDir::new().expect("a temporary folder");

    let output = rusm_top(folder.path()).env("RUSM_TOP_BOGUS", "1").arg("--demo").output().expect("rusm-top runs");

    assert_eq!(code(&output), 2);
    assert!(error_line(&output).starts_with("rusm-top: unknown variable \"RUSM_TOP_BOGUS\": "));
}

#[test]
fn a_log_level_that_is_none_is_refused_whether_anything_is_logged_or_not() {
    let folder = TempDir::new().expect("a temporary folder");
    let ran = |log: &[&str]| {
        let mut command = rusm_top(folder.path());
        command.env("RUSM_TOP_LOG", "rusm=loud").args(["--demo", "--once"]).args(log).output().expect("rusm-top runs")
    };

    let log = folder.path().join("log").display().to_string();
    for output in [ran(&[]), ran(&["--log-file", &log])] {
        assert_eq!(code(&output), 2);
        assert!(error_line(&output).starts_with("rusm-top: RUSM_TOP_LOG=\"rusm=loud\" is not a valid log filter: "));
    }
}

#[test]
fn one_frame_of_the_demo_as_text_is_labelled() {
    for tab in ["node", "bench", "processes"] {
        let output = ran(&["--demo", "--once", "--tab", tab]);

        let text = String::from_utf8(output.stdout.clone()).expect("text");
        assert_eq!(code(&output), 0);
        assert!(text.contains("DEMO") && text.contains("spawn-storm") | text.contains("PID"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}

#[test]
fn one_frame_of_events_waits_for_them() {
    let output = ran(&["--demo", "--once", "--tab", "events"]);

    let text = String::from_utf8(output.stdout.clone()).expect("text");
    assert!(code(&output) == 0 && text.contains(" lints ") && !text.contains("waiting for"), "{text}");
}

#[test]
fn switches_in_the_environment_are_as_people_write_them_and_the_demo_wins_over_its_target() {
    let folder = TempDir::new().expect("a temporary folder");
    for (value, is_ascii) in [("1", true), ("true", true), ("0", false), ("", false)] {
        let output = rusm_top(folder.path())
            .env("RUSM_TOP_TARGET", "kv")
            .env("RUSM_TOP_ASCII", value)
            .args(["--demo", "--once"])
            .output()
            .expect("rusm-top runs");

        assert_eq!((code(&output), output.stdout.is_ascii()), (0, is_ascii), "{value:?}: {output:?}");
    }
}

#[test]
fn one_frame_as_json_can_be_read_by_a_program() {
    let output = ran(&["--demo", "--once", "--json", "--tab", "processes", "--filter", "name=kv*", "--sort", "-age"]);

    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["node"]["name"], "demo");
    assert!(json["frame"]["ops_per_sec"].as_f64().expect("a rate") > 1e6);
    assert_eq!(json["rows"]["matched"], 31_250);
}

#[test]
fn a_locale_that_is_not_utf8_gets_ascii() {
    let folder = TempDir::new().expect("a temporary folder");

    let output = rusm_top(folder.path()).env("LANG", "C").args(["--demo", "--once"]).output().expect("rusm-top runs");

    assert!(output.stdout.is_ascii());
}

#[test]
fn a_word_that_the_node_does_not_know_is_exit_code_2() {
    let wrong = [
        (
            &["--run", "spawn-strom"][..],
            "run spawn-strom: unknown scenario \"spawn-strom\": did you mean \"spawn-storm\"?",
        ),
        (&["--run", "foo"], "run foo: unknown scenario \"foo\": expected one of spawn-storm, ping-pong, fan-in"),
        (&["--profile", "ligth"], "profile ligth: unknown profile \"ligth\": did you mean \"light\"?"),
        (&["--filter", "foo>>1"], "filter refused: a value is missing after foo>; quote a value that contains \">\""),
        (&["--tab", "node", "--filter", "kv"], "--filter and --sort do not apply to --tab node: remove --tab"),
        (&["--tab", "bench", "--sort", "mem"], "--filter and --sort do not apply to --tab bench: remove --tab"),
    ];
    for (arguments, says) in wrong {
        let output = ran(&[&["--demo", "--once"], arguments].concat());

        assert_eq!(error_line(&output), format!("rusm-top: {says}"));
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_profile_that_the_node_knows_is_chosen_before_the_frame_is_printed() {
    let output = ran(&["--demo", "--once", "--json", "--profile", "max"]);

    assert_eq!(code(&output), 0);
    assert!(!output.stdout.is_empty());
}

#[test]
fn a_reader_that_has_read_enough_ends_it_silently_as_sigpipe_would() {
    let folder = TempDir::new().expect("a temporary folder");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);

    let output = rusm_top(folder.path()).args(["--demo", "--once"]).stdout(writer).output().expect("rusm-top runs");

    assert_eq!((code(&output), output.stderr), (141, Vec::new()));
}

#[test]
fn the_variable_of_a_flag_says_yes_or_no() {
    let folder = TempDir::new().expect("a temporary folder");
    let run = |value: &str, arguments: &[&str]| {
        let mut command = rusm_top(folder.path());
        command.env("RUSM_TOP_BATCH", value).arg("--demo").args(arguments).output().expect("rusm-top runs")
    };

    let wrong = run("NaN", &["-n", "1"]);

    assert_eq!(error_line(&wrong), "rusm-top: invalid value 'NaN' for '--batch': expected 1, 0 or nothing");
    assert_eq!(code(&wrong), 2);
    assert_eq!(["1", "true", "Yes"].map(|yes| code(&run(yes, &["-n", "1"]))), [0; 3]);
    for no in ["", "0", "off"] {
        let screen = run(no, &[]);
        assert!(error_line(&screen).starts_with("rusm-top: stdout is not a terminal"), "{no:?}: {screen:?}");
        // A rival of the switch is not refused.
        assert_eq!(code(&run(no, &["--once"])), 0, "{no:?}");
    }
}

#[test]
fn a_config_file_that_says_read_only_keeps_a_command_line_from_changing_a_node() {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("top.toml");
    std::fs::write(&file, "read_only = true\n").expect("a file");

    for act in [&["--kill", "0.7.1"][..], &["--stop"], &["--run", "fan-in"], &["--profile", "max"]] {
        let output = rusm_top(folder.path()).env("RUSM_TOP_CONFIG", &file).args(act).output().expect("rusm-top runs");
        assert!(error_line(&output).starts_with("rusm-top: read-only: remove --run"), "{output:?}");
        assert_eq!(code(&output), 2);
    }
}

#[test]
fn an_output_that_is_full_is_named_so() {
    let folder = TempDir::new().expect("a temporary folder");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");

    for args in [&["--demo", "--once"][..], &["--help"], &["--version"]] {
        let full = full.try_clone().expect("it is open");
        let output = rusm_top(folder.path()).args(args).stdout(full).output().expect("rusm-top runs");

        assert_eq!(code(&output), 1, "{args:?}");
        assert!(error_line(&output).starts_with("rusm-top: cannot write the output: No space left on device"));
    }
}

#[test]
fn help_and_version_are_fine() {
    let help = ran(&["--help"]);
    let version = ran(&["--version"]);

    assert_eq!((code(&help), code(&version)), (0, 0));
    insta::assert_snapshot!(String::from_utf8(help.stdout).expect("text"));
}

#[expect(clippy::result_large_err, clippy::unnecessary_wraps, reason = "the library defines the callback's type")]
fn speaks_rusm(_: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    response.headers_mut().insert("sec-websocket-protocol", rusm_protocol::SUBPROTOCOL.parse().expect("a header"));
    Ok(response)
}

/// Starts a node that sends a greeting with this version and then one frame. The thread returns the received messages.
fn node(version: u32) -> (TempDir, std::thread::JoinHandle<Vec<ClientMessage>>) {
    let folder = TempDir::new().expect("a temporary folder");
    let rusm = folder.path().join("rusm");
    std::fs::create_dir(&rusm).expect("a folder");
    std::fs::set_permissions(&rusm, PermissionsExt::from_mode(0o700)).expect("permissions set");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = runtime.block_on(async { UnixListener::bind(rusm.join("kv.sock")) }).expect("a socket");
    let served = std::thread::spawn(move || {
        runtime.block_on(async {
            let (stream, _) = listener.accept().await.expect("a client");
            let mut socket = accept_hdr_async(stream, speaks_rusm).await.expect("a handshake");
            let hello = Hello {
                scenarios: Vec::new(),
                profiles: Vec::new(),
                instance_capacity: 0,
                protocol_version: version,
                role: Role::Observe,
                node: NodeInfo { name: "kv".to_owned(), ..NodeInfo::default() },
            };
            let hello = encode(&ServerMessage::Hello(Box::new(hello)));
            socket.send(Message::text(hello)).await.expect("send");
            let mut received = Vec::new();
            let frame = Box::new(Frame { uptime_ms: 61_000, ..Frame::default() });
            let mut frame = Some(encode(&ServerMessage::Tick { frame }));
            while let Some(Ok(message)) = socket.next().await {
                received.extend(message.to_text().ok().and_then(|text| decode_client(text).ok()));
                if let Some(frame) = frame.take() {
                    // The client may disconnect after the greeting.
                    socket.send(Message::text(frame)).await.ok();
                }
            }
            received
        })
    });
    (folder, served)
}

#[test]
fn the_only_node_is_found_and_told_how_many_frames() {
    let (folder, served) = node(PROTOCOL_VERSION);

    let output = rusm_top(folder.path()).args(["--once", "--fps", "3"]).output().expect("rusm-top runs");

    let text = String::from_utf8(output.stdout.clone()).expect("text");
    assert_eq!(code(&output), 0, "{}", error_line(&output));
    assert!(text.contains("kv") && text.contains("01:01") && text.contains("observe only"), "{text}");
    assert!(served.join().expect("the node ends").contains(&ClientMessage::Watch { frame_hz: 3.0 }));
}

#[test]
fn a_newer_protocol_is_one_line_and_exit_code_4() {
    let (folder, _served) = node(PROTOCOL_VERSION + 1);

    let output = rusm_top(folder.path()).args(["--once"]).output().expect("rusm-top runs");

    assert_eq!(code(&output), 4);
    assert!(error_line(&output).contains("update rusm-top"));
}

#[test]
fn a_config_file_is_created_checked_and_found() {
    let folder = TempDir::new().expect("a temporary folder");
    let config = |arguments: &[&str]| {
        let mut command = rusm_top(folder.path());
        command.env("XDG_CONFIG_HOME", folder.path()).arg("config").args(arguments).output().expect("rusm-top runs")
    };
    let text = |output: &Output| String::from_utf8(output.stdout.clone()).expect("text");
    let path = folder.path().join("rusm/top.toml");

    assert_eq!(text(&config(&["path"])), format!("{}\n", path.display()));
    assert!(text(&config(&["check"])).contains("does not exist: the defaults apply"));
    assert_eq!(code(&config(&["init"])), 0);
    assert!(text(&config(&["check"])).contains("is valid"));
    let again = config(&["init"]);
    assert!(code(&again) == 2 && error_line(&again).contains("exists already: --force replaces it"));

    std::fs::write(&path, "fps = 10\nthmee = \"dark\"\n").expect("a file");
    let wrong = config(&["check"]);
    assert_eq!(code(&wrong), 2);
    assert!(error_line(&wrong).ends_with("top.toml, line 2: unknown key \"thmee\": did you mean \"theme\"?"));
    let started = rusm_top(folder.path()).env("XDG_CONFIG_HOME", folder.path()).args(["--demo", "--once"]).output();
    assert_eq!(code(&started.expect("rusm-top runs")), 2, "a wrong file is never skipped");
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let folder = TempDir::new().expect("a temporary folder");
    let file = folder.path().join("top.toml");
    std::fs::write(&file, "tab = \"tree\"\n").expect("a file");
    let view = |variable: Option<&str>, flags: &[&str]| {
        let mut command = rusm_top(folder.path());
        command.env("RUSM_TOP_CONFIG", &file).args(["--demo", "--once", "--json"]).args(flags);
        variable.map(|value| command.env("RUSM_TOP_TAB", value));
        let output = command.output().expect("rusm-top runs");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["view"].as_str().expect("text").to_owned()
    };

    assert_eq!(view(None, &[]), "tree");
    assert_eq!(view(Some("events"), &[]), "events");
    assert_eq!(view(Some("events"), &["--tab", "wasm"]), "wasm");
}

#[test]
fn a_batch_prints_as_many_frames_as_asked_for() {
    let output = ran(&["--demo", "--batch", "-n", "3", "--interval", "100ms", "--json", "--tab", "topics"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let frames: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();

    assert_eq!(frames.len(), 3);
    let seq: Vec<u64> = frames.iter().map(|frame| frame["frame"]["seq"].as_u64().expect("a number")).collect();
    assert!(seq.windows(2).all(|pair| pair[0] <= pair[1]), "{seq:?}");
    assert!(frames[0]["topics"]["topics"].is_array(), "{}", frames[0]);

    let pages = ran(&["--demo", "--batch", "-n", "2", "--interval", "20ms"]);
    assert_eq!(String::from_utf8(pages.stdout).expect("text").matches('\u{c}').count(), 2);
}

#[test]
fn every_view_is_printed_as_json_with_what_it_shows() {
    for &tab in Tab::ALL {
        let (tab, key) = (tab.id(), data_of(tab));
        let output = ran(&["--demo", "--once", "--json", "--tab", tab]);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");

        assert_eq!((json["view"].as_str(), json[key].is_null()), (Some(tab), false), "{tab}: {json}");
    }
}

/// Returns the key of what a view shows. A new view needs one: its data must be there for programs too.
fn data_of(tab: Tab) -> &'static str {
    match tab {
        Tab::Node => "top",
        Tab::Bench => "results",
        Tab::Processes => "rows",
        Tab::Tree => "tree",
        Tab::Events => "events",
        Tab::Wasm => "engines",
        Tab::Time => "time",
        Tab::Store => "stores",
        Tab::Topics => "topics",
        Tab::Cpu => "cpu",
        Tab::Sched => "schedulers",
        Tab::Serve => "serve",
        Tab::Cluster => "cluster",
    }
}

#[test]
fn the_data_of_all_views_is_one_object() {
    let output = ran(&["--demo", "--once", "--json", "--all-views"]);
    let text = String::from_utf8(output.stdout).expect("text");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");

    assert_eq!((text.lines().count(), json["view"].as_str()), (1, Some("all")));
    let missing: Vec<_> = Tab::ALL.iter().filter(|tab| json[data_of(**tab)].is_null()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(json["events"]["events"].as_array().is_some_and(|events| !events.is_empty()));
    // 1,024 rows of 13 views at most; a frame of a node is about 10 KiB.
    assert!(text.len() < 1 << 20, "{} bytes", text.len());

    let refused = ran(&["--demo", "--once", "--all-views"]);
    assert_eq!(code(&refused), 2);
    assert!(error_line(&refused).contains("--json"));
}

#[test]
fn all_views_of_a_recording_have_what_was_recorded() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/storm.jsonl");
    let output = ran(&["--replay", recording, "--once", "--json", "--all-views"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");

    assert!(json["rows"].is_object(), "its rows were recorded: {:?}", json["rows"]);
    assert!(json["tree"].is_null(), "its tree was not: {:?}", json["tree"]);
}

#[test]
fn completions_the_manual_and_the_keys_are_printed() {
    let text = |arguments: &[&str]| {
        let output = ran(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}");
        String::from_utf8(output.stdout).expect("text")
    };

    insta::assert_snapshot!("completions_fish", text(&["completions", "fish"]));
    for shell in ["bash", "zsh"] {
        let script = text(&["completions", shell]);
        assert!(script.contains("--interval") && script.contains("rusm-top"), "{shell}");
    }
    let manual = text(&["man"]);
    assert!(manual.starts_with(".ie") || manual.contains(".TH rusm-top"), "{manual}");
    assert!(manual.contains("RUSM_TOP_INTERVAL"));
    assert!(text(&["keys"]).contains("quit                       q ctrl-c"));
}
