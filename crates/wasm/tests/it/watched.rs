//! Observation of the engine, its modules and the faults of guests.

use rusm_runtime::observe::{self, EngineReport};
use rusm_wasm::GuestOptions;

use crate::facts::{SLICES, fact};
use crate::guests::{Node, echo, raw};

impl Node {
    fn engine(&self) -> EngineReport {
        let [engine] = observe::engines(&self.runtime).try_into().unwrap();
        engine
    }
}

#[test]
fn an_engine_is_seen_with_what_it_runs_and_what_went_wrong() {
    let node = Node::small();
    assert!(observe::engines(&node.runtime).is_empty(), "it has run nothing yet");
    let waits = node.load("waits", &echo());
    let pids = [(); 3].map(|()| node.spawn(&waits, &GuestOptions::default()));
    let hog = raw("", "(loop $again (drop (memory.grow (i32.const 1))) (br $again))");
    node.end_of(&raw("", "unreachable"), &GuestOptions::default());
    node.end_of(&hog, &GuestOptions::default().memory_max_bytes(5 * 65_536));

    let engine = node.engine();

    assert_eq!((engine.kind, engine.capacity, engine.live, engine.started_total), ("wasm", 64, 3, 5));
    assert!(engine.slots.iter().any(|(_, slots)| slots.used == 3 && slots.slots >= 64), "{:?}", engine.slots);
    assert_eq!(engine.faults_total, [("unreachable", 1), ("memory limit", 1)]);
    let faults: Vec<_> = engine.faults.iter().map(|fault| (fault.seq, &*fault.module, fault.code)).collect();
    assert_eq!(faults, [(1, "guest", "unreachable"), (2, "guest", "memory limit")]);
    assert!(!engine.faults[0].backtrace.is_empty());
    let modules: Vec<_> =
        engine.modules.iter().map(|module| (&*module.name, module.live, module.started_total)).collect();
    assert!(modules.contains(&("waits", 3, 3)), "{modules:?}");
    assert!(modules.iter().any(|(name, live, _)| (*name, *live) == ("guest", 0)), "{modules:?}");

    node.runtime.exit(pids[0], rusm_runtime::ExitReason::Killed);
    while node.runtime.is_alive(pids[0]) || node.engine().live != 2 {
        std::thread::yield_now();
    }
}

#[test]
fn a_guest_that_never_waits_shows_where_it_runs_when_it_is_asked() {
    let node = Node::small();
    let source = r#"(module
        (func $inner (loop $again (br $again)))
        (func $outer (call $inner))
        (func (export "run") (call $outer)))"#;
    let spins = node.load("spins", &wat::parse_str(source).unwrap());
    let pid = node.spawn(&spins, &GuestOptions::default());
    let info = observe::body_info(&node.runtime, pid).expect("a guest");
    assert_eq!(info.backtrace(), None, "nothing has asked");
    // A slice may end at the entry of `run`, before the call.
    while fact(&node.runtime, pid, SLICES) < 5 {
        std::thread::yield_now();
    }

    info.request_backtrace();
    let backtrace = loop {
        match info.backtrace() {
            Some(backtrace) => break backtrace,
            None => std::thread::yield_now(),
        }
    };

    assert_eq!(backtrace.frames[..2], ["inner", "outer"]);
    let (taken, slices) = (backtrace.taken, fact(&node.runtime, pid, SLICES));
    while fact(&node.runtime, pid, SLICES) < slices + 5 {
        std::thread::yield_now();
    }
    assert_eq!(info.backtrace().map(|backtrace| backtrace.taken), Some(taken), "one request, one backtrace");
}
