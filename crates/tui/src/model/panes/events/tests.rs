//! Tests of the list of events.

use proptest::prelude::*;

use super::*;

fn events(seqs: std::ops::RangeInclusive<u64>) -> Events {
    let event = |seq| EventInfo { seq, at_ms: seq * 10, kind: "crash".to_owned(), ..EventInfo::default() };
    Events { noted: *seqs.end(), events: seqs.map(event).collect(), ..Events::default() }
}

fn shown(pane: &EventsPane, rows: usize) -> Vec<u64> {
    let Page { items, top, .. } = pane.page(rows);
    items.iter().skip(top).take(rows).map(|item| item.key().2).collect()
}

fn request(backlog: Option<u32>, open: Option<u64>, log: bool) -> ClientMessage {
    ClientMessage::Events(EventsRequest { enabled: true, backlog, open, log })
}

#[test]
fn the_node_is_told_once_what_is_wanted() {
    let mut pane = EventsPane::default();

    assert_eq!(pane.requests(false), None);
    assert_eq!(pane.requests(true), Some(request(Some(BACKLOG_MAX), None, false)));
    assert_eq!(pane.requests(true), None);
    pane.reset();
    assert_eq!(pane.requests(true), Some(request(Some(BACKLOG_MAX), None, false)));
    pane.take(events(1..=3));
    pane.move_by(1, 9);
    assert!(pane.open());
    assert_eq!(pane.requests(true), Some(request(None, Some(3), false)));
    pane.close();
    pane.with_log = true;
    assert_eq!(pane.requests(true), Some(request(Some(BACKLOG_MAX), None, true)));
    assert_eq!(pane.requests(false), Some(ClientMessage::Events(EventsRequest::default())));
}

#[test]
fn a_selected_event_and_its_page_stay_when_new_events_come() {
    let mut pane = EventsPane::default();
    pane.take(events(1..=10));
    assert_eq!(shown(&pane, 4), [10, 9, 8, 7]);

    pane.move_by(1, 4);
    pane.move_by(1, 4);
    for first in 0..200 {
        pane.take(events(first * 60 + 11..=first * 60 + 74));
        assert_eq!(shown(&pane, 4), [10, 9, 8, 7]);
        assert_eq!(pane.selected().map(|item| item.key().2), Some(9));
    }

    assert!(pane.events.kept.len() <= KEPT);
    assert!(pane.release());
    assert_eq!(shown(&pane, 2), [12_014, 12_013]);
}

#[test]
fn a_page_is_full_wherever_it_is() {
    let mut pane = EventsPane::default();
    pane.take(events(1..=64));
    pane.move_by(1, 20);
    pane.take(events(30_000..=30_063));
    for lines in [1, 20, -7, 1_000, -1, i64::MIN, i64::MAX] {
        pane.move_by(lines, 20);
        assert_eq!(shown(&pane, 20).len(), 20, "{lines}");
    }
    pane.go_to(u64::MAX, 20);
    assert_eq!(shown(&pane, 20).last(), Some(&1));
    pane.go_to(0, 20);
    assert_eq!((shown(&pane, 1), pane.is_held()), (vec![30_063], false));
    pane.scroll(3, 20);
    assert_eq!(shown(&pane, 1), [30_060]);
    pane.scroll(-9, 20);
    assert!(!pane.is_held());
}

#[test]
fn levels_filters_and_log_lines() {
    let mut pane = EventsPane::default();
    let line = |seq, level: &str| LogLine {
        seq,
        at_ms: 15,
        level: level.to_owned(),
        text: format!("line {seq}"),
        ..LogLine::default()
    };
    pane.take(Events { log: vec![line(1, "info"), line(2, "warn")], ..events(1..=2) });
    assert_eq!(pane.page(9).items.len(), 2);
    pane.with_log = true;
    let keys = |pane: &EventsPane| pane.page(9).items.iter().map(|item| item.key()).collect::<Vec<_>>();
    assert_eq!(keys(&pane), [(20, false, 2), (15, true, 2), (15, true, 1), (10, false, 1)]);
    (0..3).for_each(|_| pane.next_level());
    assert_eq!(pane.level, Level::Warn);
    assert_eq!(keys(&pane), [(20, false, 2), (15, true, 2), (10, false, 1)]);

    pane.edit_filter();
    pane.filter.field = Some(LineEdit::new("line"));
    pane.filter.typed();
    assert_eq!(keys(&pane), [(15, true, 2)]);
    pane.filter.field = Some(LineEdit::new("line and"));
    pane.filter.typed();
    assert_eq!((keys(&pane).len(), pane.filter.close(true)), (1, false), "an error keeps the field and the filter");
    assert!(pane.filter.close(false) && keys(&pane).len() == 3);
}

proptest! {
    #[test]
    fn no_order_of_steps_empties_a_page(steps in proptest::collection::vec((0..5_u8, -30..30_i64), 1..40)) {
        let (mut pane, mut newest) = (EventsPane::default(), 64);
        pane.take(events(1..=64));
        for (step, lines) in steps {
            match step {
                0 => pane.move_by(lines, 10),
                1 => pane.scroll(lines, 10),
                2 => pane.go_to(lines.unsigned_abs(), 10),
                3 => {
                    newest += lines.unsigned_abs() * 50;
                    pane.take(events(newest - 63..=newest));
                }
                _ => _ = pane.release(),
            }
            prop_assert_eq!(shown(&pane, 10).len(), 10);
            prop_assert!(pane.page(10).cursor.is_none_or(|at| (0..pane.page(10).items.len()).contains(&at)));
        }
    }
}
