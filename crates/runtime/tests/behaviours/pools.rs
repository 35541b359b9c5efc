//! Pools and partitions: the choice of a worker, and workers that are restarted.

use std::collections::HashSet;
use std::time::Duration;

use rusm_runtime::actor::{Actor, Address, Flow, Inbox};
use rusm_runtime::pool::{PartitionSupervisor, Pool, Routing};
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Context, Down, ExitReason, Pid, ReplyTo, observe};

use crate::ask::{ask, runtime};

enum Job {
    Who(ReplyTo<Pid>),
    Block(ReplyTo<()>),
    Work(ReplyTo<()>),
}

async fn worker(ctx: Context, mut inbox: Inbox<Job>) {
    let mut blocked = Vec::new();
    loop {
        match inbox.receive(&ctx).await {
            Job::Who(reply) => _ = reply.send(&ctx, ctx.pid()),
            Job::Work(reply) => {
                blocked.push(reply);
                std::future::pending::<()>().await;
            }
            Job::Block(reply) => {
                // Leaves what comes after it in its mailbox.
                blocked.push(reply);
                ctx.receive_of::<()>().await;
            }
        }
    }
}

#[test]
fn each_worker_has_its_turn_and_a_key_has_one_worker() {
    ask(&runtime(), |ctx| async move {
        let pool = Pool::new("worker", 3, worker);
        assert_eq!((pool.size(), pool.workers()), (3, Vec::new()));
        pool.start_link(&ctx).await.unwrap();
        let mut seen = HashSet::new();
        for _ in 0..3 {
            seen.insert(pool.call(&ctx, Job::Who).await.unwrap());
        }
        assert_eq!(seen.len(), 3);
        let mut parts = HashSet::new();
        for key in 0..50_u32 {
            let first = pool.call_by_key(&ctx, &key, Job::Who).await.unwrap();
            assert_eq!(pool.call_by_key(&ctx, &key, Job::Who).await, Ok(first));
            parts.insert(first);
        }
        assert_eq!(parts, seen, "fifty keys use all workers");
    });
}

#[test]
fn the_least_loaded_worker_gets_the_next_message() {
    ask(&runtime(), |ctx| async move {
        let pool = Pool::new("worker", 2, worker).routing(Routing::LeastLoaded);
        pool.start_link(&ctx).await.unwrap();
        let busy = pool.workers()[0];
        // Sends to `busy` itself, past the routing, until its mailbox is not empty.
        for _ in 0..3 {
            let wait = busy.call_within(&ctx, Duration::ZERO, Job::Block).await;
            assert!(wait.is_err());
        }
        for _ in 0..4 {
            assert_eq!(pool.call(&ctx, Job::Who).await, Ok(pool.workers()[1].pid()));
        }
    });
}

#[test]
fn a_worker_that_handles_a_message_is_not_the_least_loaded() {
    ask(&runtime(), |ctx| async move {
        let pool = Pool::new("worker", 2, worker).routing(Routing::LeastLoaded);
        pool.start_link(&ctx).await.unwrap();
        for worker in pool.workers() {
            assert_eq!(worker.call(&ctx, Job::Who).await, Ok(worker.pid()));
        }
        let busy = pool.workers()[0];
        assert!(busy.call_within(&ctx, Duration::ZERO, Job::Work).await.is_err());
        while observe::process_ref(&ctx.runtime(), busy.pid()).is_some_and(|seen| seen.mailbox_len() > 0) {
            ctx.yield_now().await;
        }
        for _ in 0..4 {
            assert_eq!(pool.call(&ctx, Job::Who).await, Ok(pool.workers()[1].pid()));
        }
    });
}

#[test]
fn of_many_workers_one_that_has_room_gets_the_next_message() {
    ask(&runtime(), |ctx| async move {
        let pool = Pool::new("worker", 16, worker).mailbox_capacity(1).routing(Routing::LeastLoaded);
        pool.start_link(&ctx).await.unwrap();
        let workers = pool.workers();
        let (free, busy) = workers.split_last().unwrap();
        for worker in busy {
            assert!(worker.call_within(&ctx, Duration::ZERO, Job::Block).await.is_err());
            // Accepted when the worker has taken the job before, and then its mailbox is full.
            while ctx.try_send(worker.pid(), 0_u8).is_err() {
                ctx.yield_now().await;
            }
        }
        for _ in 0..32 {
            assert_eq!(pool.call(&ctx, Job::Who).await, Ok(free.pid()));
        }
    });
}

#[test]
fn a_restarted_worker_takes_the_place_of_the_one_before() {
    ask(&runtime(), |ctx| async move {
        let pool = Pool::new("worker", 1, worker);
        let tree = Supervisor::new(Strategy::OneForOne).child(pool.child("pool"));
        tree.start_link(&ctx).await.unwrap();
        let first = pool.call(&ctx, Job::Who).await.unwrap();
        ctx.monitor(first);
        ctx.exit(first, ExitReason::Killed);
        ctx.receive_of::<Down>().await;
        while pool.workers()[0].pid() == first {
            ctx.yield_now().await;
        }
        assert_ne!(pool.call(&ctx, Job::Who).await.unwrap(), first);
    });
}

#[test]
fn partitions_divide_keys_among_children_with_numbered_ids() {
    ask(&runtime(), |ctx| async move {
        let parts = PartitionSupervisor::new(4, |_| ChildSpec::new("part", |_| std::future::pending::<()>()));
        assert_eq!((parts.count(), parts.pid_of("a")), (4, None));
        let supervisor = parts.start(&ctx.runtime()).await.unwrap();
        let ids: Vec<_> = supervisor.which_children(&ctx).await.unwrap().into_iter().map(|child| child.id).collect();
        assert_eq!(ids.iter().map(|id| &**id).collect::<Vec<_>>(), ["part-0", "part-1", "part-2", "part-3"]);
        assert_eq!(parts.pids().len(), 4);
        assert_eq!(parts.pid_of("a"), parts.clone().pid_of("a"));
        let used: HashSet<_> = (0..100_u32).map(|key| parts.pid_of(&key)).collect();
        assert_eq!(used.len(), 4);
    });
}

/// Handles its first message for ever.
struct Slow;

impl Actor for Slow {
    type Args = ();
    type Message = ();
    type Ref = Address<()>;

    async fn init(_: &Context, (): ()) -> Result<Self, ExitReason> {
        Ok(Self)
    }

    async fn handle(&mut self, _: &Context, (): ()) -> Flow {
        std::future::pending().await
    }
}

#[test]
fn the_mailbox_of_an_actor_in_a_pool_has_the_capacity_of_the_pool() {
    ask(&runtime(), |ctx| async move {
        let pool = Pool::of_actors::<Slow>("slow", 1, &()).mailbox_capacity(2);
        pool.start_link(&ctx).await.unwrap();
        let slow = pool.workers()[0].pid();
        ctx.send(slow, ()).await;
        while observe::process_ref(&ctx.runtime(), slow).is_some_and(|seen| seen.mailbox_len() > 0) {
            ctx.yield_now().await;
        }
        let accepted = (0..3).map(|_| ctx.try_send(slow, ()).is_ok()).collect::<Vec<_>>();
        assert_eq!(accepted, [true, true, false]);
    });
}
