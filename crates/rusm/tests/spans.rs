//! A span of `tracing` for each process, if a subscriber wants it.

#[path = "common/lines.rs"]
mod lines;

use rusm::prelude::*;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use lines::Lines;

/// The only test of this program, because a subscriber is global.
#[test]
fn events_of_a_process_carry_its_pid_name_and_label_and_the_span_ends_with_it() {
    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("info,rusm::process=debug"))
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .init();

    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
    let pid = runtime
        .spawn(|ctx| async move {
            ctx.register("shop").unwrap();
            ctx.set_label("open");
            ctx.yield_now().await;
            tracing::info!("from inside");
            let child = ctx.spawn(|_| async { tracing::info!("from the child") });
            ctx.monitor(child);
            ctx.receive_of::<Down>().await;
            tracing::info!("again");
        })
        .unwrap();
    runtime.wait(pid);
    drop(runtime);

    let text = lines.text();
    let of = |event: &str| text.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("{event}: {text}"));
    for event in ["from inside", "again"] {
        let line = of(event);
        assert!(line.contains(&format!("process{{pid={pid} name=\"shop\" label=\"open\"}}")), "{line}");
    }
    let child = of("from the child");
    assert!(child.contains("process{pid=") && !child.contains("shop"), "the span of the parent was left: {child}");
    assert_eq!(text.lines().filter(|line| line.contains("close")).count(), 2, "{text}");
}
