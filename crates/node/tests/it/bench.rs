//! `rusm bench` from a user's point of view: reports can be repeated and compared, and each error is one line.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::harness::full_pipe;

fn rusm(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir).env_clear().env("XDG_RUNTIME_DIR", dir).env("XDG_DATA_HOME", dir).stdin(Stdio::null());
    command.args(args).output().unwrap()
}

/// Runs a command for some time, interrupts it, and returns its output.
fn interrupted(dir: &Path, args: &[&str], after: Duration) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir).env_clear().env("XDG_RUNTIME_DIR", dir).env("XDG_DATA_HOME", dir).stdin(Stdio::null());
    let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::park_timeout(after);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

/// Waits until a look finds something.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "it did not come");
        thread::park_timeout(Duration::from_millis(10));
    }
}

fn json(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
}

/// Asserts that a command fails with one line and the exit code of a usage error.
fn assert_refused(dir: &Path, args: &[&str], wanted: &str) {
    let output = rusm(dir, args);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
    assert!(line.contains(wanted), "{args:?}: {line}");
}

/// The shortest possible run.
const SHORT: [&str; 6] = ["--for", "100ms", "--warm-up", "100ms", "--schedulers", "1"];

/// Writes a report of six runs with these rates, without running them.
fn report(dir: &Path, name: &str, rates: [f64; 6], change: impl FnOnce(&mut Value)) {
    let output = rusm(dir, &[&["bench", "run", "ping-pong", "--runs", "1", "--json"], &SHORT[..]].concat());
    let mut report = json(&output);
    let run = report["runs"][0].clone();
    report["runs"] = vec![run; 6].into();
    report["verdict"] = "steady".into();
    report["machine"]["fitness"] = "quiet".into();
    for figure in report["figures"].as_array_mut().unwrap() {
        let values = if figure["name"] == "ops_per_sec" { rates } else { [100.0; 6] };
        figure["values"] = values.to_vec().into();
        figure["median"] = values[3].into();
    }
    change(&mut report);
    fs::write(dir.join(name), report.to_string()).unwrap();
}

const STEADY: [f64; 6] = [100.0, 101.0, 99.0, 100.0, 100.5, 99.5];

