//! Cost of observing a node, measured on the node itself.
//!
//! ```text
//!   observer_overhead            all three parts
//!   observer_overhead paired     ABBA windows with a console without clients, and without one:
//!                                CPU per operation, as a ratio with its 95 % interval
//!   observer_overhead page       a million parked processes under a spawn storm, one observer on the process table:
//!                                CPU of the console's thread, age of the displayed order, bytes of a page
//!   observer_overhead recorder   a million parked processes without an observer: CPU and memory of the flight recorder
//!   --blocks N                   ABBA blocks of a load: 0.44 s each in `paired` (default 320), four windows with their
//!                                warm-up in `recorder` (default 3)
//!   --seconds N                  length of a view in `page`, and of a window in `recorder` (default 15)
//!   --processes N                parked processes (default 1,000,000)
//! ```
//!
//! Run it alone on the machine and in release: `cargo run --release -p rusm-benches --bin
//! observer_overhead`. The exit code is 5 if a limit is exceeded.

#![expect(clippy::print_stdout, reason = "prints its figures")]

mod load;
mod page;
mod paired;
mod recorder;
mod thread_cpu;

use std::process::ExitCode;

/// Command-line arguments.
struct Asked {
    chapter: Option<String>,
    blocks: usize,
    seconds: u64,
    processes: u64,
    recorder_blocks: usize,
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let asked = asked(std::env::args().skip(1))?;
    let wants = |chapter: &str| asked.chapter.as_deref().is_none_or(|only| only == chapter);
    let mut met = true;
    if wants("paired") {
        met &= paired::run(asked.blocks)?;
    }
    if wants("page") {
        met &= page::run(asked.processes, asked.seconds)?;
    }
    if wants("recorder") {
        met &= recorder::run(asked.processes, asked.seconds, asked.recorder_blocks)?;
    }
    println!("{}", if met { "every bar is met" } else { "A BAR IS MISSED" });
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(5) })
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, Box<dyn std::error::Error>> {
    let mut asked = Asked { chapter: None, blocks: 320, seconds: 15, processes: 1_000_000, recorder_blocks: 3 };
    while let Some(word) = words.next() {
        let mut number =
            || words.next().ok_or_else(|| format!("{word} wants a number"))?.parse::<u64>().map_err(|e| e.to_string());
        match word.as_str() {
            "paired" | "page" | "recorder" => asked.chapter = Some(word),
            "--blocks" => {
                asked.blocks = number()? as usize;
                asked.recorder_blocks = asked.blocks;
            }
            "--seconds" => asked.seconds = number()?,
            "--processes" => asked.processes = number()?,
            _ => {
                return Err(format!(
                    "unknown argument {word:?}: use paired, page, recorder, --blocks, --seconds or --processes"
                )
                .into());
            }
        }
    }
    Ok(asked)
}
