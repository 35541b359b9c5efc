//! Counter scenarios: the seed's output lines, every store, and no lost counts.

use std::time::Duration;

use rusm_bench::{Cell, HeadlessOptions, Report, Request, Table, run_headless};
use rusm_runtime::Config;

use crate::WARM_UP;

const VARIANTS: [&str; 6] = ["vsa", "atomic", "batch", "crdt", "token", "leaky"];

/// Runs a scenario for `length`, or longer until its table has `rows` rows: a busy machine may not complete a round in
/// a short time.
fn run(scenario: &str, length: Duration, params: &[(&str, &str)], rows: usize) -> Report {
    let mut length = length;
    loop {
        let report = run_once(scenario, length, params);
        let seen = report.tables.first().map_or(0, |table| table.rows.len());
        if report.ops_total > 0 && seen >= rows || length >= Duration::from_mins(1) {
            assert!(report.ops_total > 0, "{report}");
            return report;
        }
        length *= 4;
    }
}

fn run_once(scenario: &str, length: Duration, params: &[(&str, &str)]) -> Report {
    let pairs = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let request = Request { scenario: scenario.to_owned(), params: pairs.collect(), ..Request::default() };
    let options = HeadlessOptions {
        duration: length,
        warm_up: WARM_UP,
        runtime: Config { schedulers: 2, ..Config::default() },
        ..HeadlessOptions::new(request)
    };
    let report = run_headless(&options).expect("the request is valid and there is room");
    assert_eq!((&report.error, report.errors_total), (&None, 0), "{report}");
    report
}

fn number(table: &Table, row: usize, column: &str) -> f64 {
    let column = table.columns.iter().position(|known| known.name == column).expect("the column exists");
    match &table.rows[row][column] {
        Cell::Number(number) => *number,
        other => panic!("{column} is {other:?}"),
    }
}

/// Returns the fields of the seed's summary line.
fn summary(report: &Report) -> Vec<(String, String)> {
    let line = report.lines.iter().find_map(|line| line.strip_prefix("Summary: ")).expect("a summary line exists");
    let pair = |field: &str| field.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    line.split(' ').map(|field| pair(field).expect("name=value")).collect()
}

#[test]
fn every_variant_prints_the_seeds_lines_and_counts_its_writes_as_the_seed_does() {
    for variant in VARIANTS {
        let params = [("ops", "20000"), ("keys", "3"), ("goroutines", "5"), ("churn", "30")];

        let report = run(&format!("counter-{variant}"), Duration::from_millis(300), &params, 1);

        let fields = summary(&report);
        let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let expected = "variant ops duration_ns goroutines keys churn_pct p50_ns p95_ns p99_ns logical_writes db_calls write_delay_ns";
        assert_eq!(names.join(" "), expected);
        let field = |name: &str| &fields.iter().find(|(known, _)| known == name).expect("it is a field").1;
        assert_eq!((field("variant").as_str(), field("ops").as_str(), field("keys").as_str()), (variant, "20000", "3"));
        let of = |name: &str| field(name).parse::<u64>().expect("it is a number");
        match variant {
            "vsa" => assert!(of("logical_writes") < 2_000 && of("db_calls") <= of("logical_writes"), "{report}"),
            "atomic" => assert_eq!((of("logical_writes"), of("db_calls")), (20_000, 20_000)),
            "batch" => assert!(of("logical_writes") == 20_000 && of("db_calls") < 2_000, "{report}"),
            "crdt" => assert!(of("logical_writes") > 20_000 && of("db_calls") > 20_000, "{report}"),
            _ => assert_eq!((of("logical_writes"), of("db_calls")), (20_000, 40_000)),
        }
        let heads = ["Variant: ", "Duration: ", "Latency p50: ", "Writes: logical=", "Memory: RSS=", "Contention ("];
        assert!(heads.iter().zip(&report.lines).all(|(head, line)| line.starts_with(head)), "{report}");
        assert!(report.to_string().lines().any(|line| line.starts_with("Summary: variant=")), "{report}");
    }
}

#[test]
fn a_delay_is_true_and_those_who_do_not_wait_for_the_store_do_not_notice() {
    for variant in VARIANTS {
        let params = [("duration", "100ms"), ("keys", "16"), ("write_delay", "2ms")];

        let report = run(&format!("counter-{variant}"), Duration::from_millis(300), &params, 1);

        let table = &report.tables[0];
        assert!(number(table, 0, "delay achieved") >= 2e6, "{report}");
        let p50 = number(table, 0, "p50");
        assert_eq!(p50 >= 2e6, !matches!(variant, "vsa" | "batch"), "{report}");
    }
}

#[test]
fn presets_and_ages_bound_what_is_not_stored() {
    let report = run("counter-vsa", Duration::from_millis(300), &[("preset", "fresh"), ("duration", "50ms")], 1);
    assert_eq!((report.params["keys"].as_str(), report.params["threshold"].as_str()), ("128", "128"));

    // The threshold is never reached: rows are stored only because of their age, plus one per round by the final flush.
    let ages =
        [("threshold", "1000000000"), ("commit_oldest_max", "1ms"), ("commit_interval", "1ms"), ("duration", "500ms")];
    let report = run("counter-vsa", Duration::from_secs(1), &ages, 1);
    assert!(number(&report.tables[0], 0, "rows/s") > 4.0, "{report}");
}

#[test]
fn the_six_variants_count_on_disk_with_every_durability() {
    let params = [("duration", "20ms"), ("keys", "8"), ("goroutines", "8")];

    let report = run("counter-redb", Duration::from_secs(6), &params, 1);

    let table = &report.tables[0];
    // On a slow disk, some cases may not get a turn.
    assert!(!table.rows.is_empty() && table.rows.len() <= 18, "{report}");
    assert_eq!(report.lines.len(), table.rows.len() + 1);
    for row in 0..table.rows.len() {
        assert!(number(table, row, "ops/s") > 0.0, "{report}");
    }
}

#[test]
fn the_sweep_has_a_row_for_each_cell_in_table_and_lines() {
    let params = [("duration", "2ms"), ("keys", "4"), ("goroutines", "4")];

    let report = run("counter-sweep", Duration::from_secs(3), &params, 11);

    let table = &report.tables[0];
    assert!(table.rows.len() > 10, "{report}");
    assert_eq!(report.lines.len(), table.rows.len() + 1);
    let columns = report.lines[0].split('\t').count();
    assert!(report.lines.iter().all(|line| line.split('\t').count() == columns), "{report}");
}

#[test]
fn every_operation_has_its_row() {
    let report = run("counter-micro", Duration::from_secs(2), &[("threads", "1"), ("turn", "1ms")], 17);

    assert_eq!(report.tables[0].rows.len(), 17, "{report}");
    assert!((0..17).all(|row| number(&report.tables[0], row, "cpu/op") > 0.0), "{report}");
}
