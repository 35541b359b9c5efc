//! Screens of what is opened from a list: processes, children, traps, buckets.

use super::*;

#[test]
fn the_detail_pane_stands_below_or_beside_the_table() {
    for size in [USUAL, LARGE] {
        let mut watched = busy(Tab::Processes, size, false);
        watched.press("jjj\n").pass(1);

        insta::assert_snapshot!(format!("detail_{}x{}", size.width, size.height), watched.text());
    }
}

#[test]
fn a_process_in_full_leads_along_its_links_and_back() {
    for (size, ascii) in [(SMALL, false), (USUAL, false), (LARGE, false), (Size::new(97, 31), false), (USUAL, true)] {
        let mut watched = busy(Tab::Processes, size, ascii);
        watched.press("jjj\n").pass(1);
        watched.press("\n").pass(1);
        let signs = if ascii { "_ascii" } else { "" };
        insta::assert_snapshot!(format!("process_{}x{}{signs}", size.width, size.height), watched.text());
    }
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("jjj\n").pass(1);
    watched.press("\n").pass(1);
    let first = watched.model.detail.clone().unwrap();

    watched.press("jj").pass(1);
    let wanted = watched.model.detail.as_ref().unwrap().links()[2].clone();
    watched.press("\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), Some(wanted));
    assert!(watched.text().contains("1 back"), "{}", watched.text());

    watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
    let pane = watched.pass(1).model.detail.as_ref().unwrap();
    assert_eq!((&pane.pid, pane.at, pane.in_full), (&first.pid, 2, true));
}

#[test]
fn a_request_leads_to_its_process_and_a_route_to_its_requests() {
    let mut watched = busy(Tab::Serve, USUAL, false);
    insta::assert_snapshot!("serve_filter", watched.press("/state=re").pass(1).text());
    watched.press("\t\n").pass(1);
    let request = watched.model.serve.request().cloned().unwrap();
    assert_eq!((request.state.as_str(), watched.model.serve.newest.as_ref().unwrap().matched), ("responding", 2));

    watched.press("x");
    assert!(watched.text().contains(&request.pid), "{}", watched.text());
    watched.press("q\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| &pane.pid), Some(&request.pid));
    watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
    assert_eq!(watched.model.tab(), Tab::Serve);

    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    watched.press("hs").pass(1);
    assert!(watched.text().contains("by errors"), "{}", watched.text());
    watched.press("\n").pass(1);
    let text = watched.text();
    assert!(text.contains("/route=\"GET /users/:id\"") && text.contains("1 of 12"), "{text}");
}

#[test]
fn servers_on_the_largest_and_on_a_middle_screen() {
    for (width, height) in [(97, 31), (200, 50)] {
        let name = format!("serve_{width}x{height}");
        insta::assert_snapshot!(name, busy(Tab::Serve, Size::new(width, height), false).text());
    }
}

#[test]
fn the_cluster_on_the_largest_and_on_a_middle_screen() {
    for (width, height) in [(97, 31), (200, 50)] {
        let name = format!("cluster_{width}x{height}");
        insta::assert_snapshot!(name, busy(Tab::Cluster, Size::new(width, height), false).text());
    }
}

#[test]
fn a_lost_node_keeps_its_last_figures_and_a_name_leads_to_its_owner() {
    let mut watched = busy(Tab::Cluster, LARGE, false);
    watched.press("jj").pass(1);
    insta::assert_snapshot!("cluster_lost", watched.text());

    watched.press("l").pass(1);
    watched.press("\n");
    assert!(watched.text().contains("runs on node berlin: select"), "{}", watched.text());
    watched.press("j\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.as_str()), Some("<0.98.1>"));
}

#[test]
fn the_process_that_holds_up_others_is_one_key_away_on_time_and_topics() {
    for tab in [Tab::Time, Tab::Topics] {
        let mut watched = busy(tab, USUAL, false);

        watched.press("\n").pass(1);
        assert_eq!(watched.model.tab, Tab::Processes, "{tab:?}: {}", watched.text());

        watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
        assert_eq!(watched.model.tab, tab);
    }
}

#[test]
fn a_process_that_has_ended_says_why() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("jjj\n").pass(1);
    watched.press("\nx").pass(1);
    watched.press("12\n").pass(2);

    let text = watched.text();
    assert!(text.contains("no route for 17") && text.contains("LAST FIGURES"), "{text}");
    insta::assert_snapshot!("process_ended", text);
}

#[test]
fn a_cause_is_read_in_full() {
    for (size, ascii) in [(USUAL, false), (USUAL, true)] {
        let mut watched = busy(Tab::Events, size, ascii);
        watched.press("cco").pass(1);
        insta::assert_snapshot!(if ascii { "cause_ascii" } else { "cause_80x24" }, watched.text());
        watched.press("\n").pass(1);
        assert_eq!(watched.model.tab, Tab::Processes);
        watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
        assert_eq!(watched.model.tab, Tab::Events);
    }
}

#[test]
fn a_child_that_keeps_dying_is_seen_in_full() {
    for (size, ascii) in [(USUAL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Tree, size, ascii);
        watched.press("jj").pass(1);

        let capabilities = if ascii { "_ascii" } else { "" };
        insta::assert_snapshot!(format!("tree_child_{}x{}{capabilities}", size.width, size.height), watched.text());
    }
}

#[test]
fn a_hundred_thousand_children_are_scrolled_to_their_end_and_closed_again() {
    let mut watched = busy(Tab::Tree, USUAL, false);
    watched.press("Gk\n").pass(1);
    insta::assert_snapshot!("tree_many", watched.press("G").pass(1).text());

    watched.press("kkh").pass(1);
    assert_eq!(watched.model.tree.selected_row().map(|row| row.name.as_str()), Some("sessions"));
    watched.press("h").pass(1);
    assert_eq!(watched.model.tree.total(), 17);
}

#[test]
fn a_worker_of_the_tree_is_looked_into_and_ended_after_a_question() {
    let mut watched = busy(Tab::Tree, USUAL, false);
    watched.press("jjj").pass(1);
    let pid = watched.model.tree.selected_row().and_then(|row| row.pid.clone()).unwrap();

    assert!(watched.press("x").text().contains(&format!("end {pid} kv_index?")));
    watched.press("q\n");

    assert_eq!(watched.model.tab, Tab::Processes);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), Some(pid));
    watched.feed(Msg::Key(Key::plain(KeyCode::Backspace)));
    assert_eq!((watched.model.tab, watched.model.detail.is_none()), (Tab::Tree, true));
}

