//! Names and groups: sentences 13 and 15 of `docs/semantics.md`, and the guarantees of OTP's `pg`.

use std::collections::HashMap;
use std::future::pending;
use std::time::Duration;

use crate::ask::{ask, runtime};
use crate::eventually::eventually;
use rusm_runtime::{
    Context, Down, Exit, ExitReason, GroupError, Joined, Left, MonitorRef, NameError, Pid, RegisterError,
};

/// Spawns a process that does nothing until it is killed.
fn idle(ctx: &Context) -> Pid {
    ctx.spawn(|_| pending::<()>())
}

/// Kills a process, and waits for its down message.
async fn bury(ctx: &Context, pid: Pid) {
    let reference = ctx.monitor(pid);
    ctx.exit(pid, ExitReason::Killed);
    let told = ctx.receive_match(|message| message.downcast_ref::<Down>().is_some_and(|it| it.reference == reference));
    told.await;
}

fn joined(reference: MonitorRef, pid: Pid) -> Joined {
    Joined { reference, group: "g".into(), pid }
}

fn left(reference: MonitorRef, pid: Pid) -> Left {
    Left { reference, group: "g".into(), pid }
}

#[test]
fn s15_a_taken_name_and_a_dead_pid_are_errors() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let (one, two) = (idle(&ctx), idle(&ctx));
        let handle = ctx.runtime();
        let taken = |holder| Err(RegisterError::Taken { name: "kv".to_owned(), holder });
        assert_eq!(handle.register(one, "kv"), Ok(()));
        assert_eq!((handle.register(two, "kv"), handle.register(one, "kv")), (taken(one), taken(one)));
        assert_eq!(ctx.whereis("kv"), Some(one));

        bury(&ctx, one).await;
        assert_eq!(handle.register(one, "other"), Err(RegisterError::NoProcess { pid: one }));
        assert_eq!(ctx.whereis("other"), None);
        assert_eq!((handle.register(two, "kv"), ctx.whereis("kv")), (Ok(()), Some(two)));
    });
}

#[test]
fn s15_a_process_may_have_several_names_and_its_end_frees_all_of_them() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let handle = ctx.runtime();
        let pid = idle(&ctx);
        for name in ["a", "b", "c"] {
            handle.register(pid, name).unwrap();
        }
        assert!(handle.unregister("b") && !handle.unregister("b"));
        assert_eq!(["a", "b", "c"].map(|name| ctx.whereis(name)), [Some(pid), None, Some(pid)]);

        bury(&ctx, pid).await;
        assert_eq!(["a", "b", "c"].map(|name| ctx.whereis(name)), [None; 3]);
    });
}

#[test]
fn s15_a_name_and_a_group_are_free_before_anyone_is_told_of_the_death() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        ctx.trap_exits(true);
        for round in 0..500 {
            let body = |ctx: Context| async move {
                ctx.register("shared").expect("the last one has ended");
                ctx.join("g").expect("the name is short");
                // Runs mostly on the other scheduler, and ends while the test process looks up the name.
                panic!("dies with a name")
            };
            if round % 2 == 0 {
                let (pid, _) = ctx.spawn_monitor(body).unwrap();
                assert_eq!(ctx.receive_of::<Down>().await.pid, pid);
            } else {
                let pid = ctx.spawn_link(body).unwrap();
                assert_eq!(ctx.receive_of::<Exit>().await.from, pid);
            }
            assert_eq!((ctx.whereis("shared"), ctx.members("g")), (None, vec![]));
        }
    });
}

#[test]
fn s15_a_name_that_many_race_for_has_one_holder() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let me = ctx.pid();
        for round in 0..200 {
            let name = format!("prize {round}");
            for _ in 0..4 {
                let name = name.clone();
                ctx.spawn(move |ctx| async move {
                    let won = ctx.register(&name).is_ok();
                    ctx.send(me, (ctx.pid(), won)).await;
                    pending::<()>().await;
                });
            }
            let mut winners = Vec::new();
            for _ in 0..4 {
                let (pid, won) = ctx.receive_of::<(Pid, bool)>().await;
                winners.extend(won.then_some(pid));
            }
            assert_eq!((winners.len(), ctx.whereis(&name)), (1, winners.first().copied()));
        }
    });
}

#[test]
fn a_process_is_as_many_members_as_it_has_joined_and_leaves_as_often() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let (me, other) = (ctx.pid(), idle(&ctx));
        let handle = ctx.runtime();
        ctx.join("g").unwrap();
        handle.join(other, "g").unwrap();
        ctx.join("g").unwrap();
        assert_eq!(ctx.members("g"), [me, other, me]);
        assert_eq!(handle.groups(), ["g".into()]);

        assert_eq!((ctx.leave("g"), ctx.members("g")), (Ok(()), vec![me, other]));
        assert_eq!((ctx.leave("g"), ctx.members("g")), (Ok(()), vec![other]));
        let not_member = GroupError::NotMember { group: "g".to_owned(), pid: me };
        assert_eq!(not_member.to_string(), format!("{me} is not a member of group \"g\""));
        assert_eq!(ctx.leave("g"), Err(not_member));
        assert_eq!(
            handle.leave(other, "no such group").map_err(|error| error.to_string().contains("no such")),
            Err(true)
        );

        bury(&ctx, other).await;
        assert_eq!((ctx.members("g"), handle.groups()), (vec![], vec![]));
        assert_eq!(handle.join(other, "g"), Err(GroupError::NoProcess { pid: other }));
        assert_eq!(handle.leave(other, "g"), Err(GroupError::NoProcess { pid: other }));
        assert_eq!(ctx.join(""), Err(GroupError::Name(NameError { what: "group", bytes: 0 })));
        assert_eq!(ctx.join(&"x".repeat(256)), Err(GroupError::Name(NameError { what: "group", bytes: 256 })));
    });
}

