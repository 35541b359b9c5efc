//! Tables: shared by processes, owned by one, inherited by another.

use std::sync::Arc;

use rusm_runtime::table::{Inherited, NoNewOwner, Table, TableEnded};
use rusm_runtime::{Context, Down, ExitReason, observe};

use crate::ask::{ask, runtime};

#[test]
fn a_table_does_what_a_map_does() {
    ask(&runtime(), |ctx| async move {
        let table = Table::<String, u32>::new(&ctx, "numbers");
        assert_eq!((table.is_empty(), table.get("one")), (true, None));
        assert_eq!(table.insert("one".to_owned(), 1), Ok(None));
        assert_eq!(table.insert("one".to_owned(), 11), Ok(Some(1)));
        assert_eq!(table.insert_new("one".to_owned(), 12), Ok(false));
        assert_eq!(table.insert_new("two".to_owned(), 2), Ok(true));
        assert_eq!(table.update("two".to_owned(), 0, |value| std::mem::replace(value, 22)), Ok(2));
        assert_eq!(table.update("six".to_owned(), 6, |value| *value), Ok(6));
        assert_eq!(table.with("two", |value| value + 1), Some(23));
        assert!(table.contains("six") && !table.contains("ten"));
        assert_eq!(table.remove("six"), Some(6));
        assert_eq!(table.remove("six"), None);
        let mut entries = Vec::new();
        table.for_each(|key, value| entries.push((key.clone(), *value)));
        entries.sort();
        assert_eq!(entries, [("one".to_owned(), 11), ("two".to_owned(), 22)]);
        table.retain(|_, value| *value > 20);
        assert_eq!(table.len(), 1);
        table.clear();
        assert!(table.is_empty());
    });
}

#[test]
fn counters_lose_nothing_whoever_adds() {
    ask(&runtime(), |ctx| async move {
        let table = Table::<u8, i64>::new(&ctx, "hits");
        let adders: Vec<_> = (0..8)
            .map(|_| {
                let table = table.clone();
                ctx.task(move |_| async move {
                    for turn in 0..1_000_u32 {
                        table.add((turn % 3) as u8, 2).unwrap();
                    }
                })
            })
            .collect();
        for adder in adders {
            adder.unwrap().await.unwrap();
        }
        let sum: i64 = (0..3).filter_map(|key| table.get(&key)).sum();
        assert_eq!(sum, 16_000);
    });
}

/// Starts a process that creates a table and ends when it is told to.
async fn owner(ctx: &Context, heir: Option<rusm_runtime::Pid>) -> (rusm_runtime::Pid, Table<u8, Arc<()>>) {
    let me = ctx.pid();
    let owner = ctx.spawn(move |ctx: Context| async move {
        let table = Table::<u8, Arc<()>>::new(&ctx, "owned");
        let table = if let Some(heir) = heir { table.heir(heir) } else { table };
        table.insert(1, Arc::new(())).unwrap();
        ctx.send(me, table).await;
        ctx.receive_of::<()>().await;
    });
    (owner, ctx.receive_of::<Table<u8, Arc<()>>>().await)
}

#[test]
fn a_table_ends_with_its_owner_before_anybody_hears_of_it() {
    ask(&runtime(), |ctx| async move {
        let (owner, table) = owner(&ctx, None).await;
        assert_eq!(table.owner(), Some(owner));
        let value = Arc::downgrade(&table.get(&1).unwrap());
        ctx.monitor(owner);
        ctx.exit(owner, ExitReason::Killed);
        ctx.receive_of::<Down>().await;
        assert!(table.has_ended() && table.get(&1).is_none() && value.upgrade().is_none());
        assert_eq!(table.insert(2, Arc::new(())), Err(TableEnded { table: "owned".into() }));
        assert_eq!(table.give_to(&ctx, ctx.pid()), Err(NoNewOwner { to: ctx.pid() }));
    });
}

#[test]
fn an_heir_gets_the_table_and_a_message() {
    ask(&runtime(), |ctx| async move {
        let (owner, table) = owner(&ctx, Some(ctx.pid())).await;
        ctx.exit(owner, ExitReason::Killed);
        let inherited = ctx.receive_of::<Inherited<u8, Arc<()>>>().await;
        assert_eq!((inherited.from, inherited.table.owner()), (owner, Some(ctx.pid())));
        assert!(table.contains(&1) && inherited.table.insert(2, Arc::new(())).is_ok());
    });
}

#[test]
fn a_table_whose_heir_has_ended_ends_and_a_given_one_stays() {
    ask(&runtime(), |ctx| async move {
        let gone = ctx.spawn(|_| async {});
        ctx.monitor(gone);
        ctx.receive_of::<Down>().await;
        let (first, table) = owner(&ctx, Some(gone)).await;
        let (second, given) = owner(&ctx, None).await;
        assert_eq!(given.give_to(&ctx, gone), Err(NoNewOwner { to: gone }));
        assert_eq!(given.owner(), Some(second));
        given.give_to(&ctx, ctx.pid()).unwrap();
        for owner in [first, second] {
            ctx.monitor(owner);
            ctx.exit(owner, ExitReason::Killed);
            ctx.receive_of::<Down>().await;
        }
        assert!(table.has_ended() && !given.has_ended());
    });
}

#[test]
fn observers_see_a_table_for_as_long_as_it_exists() {
    let runtime = runtime();
    let table = Table::<u32, u64>::unowned(&runtime, "free");
    table.insert(1, 2).unwrap();
    table.get(&1);
    table.get(&2);
    let reports = observe::tables(&runtime);
    let [report] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!((&*report.name, report.entries, report.reads_total, report.writes_total), ("free", 1, 2, 1));
    assert_eq!((report.key_type, report.value_type, report.entry_bytes), ("u32", "u64", 16));
    assert_eq!((report.owner, report.heir), (None, None));
    drop(table);
    assert_eq!(observe::tables(&runtime), []);
}