#[test]
fn a_trap_is_read_with_its_backtrace_and_a_module_leads_to_its_processes() {
    let mut watched = busy(Tab::Wasm, USUAL, false);
    insta::assert_snapshot!("wasm_trap", watched.press("l\n").pass(1).text());

    watched.press("qhj\n").pass(1);
    assert_eq!((watched.model.tab, watched.model.table.filter.as_str()), (Tab::Processes, "module=counter"));
    insta::assert_snapshot!("wasm_guest", watched.press("j\n").pass(1).text());
}

#[test]
fn a_bucket_is_looked_into_page_by_page() {
    let mut watched = busy(Tab::Store, USUAL, false);
    watched.press("jj\n").pass(2);
    watched.press("j");
    insta::assert_snapshot!("store_keys", watched.text());

    watched.press("n").pass(2);
    assert!(watched.text().contains("page 2"));
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    assert!(watched.text().contains("Enter opens a bucket"));
}

#[test]
fn one_kind_of_memory_is_drawn_large() {
    let mut watched = busy(Tab::Sched, LARGE, false);
    watched.press("jjj").pass(1);
    insta::assert_snapshot!("sched_kind", watched.text());

    watched.press("g");
    assert!(watched.text().contains("│ resident"), "{}", watched.text());
}

#[test]
fn schedulers_of_a_large_machine_are_counted_beyond_the_rows_that_fit() {
    let mut watched = busy(Tab::Sched, USUAL, false);
    let mut schedulers = watched.model.sched.newest.clone().unwrap();
    let one = schedulers.schedulers[0].clone();
    schedulers.schedulers = (0..200).map(|number| rusm_protocol::SchedulerInfo { number, ..one.clone() }).collect();
    (schedulers.total, schedulers.idle) = (256, None);
    watched.feed(Msg::Server(ServerMessage::Schedulers(schedulers)));

    insta::assert_snapshot!("sched_many", watched.text());
}
