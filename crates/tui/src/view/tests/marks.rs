//! Screens of lints, events, the palette, filters, waits, traces and the past.

use super::*;

#[test]
fn a_lint_leads_to_its_process() {
    let mut watched = busy(Tab::Events, LARGE, false);

    watched.press("\n").pass(1);

    assert_eq!(watched.model.tab(), Tab::Processes);
    insta::assert_snapshot!("lint_detail", watched.text());
}

#[test]
fn the_row_of_a_process_with_a_lint_is_marked() {
    let mut watched = busy(Tab::Processes, USUAL, false);

    watched.press("Q").pass(3);

    let text = watched.text();
    assert_eq!(text.lines().filter(|line| line.starts_with("│!")).count(), 1, "{text}");
    insta::assert_snapshot!("processes_marked", text);
}

#[test]
fn a_hidden_kind_of_lint_leaves_header_list_and_rows_and_comes_back() {
    let mut watched = busy(Tab::Events, USUAL, false);
    let shows = |watched: &Fixture| [" 1 lint ", "mailbox_growing  "].map(|text| watched.text().contains(text));

    assert_eq!(shows(&watched), [true, true]);
    watched.press("h").pass(9);
    assert_eq!(shows(&watched), [false, false]);
    watched.press("\n");
    assert_eq!(watched.model.tab(), Tab::Events, "there is nothing to go to");
    watched.press("H").pass(9);
    assert_eq!(shows(&watched), [true, true]);
}

#[test]
fn help_on_events_lists_the_keys_of_lints() {
    let text = busy(Tab::Events, LARGE, false).press("?").text();

    for (key, help) in [
        ("n", "select the next lint"),
        ("N", "select the previous lint"),
        ("h", "hide all lints of this kind"),
        ("H", "show the hidden lints"),
    ] {
        assert!(text.contains(&format!("  {key:<14}{help}")), "{key}: {text}");
    }
}

#[test]
fn an_event_is_selected_and_read_in_full() {
    for (size, ascii) in [(USUAL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Events, size, ascii);
        watched.press("jjjjjjj").pass(5);
        let name =
            |what: &str| format!("events_{what}_{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" });

        insta::assert_snapshot!(name("selected"), watched.text());
        insta::assert_snapshot!(name("open"), watched.press("\n").pass(2).text());
        let pid = watched.model.events.opened().map(|(item, _)| item.processes()[0].1.to_owned());
        watched.press("1").pass(1);
        assert_eq!(watched.model.tab(), Tab::Processes);
        assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.clone()), pid);
    }
}

#[test]
fn the_past_is_marked_in_the_header_of_every_view() {
    for &tab in Tab::ALL {
        let mut watched = busy(tab, USUAL, false);

        watched.press("[[").pass(3);

        let text = watched.text();
        assert!(text.lines().nth(1).is_some_and(|line| line.contains("PAST 22:1")), "{tab:?}: {text}");
        assert!(text.contains("(-"), "{text}");
        assert!(!text.contains("waiting for "), "nothing more comes: {text}");
    }
}

#[test]
fn lines_of_the_log_stand_between_the_events_and_are_filtered_by_level_and_text() {
    let mut watched = busy(Tab::Events, USUAL, false);

    insta::assert_snapshot!("events_log", watched.press("L").pass(3).text());
    watched.press("lll").pass(1);
    assert!(watched.text().contains("warn and above") && !watched.text().contains("is paid"));
    watched.press("ll/name~kv").pass(1);
    assert!(!watched.text().contains("ws_session"), "{}", watched.text());
    insta::assert_snapshot!("events_filter_refused", watched.press(" and knd=crash").pass(1).text());
    watched.press("\n");
    assert!(watched.model.events.filter.field.is_some(), "a filter with an error stays in the field");
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    assert!(watched.text().contains("ws_session"));
}

#[test]
fn the_palette_finds_lines_by_a_few_letters_and_runs_them() {
    let mut watched = busy(Tab::Node, USUAL, false);
    insta::assert_snapshot!("palette", watched.press(":").text());
    insta::assert_snapshot!("palette_found", watched.press("vto").text());
    watched.press("\n");
    assert_eq!(watched.model.tab(), Tab::Topics);

    watched.press(":filter mem>\n");
    assert!(watched.text().contains("a value is missing after mem>"), "{}", watched.text());
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    watched.press(":sort -age\n").pass(2);
    assert_eq!(watched.model.tab(), Tab::Processes);
    assert!(watched.text().contains("by age"), "{}", watched.text());
    watched.press(":goto <0.5>\n").pass(2);
    assert_eq!(watched.model.table.selected(), Some("<0.5.1>"));
    watched.press(":goto <0.17.1>\n").pass(1);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.as_str()), Some("<0.17.1>"));
    insta::assert_snapshot!("palette_ascii", busy(Tab::Node, USUAL, true).press(":run").text());
}

