//! Guests written as text, and a node to run them on.

use std::time::{Duration, Instant};

use rusm_runtime::{Config, ExitReason, Pid, Runtime};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

/// A module with the raw import table, a memory, and a function `run` with these instructions.
pub(crate) fn raw(locals: &str, run: &str) -> Vec<u8> {
    raw_with("", locals, run)
}

/// Like [`raw`], with additional fields of the module.
pub(crate) fn raw_with(fields: &str, locals: &str, run: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
        (import "rusm" "self" (func $self (result i64)))
        (import "rusm" "parent" (func $parent (result i64)))
        (import "rusm" "spawn" (func $spawn (param i32 i32 i32 i32 i32 i32 i32) (result i64)))
        (import "rusm" "spawn_monitor" (func $spawn_monitor (result i64)))
        (import "rusm" "spawn_as" (func $spawn_as (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i64) (result i64)))
        (import "rusm" "supervisor_child"
            (func $supervisor_child (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i64) (result i32)))
        (import "rusm" "supervisor_start" (func $supervisor_start (param i32 i32 i64) (result i64)))
        (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
        (import "rusm" "try_send" (func $try_send (param i64 i64 i32 i32) (result i32)))
        (import "rusm" "receive" (func $receive (param i64) (result i32)))
        (import "rusm" "receive_tagged" (func $receive_tagged (param i64 i64) (result i32)))
        (import "rusm" "call" (func $call (param i64 i64 i32 i32 i64) (result i32)))
        (import "rusm" "reply" (func $reply (param i64 i32 i32) (result i32)))
        (import "rusm" "item_len" (func $item_len (result i32)))
        (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
        (import "rusm" "item_tag" (func $item_tag (result i64)))
        (import "rusm" "item_pid" (func $item_pid (result i64)))
        (import "rusm" "item_ref" (func $item_ref (result i64)))
        (import "rusm" "item_reply" (func $item_reply (result i64)))
        (import "rusm" "link" (func $link (param i64)))
        (import "rusm" "unlink" (func $unlink (param i64)))
        (import "rusm" "monitor" (func $monitor (param i64) (result i64)))
        (import "rusm" "demonitor" (func $demonitor (param i64) (result i32)))
        (import "rusm" "trap_exits" (func $trap_exits (param i32) (result i32)))
        (import "rusm" "exit" (func $exit (param i64 i32 i32 i32) (result i32)))
        (import "rusm" "sleep" (func $sleep (param i64)))
        (import "rusm" "yield" (func $yield))
        (import "rusm" "register" (func $register (param i32 i32) (result i32)))
        (import "rusm" "unregister" (func $unregister (param i32 i32) (result i32)))
        (import "rusm" "whereis" (func $whereis (param i32 i32) (result i64)))
        (import "rusm" "join" (func $join (param i32 i32) (result i32)))
        (import "rusm" "leave" (func $leave (param i32 i32) (result i32)))
        (import "rusm" "members" (func $members (param i32 i32) (result i32)))
        (import "rusm" "group_monitor" (func $group_monitor (param i32 i32) (result i64)))
        (import "rusm" "group_demonitor" (func $group_demonitor (param i64) (result i32)))
        (import "rusm" "send_after" (func $send_after (param i64 i64 i64 i32 i32) (result i64)))
        (import "rusm" "send_every" (func $send_every (param i64 i64 i64 i32 i32) (result i64)))
        (import "rusm" "now_ns" (func $now_ns (result i64)))
        (import "rusm" "cancel" (func $cancel (param i64) (result i64)))
        (import "rusm" "log" (func $log (param i32 i32 i32)))
        (import "rusm" "label" (func $label (param i32 i32)))
        (import "rusm" "random" (func $random (param i32 i32) (result i32)))
        (import "rusm" "digest" (func $digest (param i32 i32 i32 i32) (result i32)))
        (import "rusm" "hmac" (func $hmac (param i32 i32 i32 i32 i32 i32) (result i32)))
        (import "rusm" "stream_open" (func $stream_open (param i64 i32) (result i64)))
        (import "rusm" "stream_accept" (func $stream_accept (result i64)))
        (import "rusm" "stream_write" (func $stream_write (param i64 i32 i32) (result i32)))
        (import "rusm" "stream_read" (func $stream_read (param i64 i32 i32) (result i32)))
        (import "rusm" "stream_close" (func $stream_close (param i64) (result i32)))
        (import "rusm" "error_len" (func $error_len (result i32)))
        (import "rusm" "error_read" (func $error_read (param i32 i32) (result i32)))
        (import "rusm" "arg_count" (func $arg_count (result i32)))
        (import "rusm" "arg_len" (func $arg_len (param i32) (result i32)))
        (import "rusm" "arg_read" (func $arg_read (param i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        {fields}
        (func (export "run") (local $n i32) (local $pid i64) {locals}
            {run}))"#
    ))
    .unwrap()
}

/// Sends every message of bytes to the process with the pid that the message begins with, as a number; replies to
/// requests with their own bytes.
pub(crate) fn echo() -> Vec<u8> {
    raw(
        "",
        r"
        (loop $again
            (if (i32.eq (call $receive (i64.const -1)) (i32.const 1)) (then
                (local.set $n (call $item_read (i32.const 0) (call $item_len) (i32.const 0)))
                (if (i64.ne (call $item_reply) (i64.const 0))
                    (then (drop (call $reply (call $item_reply) (i32.const 0) (local.get $n))))
                    (else (drop (call $send (i64.load (i32.const 0)) (call $item_tag) (i32.const 0) (local.get $n)))))))
            (br $again))",
    )
}

/// Runs forever.
pub(crate) fn spin() -> Vec<u8> {
    raw("", "(loop $again (br $again))")
}

/// Returns a pid as the guests of the raw import table see it.
pub(crate) fn number(pid: Pid) -> i64 {
    (i64::from(pid.generation()) << 32) | i64::from(pid.slot())
}

/// A runtime with guests.
pub(crate) struct Node {
    pub(crate) runtime: Runtime,
    pub(crate) wasm: Wasm,
}

impl Node {
    pub(crate) fn start(config: WasmConfig) -> Self {
        let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
        Self { runtime, wasm: Wasm::start(config).unwrap() }
    }

    pub(crate) fn small() -> Self {
        Self::start(WasmConfig { capacity: 64, ..WasmConfig::default() })
    }

    pub(crate) fn load(&self, name: &str, bytes: &[u8]) -> Module {
        self.wasm.load(name, bytes).unwrap()
    }

    /// Starts a guest that waits for its first message before it can miss anything.
    pub(crate) fn spawn(&self, module: &Module, guest: &GuestOptions) -> Pid {
        self.wasm.spawn(&self.runtime, module, guest).unwrap()
    }

    /// Runs a guest to its end, without links and monitored from before its first instruction.
    pub(crate) fn end_of(&self, bytes: &[u8], guest: &GuestOptions) -> ExitReason {
        let module = self.load("guest", bytes);
        let guest = guest.clone().monitored();
        self.inside(move |wasm, ctx| async move {
            let (_, monitor) = wasm.spawn_from(&ctx, &module, &guest).unwrap();
            let down = ctx.receive_of::<rusm_runtime::Down>().await;
            assert_eq!(Some(down.reference), monitor);
            down.reason
        })
    }

    /// Runs code inside a native process and returns its result.
    pub(crate) fn inside<T, F>(&self, code: impl FnOnce(Wasm, rusm_runtime::Context) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (give, take) = std::sync::mpsc::channel();
        let wasm = self.wasm.clone();
        let pid = self
            .runtime
            .spawn(|ctx| {
                let code = code(wasm, ctx);
                async move { drop(give.send(code.await)) }
            })
            .unwrap();
        match take.recv_timeout(Duration::from_mins(1)) {
            Ok(said) => said,
            Err(error) => panic!("the process {pid} sent no result: {error}, {:?}", self.runtime.wait(pid)),
        }
    }

    /// Waits until a condition holds.
    pub(crate) fn until(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !so(self) {
            assert!(Instant::now() < deadline, "not so: {what}");
            std::thread::yield_now();
        }
    }
}
