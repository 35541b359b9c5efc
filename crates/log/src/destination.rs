//! Destination of the log: stderr, or a file that is rotated when it reaches a maximum size.
//!
//! ```text
//!   node.log ──max_bytes──▶ node.log.1 ──▶ … ──▶ node.log.KEEP ──▶ removed
//! ```

use std::ffi::OsString;
use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File size at which the log is rotated, and the number of rotated files to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Size in bytes at which the current file is replaced by an empty one.
    pub max_bytes: u64,
    /// Number of rotated files to keep, named `.1` (the newest) and so on. 0 keeps none.
    pub keep: u32,
}

/// Stream or file that lines are written to.
#[derive(Debug)]
pub(crate) struct Destination {
    output: Output,
    /// True if the last write ended in the middle of a line.
    is_torn: bool,
    /// True if the file has reached its size, and could not be rotated before the last write.
    is_too_long: bool,
}

#[derive(Debug)]
enum Output {
    Stderr,
    File { path: PathBuf, file: File, bytes: u64, rotation: Option<Rotation> },
}

impl Destination {
    pub(crate) const fn stderr() -> Self {
        Self { output: Output::Stderr, is_torn: false, is_too_long: false }
    }

    pub(crate) fn file(path: PathBuf, rotation: Option<Rotation>) -> io::Result<Self> {
        let (file, bytes) = open(&path)?;
        let is_torn = ends_in_a_cut_line(&path);
        // Resolve symbolic links: the link stays in place, and rotation renames the file that it points to.
        let path = if rotation.is_some() { path.canonicalize()? } else { path };
        if rotation.is_some() && !file.metadata()?.is_file() {
            let what = "it is not a regular file, and only regular files can be rotated: leave out log.max_bytes";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        Ok(Self { output: Output::File { path, file, bytes, rotation }, is_torn, is_too_long: false })
    }

    /// Opens the file under its name again: another program may have renamed it. Returns false without a file. On an error,
    /// the old file stays in use.
    pub(crate) fn reopen(&mut self) -> io::Result<bool> {
        let Output::File { path, file, bytes, .. } = &mut self.output else { return Ok(false) };
        (*file, *bytes) = open(path)?;
        self.is_torn = ends_in_a_cut_line(path);
        Ok(true)
    }

    /// Writes complete lines. Returns the number of lines that were written completely, and the first error.
    pub(crate) fn write(&mut self, lines: &[u8]) -> (u64, io::Result<()>) {
        // If rotation fails, the file keeps growing: losing lines would be worse than exceeding the size.
        let rotated = self.rotate(lines.len() as u64);
        self.is_too_long = rotated.is_err();
        // Terminate a partially written line, so that the next line does not continue it.
        if self.is_torn {
            let (_, outcome) = write_all(self.fd(), b"\n");
            if outcome.is_err() {
                return (0, outcome);
            }
            self.is_torn = false;
        }
        let (written, outcome) = write_all(self.fd(), lines);
        let written = &lines[..written];
        if let Output::File { bytes, .. } = &mut self.output {
            *bytes += written.len() as u64;
        }
        self.is_torn = written.last().is_some_and(|byte| *byte != b'\n');
        (count_lines(written), outcome.and(rotated))
    }

    /// Returns true if the file grows beyond its size, because it could not be rotated.
    pub(crate) const fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.output {
            // Do not use `std::io::stderr`: other threads would block on its lock while this thread waits for a reader.
            Output::Stderr => rustix::stdio::stderr(),
            Output::File { file, .. } => file.as_fd(),
        }
    }

    fn rotate(&mut self, more: u64) -> io::Result<()> {
        let Output::File { path, file, bytes, rotation: Some(rotation) } = &mut self.output else { return Ok(()) };
        if *bytes == 0 || *bytes + more <= rotation.max_bytes {
            return Ok(());
        }
        if rotation.keep == 0 {
            file.set_len(0)?;
            *bytes = 0;
            return Ok(());
        }
        // Opened before anything is moved: without a new file, the old one keeps growing.
        let next = path.with_added_extension("new");
        let opened = open(&next)?;
        if opened.1 > 0 {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "a file has the name of the next log file"));
        }
        if let Err(error) = shift(path, rotation.keep).and_then(|()| move_if_there(&next, path)) {
            drop(remove_file(&next));
            return Err(error);
        }
        (*file, *bytes) = opened;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    // `NONBLOCK` makes opening a pipe without a reader fail instead of block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().create(true).append(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    if is_store(path) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a store: choose another file"));
    }
    Ok((file, about.len()))
}

