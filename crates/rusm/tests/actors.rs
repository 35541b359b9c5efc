//! The attribute `actor`: what it makes of the methods of a block.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use rusm::prelude::*;

#[derive(Clone, Debug, Default)]
struct Shelf<K> {
    books: HashMap<K, String>,
    ended: u32,
    waiting: Vec<String>,
}

#[actor(message = ShelfCommand, reference = Books)]
impl<K: Clone + Eq + Hash + Send + Sync + 'static> Shelf<K> {
    /// Puts a book on the shelf.
    fn put(&mut self, key: K, title: String) {
        self.books.insert(key, title);
    }

    fn title(&self, key: K) -> Option<String> {
        self.books.get(&key).cloned()
    }

    fn contains(&self, title: &str) -> bool {
        self.books.values().any(|book| book == title)
    }

    /// Answered although nothing is returned.
    #[allow(clippy::unused_unit, reason = "says that the message is answered")]
    async fn sync(&mut self, ctx: &Context) -> () {
        ctx.yield_now().await;
    }

    fn copy(&self) -> Self {
        self.clone()
    }

    fn later(&mut self, ctx: &Context, number: u64, reply: ReplyTo<u64>) {
        let runtime = ctx.runtime();
        ctx.spawn(move |_| async move { _ = reply.send(&runtime, number * 2) });
    }

    fn never(&mut self, _reply: ReplyTo<()>) {}

    async fn slow(&self, ctx: &Context) -> u8 {
        ctx.sleep(Duration::from_hours(1)).await;
        1
    }

    fn close(&mut self) -> Flow {
        Flow::Stop(ExitReason::other("closed"))
    }

    #[info]
    fn down(&mut self, _down: Down) {
        self.ended += 1;
    }

    #[info]
    fn note(&mut self, text: &'static str) -> Flow {
        self.waiting.push(text.to_owned());
        self.flow()
    }

    fn ended(&self) -> (u32, usize) {
        (self.ended, self.waiting.len())
    }

    #[skip]
    const fn flow(&self) -> Flow {
        Flow::Continue
    }
}

struct Door {
    number: u32,
    log: Pid,
}

#[actor(unmatched = crash)]
impl Door {
    async fn init(ctx: &Context, number: String, log: Pid) -> Result<Self, ExitReason> {
        ctx.trap_exits(true);
        Ok(Self { number: number.parse()?, log })
    }

    fn number(&self) -> u32 {
        self.number
    }

    async fn terminate(self, ctx: &Context, reason: &ExitReason) {
        ctx.send(self.log, reason.to_string()).await;
    }
}

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, log_crashes: false, ..Config::default() }).unwrap()
}

#[test]
fn methods_are_messages_with_their_own_replies() {
    runtime().block_on(|ctx| async move {
        let shelf = Shelf::<u8>::start_link(&ctx, Shelf::default()).await.unwrap();
        shelf.put(&ctx, 1, "Emma").await;
        assert_eq!(shelf.title(&ctx, 1).await, Ok(Some("Emma".to_owned())));
        assert_eq!(shelf.contains(&ctx, "Persuasion").await, Ok(false));
        assert_eq!(shelf.sync(&ctx).await, Ok(()));
        assert_eq!(shelf.copy(&ctx).await.unwrap().books.len(), 1);
        assert_eq!(shelf.later(&ctx, 21).await, Ok(42));
        assert_eq!(shelf.never(&ctx).await, Err(CallError::Dropped { to: shelf.pid() }));
        assert_eq!(format!("{:?}", ShelfCommand::<u8>::Close {}), "Close");
        assert_eq!(format!("{shelf:?}"), format!("Books({})", shelf.pid()));
    });
}

