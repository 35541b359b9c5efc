//! The limit on file sizes of this program (`ulimit -f`), checked before a write.
//!
//! A write beyond the limit makes the system send SIGXFSZ, which ends the program unless the signal is ignored. A
//! library must not change how a program handles signals, so it checks the limit first. The error is the one that the
//! system returns when the signal is ignored.

use std::io::{self, ErrorKind};

use rustix::process::{Resource, getrlimit};

/// Checks that a file of this program may be `len` bytes long.
///
/// The limit can change while the program runs, so it is read each time.
///
/// # Errors
/// [`ErrorKind::FileTooLarge`] if the limit is lower.
pub fn check(len: u64) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(max) if len > max => {
            let what = format!("a file of {len} bytes is over the limit of {max}: raise ulimit -f");
            Err(io::Error::new(ErrorKind::FileTooLarge, what))
        }
        _ => Ok(()),
    }
}
