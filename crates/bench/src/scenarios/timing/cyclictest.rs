//! Runs `cyclictest` from Debian's rt-tests next to a scenario's own ticks, if it is installed.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

use crate::measure::histogram::NanosHistogram;

/// Note for a table without a row for `cyclictest`.
const NOT_INSTALLED: &str =
    "cyclictest is not installed, so the table has no row for it: run apt-get install rt-tests, then run again";

/// Runs `cyclictest` for `loops` wake-ups at an interval, with the given `SCHED_FIFO` priority if any; returns the
/// wake-up delays.
///
/// # Errors
/// A note for the table if the program is not installed, cannot be started, or prints no figures.
pub(crate) fn run(interval_us: u64, loops: u64, priority: Option<u8>) -> Result<NanosHistogram, String> {
    let policy = match priority {
        Some(priority) => vec!["--policy=fifo".to_owned(), format!("-p{priority}")],
        None => vec!["--policy=other".to_owned()],
    };
    let output = Command::new("cyclictest")
        .args(["-t1", "-d0", "-N", "-v"])
        .args([format!("-i{interval_us}"), format!("-l{loops}")])
        .args(policy)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => NOT_INSTALLED.to_owned(),
            _ => error.to_string(),
        })?;
    let histogram = parse(&String::from_utf8_lossy(&output.stdout));
    if histogram.len() == 0 {
        return Err(format!("cyclictest ended with {} and printed no figures", output.status));
    }
    Ok(histogram)
}

/// Parses lines of the form `thread: number: nanoseconds` and skips all others.
fn parse(text: &str) -> NanosHistogram {
    let mut histogram = NanosHistogram::default();
    for line in text.lines() {
        let fields: Vec<Option<u64>> = line.split(':').map(|field| field.trim().parse().ok()).collect();
        if let [Some(_), Some(_), Some(ns)] = fields[..] {
            histogram.add(ns);
        }
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read_and_all_others_left_out() {
        let text = "Max CPUs = 2\n# /dev/cpu_dma_latency set to 0us\nThread 0 Interval: 100\n       0:       0:    1000\n       0:       1:   3000\n";

        let histogram = parse(text);

        assert_eq!((histogram.len(), histogram.percentile(50.0)), (2, Some(1000.0)));
    }
}