#[test]
fn a_method_may_stop_its_actor_and_a_call_may_time_out() {
    runtime().block_on(|ctx| async move {
        let shelf = Shelf::<u8>::start(&ctx.runtime(), Shelf::default()).await.unwrap();
        let brief = shelf.with_timeout(Duration::from_millis(1));
        assert_eq!(brief, shelf, "the timeout does not belong to the identity");
        assert!(matches!(brief.slow(&ctx).await, Err(CallError::Timeout { .. })));
        let other = Shelf::<u8>::start(&ctx.runtime(), Shelf::default()).await.unwrap();
        let end = ctx.monitor(other.pid());
        other.close(&ctx).await;
        let down = ctx.receive_of::<Down>().await;
        assert_eq!((down.reference, down.reason), (end, ExitReason::other("closed")));
    });
}

#[test]
fn other_messages_reach_the_methods_marked_for_them() {
    runtime().block_on(|ctx| async move {
        let shelf = Shelf::<u8>::start_link(&ctx, Shelf::default()).await.unwrap();
        ctx.send(shelf.pid(), "a note").await;
        ctx.send(shelf.pid(), 1_u8).await;
        let short = ctx.spawn(|_| async {});
        ctx.monitor(short);
        let down = ctx.receive_of::<Down>().await;
        ctx.send(shelf.pid(), down).await;
        assert_eq!(shelf.ended(&ctx).await, Ok((1, 1)));
    });
}

#[test]
fn init_may_fail_with_any_error_and_terminate_runs_at_the_end() {
    runtime().block_on(|ctx| async move {
        let refused = Door::start_link(&ctx, ("a door".to_owned(), ctx.pid())).await.unwrap_err();
        assert_eq!(refused.to_string(), "ended during its start: invalid digit found in string");
        let door = Door::start_link(&ctx, ("7".to_owned(), ctx.pid())).await.unwrap();
        assert_eq!(door.number(&ctx).await, Ok(7));
        door.stop(&ctx, ExitReason::Normal, Duration::from_mins(1)).await.unwrap();
        assert_eq!(ctx.receive_of::<String>().await, "normal");
        let strict = Door::start(&ctx.runtime(), ("8".to_owned(), ctx.pid())).await.unwrap();
        ctx.send(strict.pid(), 1_u8).await;
        assert_eq!(ctx.receive_of::<String>().await, "received a u8, which it does not handle");
    });
}

#[test]
fn an_actor_is_a_child_of_a_supervisor() {
    runtime().block_on(|ctx| async move {
        let supervisor = Supervisor::new(Strategy::OneForOne)
            .child(Shelf::<u8>::child("shelf", Shelf::default()))
            .child(Door::child_with("door", || ("1".to_owned(), Pid::NONE)));
        let supervisor = supervisor.start_link(&ctx).await.unwrap();
        assert_eq!(supervisor.count_children(&ctx).await.unwrap().active, 2);
    });
}

struct Secret(#[expect(dead_code, reason = "a state that is not shown")] u8);

#[actor]
impl Secret {
    fn nothing(&self) {}
}

#[derive(Debug)]
struct Plain {
    number: u8,
}

#[actor]
impl Plain {
    fn set(&mut self, number: u8) {
        self.number = number;
    }
}

#[test]
fn a_state_that_has_debug_is_shown_and_another_by_its_type() {
    runtime().block_on(|ctx| async move {
        let plain = Plain::start_link(&ctx, Plain { number: 1 }).await.unwrap();
        plain.set(&ctx, 7).await;
        assert_eq!(ctx.state_of(plain.pid()).await.unwrap(), "Plain { number: 7 }");
        let secret = Secret::start_link(&ctx, Secret(1)).await.unwrap();
        secret.nothing(&ctx).await;
        assert_eq!(ctx.state_of(secret.pid()).await.unwrap(), "actors::Secret { .. }");
        let shelf = Shelf::<u8>::start_link(&ctx, Shelf::default()).await.unwrap();
        assert_eq!(ctx.state_of(shelf.pid()).await.unwrap(), "actors::Shelf<u8> { .. }");
    });
}