#[test]
fn a_run_can_be_made_once_more_from_its_report_and_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let first: [&[&str]; 4] = [
        &["bench", "run", "ping-pong", "--runs", "2", "--param", "pairs=3", "--seed", "7", "--profile", "light"],
        &["--open-loop", "1000", "--output", "a.json", "--save-profile", "a.toml"],
        &["--mailbox-capacity", "16", "--process-limit", "5000"],
        &SHORT[..],
    ];
    let text = rusm(dir.path(), &first.concat());
    assert!(String::from_utf8_lossy(&text.stdout).contains("over 2 runs"), "{text:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("a.json")).unwrap()).unwrap();

    let again = json(&rusm(dir.path(), &["bench", "run", "--from", "a.json", "--json"]));
    let by_file = json(&rusm(dir.path(), &["bench", "run", "--profile-file", "a.toml", "--json", "--runs", "1"]));

    assert_eq!(report["recipe"]["params"]["pairs"], "3");
    assert_eq!(
        (report["recipe"]["mailbox_capacity"].as_u64(), report["recipe"]["process_limit"].as_u64()),
        (Some(16), Some(5000))
    );
    assert_eq!(again["recipe"], report["recipe"]);
    assert_eq!((by_file["recipe"]["seed"].as_u64(), by_file["recipe"]["runs"].as_u64()), (Some(7), Some(1)));
    assert_eq!(by_file["runs"][0]["open_loop"]["offered_per_sec"], 1000.0);
    assert_eq!(by_file["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_no_profile_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (text, wanted) in [
        ("scenario = \"fan-in\"\nruins = 3\n", "p.toml is not a profile: unknown field `ruins`"),
        ("runs = 3\n", "p.toml is not a profile: it names no scenario"),
        ("{\"scenario\":", "p.toml is not a profile: EOF"),
        ("scenario = \"fan-out\"\n", "unknown scenario \"fan-out\""),
        ("scenario = \"fan-in\"\nruns = 0\n", "0 runs are not between 1 and 1000"),
        ("scenario = \"fan-in\"\nrate_per_sec = -1.0\n", "rate of -1 is not between"),
    ] {
        fs::write(dir.path().join("p.toml"), text).unwrap();
        assert_refused(dir.path(), &["bench", "run", "--profile-file", "p.toml"], wanted);
    }
}

#[test]
fn runs_with_mistakes_are_refused_before_they_start() {
    let dir = tempfile::tempdir().unwrap();
    for (args, wanted) in [
        (&["bench", "run", "fan-in", "--open-loop", "-5"][..], "rate of -5 is not between"),
        (&["bench", "run", "fan-in", "--runs", "0"], "0 runs are not between 1 and 1000"),
        (&["bench", "run", "--from", "gone.json"], "cannot read gone.json"),
        (&["bench", "run"], "missing <ID>: see rusm bench run --help"),
        (&["bench", "list", "fan-inn"], "unknown scenario \"fan-inn\": did you mean \"fan-in\"?"),
        (&["bench", "ab", "fan-in", "--baseline", "gone"], "cannot run gone: "),
        (&["bench", "ab", "fan-in", "--baseline", "/bin/true"], "/bin/true is not a rusm program"),
        (
            &["bench", "ab", "fan-in", "--baseline", "/bin/true", "--rounds", "1"],
            "--rounds of 1 is not between 2 and 100",
        ),
        (
            &["bench", "ab", "fan-in", "--baseline", "/bin/true", "--threshold", "200"],
            "threshold of 200 % is not between 0.1 and 100",
        ),
    ] {
        assert_refused(dir.path(), args, wanted);
    }
}

#[test]
fn loads_of_topics_that_make_no_sense_are_refused_with_what_would() {
    let dir = tempfile::tempdir().unwrap();
    for (scenario, param, wanted) in [
        ("topic-throughput", "batch=0", "batch of \"0\" is not in 1–1000"),
        ("topic-throughput", "payload=20MB", "payload of \"20MB\" is not in 8–10000000 bytes"),
        ("topic-durable", "publishers=0", "publishers of \"0\" is not in 1–100000"),
        ("topic-durable", "payload=20MB", "payload of \"20MB\" is not in 0–1048576 bytes"),
        ("topic-durable", "durability=sometimes", "durability of \"sometimes\" is not in immediate, eventual, none"),
        (
            "topic-durable",
            "publisher=3",
            "unknown parameter \"publisher\" of topic-durable: did you mean \"publishers\"?",
        ),
        ("topic-herd", "herd=0", "herd of \"0\" is not in 1–100000"),
        ("topic-herd", "publishers=sockets", "publishers of \"sockets\" is not in native, guests, websockets"),
    ] {
        assert_refused(dir.path(), &["bench", "run", scenario, "--param", param], wanted);
    }
}

#[test]
fn a_comparison_says_what_it_sees_by_its_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    report(dir.path(), "a.json", STEADY, |_| {});
    report(dir.path(), "slow.json", STEADY.map(|rate| rate * 0.8), |_| {});
    report(dir.path(), "elsewhere.json", STEADY, |report| report["machine"]["cores"] = 999.into());
    let code = |args: &[&str]| rusm(dir.path(), &[&["bench", "compare"], args].concat()).status.code();

    assert_eq!(code(&["a.json", "a.json"]), Some(0));
    assert_eq!(code(&["slow.json", "a.json"]), Some(0));
    assert_eq!(code(&["a.json", "slow.json"]), Some(5));
    assert_eq!(code(&["a.json", "slow.json", "--threshold", "50"]), Some(0));
    assert_eq!(code(&["a.json", "elsewhere.json"]), Some(6));
    assert_eq!(code(&["a.json", "elsewhere.json", "--across-machines"]), Some(0));
    let shown = json(&rusm(dir.path(), &["bench", "compare", "a.json", "slow.json", "--json"]));
    assert_eq!((shown["outcome"].as_str(), shown["decides"].as_str()), (Some("worse"), Some("ops_per_sec")));
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    report(dir.path(), "a.json", STEADY, |_| {});
    report(dir.path(), "newer.json", STEADY, |report| report["schema_version"] = 99.into());
    report(dir.path(), "unknown.json", STEADY, |report| report["recipe"]["scenario"] = "ping-pnog".into());
    report(dir.path(), "other.json", STEADY, |report| report["recipe"]["scenario"] = "fan-in".into());
    fs::write(dir.path().join("empty.json"), "").unwrap();
    let whole = fs::read_to_string(dir.path().join("a.json")).unwrap();
    fs::write(dir.path().join("half.json"), &whole[..whole.len() / 2]).unwrap();
    for (args, wanted) in [
        (&["empty.json", "a.json"][..], "empty.json is empty, not a report"),
        (&["a.json", "half.json"], "half.json is not complete JSON: EOF while parsing"),
        (
            &["a.json", "newer.json"],
            "newer.json has schema version 99, but this rusm reads at most 1: use a newer rusm",
        ),
        (&["a.json", "unknown.json"], "unknown.json: unknown scenario \"ping-pnog\": did you mean \"ping-pong\"?"),
        (&["a.json", "other.json"], "a.json is a report of ping-pong, other.json of fan-in"),
        (&["a.json", "gone.json"], "cannot read gone.json"),
        (&["a.json", "a.json", "--by", "ops"], "unknown figure \"ops\""),
        (&["a.json", "a.json", "--threshold", "-3"], "threshold of -3 % is not between 0.1 and 100"),
    ] {
        assert_refused(dir.path(), &[&["bench", "compare"], args].concat(), wanted);
    }
}

