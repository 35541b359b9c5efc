//! Refusals by the node: of a filter, of a parameter.

use rusm_protocol::{ErrorCode, SortKey};

use super::*;

fn error(message: &str, code: ErrorCode, id: Option<u64>) -> Msg {
    Msg::Server(ServerMessage::Error { message: message.to_owned(), code, id })
}

/// Returns a model that got the filter `kv` accepted by its node, and now requests an invalid filter.
fn asked_for_a_wrong_filter() -> Model {
    let mut model = attached(Tab::Processes);
    let ms = Duration::from_millis;
    typed(&mut model, "/kv");
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    update(&mut model, Msg::Tick, ms(2_500));
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), ms(2_600));
    typed(&mut model, "/");
    update(&mut model, Msg::Paste(" and foo=1".to_owned()), ms(2_700));
    assert_eq!(model.subscription.sent().map(|view| view.filter.as_str()), Some("kv and foo=1"));
    model
}

#[test]
fn a_filter_that_is_refused_while_it_is_typed_leaves_the_rows_of_the_one_before_it() {
    let mut model = asked_for_a_wrong_filter();

    update(&mut model, error("unknown field", ErrorCode::OutOfRange, None), Duration::from_secs(3));
    update(&mut model, Msg::Tick, Duration::from_secs(4));

    assert_eq!(model.table.refused.as_deref(), Some("unknown field"));
    assert_eq!((model.table.filter.as_str(), model.table.filter_taken()), ("kv and foo=1", "kv"));
    assert_eq!(model.subscription.sent().map(|view| view.filter.as_str()), Some("kv"));
    typed(&mut model, "0");
    assert_eq!(model.table.refused, None);
}

#[test]
fn a_refused_filter_stays_in_its_field_and_the_one_before_it_in_force() {
    let refusal = || error("unknown field", ErrorCode::OutOfRange, None);
    let enter = || Msg::Key(Key::plain(KeyCode::Enter));
    for messages in [[refusal(), enter()], [enter(), refusal()]] {
        let mut model = asked_for_a_wrong_filter();

        for message in messages {
            update(&mut model, message, Duration::from_secs(3));
        }

        assert_eq!((model.table.filter.as_str(), model.table.filter_in_force()), ("kv and foo=1", "kv"));
        assert_eq!(model.table.refused.as_deref(), Some("unknown field"));
        let field = model.table.field.as_ref().map(|field| field.edit.text());
        assert_eq!(field.as_deref(), Some("kv and foo=1"), "the typed text can be corrected");
        press_all(&mut model, &[Key::ctrl('u'), Key::char('x'), Key::plain(KeyCode::Enter)]);
        assert_eq!((model.table.filter_in_force(), &model.status), ("x", &None));
        assert_eq!(model.table.field, None);
    }
}

#[test]
fn a_filter_that_is_not_valid_is_not_sent_and_its_error_has_a_place() {
    let mut model = attached(Tab::Processes);
    typed(&mut model, "/kv");
    update(&mut model, Msg::Tick, Duration::from_secs(3));

    typed(&mut model, " and mem>");
    update(&mut model, Msg::Tick, Duration::from_secs(6));

    assert_eq!(model.table.error.as_ref().map(|error| error.at.clone()), Some(11..11));
    assert!(model.subscription.sent().is_none_or(|view| !view.filter.contains("mem")));
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    assert!(model.table.field.is_some(), "enter keeps the text");
    typed(&mut model, "1MB");
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    assert_eq!((&model.table.field, model.table.filter_in_force()), (&None, "kv and mem>1MB"));
}

#[test]
fn the_refusal_of_a_filter_that_was_left_behind_says_nothing() {
    let mut model = asked_for_a_wrong_filter();
    press_all(&mut model, &[Key::plain(KeyCode::Esc)]);

    update(&mut model, error("unknown field", ErrorCode::OutOfRange, None), Duration::from_secs(3));

    assert_eq!((&model.status, &model.table.refused), (&None, &None));
}

