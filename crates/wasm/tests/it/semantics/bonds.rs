//! Links and monitors between guests.

use rusm_runtime::ExitReason;

use super::end_of;
use super::family::{NOTHING, message, order, says, signal, start, status, trapping, word};

#[test]
fn s07_links_are_idempotent_and_one_unlink_ends_them() {
    let steps = [
        start("a", 3),
        "(call $link (local.get $a)) (call $link (local.get $a))".to_owned(),
        "(call $unlink (local.get $a))".to_owned(),
        order("a", 2),
        // The parent does not trap exits: a remaining link would end it.
        signal(3, "a"),
        says("trap: unreachable"),
        trapping(1),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s07_s08_a_link_takes_the_other_side_along_whichever_side_ends() {
    // In the first case the child traps, in the second case the parent.
    let child_first = [start("a", 1), order("a", 2), "(drop (call $receive (i64.const -1)))".to_owned()];
    assert_eq!(end_of(&child_first), ExitReason::other("trap: unreachable"));

    let node = crate::guests::Node::small();
    let parent_first =
        super::family::family(&[start("a", 1), start("b", 1), order("b", 4), message(4), "unreachable".to_owned()]);
    let guest = rusm_wasm::GuestOptions::default().profile("trusted");
    assert_eq!(node.end_of(&parent_first, &guest), ExitReason::other("trap: unreachable"));

    node.until("only the child that traps exits is left", |node| node.wasm.stats().live == 1);
}

#[test]
fn s08_an_abnormal_end_is_a_message_to_one_that_traps_and_a_normal_one_ends_nobody() {
    let steps = [
        trapping(1),
        start("a", 1),
        order("a", 2),
        signal(2, "a"),
        says("trap: unreachable"),
        start("a", 1),
        order("a", 1),
        signal(2, "a"),
        says("normal"),
        trapping(0),
        start("a", 3),
        order("a", 1),
        signal(3, "a"),
        says("normal"),
        start("a", 1),
        order("a", 3),
        "(drop (call $receive (i64.const -1)))".to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::other("bye"));
}

#[test]
fn s09_kill_cannot_be_trapped_and_its_links_see_killed() {
    let steps = [
        trapping(1),
        start("a", 1),
        order("a", 4),
        message(4),
        status(0, &format!("(call $exit (local.get $a) (i32.const 3) {})", word(""))),
        // Through the link, `killed` is an ordinary reason that can be trapped.
        signal(2, "a"),
        says("killed"),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s10_exit_normal_from_another_is_ignored() {
    let steps = [
        start("a", 2),
        status(0, &format!("(call $exit (local.get $a) (i32.const 0) {})", word(""))),
        order("a", 5),
        message(5),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}

#[test]
fn s11_linking_to_a_dead_process_yields_noproc() {
    let steps = |trap| {
        [
            trapping(trap),
            start("a", 2),
            order("a", 1),
            signal(3, "a"),
            "(call $link (local.get $a))".to_owned(),
            signal(2, "a"),
            says("noproc"),
            NOTHING.to_owned(),
        ]
    };

    assert_eq!(end_of(&steps(1)), ExitReason::Normal);
    assert_eq!(end_of(&steps(0)), ExitReason::NoProcess);
}

#[test]
fn s12_a_monitor_yields_exactly_one_down_and_demonitor_leaves_none() {
    let monitor = |local| format!("(local.set ${local} (call $monitor (local.get $a)))");
    let steps = [
        start("a", 0),
        monitor("t"),
        monitor("u"),
        monitor("b"),
        "(call $must (call $demonitor (local.get $u)))".to_owned(),
        "(call $must (i32.eqz (call $demonitor (local.get $u))))".to_owned(),
        order("a", 1),
        signal(3, "a"),
        "(local.set $c (call $item_ref))".to_owned(),
        signal(3, "a"),
        "(call $must (i64.ne (local.get $c) (call $item_ref)))".to_owned(),
        "(call $must (i64.eq (i64.add (local.get $c) (call $item_ref)) (i64.add (local.get $t) (local.get $b))))"
            .to_owned(),
        NOTHING.to_owned(),
        // A monitor on a dead process yields a down message, too.
        monitor("t"),
        signal(3, "a"),
        says("noproc"),
        // One down message has arrived; the other has arrived or is on its way. Demonitor must remove both.
        start("a", 0),
        monitor("t"),
        monitor("u"),
        order("a", 1),
        signal(3, "a"),
        "(drop (call $demonitor (local.get $t))) (drop (call $demonitor (local.get $u)))".to_owned(),
        "(call $sleep (i64.const 2))".to_owned(),
        NOTHING.to_owned(),
    ];

    assert_eq!(end_of(&steps), ExitReason::Normal);
}
