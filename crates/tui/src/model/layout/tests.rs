//! Tests of the panels at every size.

use super::*;

#[test]
fn no_panel_leaves_the_screen_at_any_size() {
    for width in 0..200 {
        for height in 0..100 {
            let size = Size::new(width, height);
            let (n, b) = (node(size), bench(size, usize::from(height)));
            let (p, t) = ([processes(size, false), processes(size, true)], tree(size, true));

            let all = [n.chart, n.schedulers, n.latency, n.memory, n.table, n.figures, b.menu, b.card, b.headline];
            let more = [b.chart, b.latency, b.figures, b.runs, p[0].table, p[1].table, p[1].detail, t.table, t.detail];
            let (guests, stores) = (wasm(size), store::panels(size, 3, width % 2 == 0));
            let time = time(size);
            let guests = [guests.engine, guests.counts, guests.modules, guests.traps];
            let more = more.into_iter().chain(guests).chain([time.tickers, time.streams]);
            let more = more.chain([stores.store, stores.faults, stores.buckets, stores.keys, stores.tables]);
            let more = more.chain([events(size, height / 3, true).events]);
            let more = more.chain([topics(size).topics, topics(size).receivers, cpu(size).chart, cpu(size).groups]);
            let sched = sched(size, usize::from(width));
            let more = more.chain([sched.schedulers, sched.memory, sched.chart]);
            let serve = [serve::panels(size, height.into(), false), serve::panels(size, 3, true)];
            let more = more.chain(serve.into_iter().flat_map(|of| [of.totals, of.limits, of.routes, of.requests]));
            let cluster = [cluster::panels(size, height.into()), cluster::panels(size, 3)];
            let more = more.chain(cluster.into_iter().flat_map(|of| [of.own, of.nodes, of.node, of.names]));
            for cells in all.into_iter().chain(more).filter(|cells| cells.height > 0 && cells.width > 0) {
                assert!(cells.x + cells.width <= width, "{cells:?} at {size:?}");
                assert!(cells.y + cells.height <= height, "{cells:?} at {size:?}");
            }
        }
    }
}

#[test]
fn the_tabs_fit_beside_the_state_and_the_current_one_is_whole() {
    for width in SIZE_MIN.width..300 {
        for &current in Tab::ALL {
            let tabs: Vec<_> = tabs(Size::new(width, 24), current, Tab::ALL).collect();
            let (_, title, cells) = tabs[current.index()];
            let end = tabs.last().map_or(0, |(.., cells)| cells.x + cells.width);

            assert!([current.title(), current.short()].contains(&title), "{title} at {width}");
            assert!(usize::from(cells.width) >= title.len() + 3, "{title} at {width}");
            assert!(end + STATE_WIDTH_MIN <= width, "{end} of {width}");
            assert!(tabs.is_sorted_by(|(.., left), (.., right)| left.x + left.width <= right.x));
        }
    }
}

#[test]
fn the_smallest_usual_terminal_shows_three_processes_under_the_bars() {
    let layout = node(Size::new(80, 24));

    // The heading and three processes.
    assert_eq!(layout.table.inner().height, 4);
    assert_eq!(layout.schedulers.inner().height, 7);
}
