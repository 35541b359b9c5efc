//! The part of a backtrace that is the code of a process: between the panic machinery and the scheduler.
//!
//! ```text
//!    0: std::backtrace::Backtrace::force_capture        the panic machinery
//!    …
//!   10: shop::till::pay                                 ┐ the code of the process
//!              at src/till.rs:7:5                       ┘
//!   11: rusm_runtime::process::task::VtableOf<F>::poll  the scheduler
//!    …
//! ```

/// Parts of the names of functions that handle a panic.
const MACHINERY: [&str; 4] = ["core::panicking::", "std::panicking::", "rust_begin_unwind", "__rustc::"];
/// Parts of the names of functions that poll a process.
const SCHEDULER: [&str; 2] = ["rusm_runtime::process::task::", "rusm_runtime::scheduler::"];

/// A frame of a backtrace in text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The name of its function.
    pub(crate) function: &'a str,
    /// Its lines: the number and the function, then the place in the source code if it is known.
    pub(crate) text: &'a str,
}

/// Returns the frames of the code of a process, innermost first.
pub(crate) fn frames_of_process(backtrace: &str) -> Vec<Frame<'_>> {
    let frames = frames(backtrace);
    let is_in = |frame: &Frame<'_>, names: &[&str]| names.iter().any(|name| frame.function.contains(name));
    // The scheduler catches panics with functions of the same module as those that handle them.
    let end = frames.iter().position(|frame| is_in(frame, &SCHEDULER)).unwrap_or(frames.len());
    let first = frames[..end].iter().rposition(|frame| is_in(frame, &MACHINERY)).map_or(0, |at| at + 1);
    frames[first..end].to_vec()
}

fn frames(backtrace: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    for line in backtrace.split_inclusive('\n') {
        if let Some((number, function)) = line.trim().split_once(": ")
            && number.parse::<u32>().is_ok()
        {
            frames.push((at, function));
        }
        at += line.len();
    }
    let ends = frames.iter().skip(1).map(|(at, _)| *at).chain([backtrace.len()]);
    frames.iter().zip(ends).map(|((at, function), end)| Frame { function, text: &backtrace[*at..end] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_is_cut_to_the_code_of_the_process() {
        let machinery = "   0: rusm_runtime::runtime::panic_hook::keep_backtrace\n   1: std::panicking::panic_with_hook\n             at /x/y.rs:1:2\n   2: core::panicking::panic_fmt\n";
        let process = "   3: kv::write\n             at src/kv.rs:7:5\n   4: kv::run\n";
        let scheduler = "   5: rusm_runtime::process::task::VtableOf<F>::poll\n   6: std::panicking::catch_unwind::do_call\n   7: std::panic::catch_unwind\n   8: main\n";
        let text = [machinery, process, scheduler].concat();

        let found = frames_of_process(&text);

        let expected = [
            Frame { function: "kv::write", text: "   3: kv::write\n             at src/kv.rs:7:5\n" },
            Frame { function: "kv::run", text: "   4: kv::run\n" },
        ];
        assert_eq!(found, expected);
        assert!(frames_of_process("").is_empty());
    }
}