#[test]
fn a_program_beside_itself_gets_a_verdict_and_a_control() {
    let dir = tempfile::tempdir().unwrap();
    let own = env!("CARGO_BIN_EXE_rusm");
    let args = ["bench", "ab", "ping-pong", "--baseline", own, "--rounds", "2", "--json", "--param", "pairs=1"];

    let output = rusm(dir.path(), &[&args, &SHORT[..]].concat());

    let judged = json(&output);
    // The outcome of two rounds of 100 ms is random, but the form of the report is not. On a busy machine, a run of that
    // length may do nothing; then there is no control.
    let runs: Vec<&Value> =
        judged["runs"].as_array().into_iter().flatten().filter_map(Value::as_array).flatten().collect();
    assert_eq!(runs.len(), 2 * 4, "{judged}");
    let has_run = |run: &&Value| run["ops_total"].as_u64() > Some(0);
    assert!(judged["control"].is_f64() || !runs.iter().all(has_run), "{judged}");
    let code = match judged["outcome"].as_str() {
        Some("better" | "same") => 0,
        Some("worse") => 5,
        _ => 6,
    };
    assert_eq!(output.status.code(), Some(code));
}

#[test]
fn the_runs_of_a_comparison_end_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let own = env!("CARGO_BIN_EXE_rusm");
    let mut command = Command::new(own);
    command.args(["bench", "ab", "ping-pong", "--baseline", own, "--for", "600s"]);
    command.current_dir(dir.path()).env_clear().env("XDG_RUNTIME_DIR", dir.path()).env("XDG_DATA_HOME", dir.path());
    let mut comparison = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let id = comparison.id();
    let is_run = |pid: &String| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("--json")
    };
    let run = until(|| {
        if let Some(status) = comparison.try_wait().unwrap() {
            let mut text = String::new();
            comparison.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("it ended with {status}: {text}");
        }
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        children.split_whitespace().map(str::to_owned).find(is_run)
    });

    comparison.kill().unwrap();
    comparison.wait().unwrap();

    until(|| (!is_run(&run)).then_some(()));
}

