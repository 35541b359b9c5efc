//! Lints as an observer sees them: each is raised for the process at fault and no other, until the process recovers.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{Node, node, node_of, node_with};
use rusm_console::{Lint, LintLevel, LintLevels};
use rusm_runtime::supervisor::{ChildSpec, Shutdown, Strategy, Supervisor};
use rusm_runtime::{Config, Context, ExitReason, Pid};
use serde_json::Value;

/// Processes that each trigger one lint. Other processes almost trigger the same lints.
struct Planted {
    bad: BTreeMap<&'static str, Pid>,
    /// Lets the stuck poll return.
    release: mpsc::Sender<()>,
}

async fn plant(node: &Node) -> Planted {
    let (release, blocked) = mpsc::channel::<()>();
    let stuck = node.runtime.spawn(move |ctx| async move {
        ctx.set_label("stuck one");
        blocked.recv().unwrap_or(());
        drop(ctx.receive_match(|_| false).await);
    });
    let hog = node.runtime.spawn(|ctx| busy(ctx, Duration::from_millis(15)));
    node.runtime.spawn(|ctx| busy(ctx, Duration::from_micros(20))).unwrap();
    let (full, long) = (node.parked(), node.parked());
    for _ in 0..500_u32 {
        node.runtime.try_send(long, 1_u32).unwrap();
    }
    let feeder = node.runtime.spawn(move |ctx| async move {
        loop {
            for _ in 0..20 {
                drop(ctx.try_send(full, 1_u32));
            }
            ctx.sleep(Duration::from_millis(100)).await;
        }
    });
    feeder.unwrap();
    let tree = Supervisor::new(Strategy::OneForOne).intensity(5, Duration::from_hours(1));
    let strained = tree.child(mortal("strained")).start(&node.runtime).await.unwrap();
    let tree = Supervisor::new(Strategy::OneForOne).intensity(50, Duration::from_hours(1));
    tree.child(mortal("calm")).start(&node.runtime).await.unwrap();
    for name in ["strained", "calm"] {
        for _ in 0..3 {
            let before = waiting_for(node, name, None).await;
            node.runtime.try_send(before, ()).unwrap();
            waiting_for(node, name, Some(before)).await;
        }
    }
    let bad = [
        ("stuck", stuck.unwrap()),
        ("never_yields", hog.unwrap()),
        ("restart_storm", strained.pid()),
        ("mailbox_growing", full),
    ];
    Planted { bad: bad.into(), release }
}

/// Works without pause, and yields each time it has used `step` of CPU time.
async fn busy(ctx: Context, step: Duration) {
    let cpu = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
    };
    loop {
        let from = cpu();
        while cpu() - from < step {
            std::hint::spin_loop();
        }
        ctx.yield_now().await;
    }
}

/// Child with this name that crashes when it receives `()`.
fn mortal(name: &'static str) -> ChildSpec {
    let body = move |ctx: Context| async move {
        assert!(ctx.register(name).is_ok());
        ctx.receive_of::<()>().await;
        ExitReason::other("as told")
    };
    ChildSpec::new(name, body).shutdown(Shutdown::BrutalKill)
}

/// Waits until `name` belongs to a process other than `before`, and returns that process.
async fn waiting_for(node: &Node, name: &str, before: Option<Pid>) -> Pid {
    let now = || node.runtime.whereis(name).filter(|pid| Some(*pid) != before);
    node.settles("a restart", |_| now().is_some()).await;
    now().unwrap()
}

/// Returns the lints of a frame: pids by lint id.
fn lints(message: &Value) -> Option<BTreeMap<String, String>> {
    let lints = message["frame"]["observer"]["lints"].as_array()?;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Some(lints.iter().map(|lint| (text(&lint["id"]), text(&lint["pid"]))).collect())
}

#[tokio::test]
async fn each_lint_is_raised_for_the_process_that_deserves_it_and_cleared_when_it_behaves() {
    let node = node();
    let Planted { bad, release } = plant(&node).await;
    let mut client = node.attach().await;
    let wanted: BTreeMap<String, String> = bad.iter().map(|(id, pid)| ((*id).to_owned(), pid.to_string())).collect();

    let frame = client
        .pick(|message| {
            let seen = lints(message)?;
            assert!(seen.iter().all(|(id, pid)| wanted.get(id) == Some(pid)), "a process without fault: {message}");
            (seen == wanted).then(|| message["frame"].clone())
        })
        .await;

    let all = frame["observer"]["lints"].as_array().unwrap();
    assert_eq!(frame["observer"]["lints_total"], 4);
    assert_eq!((&all[0]["id"], &all[0]["name"]), (&"stuck".into(), &"stuck one".into()), "the most urgent first");
    assert!(all.iter().all(|lint| lint["value"].as_f64().unwrap() > 0.0 && lint["since_ms"].as_u64().unwrap() > 0));

    release.send(()).unwrap();
    for id in ["never_yields", "restart_storm", "mailbox_growing"] {
        node.runtime.exit(bad[id], ExitReason::Killed);
    }
    client.pick(|message| (message["frame"]["observer"]["lints_total"] == 0).then_some(())).await;
    assert!(node.runtime.is_alive(bad["stuck"]), "it recovered and is alive");
}

#[tokio::test]
async fn a_lint_that_is_allowed_is_not_raised_and_the_others_are() {
    let node = node_with(|config| {
        let levels = LintLevels::default().with(Lint::Stuck, LintLevel::Allow);
        config.lints = levels.with(Lint::MailboxGrowing, LintLevel::Allow);
    });
    let Planted { bad, release } = plant(&node).await;
    let mut client = node.attach().await;

    let is_allowed = |id: &String| id == "stuck" || id == "mailbox_growing";
    client
        .pick(|message| {
            let seen = lints(message)?;
            assert!(!seen.keys().any(is_allowed), "{message}");
            (seen.len() == 2).then_some(())
        })
        .await;

    release.send(()).unwrap();
    node.runtime.exit(bad["never_yields"], ExitReason::Killed);
}

#[tokio::test]
async fn many_full_mailboxes_make_no_frame_larger_than_its_limit() {
    const MANY: usize = 80;
    let node = node_of(&Config { mailbox_capacity: 64, ..Config::default() }, |_| {});
    for pid in (0..MANY).map(|_| node.parked()) {
        // These mailboxes stay full without further sends, however long the test takes.
        while node.runtime.try_send(pid, 1_u8).is_ok() {}
    }
    let mut client = node.attach().await;

    let frame = client
        .pick(|message| {
            let frame = &message["frame"];
            (frame["observer"]["lints_total"].as_u64()? >= 64).then(|| frame.clone())
        })
        .await;

    assert_eq!(frame["observer"]["lints_total"], 64);
    assert_eq!(frame["observer"]["lints"].as_array().unwrap().len(), 16);
    assert!(frame.to_string().len() < 8192, "a frame of {} bytes", frame.to_string().len());
}
