//! Output of the commands that measure: exit codes, reports and progress.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rusm_bench::{Document, Outcome, Verdict};
use rusm_text::{escape, escape_json_into};

use crate::cli::bench::OutputFlags;
use crate::failure::{Failure, system};

/// Returns the exit code of a verdict: a failed run, or figures that must not be compared, must not look like a
/// success.
pub(crate) const fn code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Failed => 5,
        verdict if verdict.is_conclusive() => 0,
        _ => 6,
    }
}

/// Returns the exit code of a comparison.
pub(crate) const fn outcome_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Better | Outcome::Same => 0,
        Outcome::Worse => 5,
        Outcome::Inconclusive => 6,
    }
}

/// Prints lines of text to stdout, each of them escaped; a closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut shown = String::with_capacity(text.len() + 1);
    for line in text.trim_end().lines() {
        shown.push_str(&escape(line));
        shown.push('\n');
    }
    print_all(&shown)
}

/// Prints JSON to stdout, escaped as JSON.
pub(crate) fn print_json(json: &str) -> Result<(), Failure> {
    let mut shown = String::with_capacity(json.len() + 1);
    for line in json.trim_end().lines() {
        escape_json_into(&mut shown, line);
        shown.push('\n');
    }
    print_all(&shown)
}

/// Prints JSON if it is given, and text otherwise.
pub(crate) fn print_either(json: Option<String>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    json.map_or_else(|| print(&text()), |json| print_json(&json))
}

/// True while the report is printed: the measurement is over, so a signal only ends the wait for the reader of stdout.
static IS_PRINTING: AtomicBool = AtomicBool::new(false);

/// Size of the parts in which a report is printed: that of a page.
const PART_BYTES: usize = 4096;

/// Number of writes to stdout and stderr that have begun or ended: odd while one waits for its reader.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Returns true if the command is printing, and may be waiting for the reader of stdout.
pub(crate) fn is_printing() -> bool {
    IS_PRINTING.load(Relaxed)
}

/// Returns a number that stays the same and odd while one write waits for its reader.
pub(crate) fn writes() -> u64 {
    WRITES.load(Relaxed)
}

fn counted<T>(write: impl FnOnce() -> T) -> T {
    WRITES.fetch_add(1, Relaxed);
    let written = write();
    WRITES.fetch_add(1, Relaxed);
    written
}

fn print_all(text: &str) -> Result<(), Failure> {
    IS_PRINTING.store(true, Relaxed);
    let printed = write_out(text);
    IS_PRINTING.store(false, Relaxed);
    printed
}

fn write_out(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    // In parts: the number of writes grows as long as the reader is only slow.
    let mut parts = text.as_bytes().chunks(PART_BYTES);
    match parts.try_for_each(|part| counted(|| out.write_all(part).and_then(|()| out.flush()))) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(system("write to stdout")(error)),
        _ => Ok(()),
    }
}

/// Reports progress on a terminal; if stderr is a pipe, only the report is written.
pub(crate) fn progress(line: &str) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        // Ignore the error: a terminal that is closed cannot show the message.
        drop(counted(|| writeln!(err, "{}", escape(line))));
    }
}

/// Reads a report from a file.
pub(crate) fn read_report(path: &Path) -> Result<Document, Failure> {
    Document::read(&read(path)?, &path.display().to_string()).map_err(|error| Failure::Usage(error.to_string()))
}

/// Maximum size of a report or a recipe.
const FILE_MAX_BYTES: u64 = 256 << 20;

/// Reads a file named on the command line.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    rusm_text::read_file(path, FILE_MAX_BYTES)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))
}

/// Writes a file named on the command line.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    rusm_text::write_file(path, text).map_err(system(format!("write {}", path.display())))
}

/// Prints a report and writes it to the output file, if one is set. If one of them fails, the other is still done.
pub(crate) fn publish(document: &Document, output: &OutputFlags) -> Result<(), Failure> {
    publish_as(&document.to_json(), &document.to_string(), output)
}

/// Prints and writes a result that is not a report.
pub(crate) fn publish_as(json: &str, text: &str, output: &OutputFlags) -> Result<(), Failure> {
    let printed = print_either(output.json.then(|| json.to_owned()), || text.to_owned());
    let written = output.output.as_ref().map_or(Ok(()), |path| write(path, &format!("{json}\n")));
    printed.and(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_whether_to_trust_the_figures() {
        let verdicts = [
            Verdict::Steady,
            Verdict::Saturated,
            Verdict::Failed,
            Verdict::NotSteady,
            Verdict::Disturbed,
            Verdict::Unpaced,
        ]
        .map(code);

        assert_eq!(verdicts, [0, 0, 5, 6, 6, 6]);
    }
}
