//! Tests of what is replaced and cut in messages.

use proptest::prelude::*;
use rusm_protocol::{Column, EnginesView, FactInfo, RunSettings, StoresView, TreeBranch, TreeDetail, TreeEnd, encode};

use super::text::{TEXT_MAX, is_safe};
use super::*;

#[test]
fn what_a_terminal_obeys_is_replaced() {
    assert_eq!(line("a\u{1b}[31mb\u{9b}c\u{202e}d\ne"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d\u{fffd}e");
}

/// Searches every string of the message through its JSON, so that a new field cannot be forgotten.
fn has_control(message: &ServerMessage) -> bool {
    encode(message).contains("\\u001b")
}

#[test]
fn no_message_keeps_an_escape_in_any_field() {
    let demo = crate::demo::Demo::new(1);
    let evil = |text: &str| encode(&text.to_owned()).replacen('"', "\"\\u001b]0;", 1);
    let tree_row = TreeRow {
        label: Some("l".to_owned()),
        pid: Some("p".to_owned()),
        restart: Some("r".to_owned()),
        reason: Some("w".to_owned()),
        branch: Some(TreeBranch::default()),
        ..TreeRow::default()
    };
    let texts = [
        encode(&demo.hello()),
        encode(&ServerMessage::Process {
            process: Some(Box::new(ProcessDetail {
                name: Some("n".to_owned()),
                label: Some("l".to_owned()),
                parent: Some("p".to_owned()),
                future_type: "f".to_owned(),
                module: Some("m".to_owned()),
                facts: vec![FactInfo { name: "f".to_owned(), value: Cell::Text("x".to_owned()) }],
                ..ProcessDetail::default()
            })),
            pid: "p".to_owned(),
        }),
        encode(&demo.clone().poll(std::time::Duration::from_mins(1)).remove(0)),
        encode(&ServerMessage::Tree(TreeRows {
            degraded: Some("d".to_owned()),
            selected: Some(Box::new(TreeDetail {
                row: tree_row.clone(),
                shutdown: Some("s".to_owned()),
                parent: Some("p".to_owned()),
                ends: vec![TreeEnd { pid: Some("p".to_owned()), ..TreeEnd::default() }],
                ..TreeDetail::default()
            })),
            rows: vec![tree_row],
            ..TreeRows::default()
        })),
        encode(&ServerMessage::Results(Box::new(Results {
            result: Some(Box::new(RunResult {
                settings: RunSettings {
                    kind: Some("k".to_owned()),
                    profile: Some("p".to_owned()),
                    grid: vec!["g".to_owned()],
                    ..RunSettings::default()
                },
                params: [("n".to_owned(), "v".to_owned())].into(),
                ..RunResult::default()
            })),
            ..Results::default()
        }))),
        encode(&ServerMessage::Stores(crate::demo::stores::stores(&StoresView::default(), 1, 60_000))),
        encode(&ServerMessage::Engines(crate::demo::guests::engines(&EnginesView::default(), 1, 60_000))),
        encode(&ServerMessage::Time(rusm_protocol::Time {
            realtime: Some("r".to_owned()),
            ..crate::demo::time::time(&rusm_protocol::TimeView::default(), 1, 60_000)
        })),
        encode(&ServerMessage::Topics(crate::demo::topics::topics(&rusm_protocol::TopicsView::default(), 1, 60_000))),
        encode(&ServerMessage::Serve(Box::new(crate::demo::network::serve::serve(
            &rusm_protocol::ServeView::default(),
            1,
            60_000,
        )))),
        encode(&ServerMessage::Cluster(Box::new(crate::demo::network::cluster::cluster(
            &rusm_protocol::ClusterView::default(),
            1,
            60_000,
        )))),
        encode(&ServerMessage::Events(Events {
            log_refusal: Some("r".to_owned()),
            log: crate::demo::events::log(1, 60_000),
            opened: crate::demo::events::detail(1, 60_000, 30).map(Box::new),
            ..crate::demo::events::recent(1, 60_000, 64)
        })),
        encode(&ServerMessage::Cpu(rusm_protocol::Cpu {
            degraded: Some("d".to_owned()),
            ..crate::demo::cpu::cpu(&rusm_protocol::CpuView::default(), 1, 60_000, &[0.5])
        })),
        encode(&ServerMessage::Rows(Rows {
            columns: vec![Column::Name],
            rows: vec![vec![Cell::Text("x".to_owned())]],
            degraded: Some("d".to_owned()),
            ..Rows::default()
        })),
    ];
    for text in texts {
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        poison(&mut value, &evil);
        let message: ServerMessage = serde_json::from_value(value).unwrap();

        assert!(has_control(&message));
        assert!(!has_control(&super::message(message)));
    }
}

/// Puts an escape sequence before every free text, but not before words of the protocol.
fn poison(value: &mut serde_json::Value, evil: &impl Fn(&str) -> String) {
    match value {
        serde_json::Value::Array(items) => items.iter_mut().for_each(|item| poison(item, evil)),
        serde_json::Value::Object(fields) => {
            for (key, item) in fields {
                if !matches!(key.as_str(), "type" | "role" | "unit" | "columns" | "code" | "group") {
                    poison(item, evil);
                }
            }
        }
        serde_json::Value::String(text) => *text = serde_json::from_str(&evil(text)).unwrap(),
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_line_is_never_longer_and_never_obeyed(text in ".{0,3000}") {
        let line = line(&text);

        prop_assert!(line.chars().count() <= TEXT_MAX);
        prop_assert!(line.chars().all(is_safe));
    }
}