#[test]
fn a_sweep_prints_a_line_for_each_cell() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "sweep", "ping-pong", "--grid", "pairs=1,2", "--grid", "payload=0,64", "--output", "s.json"];

    let output = rusm(dir.path(), &[&args, &SHORT[..]].concat());

    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let firsts: Vec<String> = text.lines().map(|line| line.split('\t').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(firsts, ["pairs payload", "1 0", "1 64", "2 0", "2 64"], "{text}");
    let saved: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("s.json")).unwrap()).unwrap();
    assert_eq!(saved["cells"][3]["params"]["payload"], "64");
}

#[test]
fn a_short_soak_says_that_it_was_short_and_saturate_draws_what_it_saw() {
    let dir = tempfile::tempdir().unwrap();
    let short = ["--warm-up", "100ms", "--schedulers", "1"];
    let soak = ["bench", "soak", "ping-pong", "--duration", "1s", "--json"];
    let saturate =
        ["bench", "saturate", "ping-pong", "--no-usl", "--for", "300ms", "--svg", "c.svg", "--param", "pairs=1"];

    let soaked = rusm(dir.path(), &[&soak, &short[..]].concat());
    let saturated = rusm(dir.path(), &[&saturate, &short[..]].concat());

    // Within a second only the live bytes after the end can have grown; on a machine under a sanitizer they may have.
    assert!(matches!(soaked.status.code(), Some(5 | 6)), "{soaked:?}");
    assert!(!json(&soaked)["samples"].as_array().unwrap().is_empty());
    let text = String::from_utf8_lossy(&saturated.stdout).into_owned();
    assert!(text.contains("stable to") && text.contains("p99 over the rate offered"), "{saturated:?}");
    let picture = fs::read_to_string(dir.path().join("c.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.matches("<circle").count() >= 11);
}

#[test]
fn what_was_measured_before_ctrl_c_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let forever = ["--warm-up", "100ms", "--schedulers", "1", "--for", "24h", "--json", "--param", "pairs=1"];
    let grid = ["--grid", "payload=0,16", "--runs", "2"];
    let commands: [(&[&str], &str); 3] = [
        (&["bench", "run", "ping-pong", "--runs", "2"], "/runs/0/ops_total"),
        (&["bench", "soak", "ping-pong"], "/run/ops_total"),
        (&[&["bench", "sweep", "ping-pong"], &grid[..]].concat(), "/cells/0/figures/0/median"),
    ];
    for (command, counted) in commands {
        // The time until the command starts to measure depends on the machine.
        let report = [1, 4, 16, 64].into_iter().find_map(|seconds| {
            let output = interrupted(dir.path(), &[command, &forever[..]].concat(), Duration::from_secs(seconds));
            let code = output.status.code();
            // Before the command handles signals, the signal ends it like any other program.
            assert!(code.is_none() || code == Some(130), "{output:?}");
            serde_json::from_slice::<Value>(&output.stdout).ok()
        });

        let report = report.expect("the last attempt runs long enough to measure something");
        assert!(report.pointer(counted).and_then(Value::as_f64).is_some_and(|count| count > 0.0), "{report}");
    }
}

#[test]
fn a_report_that_nobody_reads_does_not_keep_a_signal_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir.path()).env_clear().env("XDG_RUNTIME_DIR", dir.path()).env("XDG_DATA_HOME", dir.path());
    let (_nobody_reads, full) = full_pipe();
    let run = ["bench", "run", "ping-pong", "--warm-up", "100ms", "--for", "24h", "--schedulers", "1"];
    let mut child = command.args(run).stdin(Stdio::null()).stdout(full).stderr(Stdio::null()).spawn().unwrap();
    let listens = || {
        fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().any(|task| {
            fs::read_to_string(task.unwrap().path().join("comm")).is_ok_and(|name| name.trim() == "rusm-signals")
        })
    };
    until(|| listens().then_some(()));
    // It measures by then, unless the machine is slow.
    thread::park_timeout(Duration::from_secs(2));

    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();

    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn searches_and_grids_with_mistakes_are_refused_before_they_start() {
    let dir = tempfile::tempdir().unwrap();
    let thousand = |name: &str| format!("{name}={}", vec!["1"; 1_000].join(","));
    let (pairs, payload) = (thousand("pairs"), thousand("payload"));
    for (args, wanted) in [
        (
            &["sweep", "ping-pong", "--grid", &pairs, "--grid", &payload][..],
            "a grid of 1000000 cells is more than 10000",
        ),
        (&["sweep", "ping-pong", "--grid", "pairs=1,0"], "pairs of \"0\" is not in auto"),
        (&["sweep", "ping-pong", "--grid", "pears=1"], "unknown parameter \"pears\""),
        (&["sweep", "ping-pong", "--grid", "pairs"], "is not of the form name=a,b,c"),
        (&["sweep", "ping-pong"], "missing --grid"),
        (&["saturate", "ping-pong", "--slo", "p95=1ms"], "--slo of \"p95=1ms\" must have the form p99=20ms"),
        (&["saturate", "ping-pong", "--workers", "pears"], "unknown parameter \"pears\" of ping-pong"),
        (&["saturate", "ping-pong", "--workers", "placement", "--for", "1h"], "placement of \"1\" is not in"),
        (&["saturate", "ring-versus"], "leave the offered rate out"),
        (&["saturate", "ping-pong", "--open-loop", "5"], "leave --open-loop out"),
        (&["soak", "ping-pong", "--duration", "0s"], "--duration of \"0s\" must be a time"),
        (&["soak", "ping-pong", "--duration", "3w"], "--duration of \"3w\" must be a time"),
    ] {
        assert_refused(dir.path(), &[&["bench"], args].concat(), wanted);
    }
}

