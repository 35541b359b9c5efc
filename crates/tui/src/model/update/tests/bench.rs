//! The Bench view: runs with settings, questions, results, comparisons, files.

use super::*;
use crate::model::message::Export;
use crate::model::overlay::{Ask, Overlay};
use crate::model::panes::bench::results::BenchPane;
use rusm_protocol::{ReportPart, Results, RunEntry, RunResult};

fn frame(frame: Frame) -> Msg {
    Msg::Server(ServerMessage::Tick { frame: Box::new(frame) })
}

fn key(code: KeyCode) -> Key {
    Key::plain(code)
}

/// Returns a model on Bench with three results: two runs of a scenario, and a run of another program.
fn with_history() -> Model {
    let mut model = attached(Tab::Bench);
    let id = last_view(&press_all(&mut model, &[key(KeyCode::Char('o')), key(KeyCode::Char('o'))]), &mut model);
    let entry = |number: u64| RunEntry {
        number,
        kind: "run".to_owned(),
        scenario: "spawn-storm".to_owned(),
        ..RunEntry::default()
    };
    let result = RunResult {
        number: 2,
        scenario: "spawn-storm".to_owned(),
        kind: "run".to_owned(),
        verdict: Some("steady".to_owned()),
        ..RunResult::default()
    };
    let results = Results {
        id,
        result: Some(Box::new(result)),
        history_total: 3,
        history: vec![entry(2), entry(1), entry(0)],
        ..Results::default()
    };
    update(&mut model, Msg::Server(ServerMessage::Results(Box::new(results))), Duration::from_secs(2));
    assert!(model.has_results());
    model
}

/// Returns the id of the newest request for results.
fn last_view(effects: &[Effect], model: &mut Model) -> u32 {
    let of = |effects: &[Effect]| {
        effects.iter().rev().find_map(|effect| match effect {
            Effect::Send(ClientMessage::Results { view: Some(view) }) => Some(view.id),
            _ => None,
        })
    };
    of(effects).or_else(|| of(&update(model, Msg::Tick, Duration::from_secs(1)))).unwrap_or(1)
}

#[test]
fn a_run_beside_processes_of_others_asks_first() {
    let mut model = attached(Tab::Bench);
    update(&mut model, frame(Frame { others_alive: 12, ..Frame::default() }), Duration::from_secs(1));

    let asked = typed(&mut model, "r");
    assert!(asked.is_empty() && matches!(&model.overlay, Some(Overlay::Ask { ask: Ask::Run(_), .. })), "{asked:?}");
    assert!(typed(&mut model, "n").is_empty() && model.overlay.is_none());
    typed(&mut model, "r");
    let confirmed = typed(&mut model, "y");

    assert!(matches!(&confirmed[..], [Effect::Send(ClientMessage::Run { .. })]), "{confirmed:?}");
}

#[test]
fn a_scenario_that_cannot_run_here_says_so_instead_of_starting() {
    let mut model = attached(Tab::Bench);
    let selected = model.bench.selected;
    let scenario = &mut model.hello.as_mut().unwrap().scenarios[selected];
    scenario.lacks = Some("it needs a store".to_owned());
    let expected = format!("{} cannot run here: it needs a store", scenario.id);

    let effects = typed(&mut model, "r");

    assert!(effects.is_empty() && model.overlay.is_none(), "{effects:?}");
    assert_eq!(model.status.as_ref().map(|status| status.text.as_str()), Some(expected.as_str()));
}

#[test]
fn a_run_in_progress_ends_for_another_only_after_a_question() {
    let mut model = attached(Tab::Bench);
    let running = Frame { running: true, run_id: 1, scenario: Some("ping-pong".to_owned()), ..Frame::default() };
    update(&mut model, frame(running), Duration::from_secs(1));

    let asked = typed(&mut model, "r");
    let question = match &model.overlay {
        Some(Overlay::Ask { question, ask: Ask::Run(_) }) => question.clone(),
        _ => String::new(),
    };
    let confirmed = typed(&mut model, "y");

    assert!(asked.is_empty(), "{asked:?}");
    assert_eq!(question, "ping-pong is running and ends now");
    assert!(matches!(&confirmed[..], [Effect::Send(ClientMessage::Run { .. })]), "{confirmed:?}");
}

