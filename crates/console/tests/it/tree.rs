//! The supervision tree through a window: the rows are those of a walk over the whole tree, wherever the window is.

use std::future::pending;
use std::time::{Duration, Instant};

use crate::support::{Client, Node, generous, node, node_with};
use rusm_runtime::supervisor::{ChildSpec, Restart, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{Context, ExitReason, Handle, Pid, observe};
use serde_json::{Value, json};

/// Supervisor of `count` children; each ends with the reason that it receives as a message.
fn workers(strategy: Strategy, count: usize) -> Supervisor {
    let supervisor = Supervisor::new(strategy).intensity(1000, Duration::from_hours(1));
    (0..count).fold(supervisor, |supervisor, n| {
        let body = |ctx: Context| async move { ctx.receive_of::<ExitReason>().await };
        supervisor.child(ChildSpec::new(format!("w{n}"), body))
    })
}

/// Starts a supervisor of `left`, `w0`.. and `right`; `left` and `right` are supervisors of three children each.
async fn family(runtime: &Handle, workers: usize) -> SupervisorRef {
    let inner = || self::workers(Strategy::OneForAll, 3);
    let mut tree = Supervisor::new(Strategy::RestForOne).intensity(5, Duration::from_secs(10));
    tree = tree.child(ChildSpec::supervisor("left", inner()));
    for n in 0..workers {
        tree = tree.child(ChildSpec::new(format!("w{n}"), |_| pending::<()>()));
    }
    tree.child(ChildSpec::supervisor("right", inner())).start(runtime).await.unwrap()
}

async fn look(client: &mut Client, id: usize, open: &[String], offset: usize, len: usize) -> Value {
    let window = json!({"offset": offset, "len": len});
    client
        .send(&json!({"type": "tree", "view": {"id": id, "open": open, "window": window, "hz": 10.0}}).to_string())
        .await;
    client.pick(|message| (message["type"] == "tree" && message["id"] == id).then(|| message.clone())).await
}

fn drawn(rows: &Value) -> Vec<String> {
    let line = |row: &Value| {
        let (depth, rails) = (row["depth"].as_u64().unwrap(), row["rails"].as_u64().unwrap());
        let lines: String = (0..=depth).map(|at| if rails >> at & 1 == 1 { '|' } else { ' ' }).collect();
        let sign = match &row["branch"] {
            Value::Null => "",
            branch if branch["open"] == true => "-",
            _ => "+",
        };
        format!("{lines}{sign}{}", row["name"].as_str().unwrap())
    };
    rows["rows"].as_array().unwrap().iter().map(line).collect()
}

fn pid(text: &Value) -> Pid {
    text.as_str().unwrap().parse().unwrap()
}

async fn crash(node: &Node, victim: Pid, why: &str) {
    node.runtime.try_send(victim, ExitReason::other(why)).unwrap();
    node.settles("its end", |runtime| !runtime.is_alive(victim)).await;
}

#[tokio::test]
async fn rows_hang_where_their_supervisors_do() {
    let node = node();
    let root = family(&node.runtime, 2).await.pid();
    let last = workers(Strategy::OneForOne, 1).start(&node.runtime).await.unwrap().pid();
    let mut client = node.attach().await;

    let closed = look(&mut client, 1, &[], 0, 50).await;
    let open = [root.to_string(), format!("{root}/0"), format!("{root}/7"), last.to_string()];
    let rows = look(&mut client, 2, &open, 0, 50).await;

    assert_eq!(drawn(&closed), ["|+", " +"]);
    assert_eq!((&closed["top"], &closed["total"]), (&json!(2), &json!(2)));
    let expected = ["|-", "||-left", "|||w0", "|||w1", "|| w2", "||w0", "||w1", "| +right", " -", "  w0"];
    assert_eq!(drawn(&rows), expected);
    let above = |at: usize| rows["rows"][at]["above"].as_u64();
    assert_eq!([0, 1, 2, 5, 9].map(above), [None, Some(0), Some(1), Some(0), Some(8)]);
    let top = &rows["rows"][0];
    assert_eq!(
        (&top["pid"], &top["path"], &top["state"]),
        (&json!(root.to_string()), &json!(root.to_string()), &json!("running"))
    );
    let branch = json!({"open": true, "strategy": "rest_for_one", "used": 0, "allowed": 5, "period_ms": 10_000,
        "restarts_total": 0, "running": 4, "waiting": 0, "ended": 0});
    assert_eq!(top["branch"], branch);
    assert_eq!(
        (&rows["rows"][2]["path"], &rows["rows"][2]["restart"]),
        (&json!(format!("{root}/0/0")), &json!("permanent"))
    );
}

#[tokio::test]
async fn every_window_is_a_part_of_the_whole() {
    let node = node_with(|config| config.limits = generous());
    let root = family(&node.runtime, 60).await.pid();
    family(&node.runtime, 5).await;
    let mut client = node.attach().await;
    let open = [root.to_string(), format!("{root}/0"), format!("{root}/61")];
    let whole = drawn(&look(&mut client, 1, &open, 0, 200).await);
    assert_eq!(whole.len(), 1 + 62 + 6 + 1);

    for id in 2..80 {
        let (offset, len) = (id * 7 % 75, id * 5 % 30);
        let rows = look(&mut client, id, &open, offset, len).await;

        let expected: Vec<String> = whole.iter().skip(offset).take(len).cloned().collect();
        assert_eq!(drawn(&rows), expected, "{len} from {offset}");
        assert_eq!(rows["total"], whole.len());
    }
}

#[tokio::test]
async fn a_path_names_a_child_through_the_restarts_of_its_supervisor_and_its_ends_are_told() {
    let node = node();
    let root = family(&node.runtime, 1).await.pid();
    let mut client = node.attach().await;
    let path = format!("{root}/0/1");
    let open = [root.to_string(), format!("{root}/0")];
    let view = json!({"id": 1, "open": open, "window": {"len": 20}, "hz": 10, "selected": path});
    client.send(&json!({"type": "tree", "view": view}).to_string()).await;
    let before = client.next_of("tree").await;
    let (inner, victim) = (pid(&before["rows"][1]["pid"]), pid(&before["selected"]["row"]["pid"]));
    assert_eq!((&before["selected"]["row"]["name"], &before["selected"]["ends"]), (&json!("w1"), &json!([])));
    assert_eq!(before["selected"]["shutdown"], "5000");

    crash(&node, victim, "disk full").await;
    let ended = |message: &Value| (message["selected"]["ends"][0]["reason"] == "disk full").then(|| message.clone());
    let after = client.pick(ended).await;
    assert_eq!(after["selected"]["ends"][0]["pid"], victim.to_string());
    assert_eq!(after["selected"]["row"]["path"], path);
    let name = |row: &Value| (row["restarts_total"].clone(), row["reason"].clone());
    assert_eq!(name(&after["rows"][3]), (json!(1), json!("disk full")));
    assert_eq!(
        (&after["rows"][1]["branch"]["used"], &after["rows"][1]["branch"]["restarts_total"]),
        (&json!(1), &json!(1))
    );

    node.runtime.exit(inner, ExitReason::Killed);
    let restarted = |message: &Value| {
        let new = &message["rows"][1]["pid"];
        (new.is_string() && *new != inner.to_string() && message["total"] == 7).then(|| message.clone())
    };
    let again = client.pick(restarted).await;
    assert_eq!(again["selected"]["row"]["name"], "w1");
    assert_eq!(again["rows"][1]["branch"]["restarts_total"], 0, "a new supervisor has restarted no child");
}

#[tokio::test]
async fn a_child_has_the_label_of_its_process_if_that_says_more_than_its_id() {
    let node = node();
    let labelled = |label: &'static str| {
        move |ctx: Context| async move {
            ctx.set_label(label);
            pending::<()>().await;
        }
    };
    let tree = Supervisor::new(Strategy::OneForOne)
        .child(ChildSpec::new("plain", |_| pending::<()>()))
        .child(ChildSpec::new("connection", labelled("ada")))
        .child(ChildSpec::new("same", labelled("same")))
        .child(ChildSpec::new("till", |_| pending::<()>()).named("till 7"));
    let supervisor = tree.start(&node.runtime).await.unwrap().pid().to_string();
    let mut client = node.attach().await;
    let mut label = Value::Null;
    // The process sets its label after its start.
    for id in 1.. {
        let rows = look(&mut client, id, std::slice::from_ref(&supervisor), 0, 10).await;
        label = json!(rows["rows"].as_array().unwrap().iter().map(|row| row["label"].clone()).collect::<Vec<_>>());
        if label[2] == "ada" {
            break;
        }
    }

    assert_eq!(label, json!([null, null, "ada", null, "till 7"]));
}