#[test]
fn help_has_the_keys_of_the_view_the_commands_and_the_terms() {
    let mut watched = busy(Tab::Topics, LARGE, false);
    let top = watched.press("?").text();
    assert!(top.contains("help: Topics"), "{top}");
    let commands = watched.press(&"j".repeat(41)).text();
    let terms = watched.press(&"j".repeat(12)).text();

    assert!(commands.contains("whose mailbox grows") && commands.contains("commands, after :"), "{commands}");
    assert!(commands.contains("goto PID or NAME") && terms.contains("dead letter"), "{terms}");
}

#[test]
fn a_filter_is_completed_and_its_error_marked() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    insta::assert_snapshot!("filter_completed", watched.press("/m\t\t").pass(1).text());
    watched.press(">10k or st\t=w\t").pass(1);
    assert!(watched.text().contains("mailq>10k or state=waiting"), "{}", watched.text());
}

#[test]
fn who_waits_for_whom_is_listed_over_any_view_and_leads_to_the_process() {
    for (size, ascii) in [(SMALL, false), (USUAL, false), (USUAL, true), (LARGE, false)] {
        let mut watched = busy(Tab::Tree, size, ascii);
        watched.press("W").pass(1);
        watched.press("j");
        let text = watched.text();
        assert!(!ascii || text.is_ascii(), "{text}");
        insta::assert_snapshot!(
            format!("waits_{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" }),
            text
        );
    }

    let mut watched = busy(Tab::Tree, USUAL, false);
    watched.press("W").pass(1);
    watched.press("jj\n");
    assert_eq!(watched.model.tab, Tab::Processes);
    assert_eq!(watched.model.detail.as_ref().map(|pane| pane.pid.as_str()), Some("<0.52.1>"));
    assert_eq!(watched.model.overlay, None);
}

#[test]
fn a_trace_runs_for_ten_seconds_and_is_filtered() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("j\nt").pass(3);
    insta::assert_snapshot!("trace_80x24", watched.text());
    watched.press("/send\n").pass(1);
    insta::assert_snapshot!("trace_filtered", watched.text());
    watched.pass(9);
    assert!(watched.text().contains("over: its time has passed"), "{}", watched.text());
    watched.press("t").pass(1);
    assert!(watched.text().contains("runs for "), "{}", watched.text());
    watched.feed(Msg::Key(Key::plain(KeyCode::Esc)));
    assert_eq!(watched.model.overlay, None);

    for (size, ascii) in [(SMALL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Processes, size, ascii);
        watched.press("j\nt").pass(3);
        let text = watched.text();
        assert!(!ascii || text.is_ascii(), "{text}");
        insta::assert_snapshot!(
            format!("trace_{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" }),
            text
        );
    }
}

#[test]
fn an_instant_of_the_past_and_what_changed_in_the_minute_before() {
    for (size, ascii) in [(USUAL, false), (LARGE, false), (USUAL, true)] {
        let mut watched = busy(Tab::Node, size, ascii);
        let name = format!("{}x{}{}", size.width, size.height, if ascii { "_ascii" } else { "" });
        watched.pass(60);

        insta::assert_snapshot!(format!("past_{name}"), watched.press("{]]").pass(2).text());
        let changes = watched.press("D").pass(1).text();
        assert!(!ascii || changes.is_ascii(), "{changes}");
        insta::assert_snapshot!(format!("changes_{name}"), changes);
    }
}

#[test]
fn columns_are_chosen_on_the_screen() {
    let mut watched = busy(Tab::Processes, USUAL, false);
    watched.press("cjj ");
    let open = watched.text();
    watched.press("jJ").pass(1);
    let ascii = {
        let mut watched = busy(Tab::Processes, USUAL, true);
        watched.press("c").text()
    };

    insta::assert_snapshot!("columns_of_processes", open);
    assert!(ascii.is_ascii(), "{ascii}");
    let heading = watched.press("\n").pass(1).text().lines().find(|line| line.contains("PID")).unwrap().to_owned();
    let words: Vec<&str> = heading.split_whitespace().filter(|word| *word != "│").collect();
    assert_eq!(words[..4], ["PID", "NAME", "REDS/s", "▼CPU%"], "STATE is hidden, CPU% has moved: {heading}");
}

#[test]
fn every_view_at_usual_and_at_wide_sizes() {
    for &tab in Tab::ALL {
        let mut watched = busy(tab, LARGE, false);
        for size in [Size::new(97, 31), Size::new(200, 50)] {
            watched.feed(Msg::Resize(size));
            let text = watched.pass(1).text();
            insta::assert_snapshot!(format!("{}_{}x{}", tab.id(), size.width, size.height), text);
        }
    }
}