/// Returns true if the last line of a file is incomplete: another program wrote it, or the disk was full.
fn ends_in_a_cut_line(path: &Path) -> bool {
    let last = |file: File| {
        let before = file.metadata()?.len().saturating_sub(1);
        let mut byte = [b'\n'];
        file.read_at(&mut byte, before).map(|_| byte != *b"\n")
    };
    path.is_file() && File::open(path).and_then(last).unwrap_or(false)
}

/// Returns true for the file of a store, which lines of a log would destroy.
fn is_store(path: &Path) -> bool {
    const START: [u8; 4] = *b"redb";
    let mut start = [0; START.len()];
    path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == START)
}

/// Makes the file the first of those that are kept. Others move only up to the first number that is free: after a failure,
/// the next attempt goes on there, and removes no further file.
fn shift(path: &Path, keep: u32) -> io::Result<()> {
    let free = (1..keep).find(|number| !numbered(path, *number).exists()).unwrap_or(keep);
    for number in (0..free).rev() {
        let from = if number == 0 { path.to_owned() } else { numbered(path, number) };
        move_if_there(&from, &numbered(path, number + 1))?;
    }
    Ok(())
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// Renames a file. A store that has one of the names stays where it is.
fn move_if_there(from: &Path, to: &Path) -> io::Result<()> {
    if is_store(from) || is_store(to) {
        return Err(io::Error::new(ErrorKind::AlreadyExists, "a store has the name of a kept log file"));
    }
    match rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the number of complete lines.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).count() as u64
}

