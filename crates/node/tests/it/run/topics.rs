//! `[topics]` of an application: guests that publish and receive, also across runs, and configurations that are
//! rejected.

use rustix::process::Signal;

use crate::run::harness::{Run, folder, prebuilt, run};

/// Returns a core module with the names `letters` at 0, `delivered` at 8 and the subscription `desk` at 24, and the
/// payload `tea` at 32. After a failed call it exits with the text of the error. Its function `say` logs the payload of
/// the received message.
fn guest(run: &str) -> String {
    format!(
        r#"(module
        (import "rusm" "self" (func $self (result i64)))
        (import "rusm" "exit" (func $exit (param i64 i32 i32 i32) (result i32)))
        (import "rusm" "sleep" (func $sleep (param i64)))
        (import "rusm" "log" (func $log (param i32 i32 i32)))
        (import "rusm" "item_read" (func $item_read (param i32 i32 i32) (result i32)))
        (import "rusm" "item_tag" (func $lease (result i64)))
        (import "rusm" "item_ref" (func $attempt (result i64)))
        (import "rusm" "error_read" (func $error_read (param i32 i32) (result i32)))
        (import "rusm" "topic_publish" (func $topic_publish (param i32 i32 i32 i32 i32 i32) (result i32)))
        (import "rusm" "topic_subscribe" (func $topic_subscribe (param i32 i32 i32 i32) (result i64)))
        (import "rusm" "topic_next" (func $topic_next (param i64 i64) (result i32)))
        (import "rusm" "topic_ack" (func $ack (param i64 i64) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "letters") (data (i32.const 8) "delivered") (data (i32.const 24) "desk")
        (data (i32.const 32) "tea")
        (func $due (param $well i32)
            (if (i32.eqz (local.get $well)) (then
                (drop (call $exit (call $self) (i32.const 4) (i32.const 64) (call $error_read (i32.const 64) (i32.const 500))))
                unreachable)))
        (func $subscribe (param $at i32) (param $len i32) (result i64) (local $share i64)
            (local.set $share (call $topic_subscribe (local.get $at) (local.get $len) (i32.const 24) (i32.const 4)))
            (call $due (i64.ge_s (local.get $share) (i64.const 0)))
            (local.get $share))
        (func $publish (param $at i32) (param $len i32)
            (call $due (i32.eqz (call $topic_publish (local.get $at) (local.get $len) (i32.const 0) (i32.const -1)
                (i32.const 32) (i32.const 3)))))
        (func $next (param $share i64)
            (call $due (i32.eq (call $topic_next (local.get $share) (i64.const -1)) (i32.const 1))))
        (func $say
            (call $log (i32.const 2) (i32.const 64) (call $item_read (i32.const 64) (i32.const 500) (i32.const 0))))
        (func (export "run") (local $share i64) {run}))"#
    )
}

const LETTERS: &str = "(i32.const 0) (i32.const 7)";
const DELIVERED: &str = "(i32.const 8) (i32.const 9)";

/// Returns an application of these modules, with the profile `clerk`, which is granted `letters` and `delivered`.
fn app(modules: &[&str], topics: &str) -> String {
    let process = |module: &&str| format!("[[process]]\nmodule = {module:?}\nprofile = \"clerk\"\n");
    modules.iter().map(process).collect::<String>()
        + "[profile.clerk]\ncapabilities = [\"topics\"]\ntopics = [\"letters\", \"delivered\"]\n"
        + "[store]\npath = \"a.redb\"\n"
        + topics
}

#[test]
fn what_one_guest_publishes_another_carries_on_and_a_third_receives() {
    let reads = format!("(local.set $share (call $subscribe {DELIVERED})) (call $next (local.get $share)) (call $say)");
    // A subscriber receives the messages published from then on.
    let writes = format!("(loop $again (call $publish {LETTERS}) (call $sleep (i64.const 5)) (br $again))");
    let courier = prebuilt("c/courier.wasm");
    let dir = folder(&[
        ("reads.wat", &guest(&reads)),
        ("writes.wat", &guest(&writes)),
        (
            "rusm.toml",
            &app(&["reads.wat", "writes.wat", &courier], "[topics]\nletters = \"disk\"\ndelivered = \"memory\"\n"),
        ),
    ]);
    let mut run = Run::start(dir.path(), &[]);

    assert!(run.wait("rusm::guest: ").contains("tea"));
    run.signal(Signal::TERM);

    assert_eq!(run.ended(), Some(0), "{:#?}", run.seen);
}