#[test]
fn reports_are_kept_and_shown_again() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        |more: &[&str]| rusm(dir.path(), &[&["bench", "run", "ping-pong", "--runs", "1"], &SHORT[..], more].concat());
    let history = |args: &[&str]| {
        let output = rusm(dir.path(), &[&["bench", "history"], args].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };

    run(&["--no-history"]);
    assert!(history(&[]).1.starts_with("no runs yet"), "{:?}", history(&[]));
    run(&[]);
    run(&["--param", "pairs=3"]);
    run(&["--param", "pairs=3"]);

    let entries = rusm(dir.path(), &["bench", "history", "ping-pong", "--json"]);
    assert_eq!(json(&entries).as_array().map(Vec::len), Some(3));
    let (code, text) = history(&["ping-pong"]);
    assert_eq!((code, text.matches("ping-pong · profile balanced").count()), (Some(0), 2), "{text}");
    assert!(text.contains("pairs=3\n") && text.contains("  ops_per_sec  "), "{text}");
    assert!(history(&["fan-in"]).1.starts_with("no runs yet"));
    assert_refused(dir.path(), &["bench", "history", "ping"], "unknown scenario \"ping\"");
}

#[test]
fn a_history_that_cannot_be_read_does_not_cost_the_report() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("rusm")).unwrap();
    fs::write(dir.path().join("rusm/history.redb"), "something else").unwrap();

    let run = rusm(dir.path(), &[&["bench", "run", "ping-pong", "--runs", "1", "--json"], &SHORT[..]].concat());
    let shown = rusm(dir.path(), &["bench", "history"]);

    assert!(json(&run)["runs"][0]["ops_total"].as_u64() > Some(0));
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(
        stderr.starts_with("rusm: cannot save the report in the history: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert_eq!(
        (shown.status.code(), String::from_utf8_lossy(&shown.stderr).lines().count()),
        (Some(1), 1),
        "{shown:?}"
    );
}