#[test]
fn a_run_is_stopped_after_a_question() {
    let mut model = attached(Tab::Bench);
    let running = Frame { running: true, run_id: 1, scenario: Some("ping-pong".to_owned()), ..Frame::default() };
    update(&mut model, frame(running), Duration::from_secs(1));

    let asked = typed(&mut model, "x");
    assert!(asked.is_empty() && matches!(&model.overlay, Some(Overlay::Ask { ask: Ask::Stop, .. })), "{asked:?}");
    assert!(typed(&mut model, "n").is_empty() && model.overlay.is_none());
    typed(&mut model, "x");
    let confirmed = typed(&mut model, "y");

    assert!(matches!(&confirmed[..], [Effect::Send(ClientMessage::Stop { .. })]), "{confirmed:?}");
}

#[test]
fn without_a_run_there_is_nothing_to_stop() {
    let mut model = attached(Tab::Bench);
    update(&mut model, frame(Frame::default()), Duration::from_secs(1));

    assert!(typed(&mut model, "x").is_empty());

    let notice = model.status.as_ref().map(|status| status.text.as_str());
    assert_eq!(notice, Some("nothing to stop: no scenario is running"));
}

#[test]
fn another_profile_asks_only_while_something_runs() {
    let mut model = attached(Tab::Bench);
    let idle = typed(&mut model, "p");
    let running = Frame { running: true, run_id: 1, scenario: Some("spawn-storm".to_owned()), ..Frame::default() };
    update(&mut model, frame(running), Duration::from_secs(1));

    let asked = typed(&mut model, "p");

    assert!(asked.is_empty() && matches!(&model.overlay, Some(Overlay::Ask { ask: Ask::Profile(_), .. })));
    assert!(idle.is_empty() || matches!(&idle[..], [Effect::Send(ClientMessage::SetResourceProfile { .. })]));
}

#[test]
fn the_same_key_pauses_a_run_and_continues_it() {
    let mut model = attached(Tab::Bench);
    let idle = typed(&mut model, "z");
    let running = Frame { running: true, run_id: 1, scenario: Some("spawn-storm".to_owned()), ..Frame::default() };
    let paused = Frame { paused: true, ..running.clone() };

    update(&mut model, frame(running), Duration::from_secs(1));
    let first = typed(&mut model, "z");
    update(&mut model, frame(paused), Duration::from_secs(2));
    let second = typed(&mut model, "z");

    assert!(idle.is_empty(), "{idle:?}");
    assert!(matches!(&first[..], [Effect::Send(ClientMessage::Pause { paused: true, .. })]), "{first:?}");
    assert!(matches!(&second[..], [Effect::Send(ClientMessage::Pause { paused: false, .. })]), "{second:?}");
}

#[test]
fn settings_go_with_the_run_and_a_mistake_stays_in_the_dialog() {
    let mut model = attached(Tab::Bench);
    typed(&mut model, "e");
    press_all(&mut model, &[key(KeyCode::Tab), key(KeyCode::Tab)]);
    typed(&mut model, "fast");
    let refused = press_all(&mut model, &[key(KeyCode::Enter)]);
    let Some(Overlay::Run(dialog)) = &model.overlay else { panic!("{:?}", model.overlay) };
    assert!(refused.is_empty() && dialog.refused.is_some());
    assert_eq!(dialog.field().map(|field| field.meta.name.as_str()), Some("rate"));

    press_all(&mut model, &[Key::ctrl('u')]);
    typed(&mut model, "20k");
    press_all(&mut model, &[key(KeyCode::Tab)]);
    typed(&mut model, "3s");
    let effects = press_all(&mut model, &[key(KeyCode::Enter)]);

    let [Effect::Send(ClientMessage::Run { settings, .. })] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((settings.rate_per_sec, settings.duration_ms), (Some(20_000.0), Some(3_000)));
}

