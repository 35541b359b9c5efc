//! Runs one scenario and prints its report: `cargo run --release --example headless -- spawn-storm max 5 spawners=2`.
//!
//! The arguments are the scenario, the profile, seconds, and parameters; `rate=N` selects an open loop.

#![expect(clippy::print_stdout, reason = "the example prints its result")]

use std::error::Error;
use std::time::Duration;

use rusm_bench::{HeadlessOptions, Request, list_text, parse_assignment, run_headless};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(scenario) = arguments.next() else {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        print!("{}", list_text(cores));
        return Ok(());
    };
    let mut request = Request { scenario, profile: arguments.next(), ..Request::default() };
    let seconds: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    for argument in arguments {
        match parse_assignment(&argument)? {
            (name, value) if name == "rate" => request.rate_per_sec = Some(value.parse()?),
            (name, value) => drop(request.params.insert(name, value)),
        }
    }
    let options = HeadlessOptions { duration: Duration::from_secs_f64(seconds), ..HeadlessOptions::new(request) };
    print!("{}", run_headless(&options)?);
    Ok(())
}
