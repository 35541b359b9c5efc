//! Names of children and supervisors, limits of children, and arguments that are used once.

use std::future::pending;

use rusm_runtime::supervisor::{
    ChildError, ChildSpec, ChildState, Restart, StartChildError, Strategy, Supervisor, SupervisorRef,
};
use rusm_runtime::{Context, Down, ExitReason, observe};

use crate::ask::{ask, runtime};

fn idle(id: &str) -> ChildSpec {
    ChildSpec::new(id, |_| pending::<()>())
}

#[test]
fn a_named_child_is_found_also_after_its_restart() {
    ask(&runtime(), |ctx| async move {
        let tree = Supervisor::new(Strategy::OneForOne).named("tree").child(idle("clock").named("clock"));
        let supervisor = tree.start_link(&ctx).await.unwrap();
        assert_eq!(SupervisorRef::whereis(&ctx, "tree"), Some(supervisor));
        let first = ctx.whereis("clock").unwrap();
        ctx.monitor(first);
        ctx.exit(first, ExitReason::Killed);
        ctx.receive_of::<Down>().await;
        let second = loop {
            match ctx.whereis("clock") {
                Some(pid) => break pid,
                None => ctx.yield_now().await,
            }
        };
        assert_ne!(first, second);
        assert_eq!(supervisor.which_children(&ctx).await.unwrap()[0].state, ChildState::Running(second));
    });
}

#[test]
fn a_taken_name_is_a_failed_start_and_leaves_no_process() {
    ask(&runtime(), |ctx| async move {
        ctx.register("clock").unwrap();
        let taken = Supervisor::new(Strategy::OneForOne).child(idle("a")).child(idle("b").named("clock"));
        let error = taken.start_link(&ctx).await.unwrap_err().to_string();
        assert!(error.contains("name \"clock\" is taken by"), "{error}");
        let acknowledged = ChildSpec::acknowledged("c", |ctx: Context, starting| async move {
            ctx.receive_of::<()>().await;
            drop(starting);
        });
        let taken = Supervisor::new(Strategy::OneForOne).child(acknowledged.named("clock"));
        assert!(taken.start_link(&ctx).await.is_err(), "the supervisor does not wait for the child");
        let long = Supervisor::new(Strategy::OneForOne).named("x".repeat(300)).start_link(&ctx).await;
        assert!(long.unwrap_err().to_string().contains("has 1 to 255 bytes, not 300"));
        while ctx.runtime().process_count() > 1 {
            ctx.yield_now().await;
        }
    });
}

#[test]
fn observers_show_the_id_of_a_child_that_has_no_name() {
    ask(&runtime(), |ctx| async move {
        let tree = Supervisor::new(Strategy::OneForOne).child(idle("plain")).child(ChildSpec::new(
            "labelled",
            |ctx: Context| async move {
                ctx.set_label("own");
                pending::<()>().await;
            },
        ));
        let supervisor = tree.start_link(&ctx).await.unwrap();
        let children = supervisor.which_children(&ctx).await.unwrap();
        let shown = |state| match state {
            ChildState::Running(pid) => {
                let runtime = ctx.runtime();
                observe::display_name(&runtime, &observe::process_ref(&runtime, pid).unwrap())
            }
            _ => None,
        };
        assert_eq!(shown(children[0].state).as_deref(), Some("plain"));
        while shown(children[1].state).as_deref() != Some("own") {
            ctx.yield_now().await;
        }
    });
}

#[test]
fn a_full_supervisor_starts_no_further_child() {
    ask(&runtime(), |ctx| async move {
        let template = ChildSpec::template("one", |ctx: Context, (): ()| async move {
            ctx.receive_of::<()>().await;
        });
        let supervisor = Supervisor::simple_one_for_one(template).max_children(2).start_link(&ctx).await.unwrap();
        let first = supervisor.start_one(&ctx, ()).await.unwrap();
        supervisor.start_one(&ctx, ()).await.unwrap();
        assert_eq!(supervisor.start_one(&ctx, ()).await, Err(StartChildError::MaxChildren { limit: 2 }));
        supervisor.terminate_child(&ctx, first).await.unwrap();
        assert!(supervisor.start_one(&ctx, ()).await.is_ok());
    });
}

#[test]
fn a_child_whose_arguments_exist_once_must_be_temporary() {
    ask(&runtime(), |ctx| async move {
        let template =
            ChildSpec::template_once("connection", |_: Context, (): ()| async {}).restart(Restart::Permanent);

        let refused = Supervisor::simple_one_for_one(template).start_link(&ctx).await.unwrap_err();

        assert!(refused.to_string().contains("child \"connection\" must be temporary"), "{refused}");
    });
}

#[test]
fn arguments_that_cannot_be_cloned_are_used_once() {
    /// Cannot be cloned.
    struct Socket(u32);

    ask(&runtime(), |ctx| async move {
        let me = ctx.pid();
        let template = ChildSpec::template_once("connection", move |ctx: Context, socket: Socket| async move {
            ctx.send(me, socket.0).await;
            if socket.0 == 1 { ExitReason::other("not restarted") } else { ExitReason::Normal }
        });
        let supervisor = Supervisor::simple_one_for_one(template).start_link(&ctx).await.unwrap();
        for number in 1..=2 {
            supervisor.start_once(&ctx, Socket(number)).await.unwrap();
            assert_eq!(ctx.receive_of::<u32>().await, number);
        }
        let how = supervisor.start_one(&ctx, 7_u32).await.unwrap_err().to_string();
        assert!(how.ends_with("Socket, from start_once"), "{how}");
        while supervisor.count_children(&ctx).await.unwrap().specs > 0 {
            ctx.yield_now().await;
        }
        assert_eq!(ctx.receive_timeout(std::time::Duration::ZERO).await.map(|message| message.type_name()), None);
    });
}

#[test]
fn a_child_whose_arguments_are_gone_is_not_replaced_and_stays() {
    ask(&runtime(), |ctx| async move {
        let template = ChildSpec::template_once("connection", |ctx: Context, _: Box<u8>| async move {
            ctx.receive_of::<()>().await;
        });
        let supervisor = Supervisor::simple_one_for_one(template).start_link(&ctx).await.unwrap();
        let child = supervisor.start_once(&ctx, Box::new(7_u8)).await.unwrap();

        assert_eq!(supervisor.replace_child(&ctx, child).await, Err(ChildError::Once));
        assert_eq!(supervisor.count_children(&ctx).await.unwrap().active, 1);
    });
}
