//! Lints as an observer sees them: each is raised for the process at fault and no other, until the process recovers.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Node, node, node_of, node_with};
use rusm_console::{Lint, LintLevel, LintLevels};
use rusm_runtime::supervisor::{ChildSpec, Shutdown, Strategy, Supervisor};
use rusm_runtime::{Config, Context, ExitReason, Pid, Request, stream};
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
        while cpu().saturating_sub(from) < step {
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
    // Processes without fault are a busy loop, so that others wait on a busy machine, and receive nothing, on purpose.
    let node = node_with(|config| {
        let levels = LintLevels::default().with(Lint::BusyLoop, LintLevel::Allow).with(Lint::Hog, LintLevel::Allow);
        config.lints = levels.with(Lint::Unreceived, LintLevel::Allow);
    });
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
    let mut left = wanted;
    client
        .pick(|message| {
            let seen = lints(message)?;
            if seen != left {
                eprintln!("left: {}", message["frame"]["observer"]["lints"]);
                left = seen;
            }
            left.is_empty().then_some(())
        })
        .await;
    assert!(node.runtime.is_alive(bad["stuck"]), "it recovered and is alive");
}

#[tokio::test]
async fn a_lint_that_is_allowed_is_not_raised_and_the_others_are() {
    let node = node_with(|config| {
        let levels = LintLevels::default().with(Lint::Stuck, LintLevel::Allow).with(Lint::Hog, LintLevel::Allow);
        config.lints = levels.with(Lint::MailboxGrowing, LintLevel::Allow).with(Lint::Unreceived, LintLevel::Allow);
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

/// Returns the lint with this id, if the frame has it.
fn lint(message: &Value, id: &str) -> Option<Value> {
    message["frame"]["observer"]["lints"].as_array()?.iter().find(|lint| lint["id"] == id).cloned()
}

#[tokio::test]
async fn a_process_table_that_is_almost_full_is_reported_for_the_node() {
    let node = node_of(&Config { process_limit: 20, ..Config::default() }, |_| {});
    for _ in 0..19 {
        node.parked();
    }
    let mut client = node.attach().await;

    let found = client.pick(|message| lint(message, "pool_nearly_full")).await;

    assert_eq!((&found["pid"], &found["text"]), (&"".into(), &"processes 19 of 20 used".into()));
}

#[tokio::test]
async fn a_reader_that_holds_up_another_is_reported_and_plain_back_pressure_is_not() {
    let node = node();
    let ring = |readers| stream::ring::Builder::new(64).readers_max(readers).label("quotes").observed_by(&node.runtime);
    // One reader reads everything, the other one nothing. The second ring has a single reader that is slow but reads.
    let (writer, subscriber) = ring(2).build::<u64>().unwrap();
    let (fast, slow) = (subscriber.join().unwrap(), subscriber.join().unwrap());
    let (pressed_writer, subscriber) = ring(1).build::<u64>().unwrap();
    let pressed = subscriber.join().unwrap();
    for mut writer in [writer, pressed_writer] {
        node.runtime
            .spawn(move |_| async move {
                loop {
                    writer.push(1).await;
                }
            })
            .unwrap();
    }
    node.runtime.spawn(move |_| drain(fast)).unwrap();
    let held_up = node.runtime.spawn(move |ctx| async move {
        let mut slow = slow;
        slow.next().await.unwrap();
        drop(ctx.receive_match(|_| false).await);
    });
    node.runtime
        .spawn(move |ctx| async move {
            let mut pressed = pressed;
            while pressed.next().await.is_ok() {
                ctx.sleep(Duration::from_millis(20)).await;
            }
        })
        .unwrap();
    let mut client = node.attach().await;

    let found = client.pick(|message| lint(message, "slow_subscriber")).await;

    assert_eq!(found["pid"], held_up.unwrap().to_string());
    assert_eq!(found["text"], "reads nothing of stream 1 quotes: 64 of 64 items behind");
}

async fn drain(mut reader: stream::ring::Reader<u64>) {
    while reader.next().await.is_ok() {}
}

#[tokio::test]
async fn a_process_that_receives_another_type_than_it_is_sent_is_reported() {
    let node = node_with(|config| config.lint_thresholds.unreceived_after = Duration::from_secs(1));
    let [wrong, right] = [(); 2].map(|()| {
        let receives = |ctx: Context| async move {
            loop {
                ctx.receive_of::<u32>().await;
            }
        };
        node.runtime.spawn(receives).unwrap()
    });
    node.runtime.try_send(wrong, "a text").unwrap();
    node.runtime.try_send(right, 1_u32).unwrap();
    let mut client = node.attach().await;

    let found = client.pick(|message| lint(message, "unreceived")).await;

    assert_eq!(found["pid"], wrong.to_string());
    assert!(
        found["text"].as_str().unwrap().starts_with("waits beside 1 message that it does not receive, for "),
        "{found}"
    );
    node.runtime.exit(wrong, ExitReason::Killed);
    client.pick(|message| lint(message, "unreceived").is_none().then_some(())).await;
}

#[tokio::test]
async fn a_process_that_polls_in_a_loop_is_reported() {
    // A shorter time than the default shortens the test.
    let node = node_with(|config| config.lint_thresholds.busy_loop_after = Duration::from_secs(2));
    let spinner = node.runtime.spawn(|ctx| busy(ctx, Duration::from_micros(20))).unwrap();
    let mut client = node.attach().await;

    let found = client.pick(|message| lint(message, "busy_loop")).await;

    assert_eq!(found["pid"], spinner.to_string());
    assert!(found["text"].as_str().unwrap().starts_with("ready for "), "{found}");
}

#[tokio::test]
async fn a_scheduler_that_sleeps_beside_pinned_work_is_reported_for_the_node() {
    let node = node();
    for _ in 0..4 {
        let pinned = node.runtime.spawn(|ctx| async move {
            ctx.spawn_pinned(0, |ctx| busy(ctx, Duration::from_micros(50))).unwrap();
        });
        pinned.unwrap();
    }
    let mut client = node.attach().await;

    let found = client.pick(|message| lint(message, "idle_scheduler")).await;

    assert_eq!(found["pid"], "");
    let text = found["text"].as_str().unwrap();
    assert!(text.starts_with("scheduler 1 has slept for ") && text.contains(" wait on scheduler 0, "), "{text}");
}

#[tokio::test]
async fn a_healthy_load_raises_no_lint() {
    let node = node();
    // Servers and their clients, timers, and a stream with back-pressure: all busy, none at fault.
    for _ in 0..4 {
        let echo = node.runtime.spawn(|ctx| async move {
            loop {
                let Request { request, reply } = ctx.receive_of::<Request<u64, u64>>().await;
                reply.send(&ctx, request);
            }
        });
        let echo = echo.unwrap();
        node.runtime
            .spawn(move |ctx| async move {
                while ctx.call::<u64, u64>(echo, 1, Duration::from_secs(5)).await.is_ok() {
                    ctx.sleep(Duration::from_millis(1)).await;
                }
            })
            .unwrap();
    }
    let (mut writer, mut reader) = stream::pipe(4096).unwrap();
    node.runtime.spawn(move |_| async move { while writer.write_all(&[7; 1000]).await.is_ok() {} }).unwrap();
    node.runtime
        .spawn(move |ctx| async move {
            let mut bytes = [0; 512];
            while reader.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                ctx.sleep(Duration::from_millis(1)).await;
            }
        })
        .unwrap();
    let mut client = node.attach().await;

    let until = 140;
    client
        .pick(|message| {
            let seq = message["frame"]["seq"].as_u64()?;
            assert_eq!(message["frame"]["observer"]["lints_total"], 0, "{}", message["frame"]["observer"]["lints"]);
            (seq >= until).then_some(())
        })
        .await;
}

#[tokio::test]
async fn many_full_mailboxes_make_no_frame_larger_than_its_limit() {
    const MANY: usize = 80;
    // Nothing receives these messages, which is a lint of its own and comes later.
    let only_full = LintLevels::default().with(Lint::Unreceived, LintLevel::Allow);
    let config = Config { mailbox_capacity: 64, ..Config::default() };
    let node = node_of(&config, |config| config.lints = only_full);
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
