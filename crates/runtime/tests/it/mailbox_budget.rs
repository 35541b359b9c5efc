//! The byte budget of all mailboxes together: waiting senders, refused messages, and processes that go on.

use std::sync::mpsc;
use std::time::Duration;

use crate::eventually::eventually;
use rusm_runtime::{Config, ExitReason, MailboxBound, Pid, Runtime, TrySendError, observe};

const TOTAL: u64 = 64 * 1024;
const BODY: usize = 8 * 1024;

fn runtime(schedulers: usize) -> Runtime {
    Runtime::start(Config { schedulers, mailbox_total_bytes: TOTAL, ..Config::default() }).unwrap()
}

/// Spawns a process that receives nothing.
fn idle(runtime: &Runtime) -> Pid {
    runtime.spawn(|_| std::future::pending::<()>()).unwrap()
}

/// Fills the mailboxes of idle processes from a process until a message is refused; returns the number of bytes sent.
fn fill(runtime: &Runtime, idle: Vec<Pid>) -> u64 {
    let (tell, told) = mpsc::channel();
    runtime
        .spawn(move |ctx| async move {
            let mut sent = 0;
            while idle.iter().all(|pid| ctx.try_send(*pid, vec![0_u8; BODY]).is_ok()) {
                sent += (idle.len() * BODY) as u64;
                ctx.yield_now().await;
            }
            tell.send(sent).unwrap();
        })
        .unwrap();
    told.recv().unwrap()
}

#[test]
fn all_mailboxes_together_hold_so_many_bytes_and_an_empty_one_takes_one_message() {
    let runtime = runtime(2);
    let victims: Vec<Pid> = (0..4).map(|_| idle(&runtime)).collect();

    let sent = fill(&runtime, victims.clone());

    // The last message may exceed the budget, and each scheduler may have a 64th of it that is not yet settled.
    assert!((TOTAL - 4 * BODY as u64..TOTAL + 5 * BODY as u64).contains(&sent), "{sent} bytes of {TOTAL}");
    let Err(TrySendError::Full { bound, message, .. }) = runtime.try_send(victims[0], vec![0_u8; BODY]) else {
        panic!("the budget is full");
    };
    assert_eq!(bound, MailboxBound::Total(TOTAL));
    assert_eq!(message.downcast::<Vec<u8>>().unwrap().len(), BODY);
    let fresh = idle(&runtime);
    // While a process takes what has arrived, its mailbox looks empty for a moment.
    eventually("its first poll is over", || observe::idle_progress(&runtime).is_some());
    runtime.try_send(fresh, vec![0_u8; BODY]).expect("its mailbox is empty");
    assert!(runtime.try_send(fresh, 1_u8).is_err(), "its mailbox holds a message");
    let said = runtime.try_send(fresh, 1_u8).unwrap_err().to_string();
    assert_eq!(
        said,
        format!("mailbox of {fresh} is full (all mailboxes together hold {TOTAL} bytes, the limit of this runtime)")
    );
}

#[test]
fn a_process_that_receives_is_reached_while_the_budget_is_full() {
    let runtime = runtime(2);
    fill(&runtime, (0..4).map(|_| idle(&runtime)).collect());
    let receiver = runtime
        .spawn(|ctx| async move {
            for number in 0..1_000_u64 {
                assert_eq!(ctx.receive_of::<Vec<u8>>().await.len() as u64, BODY as u64 + number);
            }
        })
        .unwrap();

    let sender = runtime
        .spawn(move |ctx| async move {
            for number in 0..1_000_u64 {
                ctx.send(receiver, vec![0_u8; BODY + number as usize]).await;
            }
        })
        .unwrap();

    assert!(matches!(runtime.wait(sender), ExitReason::Normal | ExitReason::NoProcess));
    assert!(matches!(runtime.wait(receiver), ExitReason::Normal | ExitReason::NoProcess));
    assert_eq!(observe::totals(&runtime).crashed, 0);
}

#[test]
fn senders_go_on_when_the_processes_that_filled_the_budget_have_ended() {
    for schedulers in [1, 2] {
        let runtime = runtime(schedulers);
        let victims: Vec<Pid> = (0..4).map(|_| idle(&runtime)).collect();
        fill(&runtime, victims.clone());
        let reader = idle(&runtime);
        let (tell, told) = mpsc::channel();
        // The receiver never receives: the sender goes on only when other mailboxes free bytes of the budget.
        let sender = runtime
            .spawn(move |ctx| async move {
                ctx.send(reader, vec![0_u8; BODY]).await;
                ctx.send(reader, vec![0_u8; BODY]).await;
                tell.send(()).unwrap();
            })
            .unwrap();
        let waits = || {
            observe::process_in_slot(&runtime, sender.slot())
                .is_some_and(|seen| seen.state() == observe::ProcessState::Waiting)
        };
        eventually("the sender waits", waits);
        assert!(told.try_recv().is_err());

        for victim in victims {
            runtime.exit(victim, ExitReason::Killed);
        }

        told.recv_timeout(Duration::from_mins(1)).expect("there is room again");
        eventually("what the dead held is given back", || observe::mailbox_bytes(&runtime).bytes <= 2 * BODY as u64);
    }
}

#[test]
fn messages_from_four_senders_through_two_schedulers_leave_no_byte_counted() {
    let runtime = runtime(2);
    let receiver = runtime
        .spawn(|ctx| async move {
            for _ in 0..200_000 {
                ctx.receive_of::<Vec<u8>>().await;
            }
        })
        .unwrap();
    for _ in 0..4 {
        runtime
            .spawn(move |ctx| async move {
                for size in 0..50_000_usize {
                    ctx.send(receiver, vec![0_u8; size % 300]).await;
                }
            })
            .unwrap();
    }

    assert!(matches!(runtime.wait(receiver), ExitReason::Normal | ExitReason::NoProcess));
    eventually("all is counted back", || observe::mailbox_bytes(&runtime).bytes == 0);
}
