//! The prebuilt guests of `examples/guests`, run as a node runs them: a newcomer reads these programs first, so
//! they must work.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{CallError, Config, Context, Down, ExitReason, Pid, Runtime, TaggedBytes};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

const PATIENCE: Duration = Duration::from_mins(1);

struct Node {
    runtime: Runtime,
    wasm: Wasm,
}

impl Node {
    fn start() -> Self {
        let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
        // QuickJS consists of 13 core instances.
        let wasm = Wasm::start(WasmConfig { capacity: 16, ..WasmConfig::default() }).unwrap();
        Self { runtime, wasm }
    }

    fn module(&self, guest: &str) -> Module {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt").join(guest);
        self.wasm.module(guest).unwrap_or_else(|| self.wasm.load_file(guest, &path).unwrap())
    }

    /// Starts a prebuilt guest with the profile `trusted`.
    fn spawn(&self, guest: &str, args: &[&str]) -> Pid {
        let how = GuestOptions::default().args(args.iter().copied()).profile("trusted");
        self.wasm.spawn(&self.runtime, &self.module(guest), &how).unwrap()
    }

    /// Starts a monitored guest, and returns the reason of its exit.
    fn end_of(&self, guest: &str, args: &[&str]) -> ExitReason {
        // A guest may end before a watch can be set up, so a native process starts it with a monitor.
        let how = GuestOptions::default().args(args.iter().copied()).profile("trusted").monitored();
        let module = self.module(guest);
        let wasm = self.wasm.clone();
        self.ask(async move |ctx| {
            wasm.spawn_from(&ctx, &module, &how).unwrap();
            ctx.receive_of::<Down>().await.reason
        })
    }

    /// Runs `body` in a native process, and returns its result.
    fn ask<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        body: impl FnOnce(Context) -> F + Send + 'static,
    ) -> T {
        let (give, take) = mpsc::channel();
        self.runtime
            .spawn(move |ctx| async move {
                let answer = body(ctx).await;
                give.send(answer)
            })
            .unwrap();
        take.recv_timeout(PATIENCE).unwrap()
    }

    fn call(&self, to: Pid, tag: u64, body: &'static [u8]) -> Result<Bytes, CallError> {
        self.ask(move |ctx| async move {
            let body = Bytes::from_static(body);
            ctx.call::<_, Bytes>(to, TaggedBytes { tag, body }, PATIENCE).await
        })
    }
}

const COUNTERS: [(&str, &[&str]); 3] =
    [("rust/counter.wasm", &[]), ("c/counter.wasm", &[]), ("ts/guests.wasm", &["counter"])];

#[test]
fn the_first_programs_run_to_their_end() {
    let node = Node::start();
    for (guest, args) in [
        ("rust/hello.wasm", &["Ada"][..]),
        ("c/hello.wasm", &["Ada"]),
        ("ts/guests.wasm", &["hello", "Ada"]),
        ("rust/ping_pong.wasm", &["100"]),
        ("c/ping_pong.wasm", &["100"]),
        ("ts/guests.wasm", &["ping-pong", "100"]),
    ]
    .into_iter()
    .chain(COUNTERS)
    {
        assert_eq!(node.end_of(guest, args), ExitReason::Normal, "{guest} {args:?}");
        // The supervisor of a counter ends after it, and its child has the name until then.
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while node.runtime.process_count() > 0 {
            assert!(std::time::Instant::now() < deadline, "{guest} {args:?} leaves processes");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_counter_of_any_language_counts_for_native_callers() {
    let node = Node::start();
    for (guest, args) in COUNTERS {
        let counter = node.spawn(guest, &[args, &["serve"]].concat());

        assert_eq!(node.call(counter, 0, b"add 40").unwrap(), "40", "{guest}");
        assert_eq!(node.call(counter, 0, b"add 2").unwrap(), "42", "{guest}");
        assert!(node.call(counter, 0, b"multiply 2").unwrap().starts_with(b"error: "), "{guest}");
        assert_eq!(node.call(counter, 0, b"get").unwrap(), "42", "{guest}");
        let crashed = node.call(counter, 0, b"crash").unwrap_err().to_string();
        assert!(crashed.contains("told to crash at 42"), "{guest}: {crashed}");
    }
}

#[test]
fn a_digest_of_any_language_is_that_of_the_standard() {
    let node = Node::start();
    let hex = |digest: &[u8]| {
        let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect::<String>()
    };
    // Examples of FIPS 180-4; the digest of the chain was computed with `sha256sum`.
    let abc_256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let zeros_256_twice = "2b32db6c2c0a6235fb1397e8225ea85e0f0e6e8c7b126d0016ccbde0e667151e";
    for (guest, args) in [("rust/digest.wasm", &[][..]), ("c/digest.wasm", &[]), ("ts/guests.wasm", &["digest"])] {
        let service = node.spawn(guest, args);

        assert_eq!(hex(&node.call(service, 0, b"abc").unwrap()), abc_256, "{guest}");
        assert_eq!(hex(&node.call(service, 1, &[2, 0, 0, 0]).unwrap()), zeros_256_twice, "{guest}");
        assert!(hex(&node.call(service, 512, b"abc").unwrap()).starts_with("ddaf35a193617aba"), "{guest}");
        assert!(node.call(service, 9, b"abc").unwrap().starts_with(b"error: "), "{guest}");
    }
}

#[test]
fn a_guest_ends_in_the_way_that_it_is_asked_to() {
    let node = Node::start();
    for (way, words) in [
        ("return", "normal"),
        ("error", "no more coins"),
        ("exit", "closing time"),
        ("panic", "trap: panicked at "),
        ("divide", "zero"),
        ("bounds", "out of bounds"),
        ("recurse", "out of bounds"),
    ] {
        let reason = node.end_of("rust/crash.wasm", &[way]).to_string();
        assert!(reason.contains(words), "{way}: {reason}");
    }
    for (guest, words) in [
        ("wat/hello.wasm", "normal"),
        ("wat/empty.wasm", "normal"),
        ("wat/one_page.wasm", "normal"),
        ("wat/trap.wasm", "trap: unreachable"),
        ("wat/recurse.wasm", "trap: stack overflow"),
    ] {
        assert_eq!(node.end_of(guest, &[]).to_string(), words, "{guest}");
    }
    let hog = node.end_of("rust/hog.wasm", &[]).to_string();
    assert!(hog.contains("memory_limit"), "{hog}");
}

#[test]
fn a_parked_guest_answers_and_a_spinning_one_can_be_killed() {
    let node = Node::start();
    for guest in ["rust/parked.wasm", "c/parked.wasm", "wat/parked.wasm"] {
        let parked = node.spawn(guest, &[]);
        assert_eq!(node.call(parked, 0, b"ping").unwrap(), "pong", "{guest}");
    }
    for guest in ["rust/spin.wasm", "wat/spin.wasm"] {
        let spinning = node.spawn(guest, &[]);
        let watch = node.runtime.watch(spinning);
        node.runtime.exit(spinning, ExitReason::Killed);
        assert_eq!(watch.wait(), ExitReason::Killed, "{guest}");
    }
}
