//! Runs a program and reads what it prints: a bounded amount, and in bounded time if asked. A program named by a user may be
//! any, such as one that prints without end.

use std::io::{self, ErrorKind, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Maximum length of each of the two outputs, in bytes: more than any report.
const OUTPUT_MAX_BYTES: u64 = 64 << 20;
/// Interval between two looks at the outputs.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time that is as good as unlimited.
const UNLIMITED: Duration = Duration::from_hours(24 * 365);

/// Runs a program without input to its end.
///
/// # Errors
/// The system's error; [`ErrorKind::FileTooLarge`] if it prints too much, and [`ErrorKind::TimedOut`] if it has not closed
/// its outputs `within` this time. It is killed then.
pub(super) fn read(command: &mut Command, within: Option<Duration>) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let outputs = outputs(&mut child, within.unwrap_or(UNLIMITED));
    if outputs.is_err() {
        // It may have ended just now.
        drop(child.kill());
    }
    let status = child.wait()?;
    let [stdout, stderr] = outputs?;
    Ok(Output { status, stdout, stderr })
}

fn outputs(child: &mut Child, within: Duration) -> io::Result<[Vec<u8>; 2]> {
    let until = Instant::now() + within;
    let stdout = read_on_thread(child.stdout.take())?;
    let stderr = read_on_thread(child.stderr.take())?;
    // A program that floods one output may keep the other open.
    let mut read = [None, None];
    while let [None, _] | [_, None] = read {
        for (output, read) in [&stdout, &stderr].into_iter().zip(&mut read) {
            if read.is_none()
                && let Ok(bytes) = output.recv_timeout(LOOK_EVERY)
            {
                *read = Some(bytes?);
            }
        }
        if Instant::now() >= until {
            let what = format!("it has not ended within {} s", within.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, what));
        }
    }
    Ok(read.map(Option::unwrap_or_default))
}

/// Reads an output to its end, on a thread of its own.
fn read_on_thread(output: Option<impl Read + Send + 'static>) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = channel();
    let read = move || {
        let mut bytes = Vec::new();
        let read = match output {
            Some(output) => output.take(OUTPUT_MAX_BYTES + 1).read_to_end(&mut bytes),
            None => Ok(0),
        };
        let whole = read.and_then(|length| match length as u64 {
            0..=OUTPUT_MAX_BYTES => Ok(bytes),
            _ => Err(io::Error::new(ErrorKind::FileTooLarge, format!("it prints more than {OUTPUT_MAX_BYTES} bytes"))),
        });
        sender.send(whole)
    };
    Builder::new().name("rusm-output".to_owned()).spawn(read)?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]);
        shell
    }

    #[test]
    fn both_outputs_and_the_exit_code_are_read() {
        let output = read(&mut shell("echo out; echo err >&2; exit 3"), None).unwrap();

        assert_eq!((&*output.stdout, &*output.stderr, output.status.code()), (&b"out\n"[..], &b"err\n"[..], Some(3)));
    }

    #[test]
    fn a_program_that_prints_or_runs_without_end_is_killed() {
        let prints = read(&mut shell("yes"), None).unwrap_err();
        let runs = read(&mut shell("exec sleep 1000"), Some(Duration::from_millis(50))).unwrap_err();

        assert_eq!((prints.kind(), runs.kind()), (ErrorKind::FileTooLarge, ErrorKind::TimedOut));
    }
}