#[test]
fn a_file_that_cannot_be_written_does_not_cost_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let short = [&SHORT[..], &["--runs", "1", "--json"]].concat();
    for flag in ["--output", "--save-profile"] {
        let run = rusm(dir.path(), &[&["bench", "run", "ping-pong", flag, "/dev/full"], &short[..]].concat());

        assert!(json(&run)["runs"][0]["ops_total"].as_u64() > Some(0));
        let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!((run.status.code(), stderr.lines().count()), (Some(1), 1), "{flag}: {stderr}");
        assert!(stderr.starts_with("rusm: cannot write /dev/full: "), "{flag}: {stderr}");
    }
    let kept = rusm(dir.path(), &["bench", "history", "--json"]);
    assert_eq!(json(&kept).as_array().map(Vec::len), Some(2));
}

#[test]
fn an_output_in_a_folder_that_does_not_exist_is_refused_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    for (path, why) in [("gone/a", "its folder does not exist"), (".", "it is a folder")] {
        let run = rusm(dir.path(), &["bench", "run", "ping-pong", "--output", path]);

        assert_eq!((run.status.code(), run.stdout.len()), (Some(2), 0), "{run:?}");
        assert!(String::from_utf8_lossy(&run.stderr).contains(why), "{run:?}");
    }
}

#[test]
fn conditions_that_cannot_be_had_are_said_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    for (args, wanted) in [
        (&["--cpus", "-1"][..], "--cpus of -1 is not between 0.01 and 4096"),
        (&["--cpus", "NaN"], "--cpus of NaN is not between 0.01 and 4096"),
        (&["--memory", "lots"], "--memory of \"lots\" must be a size of at least 16MiB"),
        (&["--memory", "1MiB"], "--memory of \"1MiB\" must be a size of at least 16MiB"),
    ] {
        assert_refused(dir.path(), &[&["bench", "run", "ping-pong"], args].concat(), wanted);
        let own = env!("CARGO_BIN_EXE_rusm");
        assert_refused(dir.path(), &[&["bench", "ab", "ping-pong", "--baseline", own], args].concat(), wanted);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_rusm"));
    command.current_dir(dir.path()).env_clear().env("XDG_RUNTIME_DIR", dir.path()).env("PATH", dir.path());
    let output = command.args(["bench", "run", "ping-pong", "--profile-cpu", "p.data"]).output().unwrap();
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.contains("--profile-cpu needs perf") && line.contains("apt install linux-perf"), "{line}");
}

#[test]
fn a_limit_is_in_the_report_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = ["bench", "run", "ping-pong", "--runs", "1", "--json", "--cpus", "0.5", "--memory", "512MiB"];

    let output = rusm(dir.path(), &[&run, &SHORT[..]].concat());

    if output.status.code() == Some(2) {
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(line.starts_with("rusm: cannot limit this program: ") && line.lines().count() == 1, "{line}");
    } else {
        let report = json(&output);
        assert!(report["machine"]["cgroup_cores"].as_f64().is_some_and(|cores| cores <= 0.5), "{report}");
        assert!(report["machine"]["cgroup_memory_bytes"].as_u64().is_some_and(|bytes| bytes <= 512 << 20), "{report}");
    }
}

#[test]
fn a_memory_limit_that_is_exceeded_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        ["bench", "run", "parked", "--memory", "32MiB", "--param", "processes=4000000", "--for", "1m", "--no-history"];

    let output = rusm(dir.path(), &run);

    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(line.lines().count(), 1, "{line}");
    if output.status.code() == Some(2) {
        assert!(line.starts_with("rusm: cannot limit this program: "), "{line}");
    } else {
        assert_eq!(output.status.code(), Some(5), "{line}");
        assert!(line.starts_with("rusm: --memory 32MiB: the scenario exceeded this limit"), "{line}");
    }
}
