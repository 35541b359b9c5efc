//! Requests that are repeated after a pause, of the screen or by the node; the time between two frames.

use rusm_protocol::{ErrorCode, EventInfo, Events, EventsRequest, LintInfo};

use super::*;

fn sent(effects: &[Effect]) -> Vec<&ClientMessage> {
    let messages = effects.iter().filter_map(|effect| match effect {
        Effect::Send(message) => Some(message),
        _ => None,
    });
    messages.collect()
}

/// Applies the node's report that it dropped messages which came too fast.
fn rate_limited(model: &mut Model, now: Duration) -> Vec<Effect> {
    let message = "more than 20 commands a second".to_owned();
    update(model, Msg::Server(ServerMessage::Error { message, code: ErrorCode::RateLimited, id: None }), now)
}

#[test]
fn what_the_node_dropped_is_asked_once_more_after_a_second() {
    let ms = Duration::from_millis;
    for tab in [
        Tab::Processes,
        Tab::Events,
        Tab::Tree,
        Tab::Wasm,
        Tab::Time,
        Tab::Store,
        Tab::Topics,
        Tab::Sched,
        Tab::Serve,
        Tab::Cluster,
    ] {
        let asks = |message: &&ClientMessage| match message {
            ClientMessage::View(_) => tab == Tab::Processes,
            ClientMessage::Events(request) => tab == Tab::Events && request.enabled,
            ClientMessage::Tree { view } => tab == Tab::Tree && view.is_some(),
            ClientMessage::Engines { view } => tab == Tab::Wasm && view.is_some(),
            ClientMessage::Time { view } => tab == Tab::Time && view.is_some(),
            ClientMessage::Stores { view } => tab == Tab::Store && view.is_some(),
            ClientMessage::Topics { view } => tab == Tab::Topics && view.is_some(),
            ClientMessage::Serve { view } => tab == Tab::Serve && view.is_some(),
            ClientMessage::Cluster { view } => tab == Tab::Cluster && view.is_some(),
            ClientMessage::Schedulers { view } => tab == Tab::Sched && view.is_some(),
            _ => false,
        };
        let mut model = attached(tab);

        let dropped = rate_limited(&mut model, ms(100));
        let hushed = (2..11).flat_map(|n| update(&mut model, Msg::Tick, ms(n * 100))).collect::<Vec<_>>();
        let again = (11..40).flat_map(|n| update(&mut model, Msg::Tick, ms(n * 100))).collect::<Vec<_>>();

        assert_eq!((dropped, hushed), (Vec::new(), Vec::new()), "{tab:?}");
        assert_eq!(sent(&again).into_iter().filter(asks).count(), 1, "{tab:?}: {again:?}");
        assert!(again.len() < 20, "a node accepts all of it at once: {again:?}");
    }
}

#[test]
fn what_ended_while_the_screen_stood_still_is_shown_after() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), Duration::ZERO);
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    typed(&mut model, " ");
    let end = ServerMessage::Process { pid: "<0.1.1>".to_owned(), process: None };
    update(&mut model, Msg::Server(end.clone()), Duration::ZERO);
    assert!(!model.detail.as_ref().unwrap().gone);

    let effects = typed(&mut model, " ");

    let requested = ClientMessage::Detail { pid: Some("<0.1.1>".to_owned()) };
    assert!(sent(&effects).contains(&&requested), "{effects:?}");
    update(&mut model, Msg::Server(end), Duration::ZERO);
    assert!(model.detail.unwrap().gone);
}

#[test]
fn events_of_a_pause_are_asked_for_after_it() {
    let mut model = attached(Tab::Events);
    typed(&mut model, " ");
    let events = Events { noted: 1, events: vec![EventInfo::default()], ..Events::default() };
    update(&mut model, Msg::Server(ServerMessage::Events(events)), Duration::ZERO);
    assert!(model.events.newest.is_none());

    let effects = typed(&mut model, " ");

    let requested =
        EventsRequest { enabled: true, backlog: Some(rusm_protocol::BACKLOG_MAX), ..EventsRequest::default() };
    assert_eq!(sent(&effects), [&ClientMessage::Events(requested)]);
}

#[test]
fn the_process_of_a_lint_is_the_one_that_is_selected() {
    let mut model = attached(Tab::Events);
    model.table.selection = Selection::Here("<0.2.1>".to_owned());
    let lint = LintInfo { id: "stuck".to_owned(), pid: "<0.1.1>".to_owned(), ..LintInfo::default() };
    let mut frame = Frame::default();
    (frame.observer.lints, frame.observer.lints_total) = (vec![lint], 1);
    update(&mut model, Msg::Server(ServerMessage::Tick { frame: Box::new(frame) }), Duration::ZERO);

    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    for pids in [vec![3, 2, 1], vec![3, 2]] {
        let page = rows_of(&model, (0, 3, pids));
        update(&mut model, Msg::Server(page), Duration::ZERO);
        typed(&mut model, "x");

        let requested = model.overlay.take();
        assert!(matches!(&requested, Some(Overlay::Kill { pid, .. }) if pid == "<0.1.1>"), "{requested:?}");
        assert_eq!(typed(&mut model, "y"), [Effect::Copy("<0.1.1>".to_owned())]);
    }
}

#[test]
fn a_click_on_another_view_closes_the_filter_and_keeps_it() {
    let mut model = attached(Tab::Processes);
    typed(&mut model, "/kv");
    let (.., cells) = layout::tabs(model.size, model.tab, &model.tabs()).find(|(tab, ..)| *tab == Tab::Bench).unwrap();

    let click = Mouse { kind: MouseKind::Click, x: cells.x, y: cells.y };
    update(&mut model, Msg::Mouse(click), Duration::ZERO);

    assert_eq!((model.tab, model.table.field.is_none(), model.table.filter.as_str()), (Tab::Bench, true, "kv"));
}

#[test]
fn control_c_closes_what_lies_over_a_view_and_leaves_nothing_else() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    update(&mut model, Msg::Server(page), Duration::ZERO);
    for keys in ["?", "s", "jx"] {
        typed(&mut model, keys);
        assert!(model.overlay.is_some(), "{keys}");

        let effects = press_all(&mut model, &[Key::ctrl('c')]);

        assert!(
            model.overlay.is_none()
                && effects.iter().all(|e| matches!(e, Effect::Send(ClientMessage::Inspect { view: None }))),
            "{keys}: {effects:?}"
        );
    }
}

#[test]
fn the_time_between_two_frames_is_changed_by_a_command() {
    let mut model = attached(Tab::Node);
    typed(&mut model, ":interval 500ms");

    let effects = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);

    let half_a_second = Duration::from_millis(500);
    let asked = [Effect::Send(ClientMessage::Watch { frame_hz: 2.0 }), Effect::Interval(half_a_second)];
    assert!(asked.iter().all(|effect| effects.contains(effect)), "{effects:?}");
    typed(&mut model, ":interval 1h");
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    assert!(matches!(&model.overlay, Some(Overlay::Palette(palette)) if palette.error.is_some()));
}
