//! Reconnecting to a different node: no command and no data of the previous node may be taken for the new one's.

use super::*;

#[test]
fn a_question_about_a_process_of_the_node_before_is_withdrawn() {
    let mut model = Model::new(Start::default());
    let hello = |os_pid| {
        let ServerMessage::Hello(mut hello) = Demo::new(1).hello() else { unreachable!("it says hello") };
        hello.node.os_pid = os_pid;
        hello
    };
    connect(&mut model, hello(1));
    let (pid, name, reason) = ("<0.1.1>".to_owned(), String::new(), KillReason::Kill);
    model.overlay = Some(Overlay::Kill { pid, name, reason, typed: String::new(), words: None });
    model.table.selection = Selection::Here("<0.1.1>".to_owned());

    connect(&mut model, hello(1));
    assert!(matches!(model.overlay, Some(Overlay::Kill { .. })), "the same node again");
    connect(&mut model, hello(2));

    assert_eq!((model.overlay, model.table.selection), (None, Selection::None));
    assert!(model.status.is_some_and(|status| status.text.contains("nothing was ended")));
}

#[test]
fn a_command_leaves_only_for_a_node_that_has_said_who_it_is() {
    let is_kill = |effect: &Effect| matches!(effect, Effect::Send(ClientMessage::Kill { .. }));
    let ask = |model: &mut Model| {
        let (pid, name, reason) = ("<0.1.1>".to_owned(), String::new(), KillReason::Kill);
        model.overlay = Some(Overlay::Kill { pid, name, reason, typed: String::new(), words: None });
        let effects = update(model, Msg::Key(Key::plain(KeyCode::Enter)), Duration::ZERO);
        (effects.iter().any(is_kill), model.commands.len())
    };
    let mut model = attached(Tab::Processes);
    assert_eq!(ask(&mut model), (true, 1));
    let gone = LinkEvent::Lost {
        reason: "gone".to_owned(),
        fault: Fault::Connection,
        attempt: 0,
        retry_in: Duration::from_secs(1),
    };

    drop(update(&mut model, Msg::Link(gone), Duration::ZERO));
    assert_eq!(ask(&mut model), (false, 1), "not connected");
    assert!(model.status.as_ref().is_some_and(|status| status.text.starts_with("not connected, so not sent: <0.1.1>")));
    drop(update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO));
    assert_eq!(ask(&mut model), (false, 0), "connected, before the greeting");
    drop(update(&mut model, Msg::Server(Demo::new(1).hello()), Duration::ZERO));
    assert_eq!(ask(&mut model), (true, 1));
}

#[test]
fn a_node_that_started_at_another_time_is_another_whatever_its_process_id() {
    let mut model = attached(Tab::Processes);
    let page = rows_of(&model, (0, 3, vec![1, 2, 3]));
    drop(update(&mut model, Msg::Server(page), Duration::ZERO));
    let ServerMessage::Hello(mut hello) = Demo::new(1).hello() else { unreachable!("it says hello") };
    model
        .events
        .take(rusm_protocol::Events { events: vec![rusm_protocol::EventInfo::default()], ..Default::default() });
    model.top = model.table.rows.clone();
    model.frame = Some(Box::default());

    let mut reconnect = |hello: &Hello| {
        connect(&mut model, Box::new(hello.clone()));
        (model.frame.is_some(), model.events.newest.is_some(), model.top.is_some(), model.table.rows.is_some())
    };
    assert_eq!(reconnect(&hello), (true, true, true, true), "the same node again");
    hello.node.started_unix_ms += 1;
    assert_eq!(reconnect(&hello), (false, false, false, false));
}

#[test]
fn a_node_introduces_itself_once_for_each_connection() {
    let mut model = attached(Tab::Processes);
    let ServerMessage::Hello(mut hello) = Demo::new(1).hello() else { unreachable!("it says hello") };
    hello.node.name = "another".to_owned();
    hello.node.os_pid += 1;

    drop(update(&mut model, Msg::Server(ServerMessage::Hello(hello.clone())), Duration::ZERO));
    assert_eq!(model.overlay, None);

    connect(&mut model, hello);
    assert!(matches!(model.overlay, Some(Overlay::OtherNode { .. })), "{:?}", model.overlay);
}

#[test]
fn all_that_a_filter_shows_are_ended_after_one_question() {
    let mut model = attached(Tab::Processes);
    typed(&mut model, "X");
    assert!(model.overlay.is_none() && model.status.take().is_some_and(|status| status.text.contains("filter first")));

    typed(&mut model, "/module=bomb");
    press_all(&mut model, &[Key::plain(KeyCode::Enter)]);
    typed(&mut model, "X");
    let effects = press_all(&mut model, &[Key::plain(KeyCode::Enter)]);

    let sent = effects.iter().find_map(|effect| match effect {
        Effect::Send(ClientMessage::KillAll { filter, reason, id }) => Some((filter.clone(), *reason, *id)),
        _ => None,
    });
    let (filter, reason, id) = sent.expect("the question is answered");
    assert_eq!((filter.as_str(), reason), ("module=bomb", KillReason::Kill));
    let answer = ServerMessage::Killed { id: id.unwrap(), processes: 1_024, left: 0 };
    update(&mut model, Msg::Server(answer), Duration::ZERO);
    assert_eq!(model.status.unwrap().text, "kill all of module=bomb: 1,024 ended");
}
