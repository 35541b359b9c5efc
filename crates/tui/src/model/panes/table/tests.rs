//! Tests of the process table.

use super::*;

fn page(rows: &[(&str, &str)]) -> Rows {
    let text = |text: &str| Cell::Text(text.to_owned());
    Rows {
        columns: vec![Column::Pid, Column::State],
        matched: rows.len() as u64,
        total: rows.len() as u64,
        rows: rows.iter().map(|(pid, state)| vec![text(pid), text(state)]).collect(),
        ..Rows::default()
    }
}

#[test]
fn many_ended_processes_are_one_line_behind_the_others_and_the_selected_one_stays() {
    let mut table = Table { selection: Selection::Here("<0.2.1>".to_owned()), ..Table::default() };
    let ended =
        [("<0.1.1>", ENDED), ("<0.2.1>", ENDED), ("<0.3.1>", "waiting"), ("<0.4.1>", ENDED), ("<0.5.1>", ENDED)];

    table.take(page(&ended), None, 10, Duration::ZERO);

    let pids: Vec<_> = (0..5).filter_map(|at| table.pid_at(at)).collect();
    assert_eq!(pids, ["<0.2.1>", "<0.3.1>", "<0.1.1>", "<0.4.1>", "<0.5.1>"]);
    assert_eq!(table.folded(), Some((3, 2)));
    table.take(page(&ended[..3]), None, 10, Duration::ZERO);
    assert_eq!((table.pid_at(0).as_deref(), table.folded()), (Some("<0.1.1>"), None), "two keep their places");
}

#[test]
fn a_window_has_all_that_is_visible_on_a_screen_of_any_height() {
    for visible in 1..=200_u16 {
        let table = Table { top: 500, ..Table::default() };

        let window = table.query(None, visible, 140).window;

        let end = window.offset + u64::from(window.len);
        assert!(window.offset <= 500 && 500 + u64::from(visible) <= end, "{visible}: {window:?}");
        assert!(window.len <= PAGE_ROWS_MAX.max(visible.into()), "{visible}: {window:?}");
        // A window just requested must not be requested again.
        assert!(table.is_covered(window, window.len, visible), "{visible}: {window:?}");
    }
}
