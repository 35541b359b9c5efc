//! Allocations of the steps of a topic, in a program with a counting allocator.

use std::time::Duration;

use rusm_bench::{Cell, HeadlessOptions, Request, SteadyRule, run_headless};

#[global_allocator]
static ALLOCATOR: rusm_bench::CountingAllocator = rusm_bench::CountingAllocator;

#[test]
fn the_steps_of_a_topic_say_what_they_allocate() {
    let warm_up = SteadyRule { min: Duration::from_millis(100), max: Duration::from_millis(100) };
    let request = Request { scenario: "topic-micro".to_owned(), ..Request::default() };
    let mut duration = Duration::from_secs(1);
    let counted = loop {
        let options = HeadlessOptions { duration, warm_up, ..HeadlessOptions::new(request.clone()) };
        let report = run_headless(&options).expect("the request is valid");
        let column = report.tables[0].columns.iter().position(|column| column.name == "allocations");
        let column = column.expect("the table has the column");
        let all: Vec<_> = report.tables[0].rows.iter().map(|row| row[column].clone()).collect();
        if all.iter().all(|cell| *cell != Cell::Missing) || duration > Duration::from_mins(2) {
            break all;
        }
        duration *= 4;
    };

    let count = |row: usize| if let Cell::Number(count) = counted[row] { count } else { f64::NAN };
    // This step copies its payload: at most one allocation for the bytes and one for shared ownership.
    assert!((1.0..=2.1).contains(&count(0)), "{counted:?}");
    // Steps of a lease (single, in batches and repeated): at most rare allocations for many positions at once.
    assert!((9..counted.len()).all(|row| count(row) < 0.1), "{counted:?}");
}
