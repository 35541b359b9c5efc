//! `rusm run` from a user's point of view: exit codes, one clear line for bad input, guests that are supervised,
//! stopped and restarted.

mod escapes;
pub(crate) mod harness;
mod log;
mod topics;

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::run::harness::{Run, folder, prebuilt, run};

/// Waits for messages and receives none.
const PARKED: &str = r#"(module
    (import "rusm" "receive" (func $receive (param i64) (result i32)))
    (memory (export "memory") 1)
    (func (export "run") (loop $next (drop (call $receive (i64.const -1))) (br $next))))"#;

/// Ends at once, normally.
const BRIEF: &str = r#"(module (func (export "run")))"#;

/// Ends at once, abnormally.
const TRAP: &str = r#"(module (func $boom unreachable) (func $run (export "run") (call $boom)))"#;

/// Prints its second argument and ends, like `puts(argv[1])` in a C program.
const PUTS: &str = r#"(module
    (import "wasi_snapshot_preview1" "args_get" (func $get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "_start") (local $text i32) (local $end i32)
        (drop (call $get (i32.const 100) (i32.const 200)))
        (local.set $text (i32.load (i32.const 104)))
        (local.set $end (local.get $text))
        (loop $next
            (local.set $end (i32.add (local.get $end) (i32.const 1)))
            (br_if $next (i32.load8_u (local.get $end))))
        (i32.store (i32.const 0) (local.get $text))
        (i32.store (i32.const 4) (i32.sub (local.get $end) (local.get $text)))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn a_new_guest_runs_as_created() {
    let dir = folder(&[]);
    for (language, project, built) in [
        ("rust", "my-guest", "target/wasm32-unknown-unknown/release/my_guest.wasm"),
        ("c", "c-guest", "build/c-guest.wasm"),
        ("ts", "ts-guest", "build/ts-guest.wasm"),
    ] {
        let mut new = Command::new(env!("CARGO_BIN_EXE_rusm"));
        let created = new.args(["new", "--guest", language, project]).current_dir(dir.path()).output().unwrap();
        let shown = String::from_utf8(created.stdout).unwrap();
        assert!(created.status.success() && shown.ends_with("  rusm run\n"), "{shown}");
        // The compiler's output is prebuilt; the settings of the project lead to it.
        let built = dir.path().join(project).join(built);
        std::fs::create_dir_all(built.parent().unwrap()).unwrap();
        std::fs::copy(prebuilt("rust/hello.wasm"), built).unwrap();

        let (code, log) = run(&dir.path().join(project), &[]);

        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("hello, world: I am process"), "{log}");
    }
    for arguments in [&["new", "shop"][..], &["new", "--guest", "c", "--http", "c", "shop"]] {
        let refused = Command::new(env!("CARGO_BIN_EXE_rusm")).args(arguments).current_dir(dir.path()).output();
        assert_eq!(refused.unwrap().status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_command_has_the_folders_and_variables_of_its_profile_and_no_others() {
    let settings = |folders: &str| {
        format!(
            "[profile.post]\ncapabilities = []\nenvironment = {{ WHO = \"Ada\" }}\nfolders = {{ {folders} }}\n\n\
             [[process]]\nmodule = \"greeter.wasm\"\nprofile = \"post\"\nrestart = \"temporary\"\n"
        )
    };
    let dir = folder(&[
        ("secret", "for nobody"),
        ("write.toml", &settings("\"/letters\" = { path = \"letters\", write = true }")),
        ("read.toml", &settings("\"/letters\" = \"letters\"")),
        ("none.toml", &settings("")),
        ("pipe.toml", &settings("\"/letters\" = \"pipes\"")),
        ("gone.toml", &settings("\"/letters\" = \"gone\"")),
        ("word.toml", &settings("\"/letters\" = { path = \"letters\", wirte = true }")),
    ]);
    let letters = dir.path().join("letters");
    std::fs::create_dir(&letters).unwrap();
    std::fs::write(letters.join("greeting"), "good day\n").unwrap();
    std::fs::create_dir(dir.path().join("pipes")).unwrap();
    let pipe = dir.path().join("pipes/greeting");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    std::fs::copy(prebuilt("wasi/greeter.wasm"), dir.path().join("greeter.wasm")).unwrap();

    let (read, write, none) =
        (run(dir.path(), &["read.toml"]), run(dir.path(), &["write.toml"]), run(dir.path(), &["none.toml"]));
    // Opening it would wait without end.
    let pipe = run(dir.path(), &["pipe.toml"]);
    let (gone, word) = (run(dir.path(), &["gone.toml"]), run(dir.path(), &["word.toml"]));

    assert!(read.1.contains("good day, Ada") && read.1.contains("not sent: "), "{}", read.1);
    assert!(write.1.contains("good day, Ada") && !write.1.contains("not sent"), "{}", write.1);
    assert_eq!(std::fs::read_to_string(letters.join("sent")).unwrap(), "good day, Ada");
    assert!(none.1.contains("no letter: ") && none.1.contains("not sent: "), "{}", none.1);
    assert!(pipe.1.contains("no letter: "), "{}", pipe.1);
    for (code, log) in [&read, &write, &none, &pipe] {
        assert_eq!(*code, Some(0), "{log}");
        assert!(log.contains("outside is refused"), "{log}");
    }
    assert!(gone.1.contains("needs gone, which is not a folder") || gone.1.contains("/gone, which is not a folder"));
    assert!(word.1.contains("must be a section of paths"), "{}", word.1);
    assert_eq!([gone.0, word.0], [Some(2); 2]);
}

#[test]
fn bad_input_gets_one_line_and_the_usage_code() {
    let process = |rest: &str| format!("[[process]]\nmodule = \"parked.wat\"\n{rest}");
    let dir = folder(&[
        ("parked.wat", PARKED),
        ("imports.wat", r#"(module (import "env" "foo" (func)) (memory (export "memory") 1) (func (export "run")))"#),
        (
            "stores.wat",
            r#"(module (import "rusm" "kv_get" (func)) (memory (export "memory") 1) (func (export "run")))"#,
        ),
        ("no_entry.wat", r#"(module (func (export "go")))"#),
        ("bad.wat", "(module\n  (fnc))"),
        ("words.wasm", "these are just words"),
        ("empty.wasm", ""),
        ("short.wasm", "\0asm\x01\0\0\0\x01"),
        ("key.toml", &process("cuont = 2")),
        ("count.toml", &process("count = 0")),
        ("crowd.toml", &process("count = 999_999")),
        ("twice.toml", &process(&process(""))),
        ("word.toml", "[profile.mine]\ncapabilities = [\"spwan\"]"),
        ("gone.toml", "[[process]]\nmodule = \"gone.wasm\""),
        ("syntax.toml", "[[process]]\nmodule = 'x"),
        ("empty.toml", ""),
    ]);
    let cases: [(&[&str], &str); 27] = [
        (&[], "nothing to run: there is no rusm.toml here, and no FILE was given"),
        (&["gone.wasm"], "cannot read gone.wasm: No such file"),
        (&["."], "cannot run .: it is a directory"),
        (&["/dev/null"], "cannot run /dev/null: it is not a regular file"),
        (&["empty.wasm"], "it is not valid WebAssembly: 0 bytes"),
        (&["words.wasm"], "cannot run words.wasm: it is not valid WebAssembly: it does not begin with the bytes"),
        (&["short.wasm"], "cannot run short.wasm: it is not valid WebAssembly: failed to parse"),
        (&["bad.wat"], "cannot run bad.wat: expected valid module field, at 2:4"),
        (&["imports.wat"], "imports what this node does not have: unknown import: `env::foo`"),
        (&["stores.wat"], "does not have (a store: set store.path or RUSM_STORE): unknown import: `rusm::kv_get`"),
        (&["no_entry.wat"], "cannot run no_entry.wat: it exports neither a function `run` nor the `_start`"),
        (&["--count", "0", "parked.wat"], "process.count of \"0\" in --count must be a number between 1 and 1000000"),
        (&["--count", "1001", "parked.wat"], "1001 processes in the command line exceed engine.capacity of 1000"),
        (
            &["--profile", "trustd", "parked.wat"],
            "in --profile must be one of network, sandboxed, trusted: did you mean",
        ),
        (&["--restart", "allways", "parked.wat"], "in --restart must be permanent, transient or temporary"),
        (&["--shutdown", "soon", "parked.wat"], "in --shutdown must be a time such as 5s"),
        (&["--memory-max", "5GiB", "parked.wat"], "in --memory-max must be a size between 1 and 4 GiB"),
        (&["--top", "parked.wat"], "stdout is not a terminal"),
        (&["key.toml"], "unknown setting \"process.cuont\" in key.toml (process \"parked.wat\"): did you mean"),
        (&["count.toml"], "process.count of \"0\" in count.toml"),
        (&["crowd.toml"], "999999 processes in crowd.toml exceed engine.capacity"),
        (&["twice.toml"], "two processes in twice.toml are called \"parked\""),
        (&["word.toml"], "is not a capability: did you mean \"spawn\"?"),
        (&["gone.toml"], "cannot read gone.wasm: No such file"),
        (&["syntax.toml"], "syntax.toml is not valid TOML"),
        (&["empty.toml"], "empty.toml has no [[process]] entry"),
        (&["--count", "2", "count.toml"], "--count is for a module: set process.count in count.toml"),
    ];
    for (args, wanted) in cases {
        let (code, line) = run(dir.path(), args);

        assert_eq!(code, Some(2), "{args:?}: {line}");
        assert_eq!(line.lines().count(), 1, "{args:?}: {line}");
        assert!(line.starts_with("rusm: ") && line.contains(wanted), "{args:?}: {line}");
    }
}

#[test]
fn other_commands_check_the_application_too() {
    let dir = folder(&[("rusm.toml", "[[process]]\nmodul = \"x\"")]);
    for command in [&["node"][..], &["bench", "run", "ping-pong"]] {
        let mut other = Command::new(env!("CARGO_BIN_EXE_rusm"));
        let output = other.args(command).current_dir(dir.path()).env_clear().output().unwrap();

        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {line}");
        assert!(line.contains("did you mean \"process.module\"?"), "{line}");
    }
}

#[test]
fn guests_that_have_all_ended_well_end_the_run_with_success() {
    let dir = folder(&[("brief.wat", BRIEF)]);

    let (code, log) = run(dir.path(), &["--count", "3", "brief.wat"]);

    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("node is up: watch it with rusm-top brief"), "{log}");
    for id in ["brief.1", "brief.2", "brief.3"] {
        assert!(log.contains(&format!("guest has ended guest=\"{id}\"")), "{log}");
    }
}

#[test]
fn a_guest_that_is_given_up_ends_the_run_with_its_reason() {
    let dir = folder(&[("trap.wat", TRAP)]);

    let (code, log) = run(dir.path(), &["trap.wat"]);

    assert_eq!(code, Some(1), "{log}");
    let last = log.lines().last().unwrap();
    assert_eq!(last, "rusm: guest \"trap\" was given up: trap: unreachable (more than 1 restart in 5s)");
    assert_eq!(log.matches("guest has ended").count(), 2, "started, and restarted once: {log}");
    assert_eq!(log.matches("process crashed").count(), 0, "each end is one line: {log}");
    assert!(log.contains("backtrace=\"boom < run\""), "{log}");
    let crashes = |line: &&str| line.contains("ERROR rusm::run: guest has ended") && line.contains("ancestors=<0.");
    assert_eq!(log.lines().filter(crashes).count(), 2, "{log}");
}

#[test]
fn a_temporary_guest_that_fails_is_not_restarted_and_not_forgotten() {
    let dir = folder(&[("trap.wat", TRAP)]);

    let (code, log) = run(dir.path(), &["--restart", "temporary", "trap.wat"]);

    assert_eq!((code, log.lines().last()), (Some(1), Some("rusm: guest \"trap\" has ended: trap: unreachable")));
    assert_eq!(log.matches("guest has ended").count(), 1, "{log}");
}

#[test]
fn a_wasi_command_gets_arguments_and_prints_to_the_log() {
    let dir = folder(&[("puts.wat", PUTS)]);
    for args in [&["puts.wat", "hello from inside"][..], &["puts.wat", "--", "--hello from inside"]] {
        let (code, log) = run(dir.path(), args);

        assert_eq!(code, Some(0), "{log}");
        let line = log.lines().find(|line| line.contains("hello from inside")).unwrap();
        assert!(line.contains("INFO rusm::guest: ") && line.contains("module=\"puts\""), "{line}");
    }
}

#[test]
fn a_signal_stops_guests_in_reverse_order_of_their_start() {
    let dir = folder(&[
        ("parked.wat", PARKED),
        (
            "rusm.toml",
            "[[process]]\nname = \"first\"\nmodule = \"parked.wat\"\n[[process]]\nname = \"second\"\n\
             module = \"parked.wat\"\nrestart = \"permanent\"\n[node]\nname = \"pair\"",
        ),
    ]);
    let mut run = Run::start(dir.path(), &[]);
    run.wait("guests have started");
    assert!(dir.path().join("rusm/pair.sock").exists());

    run.signal(Signal::TERM);

    assert_eq!(run.ended(), Some(0), "{:#?}", run.seen);
    let ends: Vec<_> = run.seen.iter().filter(|line| line.contains("guest has ended")).collect();
    let place = |name: &str| ends.iter().position(|line| line.contains(&format!("guest=\"{name}\""))).unwrap();
    assert!(place("second") < place("first"), "{ends:#?}");
    assert!(run.seen.iter().any(|line| line.contains("node has stopped killed=0")), "{:#?}", run.seen);
    assert!(!dir.path().join("rusm/pair.sock").exists());
}

#[test]
fn a_second_signal_ends_a_run_whose_guest_will_not_stop() {
    let stubborn = r#"(module
        (import "rusm" "trap_exits" (func $trap_exits (param i32) (result i32)))
        (import "rusm" "receive" (func $receive (param i64) (result i32)))
        (import "rusm" "log" (func $log (param i32 i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "deaf from now on")
        (func (export "run")
            (drop (call $trap_exits (i32.const 1)))
            (call $log (i32.const 2) (i32.const 0) (i32.const 16))
            (loop $again (drop (call $receive (i64.const -1))) (br $again))))"#;
    let app = "[[process]]\nmodule = \"stubborn.wat\"\nshutdown = \"infinity\"\n[node]\ndrain = \"1h\"";
    let dir = folder(&[("stubborn.wat", stubborn), ("rusm.toml", app)]);
    let mut run = Run::start(dir.path(), &[]);
    run.wait("deaf from now on");

    run.signal(Signal::TERM);
    run.wait("a second signal ends the node at once");

    assert_eq!(run.ended_by(Signal::TERM), Some(128 + 15), "{:#?}", run.seen);
}

#[test]
fn a_changed_module_replaces_the_one_that_runs_and_a_bad_one_does_not() {
    let dir = folder(&[("app.wat", PARKED)]);
    let change = |text: &str| {
        std::fs::write(dir.path().join("next"), text).unwrap();
        std::fs::rename(dir.path().join("next"), dir.path().join("app.wat")).unwrap();
    };
    let mut run = Run::start(dir.path(), &["--watch", "app.wat"]);
    run.wait("guests have started");

    change("(module");
    run.wait("module has changed, but the old one keeps running: cannot run app.wat: ");
    change(TRAP);
    run.wait("module has changed: restarting its guests");
    run.wait("reason=shutdown");
    run.wait(
        "guest \"app\" was given up: trap: unreachable (more than 1 restart in 5s); waiting for a module to change",
    );
    change(BRIEF);
    run.wait("module has changed: restarting its guests");
    run.wait("guest has ended guest=\"app\"");
    change(PARKED);
    run.wait("module has changed: restarting its guests");
    run.signal(Signal::INT);

    assert_eq!(run.ended(), Some(0), "{:#?}", run.seen);
}

#[test]
fn a_module_that_takes_too_much_memory_to_compile_is_refused_and_the_old_one_continues() {
    const APP: &str = "[engine]\ncompile_memory = \"96MiB\"\n[[process]]\nname = \"app\"\nmodule = \"app.wat\"\n";
    // Each component instantiates the one below it twice: four million instances.
    let below = |level: u32| format!("(alias outer 1 $c{} (component $x)) (instance (instantiate $x))", level - 1);
    let nested = |level| format!("(component $c{level} {0} (instance (instantiate $x)))", below(level));
    let components: String = (1..22).map(nested).collect();
    let bomb = format!(
        "(component (component $c0 (core module $m) (core instance (instantiate $m))) {components} (instance (instantiate $c21)))"
    );
    let dir = folder(&[("app.wat", PARKED), ("app.toml", APP), ("bomb.wat", &bomb)]);
    let mut run = Run::start(dir.path(), &["--watch", "app.toml"]);
    run.wait("guests have started");

    std::fs::rename(dir.path().join("bomb.wat"), dir.path().join("app.wat")).unwrap();
    run.wait("the old one keeps running: cannot run ");
    run.signal(Signal::INT);

    assert_eq!(run.ended(), Some(0), "{:#?}", run.seen);
    assert!(
        run.seen.iter().any(|line| line.contains("it cannot be compiled: it takes more than 96 MiB of memory")),
        "{:#?}",
        run.seen
    );
}

#[test]
fn a_module_that_takes_too_long_to_compile_is_refused() {
    const APP: &str = "[engine]\ncompile_time = \"1s\"\n[[process]]\nname = \"app\"\nmodule = \"app.wat\"\n";
    // The compiler's time grows with the square of the depth.
    let nested = |depth| format!("(module (func (export \"run\") {} {}))", "(loop ".repeat(depth), ")".repeat(depth));
    let dir = folder(&[("app.wat", &nested(20_000)), ("app.toml", APP)]);

    let (code, log) = run(dir.path(), &["app.toml"]);

    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("it takes more than 1 s of processor time: raise engine.compile_time"), "{log}");
}

#[test]
fn compiled_code_is_kept_for_the_next_run() {
    let dir = folder(&[("brief.wat", BRIEF)]);

    let (first, second) = (run(dir.path(), &["brief.wat"]), run(dir.path(), &["brief.wat"]));

    assert_eq!((first.0, second.0), (Some(0), Some(0)));
    let kept = std::fs::read_dir(dir.path().join("cache/rusm")).unwrap().count();
    assert_eq!(kept, 1);
}

/// Guests that end by themselves, and a word of their output; empty for guests without output.
const ENDING: [(&[&str], &str); 16] = [
    (&["rust/hello.wasm", "you"], "hello, you"),
    (&["c/hello.wasm"], "hello, world"),
    (&["ts/guests.wasm", "hello", "Ada"], "hello, Ada"),
    (&["wat/hello.wasm"], "hello, world"),
    (&["wat/empty.wasm"], ""),
    (&["wat/one_page.wasm"], ""),
    (&["rust/crash.wasm", "return"], ""),
    (&["rust/counter.wasm"], "add 2: 2, add 3: 5"),
    (&["c/counter.wasm"], "add 3: 5"),
    (&["rust/ping_pong.wasm"], "round trips"),
    (&["c/ping_pong.wasm"], "round trips"),
    (&["wat/ping_pong.wasm"], "round trips"),
    (&["wat/counter.wasm"], "after a crash to 1"),
    (&["c/crash.wasm", "exit"], "shutdown: closing time"),
    (&["ts/guests.wasm", "crash", "exit"], "shutdown: closing time"),
    (&["wat/crash.wasm", "close"], "shutdown: closing time"),
];
/// Guests that end by a fault, and a part of its message.
const FAULTY: [(&[&str], &str); 17] = [
    (&["rust/crash.wasm", "panic"], "trap: panicked at "),
    (&["rust/crash.wasm", "panic"], " < crash::end < run\""),
    (&["rust/hog.wasm"], "memory_limit("),
    (&["wat/recurse.wasm"], "trap: stack overflow"),
    (&["wat/trap.wasm"], "trap: unreachable"),
    (&["ts/guests.wasm", "nothing"], "is none of"),
    (&["c/crash.wasm", "error"], "no more coins"),
    (&["c/crash.wasm", "divide"], "trap: integer division by zero"),
    (&["c/crash.wasm", "recurse"], "recurse < recurse"),
    (&["c/hog.wasm"], "memory_limit("),
    (&["ts/guests.wasm", "crash", "panic"], "Error: asked to panic"),
    (&["ts/guests.wasm", "crash", "recurse"], "trap: stack overflow"),
    (&["ts/guests.wasm", "hog"], "memory_limit("),
    (&["wat/crash.wasm", "error"], "no more coins"),
    (&["wat/crash.wasm", "bounds"], "trap: memory out of bounds"),
    (&["wat/crash.wasm", "infinite"], "trap: stack overflow"),
    (&["wat/hog.wasm"], "memory_limit("),
];
/// Guests that run until they are stopped.
const LASTING: [&[&str]; 19] = [
    &["rust/counter.wasm", "serve"],
    &["rust/digest.wasm"],
    &["c/digest.wasm"],
    &["rust/parked.wasm"],
    &["c/parked.wasm"],
    &["wat/parked.wasm"],
    &["rust/spin.wasm"],
    &["wat/spin.wasm"],
    &["c/spin.wasm"],
    &["ts/guests.wasm", "spin"],
    &["wat/digest.wasm"],
    &["c/crash.wasm"],
    &["wat/crash.wasm"],
    &["rust/keeper.wasm"],
    &["c/keeper.wasm"],
    &["ts/keeper.wasm"],
    &["rust/courier.wasm"],
    &["c/courier.wasm"],
    &["ts/courier.wasm"],
];

/// Returns the arguments for a prebuilt guest, with everything that it may need.
fn with_all(guest: &[&str]) -> Vec<String> {
    let options = ["--profile", "trusted", "--memory-max", "4MiB"].map(str::to_owned);
    options.into_iter().chain([prebuilt(guest[0])]).chain(guest[1..].iter().map(|&arg| arg.to_owned())).collect()
}

#[test]
fn every_guest_of_the_examples_runs_to_its_end() {
    let dir = folder(&[]);
    for ((guest, words), due) in ENDING.map(|guest| (guest, 0)).into_iter().chain(FAULTY.map(|guest| (guest, 1))) {
        let args = with_all(guest);

        let (code, log) = run(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());

        assert_eq!(code, Some(due), "{guest:?}: {log}");
        assert!(log.contains(words), "{guest:?}: {log}");
    }
}

#[test]
fn every_guest_of_the_examples_that_goes_on_stops_when_it_is_told_to() {
    // Several guests have the same name in different languages.
    let file = |guest: &[&str]| guest[0].replace('/', "-");
    let process = |guest: &[&str]| {
        let file = file(guest);
        format!("[[process]]\nname = {file:?}\nmodule = {file:?}\nargs = {:?}\nprofile = \"trusted\"\n", &guest[1..])
    };
    let all = "[store]\npath = \"a.redb\"\n[topics]\nletters = \"disk\"\ndelivered = \"memory\"\n";
    let app = LASTING.map(process).concat() + all;
    let dir = folder(&[("all.toml", &app)]);
    for guest in LASTING {
        std::fs::copy(prebuilt(guest[0]), dir.path().join(file(guest))).unwrap();
    }
    let mut run = Run::start(dir.path(), &["all.toml"]);

    assert!(run.wait("guests have started").contains(&format!("guests={}", LASTING.len())));
    run.signal(Signal::TERM);

    assert_eq!(run.ended(), Some(0), "{:#?}", run.seen);
}

#[test]
fn no_guest_of_the_examples_is_left_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt");
    let names = |folder: &str| {
        let files = std::fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().file_name());
        files.map(|name| format!("{folder}/{}", name.to_str().unwrap())).collect::<Vec<_>>()
    };
    let run = |guest: &String| {
        let mut all =
            ENDING.iter().chain(&FAULTY).map(|(guest, _)| guest[0]).chain(LASTING.iter().map(|guest| guest[0]));
        // They answer requests: the tests of `rusm-wasm` and of the scenarios serve them.
        guest.ends_with("/web.wasm") || guest == "ts/feed.wasm" || all.any(|known| known == guest)
    };

    let left_out: Vec<String> =
        ["rust", "c", "ts", "wat"].into_iter().flat_map(names).filter(|guest| !run(guest)).collect();

    assert_eq!(left_out, [""; 0]);
}

#[test]
fn what_a_guest_lacks_and_what_is_too_much_for_it_is_said() {
    let dir = folder(&[]);
    let guests: [(&[&str], &str); 3] = [
        (&[&prebuilt("rust/counter.wasm")], "denied: this process lacks the capability spawn"),
        (&["--memory-max", "2MiB", &prebuilt("rust/hog.wasm")], "memory_limit(2097152)"),
        (&[&prebuilt("wat/recurse.wasm")], "trap: stack overflow"),
    ];
    for (args, reason) in guests {
        let (code, log) = run(dir.path(), args);

        assert_eq!(code, Some(1), "{args:?}: {log}");
        let last = log.lines().last().unwrap();
        assert!(last.contains(" was given up: ") && last.contains(reason), "{args:?}: {log}");
    }
}

#[test]
fn an_application_of_several_guests_is_one_tree_with_names_and_modules_for_its_guests() {
    let app = format!(
        "[[process]]\nname = \"counter\"\nmodule = {:?}\nargs = [\"serve\"]\nrestart = \"permanent\"\n\
         register = \"counter\"\n[[process]]\nmodule = \"parked.wat\"\ncount = 3\nprofile = \"clockwork\"\n\
         [profile.clockwork]\ncapabilities = [\"timers\"]\n[supervisor]\nstrategy = \"one_for_all\"\n\
         [modules]\nhelper = \"parked.wat\"\n[engine]\nroom = \"slabs\"\ncapacity = 20_000\ncache = false\n",
        prebuilt("rust/counter.wasm")
    );
    let dir = folder(&[("parked.wat", PARKED), ("shop.toml", &app)]);
    let mut run = Run::start(dir.path(), &["--name", "shop", "shop.toml"]);

    assert!(run.wait("guests have started").contains("guests=4"));
    run.signal(Signal::TERM);

    assert_eq!(run.ended(), Some(0), "{:#?}", run.seen);
    assert!(!dir.path().join("cache").exists());
}