/// Returns a model with an open run dialog that has requested 99 live processes.
fn asked_to_run() -> Model {
    let mut model = attached(Tab::Bench);
    typed(&mut model, "P");
    press_all(&mut model, &[Key::plain(KeyCode::BackTab), Key::ctrl('u')]);
    typed(&mut model, "99");
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    model
}

#[test]
fn a_parameter_that_the_node_takes_is_chosen_and_its_dialog_closes() {
    let mut model = asked_to_run();
    assert!(model.overlay.is_some() && model.bench.chosen("spawn-storm").params.is_empty());

    update(&mut model, Msg::Server(ServerMessage::Ack { id: 1 }), Duration::from_secs(1));

    assert!(model.overlay.is_none());
    assert_eq!(model.bench.chosen("spawn-storm").params.get("live_cap").map(String::as_str), Some("99"));
}

#[test]
fn a_parameter_that_the_node_refuses_stays_in_its_dialog_and_is_not_chosen() {
    let mut model = asked_to_run();

    update(&mut model, error("live_cap: not in 100-1000", ErrorCode::OutOfRange, Some(1)), Duration::from_secs(1));

    let Some(Overlay::Run(dialog)) = &model.overlay else { panic!("{:?}", model.overlay) };
    assert_eq!(dialog.refused.as_deref(), Some("live_cap: not in 100-1000"));
    assert_eq!(dialog.chosen().params.get("live_cap").map(String::as_str), Some("99"));
    assert!(model.bench.chosen("spawn-storm").params.is_empty() && model.status.is_none());
    let again = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    assert!(matches!(&again[..], [Effect::Send(ClientMessage::Run { id: Some(2), .. })]), "{again:?}");
}

#[test]
fn chosen_columns_are_requested_and_kept_and_a_cancelled_choice_is_undone() {
    use rusm_protocol::Column;

    let mut model = attached(Tab::Processes);
    let keys = |text: &str| text.chars().map(Key::char).collect::<Vec<_>>();
    let before = model.table.columns.clone();

    press_all(&mut model, &keys("cjjxK"));
    assert_ne!(model.table.columns, before, "the table shows each change at once");
    press_all(&mut model, &[Key::plain(KeyCode::Esc)]);
    assert_eq!(model.table.columns, before);

    press_all(&mut model, &keys("c x"));
    let effects = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    let kept = effects.iter().find_map(|effect| match effect {
        Effect::SaveColumns { key: "columns", columns } => Some(columns.clone()),
        _ => None,
    });
    assert_eq!(kept.as_deref().map(|columns| columns[0]), Some(Column::Pid));

    press_all(&mut model, &keys("cx"));
    let view = model.table.query(None, 10, 77);
    assert!(view.columns.contains(&Column::Pid) && view.columns.contains(&Column::State), "{view:?}");
    press_all(&mut model, &keys("r"));
    assert_eq!(model.table.columns.chosen(), [] as [Column; 0]);
    let effects = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    assert!(effects.contains(&Effect::SaveColumns { key: "columns", columns: Vec::new() }));
}

#[test]
fn a_process_ends_with_typed_words_after_its_number() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), Duration::ZERO);
    let enter = Key::plain(KeyCode::Enter);
    typed(&mut model, "jx");
    counted(&mut model, 40);
    press_all(&mut model, &[Key::plain(KeyCode::Tab); 2]);
    let kills = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Send(ClientMessage::Kill { reason, text, .. }) => Some((*reason, text.clone())),
            _ => None,
        })
    };

    assert_eq!(kills(&press_all(&mut model, &[enter])), None, "the number comes first");
    typed(&mut model, "40");
    assert_eq!(kills(&press_all(&mut model, &[enter])), None, "then the words are asked for");
    assert_eq!(kills(&press_all(&mut model, &[enter])), None, "which must not be empty");
    typed(&mut model, "leaks: why? y");
    let ended = kills(&press_all(&mut model, &[enter]));

    assert_eq!(ended, Some((KillReason::Error, Some("leaks: why? y".to_owned()))));
    assert!(model.overlay.is_none());
}

