//! Raw import table of core modules: functions of module `rusm` on integers and ranges of the memory exported as
//! `memory`.
//!
//! The calls are those of the world `rusm:runtime/actor`, for guests written by hand or by a compiler without
//! component support. A pid is an `i64` of a process on this node; 0 means no process, or one of another node of a
//! cluster, which only components can address. `p, n` are an address in memory and a number of bytes.
//!
//! | Function | Gives | |
//! |---|---|---|
//! | `self()`, `parent()` | `i64` | a pid |
//! | `spawn(p, n, args_p, args_n, profile_p, profile_n, ties)` | `i64` | a pid, or a status. `p, n` is the module's name, empty for this module; args are separated by zero bytes; an empty profile is the caller's own; ties: 1 link, 2 monitor (`spawn_monitor()` returns its reference) |
//! | `spawn_as(…, name_p, name_n, memory_max)` | `i64` | as `spawn`, with a name to register and the maximum memory in bytes; 0 bytes for the default |
//! | `spawn_monitor()` | `i64` | monitor reference of the last `spawn` or `spawn_as` |
//! | `supervisor_child(id_p, id_n, p, n, args_p, args_n, profile_p, profile_n, name_p, name_n, memory_max, restart, shutdown_ms)` | status | adds a child to the next supervisor. restart: 0 permanent, 1 transient, 2 temporary; shutdown: below 0 waits forever, 0 kills |
//! | `supervisor_start(strategy, intensity, period_ms)` | `i64` | a pid, or a status. strategy: 0 one for one, 1 one for all, 2 rest for one |
//! | `send(to, tag, p, n)`, `try_send(to, tag, p, n)` | status | |
//! | `receive(timeout_ms)`, `receive_tagged(tag, timeout_ms)` | kind | a timeout below 0 waits forever; the result is *the item* |
//! | `call(to, tag, p, n, timeout_ms)` | status | the reply is the item |
//! | `item_len()` | `i32` | length of the item: a message, a reason, the name of a group or type |
//! | `item_read(p, n, from)` | `i32` | copies at most `n` bytes of the item, from offset `from`; returns the number copied, or a status |
//! | `item_tag()`, `item_pid()`, `item_ref()`, `item_reply()` | `i64` | tag; process that ended or joined; monitor reference; reply reference, or 0 |
//! | `reply(to, p, n)` | `i32` | 1 if the caller still waits |
//! | `link(pid)`, `unlink(pid)` | | |
//! | `monitor(pid)` | `i64` | a reference |
//! | `demonitor(ref)`, `trap_exits(on)` | `i32` | 1 if the monitor existed; the previous setting |
//! | `exit(pid, reason, p, n)` | status | reason: 0 normal, 1 shutdown, 2 shutdown with words, 3 killed, 4 other with words |
//! | `sleep(ms)`, `yield()` | | |
//! | `register(p, n)`, `unregister(p, n)`, `join(p, n)`, `leave(p, n)` | status | |
//! | `whereis(p, n)` | `i64` | a pid or 0 |
//! | `members(p, n)` | `i32` | number of members of a group on this node, or a status; their pids, `i64` each, are the item |
//! | `group_monitor(p, n)`, `group_demonitor(ref)` | `i64`, `i32` | a reference, or a status, with the members as above; 1 if the monitor existed |
//! | `send_after(to, ms, tag, p, n)`, `send_every(to, ms, tag, p, n)` | `i64` | a timer, or a status |
//! | `cancel(timer)` | `i64` | milliseconds left, or -1 |
//! | `now_ns()`, `unix_ms()` | `i64` | |
//! | `log(level, p, n)`, `label(p, n)` | | level: 0 error, 1 warn, 2 info, 3 debug |
//! | `random(p, n)` | status | fills the range |
//! | `digest(hash, p, n, out)`, `hmac(hash, key_p, key_n, p, n, out)` | `i32` | hash: 0, 1, 2 are SHA-256, 384, 512; returns the number of bytes written, or a status |
//! | `stream_open(to, capacity)`, `stream_accept()` | `i64` | an end of a stream, or a status; 0 if no end waits to be accepted |
//! | `stream_write(stream, p, n)`, `stream_close(stream)` | status, `i32` | waits until all is written; 1 if the end existed |
//! | `stream_read(stream, p, n)` | `i32` | waits for at least one byte; returns the number read, 0 at the end, or a status |
//! | `arg_count()`, `arg_len(i)`, `arg_read(i, p, n)` | `i32` | the arguments |
//! | `error_len()`, `error_read(p, n)` | `i32` | error text for the last status below 0 |
//! | `topic_publish`, `topic_try_publish`, `topic_subscribe`, `topic_subscribe_with`, `topic_listen`, `topic_hear`, `topic_next`, `topic_key`, `topic_ack`, `topic_nack`, `topic_extend`, `topic_unsubscribe` | | only on a node that gives its topics to guests: `crates/wasm/src/topics/raw.rs` |
//! | `kv_get`, `kv_put`, `kv_delete`, `kv_compare_and_set`, `kv_commit`, `kv_scan` | | only on a node with a store: `crates/wasm/src/kv/raw.rs` |
//!
//! A **status** is 0 or: -1 denied, -2 no such process, -3 mailbox full, -4 timed out, -5 the callee ended, -6 no such
//! name, -7 taken, -8 a limit, -9 an invalid argument, including a range outside of the memory. A **kind** is 0
//! nothing arrived, 1 message, 2 exit signal, 3 down, 4 joined a group, 5 left a group, 6 a value that is not bytes.
//! An end of a stream has kind 6 and the name `stream-reader` or `stream-writer`, or `stream-refused` if too many ends
//! wait to be accepted.
//!
//! The process runs the export `run`; it takes no arguments, and its results are ignored.

pub(crate) mod abi;
pub(crate) mod argument;
mod calls;
mod memory;
mod messaging;
mod spawning;
mod streams;
pub(crate) mod table;

pub(super) use abi::{MODULE, status};
pub(crate) use calls::link;
pub(super) use memory::{find as memory_at, write as write_bytes};