/// Writes all bytes. Returns the number of bytes written, and the error that stopped the write.
pub(crate) fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(fd, &bytes[written..]) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                // Another program has switched the shared stderr to non-blocking mode.
                let mut poll_fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::OUT)];
                if let Err(error) = rustix::event::poll(&mut poll_fds, None) {
                    return (written, Err(error.into()));
                }
            }
            Err(error) => return (written, Err(error.into())),
        }
    }
    (written, Ok(()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_at_its_size_becomes_the_first_of_those_that_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        fs::write(&path, "old\n").unwrap();
        let mut log = Destination::file(path.clone(), Some(Rotation { max_bytes: 8, keep: 2 })).unwrap();

        for line in ["one\n", "two\n", "three\n", "a line that is longer than a file\n", "four\n"] {
            assert!(log.write(line.as_bytes()).1.is_ok());
        }

        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!(read("node.log"), "four\n");
        assert_eq!(read("node.log.1"), "a line that is longer than a file\n");
        assert_eq!(read("node.log.2"), "two\nthree\n".get(4..).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_file_that_was_renamed_is_created_again_when_it_is_reopened() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("node.log"), directory.path().join("node.log.old"));
        let mut log = Destination::file(path.clone(), None).unwrap();
        assert!(log.write(b"one\n").1.is_ok());
        fs::rename(&path, &moved).unwrap();
        assert!(log.write(b"two\n").1.is_ok());

        log.reopen().unwrap();
        assert!(log.write(b"three\n").1.is_ok());

        assert_eq!(fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(log.reopen().is_err());
        assert!(log.write(b"four\n").1.is_ok(), "the old file stays in use");
        assert!(Destination::stderr().reopen().is_ok());
    }

    #[test]
    fn a_line_that_was_cut_is_ended_before_the_next_one_also_after_it_was_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        fs::write(&path, "one\ntw").unwrap();

        let mut log = Destination::file(path.clone(), None).unwrap();
        assert!(log.write(b"three\n").1.is_ok());
        // As a full disk does.
        fs::write(&path, "one\ntw\nthr").unwrap();
        assert!(log.reopen().unwrap());
        assert!(log.write(b"four\n").1.is_ok());
        assert!(log.reopen().unwrap() && log.write(b"five\n").1.is_ok());

        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntw\nthr\nfour\nfive\n");
    }

    #[test]
    fn a_file_without_earlier_ones_starts_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let mut log = Destination::file(path.clone(), Some(Rotation { max_bytes: 8, keep: 0 })).unwrap();

        for line in ["one\n", "two\n", "three\n"] {
            assert!(log.write(line.as_bytes()).1.is_ok());
        }

        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
    }

    #[test]
    fn a_store_with_the_name_of_a_kept_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (path, store) = (directory.path().join("node.log"), directory.path().join("node.log.2"));
        fs::write(&store, "redb and data").unwrap();
        let mut log = Destination::file(path.clone(), Some(Rotation { max_bytes: 8, keep: 2 })).unwrap();

        let lines = ["one\n", "two\n", "three\n", "four\n", "five\n"];
        let outcomes = lines.map(|line| log.write(line.as_bytes()).1.is_ok());

        assert_eq!(outcomes, [true, true, true, false, false]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\nfour\nfive\n");
        assert_eq!(fs::read_to_string(path.with_added_extension("1")).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(&store).unwrap(), "redb and data");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_grows_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        fs::create_dir_all(directory.path().join("node.log.1/full")).unwrap();
        let mut log = Destination::file(path.clone(), Some(Rotation { max_bytes: 8, keep: 1 })).unwrap();

        assert!(log.write(b"first\n").1.is_ok());
        let (written, outcome) = log.write(b"second\n");

        assert!(written == 1 && outcome.is_err() && log.is_too_long());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        fs::remove_dir_all(directory.path().join("node.log.1")).unwrap();
        assert!(log.write(b"third\n").1.is_ok() && !log.is_too_long());
    }

    #[test]
    fn a_rotation_that_cannot_open_the_next_file_keeps_all_that_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.log");
        let mut log = Destination::file(path.clone(), Some(Rotation { max_bytes: 8, keep: 3 })).unwrap();
        let mut write = |line: &str| log.write(line.as_bytes()).1.is_ok();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        for line in ["first\n", "second\n", "third\n", "fourth\n"] {
            assert!(write(line));
        }
        // It cannot be opened for writing, as with too many open files.
        fs::create_dir(directory.path().join("node.log.new")).unwrap();

        let outcomes = ["fifth\n", "sixth\n", "seventh\n"].map(&mut write);

        assert_eq!(outcomes, [false; 3]);
        assert_eq!(read("node.log"), "fourth\nfifth\nsixth\nseventh\n");
        assert_eq!(["node.log.1", "node.log.2", "node.log.3"].map(read), ["third\n", "second\n", "first\n"]);
        fs::remove_dir(directory.path().join("node.log.new")).unwrap();
        assert!(write("eighth\n"));
        assert_eq!((read("node.log"), read("node.log.3")), ("eighth\n".to_owned(), "second\n".to_owned()));
    }

    #[test]
    fn a_store_is_no_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.redb");
        fs::write(&path, b"redb\x1a\n and more").unwrap();

        let error = Destination::file(path.clone(), None).unwrap_err();

        assert_eq!(error.to_string(), "it is a store: choose another file");
        assert_eq!(fs::read(&path).unwrap(), b"redb\x1a\n and more");
    }

    #[test]
    fn the_file_behind_a_link_is_rotated_and_what_is_no_file_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let (link, path) = (directory.path().join("link"), directory.path().join("node.log"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let rotation = Some(Rotation { max_bytes: 8, keep: 1 });
        let mut log = Destination::file(link.clone(), rotation).unwrap();

        for line in ["first\n", "second\n"] {
            assert!(log.write(line.as_bytes()).1.is_ok());
        }

        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "second\n");
        assert_eq!(Destination::file("/dev/null".into(), rotation).unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_full_disk_drops_lines_and_is_used_again() {
        let mut log = Destination::file("/dev/full".into(), None).unwrap();

        let (written, outcome) = log.write(b"one\ntwo\n");

        assert_eq!((written, outcome.unwrap_err().kind()), (0, ErrorKind::StorageFull));
    }
}