#[tokio::test]
async fn nothing_is_told_once_nobody_looks() {
    let node = node();
    family(&node.runtime, 1).await;
    let mut client = node.attach().await;
    look(&mut client, 1, &[], 0, 10).await;

    client.send(r#"{"type":"tree","view":null}"#).await;
    client.send(r#"{"type":"stop","id":7}"#).await;
    client.next_of("ack").await;

    for _ in 0..10 {
        client.pick(|message| (message["type"] == "tick").then_some(())).await;
    }
    let mut others = 0;
    while others < 10 {
        let message = client.next().await.expect("the connection stays open");
        assert_ne!(message["type"], "tree");
        others += 1;
    }
}

#[tokio::test]
async fn a_page_of_a_hundred_thousand_children_is_no_larger_than_one_of_a_thousand() {
    let node = node_with(|config| config.limits = generous());
    let template = || ChildSpec::template("session", |_, _: usize| pending::<()>()).restart(Restart::Transient);
    let mut sizes = Vec::new();
    let mut client = node.attach().await;
    for (id, children) in [1_000, 100_000].into_iter().enumerate() {
        let supervisor = Supervisor::simple_one_for_one(template()).start(&node.runtime).await.unwrap();
        // In parts, because a wait has a deadline and the number of children a second depends on the machine.
        for first in (0..children).step_by(5_000) {
            let part = node.runtime.spawn(move |ctx| async move {
                for n in first..children.min(first + 5_000) {
                    supervisor.start_one(&ctx, n).await.unwrap();
                }
            });
            let part = part.unwrap();
            node.settles("a part of the children", |runtime| !runtime.is_alive(part)).await;
        }
        let offset = children - 100;
        let rows = look(&mut client, id, &[supervisor.pid().to_string()], offset, 60).await;
        assert_eq!((rows["rows"].as_array().unwrap().len(), &rows["offset"]), (60, &json!(offset)));
        assert!(rows["total"].as_u64().unwrap() > children as u64);
        sizes.push(rows.to_string().len());
        node.runtime.exit(supervisor.pid(), ExitReason::Shutdown);
        node.settles("its end", |runtime| observe::top_supervisors(runtime, 0, 1).0 == 0).await;
    }

    assert!(sizes[1] < sizes[0] + sizes[0] / 10, "{sizes:?} bytes");
    assert!(sizes[1] < 60 * 200, "{sizes:?} bytes");
}

#[tokio::test]
async fn a_child_is_started_again_on_request_and_that_is_no_crash() {
    let node = node_with(|config| config.limits = generous());
    let supervisor = workers(Strategy::OneForAll, 2).start(&node.runtime).await.unwrap();
    let mut client = node.attach().await;
    let path = format!("{}/0", supervisor.pid());
    let before = supervisor.which_children(&*node.runtime).await.unwrap();

    client.send(&json!({"type": "restart_child", "path": path, "id": 7}).to_string()).await;
    let answer =
        client.pick(|message| (message["id"] == 7 && message["type"] != "tree").then(|| message.clone())).await;

    assert_eq!(answer, json!({"type": "ack", "id": 7}));
    let after = supervisor.which_children(&*node.runtime).await.unwrap();
    assert_ne!(after[0].state, before[0].state, "it is another process");
    assert_eq!(after[1], before[1], "no other child is stopped, whatever the strategy");
    let report = observe::supervisor(&node.runtime, supervisor.pid()).unwrap();
    assert_eq!((report.restarts_total, report.intensity_used), (0, 0));

    for (path, code) in [(format!("{}/9", supervisor.pid()), "unknown"), ("x".to_owned(), "malformed")] {
        client.send(&json!({"type": "restart_child", "path": path, "id": 8}).to_string()).await;
        let refused = client.pick(|message| (message["id"] == 8).then(|| message["code"].clone())).await;
        assert_eq!(refused, code, "{path}");
    }
}

#[tokio::test]
async fn a_supervisor_shows_what_all_processes_below_it_use() {
    let node = node();
    let busy = |ctx: Context| async move {
        let spinner = |ctx: Context| async move {
            loop {
                let began = Instant::now();
                while began.elapsed() < Duration::from_millis(2) {
                    std::hint::spin_loop();
                }
                ctx.yield_now().await;
            }
        };
        ctx.try_spawn(spinner).unwrap();
        pending::<()>().await;
    };
    let left = Supervisor::new(Strategy::OneForOne).child(ChildSpec::new("busy", busy));
    let tree = Supervisor::new(Strategy::OneForOne)
        .child(ChildSpec::supervisor("left", left))
        .child(ChildSpec::new("idle", |_| pending::<()>()));
    let root = tree.start(&node.runtime).await.unwrap().pid();
    let mut client = node.attach().await;
    let open = [root.to_string(), format!("{root}/0")];

    client.send(&json!({"type": "tree", "view": {"id": 1, "open": open, "sums": true, "hz": 10.0}}).to_string()).await;
    let cpu = |row: &Value| row["sum"]["cpu_pct"].as_f64();
    let rows = client
        .pick(|message| {
            let rows = message["rows"].as_array().filter(|_| message["type"] == "tree")?;
            rows.iter().all(|row| cpu(row).is_some()).then_some(())?;
            (cpu(&rows[0])? > 5.0).then(|| rows.clone())
        })
        .await;

    let names: Vec<&str> = rows[1..].iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["left", "busy", "idle"]);
    let counts: Vec<u64> = rows.iter().map(|row| row["sum"]["processes"].as_u64().unwrap()).collect();
    assert_eq!(counts, [5, 3, 2, 1]);
    let shares: Vec<f64> = rows.iter().map(|row| cpu(row).unwrap()).collect();
    // The spinner is the only one that computes: its share is in each row above it, and in no other.
    assert!(shares[0] + 0.1 >= shares[1] && shares[1] + 0.1 >= shares[2] && shares[2] > 4.0, "{shares:?}");
    assert!(shares[3] < 1.0, "{shares:?}");
    let bytes: Vec<u64> = rows.iter().map(|row| row["sum"]["memory_bytes"].as_u64().unwrap()).collect();
    assert!(bytes[0] >= bytes[1] + bytes[3] && bytes[1] > bytes[2] && bytes[3] >= 256, "{bytes:?}");
}