#[test]
fn a_topic_on_disk_brings_in_the_next_run_what_was_not_acknowledged_in_this_one() {
    let takes = format!(
        "(local.set $share (call $subscribe {LETTERS})) (call $publish {LETTERS}) (call $next (local.get $share))"
    );
    let done = format!(
        "(local.set $share (call $subscribe {LETTERS})) (call $next (local.get $share)) (call $say)
        (call $due (i64.gt_u (call $attempt) (i64.const 1)))
        (call $due (call $ack (local.get $share) (call $lease)))"
    );
    let on_disk = "[topics]\nletters = \"disk\"\ndelivered = \"memory\"\n";
    let dir = folder(&[
        ("takes.wat", &guest(&takes)),
        ("done.wat", &guest(&done)),
        ("first.toml", &app(&["takes.wat"], on_disk)),
        ("second.toml", &app(&["done.wat"], on_disk)),
    ]);

    let (first, second) = (run(dir.path(), &["first.toml"]), run(dir.path(), &["second.toml"]));

    assert_eq!((first.0, second.0), (Some(0), Some(0)), "{} {}", first.1, second.1);
    assert!(first.1.contains("topic is open topic=letters messages=0"), "{}", first.1);
    assert!(second.1.contains("topic is open topic=letters messages=1"), "{}", second.1);
    assert!(second.1.lines().any(|line| line.contains("rusm::guest: ") && line.contains("tea")), "{}", second.1);
}

#[test]
fn what_a_guest_may_not_have_is_refused_in_words() {
    let writes = guest(&format!("(call $publish {DELIVERED})"));
    let dir = folder(&[
        ("writes.wat", &writes),
        (
            "rusm.toml",
            "[topics]\nletters = \"memory\"\ndelivered = \"memory\"\n\
             [profile.reader]\ncapabilities = [\"topics\"]\ntopics = [\"letters\"]\n",
        ),
        ("other.toml", "[[process]]\nmodule = \"writes.wat\"\nprofile = \"trusted\"\n[topics]\nletters = \"memory\"\n"),
        ("none.toml", "[[process]]\nmodule = \"writes.wat\"\nprofile = \"trusted\"\n"),
    ]);
    let cases: [(&[&str], i32, &str); 4] = [
        (&["--profile", "reader", "writes.wat"], 1, "denied: topic \"delivered\""),
        (&["writes.wat"], 1, "denied: topics"),
        (&["other.toml"], 1, "topic \"delivered\" does not exist"),
        (
            &["none.toml"],
            2,
            "does not have (topics: name them in [topics] of rusm.toml): unknown import: `rusm::topic_",
        ),
    ];
    for (args, code, words) in cases {
        let (ended, log) = run(dir.path(), args);

        assert_eq!(ended, Some(code), "{args:?}: {log}");
        assert!(log.lines().last().unwrap().contains(words), "{args:?}: {log}");
    }
}

#[test]
fn a_section_that_makes_no_sense_gets_one_line_and_a_suggestion() {
    let letters = |rest: &str| app(&["writes.wat"], &format!("[topics]\ndelivered = \"memory\"\n{rest}"));
    let dir = folder(&[
        ("writes.wat", &guest("")),
        ("kept.toml", &letters("letters = \"disc\"")),
        ("number.toml", &letters("letters = 3")),
        ("section.toml", "[topcs]\nletters = \"disk\"\n"),
        ("grant.toml", &letters("leters = \"memory\"")),
        ("name.toml", &letters("letters = \"memory\"\n\"\" = \"memory\"")),
        ("bare.toml", "[[process]]\nmodule = \"writes.wat\"\n[topics]\nletters = \"disk\"\n"),
    ]);
    let cases = [
        (
            "kept.toml",
            "topics.NAME of \"disc\" in kept.toml (topic \"letters\") must be memory or disk: did you mean \"disk\"?",
        ),
        ("number.toml", "topics.NAME of 3 in number.toml (topic \"letters\") must be \"memory\" or \"disk\""),
        ("section.toml", "unknown setting \"topcs\" in section.toml: did you mean \"topics\"?"),
        ("grant.toml", "(profile \"clerk\") is not in [topics]: did you mean \"leters\"?"),
        ("name.toml", "topics.NAME of \"\" in name.toml must be 1 to 255 bytes long"),
        ("bare.toml", "topics.letters: it is on disk, and the node has no store: set store.path"),
    ];
    for (file, words) in cases {
        let (code, line) = run(dir.path(), &[file]);

        assert_eq!(code, Some(2), "{file}: {line}");
        let last = line.lines().last().unwrap();
        assert!(last.starts_with("rusm: ") && last.contains(words), "{file}: {line}");
    }
}