#[test]
fn who_monitors_a_group_gets_its_members_and_then_every_change() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let handle = ctx.runtime();
        let (old, new) = (idle(&ctx), idle(&ctx));
        handle.join(old, "g").unwrap();
        let (reference, members) = ctx.monitor_group("g").unwrap();
        assert_eq!(members, [old]);
        let (twin, _) = ctx.monitor_group("g").unwrap();
        assert!(twin != reference && ctx.demonitor_group(twin) && !ctx.demonitor_group(twin));

        handle.join(new, "g").unwrap();
        handle.join(new, "g").unwrap();
        handle.join(new, "another").unwrap();
        handle.leave(old, "g").unwrap();
        assert_eq!(ctx.receive().await.downcast::<Joined>().unwrap(), joined(reference, new));
        assert_eq!(ctx.receive().await.downcast::<Joined>().unwrap(), joined(reference, new));
        assert_eq!(ctx.receive().await.downcast::<Left>().unwrap(), left(reference, old));

        let down = ctx.monitor(new);
        ctx.exit(new, ExitReason::Killed);
        assert_eq!(ctx.receive().await.downcast::<Left>().unwrap(), left(reference, new));
        assert_eq!(ctx.receive().await.downcast::<Left>().unwrap(), left(reference, new));
        assert_eq!(ctx.receive().await.downcast::<Down>().unwrap().reference, down, "comes after `Left`");
    });
}

#[test]
fn who_stops_monitoring_a_group_finds_none_of_its_messages() {
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        let (kept, _) = ctx.monitor_group("g").unwrap();
        let (ended, _) = ctx.monitor_group("g").unwrap();
        ctx.join("g").unwrap();
        ctx.leave("g").unwrap();
        assert!(ctx.demonitor_group(ended));
        ctx.join("g").unwrap();

        assert_eq!(ctx.receive().await.downcast::<Joined>().unwrap().reference, kept);
        assert_eq!(ctx.receive().await.downcast::<Left>().unwrap().reference, kept);
        assert_eq!(ctx.receive().await.downcast::<Joined>().unwrap().reference, kept);
        assert!(ctx.receive_timeout(Duration::ZERO).await.is_none());
    });
}

#[test]
fn what_is_heard_of_a_group_under_a_storm_adds_up_to_its_members() {
    const PROCESSES: usize = 2_000;
    let runtime = runtime();
    ask(&runtime, |ctx| async move {
        ctx.monitor_group("g").unwrap();
        let handle = ctx.runtime();
        for number in 0..PROCESSES {
            let body = move |ctx: Context| async move {
                ctx.join("g").expect("the name is short");
                ctx.yield_now().await;
                match number % 4 {
                    0 => ctx.leave("g").expect("it has joined"),
                    1 => panic!("dies as a member"),
                    _ => pending::<()>().await,
                }
            };
            let (pid, _) = ctx.spawn_monitor(body).unwrap();
            if number % 4 == 2 {
                // The join and the kill race on two threads; the process may already have ended.
                drop(handle.join(pid, "g"));
                ctx.exit(pid, ExitReason::Killed);
            }
        }

        let (mut memberships, mut ended) = (HashMap::<Pid, i32>::new(), 0);
        while ended < PROCESSES * 3 / 4 || memberships.len() < PROCESSES / 4 {
            let message = match ctx.receive().await.downcast::<Joined>() {
                Ok(joined) => {
                    *memberships.entry(joined.pid).or_default() += 1;
                    continue;
                }
                Err(message) => message,
            };
            match message.downcast::<Left>() {
                Ok(left) => {
                    let count = memberships.get_mut(&left.pid).expect("left before it joined");
                    *count -= 1;
                    if *count == 0 {
                        memberships.remove(&left.pid);
                    }
                }
                Err(message) => {
                    let pid = message.downcast::<Down>().unwrap().pid;
                    assert!(!memberships.contains_key(&pid), "down message before those of its groups");
                    ended += 1;
                }
            }
        }
        let mut heard: Vec<Pid> = memberships.into_keys().collect();
        let mut members = ctx.members("g");
        heard.sort();
        members.sort();
        assert_eq!(heard, members);
    });
}

#[test]
fn s13_groups_and_their_monitors_of_the_dead_leave_nothing() {
    let runtime = runtime();
    for number in 0..5_000 {
        runtime
            .spawn(move |ctx| async move {
                let group = format!("group {}", number % 50);
                ctx.join(&group).expect("the name is short");
                ctx.monitor_group(&group).expect("the name is short");
                ctx.yield_now().await;
                panic!("dies as a member")
            })
            .unwrap();
    }
    eventually("all end", || runtime.process_count() == 0);
    eventually("no group is left", || runtime.groups().is_empty());
    assert!(runtime.members("group 1").is_empty());
}
