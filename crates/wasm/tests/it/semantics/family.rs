//! A guest that tests a guarantee by itself, with children that follow its orders.
//!
//! The parent is the module without arguments; its children run the same module with one argument. A child obeys the
//! tag of each message: 1 returns, 2 traps, 3 ends with `bye`, 4 traps exits from now on and confirms it, 5 confirms
//! that it is alive, 7 sends the tags 100 to 599 and returns, 8 waits for a message that never arrives, 9 registers
//! `name` and sends the status as a tag. Calls: 11 is kept without a reply; 12 replies `late` to the kept call and
//! `bye` to itself; 13 traps.

use crate::guests::raw_with;

const WORDS: [&str; 12] = [
    "",
    "bye",
    "killed",
    "noproc",
    "normal",
    "shutdown",
    "shutdown: bye",
    "trap: unreachable",
    "name",
    "late",
    "crew",
    "memory_limit(65536)",
];

/// Returns the address of a word in the memory of a family, and its length.
pub(crate) fn word(word: &str) -> String {
    let place = WORDS.iter().position(|known| *known == word).unwrap();
    format!("(i32.const {}) (i32.const {})", 64 * place, word.len())
}

/// Asserts that the current item is this word.
pub(crate) fn says(expected: &str) -> String {
    format!("(call $says {})", word(expected))
}

/// Sends an order to a child.
pub(crate) fn order(child: &str, tag: u32) -> String {
    format!("(call $tell (local.get ${child}) (i64.const {tag}))")
}

/// Waits for the next item and asserts its kind and its sender.
pub(crate) fn signal(kind: u32, from: &str) -> String {
    format!("(call $kind (i32.const {kind})) (call $must (i64.eq (call $item_pid) (local.get ${from})))")
}

/// Waits for the next item and asserts that it is a message with this tag.
pub(crate) fn message(tag: i64) -> String {
    format!("(call $kind (i32.const 1)) (call $must (i64.eq (call $item_tag) (i64.const {tag})))")
}

/// Starts a child and stores its pid in a local variable: 1 links, 2 monitors.
pub(crate) fn start(child: &str, ties: u32) -> String {
    format!("(local.set ${child} (call $start (i32.const {ties})))")
}

/// Sets whether exit signals arrive as messages.
pub(crate) fn trapping(on: u32) -> String {
    format!("(drop (call $trap_exits (i32.const {on})))")
}

/// Asserts that the result of an instruction is this status.
pub(crate) fn status(expected: i32, instruction: &str) -> String {
    format!("(call $must (i32.eq {instruction} (i32.const {expected})))")
}

/// Asserts that nothing else has arrived.
pub(crate) const NOTHING: &str = "(call $nothing)";

/// A parent that executes these steps; it traps if a guarantee does not hold.
pub(crate) fn family(steps: &[String]) -> Vec<u8> {
    let words = WORDS.iter().enumerate();
    let data =
        words.map(|(i, word)| format!(r#"(data (i32.const {}) "{word}")"#, 64 * i)).collect::<Vec<_>>().join(" ");
    let (bye, late, name) = (word("bye"), word("late"), word("name"));
    let fields = format!(
        r"{data}
        (global $kept (mut i64) (i64.const 0))
        (func $must (param i32) (if (i32.eqz (local.get 0)) (then unreachable)))
        (func $start (param $ties i32) (result i64) (local $pid i64)
            (local.set $pid (call $spawn (i32.const 0) (i32.const 0) {bye} (i32.const 0) (i32.const 0) (local.get $ties)))
            (call $must (i64.gt_s (local.get $pid) (i64.const 0)))
            (local.get $pid))
        (func $tell (param $to i64) (param $tag i64)
            (call $must (i32.eqz (call $send (local.get $to) (local.get $tag) (i32.const 0) (i32.const 0)))))
        (func $kind (param $kind i32) (call $must (i32.eq (call $receive (i64.const -1)) (local.get $kind))))
        (func $nothing (call $must (i32.eqz (call $receive (i64.const 0)))))
        (func $says (param $p i32) (param $n i32) (local $i i32)
            (call $must (i32.eq (call $item_len) (local.get $n)))
            (drop (call $item_read (i32.const 1024) (local.get $n) (i32.const 0)))
            (loop $next (if (i32.lt_u (local.get $i) (local.get $n)) (then
                (call $must (i32.eq
                    (i32.load8_u (i32.add (i32.const 1024) (local.get $i)))
                    (i32.load8_u (i32.add (local.get $p) (local.get $i)))))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br $next)))))
        (func $is (param $tag i64) (result i32) (i64.eq (call $item_tag) (local.get $tag)))
        (func $stream (param $to i64) (local $tag i64)
            (local.set $tag (i64.const 100))
            (loop $next
                (call $tell (local.get $to) (local.get $tag))
                (local.set $tag (i64.add (local.get $tag) (i64.const 1)))
                (br_if $next (i64.lt_s (local.get $tag) (i64.const 600)))))
        (func $obey
            (loop $next
                (br_if $next (i32.ne (call $receive (i64.const -1)) (i32.const 1)))
                (if (call $is (i64.const 1)) (then (return)))
                (if (call $is (i64.const 2)) (then unreachable))
                (if (call $is (i64.const 3)) (then (drop (call $exit (call $self) (i32.const 4) {bye}))))
                (if (call $is (i64.const 4)) (then
                    (drop (call $trap_exits (i32.const 1)))
                    (call $tell (call $parent) (i64.const 4))))
                (if (call $is (i64.const 5)) (then (call $tell (call $parent) (i64.const 5))))
                (if (call $is (i64.const 7)) (then (call $stream (call $parent)) (return)))
                (if (call $is (i64.const 8)) (then
                    (drop (call $receive_tagged (i64.const 999) (i64.const -1)))))
                (if (call $is (i64.const 9)) (then
                    (call $tell (call $parent) (i64.extend_i32_s (call $register {name})))))
                (if (call $is (i64.const 11)) (then (global.set $kept (call $item_reply))))
                (if (call $is (i64.const 12)) (then
                    (call $must (i32.eqz (call $reply (global.get $kept) {late})))
                    (call $must (call $reply (call $item_reply) {bye}))))
                (if (call $is (i64.const 13)) (then unreachable))
                (br $next)))"
    );
    let locals = "(local $a i64) (local $b i64) (local $c i64) (local $t i64) (local $u i64)";
    raw_with(&fields, locals, &format!("(if (call $arg_count) (then (call $obey) (return))) {}", steps.join("\n")))
}