#[test]
fn the_level_of_the_log_is_changed_by_a_key_and_a_line() {
    let mut model = attached(Tab::Events);
    typed(&mut model, "vdeb");

    let effects = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);

    let sent = effects
        .iter()
        .any(|effect| matches!(effect, Effect::Send(ClientMessage::SetLogFilter { filter, .. }) if filter == "debug"));
    assert!(sent, "{effects:?}");
    model.hello.as_mut().unwrap().node.features.push("read_only".to_owned());
    model.hello.as_mut().unwrap().role = Role::Observe;
    typed(&mut model, "v");
    let said = model.status.as_ref().map(|status| status.text.clone());
    assert_eq!(said.as_deref(), Some("this node is read-only: observers cannot change it"));
}

#[test]
fn an_older_node_is_not_asked_for_columns_that_it_does_not_know() {
    let columns = |features: &[&str]| {
        let mut model = attached(Tab::Processes);
        model.hello.as_mut().unwrap().node.features = features.iter().map(ToString::to_string).collect();
        update(&mut model, Msg::Resize(Size::new(240, 50)), Duration::ZERO);
        crate::model::update::query(&model).unwrap().columns
    };

    assert!(columns(&["console", "bond_columns"]).contains(&Column::Links));
    assert!(!columns(&["console"]).contains(&Column::Links));
    assert!(columns(&["console", "arrivals_column"]).contains(&Column::ArrivalsPerSec));
    assert!(!columns(&["console", "bond_columns"]).contains(&Column::ArrivalsPerSec));
}

#[test]
fn an_older_node_is_not_asked_for_an_order_that_it_does_not_know() {
    let order = |features: &[&str]| {
        let mut model = attached(Tab::Processes);
        model.hello.as_mut().unwrap().node.features = features.iter().map(ToString::to_string).collect();
        model.table.sort = SortKey { key: Column::ArrivalsPerSec, desc: true };
        crate::model::update::query(&model).unwrap().sort.key
    };

    assert_eq!(order(&["console", "arrivals_column"]), Column::ArrivalsPerSec);
    assert_eq!(order(&["console"]), Column::BusyPct);
}

#[test]
fn no_command_of_a_read_only_observer_changes_the_node() {
    for line in [":kill <0.1.1>", ":run ping-pong", ":profile max"] {
        let mut model = attached(Tab::Processes);
        model.read_only = true;
        typed(&mut model, line);

        let effects = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);

        let changes = |effect: &Effect| {
            let Effect::Send(message) = effect else { return false };
            matches!(
                message,
                ClientMessage::Kill { .. } | ClientMessage::Run { .. } | ClientMessage::SetResourceProfile { .. }
            )
        };
        assert!(!effects.iter().any(changes), "{effects:?}");
        let said = model.status.as_ref().map_or("", |status| &status.text);
        assert!(said.starts_with("this observer is read-only"), "{line}: {said:?}");
        assert!(model.overlay.is_none(), "{line}");
    }
}

#[test]
fn discarded_changes_of_a_filter_bring_back_the_one_before() {
    let enter = Key::plain(KeyCode::Enter);
    for tab in [Tab::Events, Tab::Serve] {
        let mut model = attached(tab);
        let filter = if tab == Tab::Events { "level>=warn" } else { "state=websocket" };
        let text = |model: &Model| {
            if tab == Tab::Events { model.events.filter.text.clone() } else { model.serve.filter.text.clone() }
        };
        typed(&mut model, &format!("/{filter}"));
        press_all(&mut model, &[enter]);
        assert_eq!(text(&model), filter);

        typed(&mut model, "/ and x");
        press_all(&mut model, &[Key::plain(KeyCode::Esc)]);

        assert_eq!(text(&model), filter);
    }
}
