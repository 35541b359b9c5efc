//! Tests of the Serve view: what it requests, and what stays selected.

use rusm_protocol::ServerInfo;

use super::*;

const VISIBLE: (u16, u16) = (2, 4);

fn serve(id: u32, at_ms: u64, pids: &[&str]) -> Serve {
    let request = |pid: &&str| RequestInfo { pid: (*pid).to_owned(), ..RequestInfo::default() };
    let route = |name: &str| RouteInfo { route: name.to_owned(), ..RouteInfo::default() };
    let server = ServerInfo { responses_total: [0, 0, at_ms * 2, 0, 0, 0], ..ServerInfo::default() };
    Serve {
        id,
        at_ms,
        servers: vec![server],
        total: 2,
        routes: vec![route("GET /a b"), route("/b")],
        matched: pids.len() as u64,
        requests: pids.iter().map(request).collect(),
        ..Serve::default()
    }
}

fn requested(pane: &mut ServePane, now_ms: u64) -> ServeView {
    match pane.requests(Some(VISIBLE), Duration::from_millis(now_ms)) {
        Some(ClientMessage::Serve { view: Some(view) }) => view,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_node_is_asked_while_it_is_shown_and_told_when_it_is_not() {
    let mut pane = ServePane::default();

    assert_eq!(pane.requests(None, Duration::ZERO), None);
    assert_eq!(requested(&mut pane, 0).id, 1);
    assert_eq!(pane.requests(Some(VISIBLE), Duration::from_secs(1)), None);
    assert_eq!(pane.requests(None, Duration::from_secs(2)), Some(ClientMessage::Serve { view: None }));
    assert_eq!(pane.requests(None, Duration::from_secs(2)), None);
}

#[test]
fn the_selected_request_stays_selected_when_slower_ones_come() {
    let mut pane = ServePane::default();
    let id = requested(&mut pane, 0).id;
    assert!(!pane.take(serve(id + 1, 0, &["<0.9.1>"]), VISIBLE), "an answer without a request");
    pane.take(serve(id, 1_000, &["<0.1.1>", "<0.2.1>"]), VISIBLE);

    pane.move_by(1, VISIBLE);
    pane.take(serve(id, 1_500, &["<0.3.1>", "<0.1.1>", "<0.2.1>"]), VISIBLE);

    assert_eq!((pane.requests.at, pane.request().map(|request| request.pid.as_str())), (2, Some("<0.2.1>")));
    pane.take(serve(id, 2_000, &["<0.3.1>"]), VISIBLE);
    assert_eq!(pane.requests.at, 0, "it has ended");
}

#[test]
fn a_route_leads_to_its_requests() {
    let mut pane = ServePane::default();
    let id = requested(&mut pane, 0).id;
    pane.take(serve(id, 1_000, &[]), VISIBLE);
    pane.focus = ServeFocus::Routes;

    assert!(pane.show_requests_of_route());

    assert_eq!((pane.focus, pane.filter.in_force()), (ServeFocus::Requests, "route=\"GET /a b\""));
    assert_eq!(requested(&mut pane, 1_000).filter, "route=\"GET /a b\"");
}

#[test]
fn orders_and_filters_are_sent_and_a_wrong_filter_is_not() {
    let mut pane = ServePane::default();
    requested(&mut pane, 0);
    pane.sort_next();
    assert_eq!(requested(&mut pane, 1_000).request_sort, RequestSort::BytesIn);
    pane.focus = ServeFocus::Routes;
    pane.sort_next();
    assert_eq!(requested(&mut pane, 2_000).sort, RouteSort::Errors);

    pane.filter.edit();
    for text in ["age>1s", "age>"] {
        pane.filter.field = Some(crate::model::input::line_edit::LineEdit::new(text));
        pane.filter.typed();
    }

    assert!(pane.filter.error.is_some() && !pane.filter.close(true));
    assert_eq!(requested(&mut pane, 3_000).filter, "age>1s");
}

#[test]
fn the_chart_shows_the_rate_between_answers() {
    let mut pane = ServePane::default();
    let id = requested(&mut pane, 0).id;
    for at_ms in [1_000, 1_500, 2_500, 2_500, 100] {
        pane.take(serve(id, at_ms, &[]), VISIBLE);
    }

    assert_eq!(pane.rates, [(1_500, 2_000.0), (2_500, 2_000.0)], "the last ones are not later");
}
