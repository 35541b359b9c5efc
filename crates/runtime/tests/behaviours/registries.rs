//! Registries: typed addresses by keys, which end with their processes.

use rusm_runtime::actor::Address;
use rusm_runtime::registry::{KeyError, Registry};
use rusm_runtime::{Context, Down, ExitReason, observe};

use crate::ask::{ask, runtime};

fn waiting(ctx: &Context) -> Address<u8> {
    ctx.spawn_typed(|ctx: Context, mut inbox| async move {
        loop {
            inbox.receive(&ctx).await;
        }
    })
    .unwrap()
}

async fn kill(ctx: &Context, address: Address<u8>) {
    ctx.monitor(address.pid());
    ctx.exit(address.pid(), ExitReason::Killed);
    ctx.receive_of::<Down>().await;
}

#[test]
fn a_unique_key_has_one_process_and_is_free_after_its_end() {
    ask(&runtime(), |ctx| async move {
        let registry = Registry::<String, u8>::unique(&ctx.runtime(), "rooms");
        let (first, second) = (waiting(&ctx), waiting(&ctx));
        registry.register(&ctx, "a".to_owned(), first).unwrap();
        registry.register(&ctx, "b".to_owned(), first).unwrap();
        let taken = registry.register(&ctx, "a".to_owned(), second);
        assert_eq!(taken, Err(KeyError::Taken { holder: first.pid() }));
        assert_eq!((registry.whereis("a"), registry.whereis("c")), (Some(first), None));
        assert_eq!(registry.keys_of(first), ["a", "b"]);
        let mut keys = registry.keys();
        keys.sort();
        assert_eq!(keys, ["a", "b"]);

        kill(&ctx, first).await;

        assert_eq!((registry.whereis("a"), registry.len(), registry.is_empty()), (None, 0, true));
        registry.register(&ctx, "a".to_owned(), second).unwrap();
        assert_eq!(registry.register(&ctx, "d".to_owned(), first), Err(KeyError::NoProcess { pid: first.pid() }));
        assert!(registry.unregister("a", second) && !registry.unregister("a", second));
        assert_eq!(registry.keys_of(second), Vec::<String>::new());
    });
}

#[test]
fn a_duplicate_key_has_all_its_processes_in_order() {
    ask(&runtime(), |ctx| async move {
        let registry = Registry::<u32, u8>::duplicate(&ctx.runtime(), "topics");
        let all: Vec<_> = (0..3).map(|_| waiting(&ctx)).collect();
        for address in &all {
            registry.register(&ctx.runtime(), 7, *address).unwrap();
        }
        assert_eq!(registry.register(&ctx, 7, all[1]), Err(KeyError::Taken { holder: all[1].pid() }));
        assert_eq!(registry.addresses(&7), all);
        assert_eq!(registry.publish(&ctx, &7, 1).await, 3);
        kill(&ctx, all[0]).await;
        assert_eq!((registry.addresses(&7), registry.whereis(&7)), (all[1..].to_vec(), Some(all[1])));
    });
}

#[test]
fn processes_that_come_and_go_leave_no_key_behind() {
    ask(&runtime(), |ctx| async move {
        let registry = Registry::<u32, u8>::unique(&ctx.runtime(), "busy");
        let turns: Vec<_> = (0..4_u32)
            .map(|part| {
                let registry = registry.clone();
                ctx.task(move |ctx| async move {
                    for turn in 0..200 {
                        let address = waiting(&ctx);
                        registry.register(&ctx, part * 1_000 + turn, address).unwrap();
                        kill(&ctx, address).await;
                    }
                })
            })
            .collect();
        for turn in turns {
            turn.unwrap().await.unwrap();
        }
        assert!(registry.is_empty());
        let reports = observe::registries(&ctx.runtime());
        let [report] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((&*report.name, report.is_unique, report.keys, report.processes), ("busy", true, 0, 0));
        assert_eq!((report.key_type, report.message_type), ("u32", "u8"));
        assert!(report.changes_total >= 1_600, "{report:?}");
    });
}
