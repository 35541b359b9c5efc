//! The lines of the log: the same events with and without a subscriber of `tracing`.

use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

use rusm_runtime::actor::Inbox;
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Config, Context, Down, Exit, ExitReason, Message, MonitorRef, Runtime};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Environment variable that makes this test the program with the lines: with a subscriber, or without.
const PROGRAM: &str = "RUSM_TEST_LOG_LINES";
/// Number of processes that fail for the same cause.
const STORM: usize = 40;

/// Writes each event as a line to standard error.
struct Lines;

/// The fields of an event.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").expect("a text has room");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        eprintln!("{}{}", event.metadata().level(), fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn fail(ctx: Context) {
    ctx.set_label("the till");
    panic!("no change left");
}

async fn program(ctx: Context) {
    ctx.register("shop").expect("the name is free");
    ctx.trap_exits(true);
    let end = ctx.monitor(ctx.spawn(fail));
    down(&ctx, end).await;

    let itself = ctx.monitor(ctx.spawn(|ctx| async move {
        ctx.exit(ctx.pid(), ExitReason::other("sold out"));
        ctx.receive().await;
    }));
    down(&ctx, itself).await;

    let children = Supervisor::new(Strategy::OneForOne).intensity(0, Duration::from_secs(1));
    let ill = ChildSpec::new("stock", |_| async { ExitReason::other("no disk") });
    let tree = children.child(ill).named("stores").start_link(&ctx).await.expect("the child fails later");
    ctx.send(tree.pid(), "a text for a supervisor").await;
    ctx.receive_of::<Exit>().await;

    let other = Supervisor::new(Strategy::OneForOne).named("quiet").start_link(&ctx).await.expect("no children");
    ctx.send(other.pid(), 7_u8).await;
    other.count_children(&ctx).await.expect("it has handled the message before");

    let inbox = ctx.spawn(|ctx| async move {
        let mut inbox = Inbox::<u32>::new();
        inbox.receive(&ctx).await;
    });
    let end = ctx.monitor(inbox);
    ctx.send(inbox, 1.5_f64).await;
    ctx.send(inbox, 1_u32).await;
    down(&ctx, end).await;

    for _ in 0..STORM {
        let end = ctx.monitor(ctx.spawn(|_| async { ExitReason::other("a storm") }));
        down(&ctx, end).await;
    }
}

/// Waits for the end of a process.
async fn down(ctx: &Context, end: MonitorRef) {
    let is_end = move |message: &Message| message.downcast_ref::<Down>().is_some_and(|down| down.reference == end);
    ctx.receive_match(is_end).await;
}

#[test]
fn crashes_ends_of_trees_and_messages_that_nobody_handles_are_told_once_with_and_without_a_subscriber() {
    if let Ok(kind) = std::env::var(PROGRAM) {
        if kind == "subscriber" {
            tracing::subscriber::set_global_default(Lines).expect("it is the first");
        }
        // A subscriber of this thread does not get the events of schedulers.
        let _guard = (kind == "scoped").then(|| tracing::subscriber::set_default(Lines));
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
        runtime.wait(runtime.spawn(program).expect("there is room"));
        return;
    }
    let name =
        "log_lines::crashes_ends_of_trees_and_messages_that_nobody_handles_are_told_once_with_and_without_a_subscriber";
    for kind in ["subscriber", "plain", "scoped"] {
        let this = std::env::current_exe().expect("a test is a program");
        let mut command = Command::new(this);
        command.args([name, "--exact", "--nocapture"]).env(PROGRAM, kind).env("RUST_BACKTRACE", "0");
        let output = command.output().expect("the program runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");

        let lines = |parts: &[&str]| told.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        for parts in [
            &["no change left", "the till", "shop", "crashed"][..],
            &["sold out", "shop", "crashed"],
            &["gave up", "stores", "stock", "no disk"],
            &["handle", "quiet", "u8"],
            &["handle", "f64"],
            &[&format!("{}", STORM - 1), "a storm", "more crashes"],
        ] {
            assert_eq!(lines(parts), 1, "{parts:?} of {kind}:\n{told}");
        }
    }
}