#[test]
fn two_results_are_chosen_from_the_history_and_compared() {
    let mut model = with_history();
    typed(&mut model, "H");
    assert_eq!(model.results.pane, BenchPane::History);

    typed(&mut model, "jm");
    assert_eq!(model.results.marked, Some(1));
    typed(&mut model, "kc");
    assert_eq!((model.results.run, model.results.against), (Some(2), Some(1)));
    assert_eq!(model.results.pane, BenchPane::Result);
    press_all(&mut model, &[key(KeyCode::Esc)]);
    assert_eq!(model.results.pane, BenchPane::History);
    typed(&mut model, "G");
    press_all(&mut model, &[key(KeyCode::Enter)]);
    assert_eq!(model.results.pane, BenchPane::History, "only a summary is kept");
    assert!(model.status.as_ref().is_some_and(|status| status.text.starts_with("only the summary")));
    press_all(&mut model, &[key(KeyCode::Esc)]);
    assert_eq!(model.results.pane, BenchPane::Live);
}

#[test]
fn new_settings_are_compared_with_a_result_by_a_dialog_of_their_own() {
    let mut model = with_history();
    typed(&mut model, "Ha");

    let effects = press_all(&mut model, &[key(KeyCode::Enter)]);

    let Some(Effect::Send(ClientMessage::Run { settings, .. })) = effects.last() else { panic!("{effects:?}") };
    assert_eq!((settings.kind.as_deref(), settings.baseline), (Some("ab"), Some(2)));
}

#[test]
fn a_report_is_put_together_and_saved_under_a_harmless_name() {
    let mut model = with_history();
    typed(&mut model, "o");
    let asked = typed(&mut model, "v");
    let Some(Effect::Send(ClientMessage::Report { run: 2, offset: 0, id })) = asked.last() else { panic!("{asked:?}") };
    let part = ReportPart { id: *id, number: 2, offset: 0, total: 2, text: "{}".to_owned() };

    let effects = update(&mut model, Msg::Server(ServerMessage::Report(part)), Duration::from_secs(3));
    let saved = Effect::Save { name: "rusm-spawn-storm-2.json".to_owned(), export: Export::Text("{}".to_owned()) };
    let picture = typed(&mut model, "w");
    update(&mut model, Msg::Saved(Ok("/x/rusm-spawn-storm-2.json".to_owned())), Duration::from_secs(4));

    assert!(effects.contains(&saved), "{effects:?}");
    assert!(matches!(&picture[..], [Effect::Save { export: Export::Picture, .. }]), "{picture:?}");
    assert_eq!(model.status.map(|status| status.text).as_deref(), Some("saved /x/rusm-spawn-storm-2.json"));
}

#[test]
fn a_chart_has_one_run_and_stays_after_its_end() {
    let mut model = attached(Tab::Bench);
    let at = |seconds: u64, run_id: u64, running: bool, rate: f64| {
        let captured_at_ns = seconds * 1_000_000_000;
        frame(Frame { captured_at_ns, run_id, running, run_ms: 500, ops_per_sec: rate, ..Frame::default() })
    };
    for (seconds, run_id, running, rate) in [(1, 1, true, 40e6), (2, 1, true, 40e6), (3, 1, false, 0.0)] {
        update(&mut model, at(seconds, run_id, running, rate), Duration::from_secs(seconds));
    }
    assert_eq!(
        model.histories.ops.mean_to(model.histories.ops.newest_ms(), 1_000).to_bits(),
        40e6_f64.to_bits(),
        "the end is no rate of zero"
    );

    update(&mut model, at(4, 2, true, 5.0), Duration::from_secs(4));

    let known: Vec<f64> = model.histories.ops.buckets(100, 60).into_iter().flatten().collect();
    assert_eq!(known, [5.0], "nothing of the run before");
}

#[test]
fn a_scenario_is_found_while_it_is_typed_and_left_as_it_was_on_cancel() {
    let mut model = attached(Tab::Bench);
    let before = model.bench.selected;

    typed(&mut model, "/");
    assert_eq!(model.contexts(), [crate::model::input::keys::Context::Find]);
    typed(&mut model, "zzz");
    press_all(&mut model, &[key(KeyCode::Esc)]);

    assert_eq!((model.bench.selected, model.bench.find.is_some()), (before, false));
}
