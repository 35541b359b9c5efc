//! Reads files of bounded size in bounded time, and writes whole files: a file named by a user may be a device that
//! never ends, or a pipe without a writer, and its disk may be full.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;

/// Time limit for reading a pipe or a device to its end.
const PIPE_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a file of at most `bytes_max` bytes. A pipe or a device is read to its end, for at most 10 s.
///
/// # Errors
/// The operating system's error; [`ErrorKind::InvalidData`] if the file is not UTF-8; [`ErrorKind::FileTooLarge`] if it
/// is longer; [`ErrorKind::TimedOut`] if it is a pipe or a device that does not end in time.
pub fn read_file(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<String> {
    read_file_within(path.as_ref(), bytes_max, PIPE_TIMEOUT)
}

/// Writes a whole file: under another name beside it first, so that a full disk leaves the file as it was. What is not a
/// regular file, such as a pipe, is written in place, and so is a file in a directory that cannot be written.
///
/// # Errors
/// The operating system's error.
pub fn write_file(path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, text) = (path.as_ref(), text.as_ref());
    let mut partial = OsString::from(".");
    let is_other = fs::symlink_metadata(path).is_ok_and(|data| !data.is_file());
    let (Some(name), false) = (path.file_name(), is_other) else { return fs::write(path, text) };
    partial.push(name);
    partial.push(format!(".{}.part", std::process::id()));
    let partial = path.with_file_name(partial);
    // A link of this name must not lead to another file.
    drop(fs::remove_file(&partial));
    let mut file = match File::create_new(&partial) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return fs::write(path, text),
        created => created?,
    };
    let written = file.write_all(text).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        drop(fs::remove_file(&partial));
    }
    written
}

/// Opens a file for reading if it is a regular one.
///
/// # Errors
/// The operating system's error; [`ErrorKind::InvalidInput`] for anything else, such as a pipe, which may never
/// be written to.
pub fn open_regular(path: impl AsRef<Path>) -> io::Result<File> {
    // Look before opening: opening a pipe waits for its writer.
    if !fs::metadata(&path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    // Some files of /proc wait for data as a pipe does.
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Reads a regular file of at most `bytes_max` bytes.
///
/// # Errors
/// As [`open_regular`]; [`ErrorKind::FileTooLarge`] if the file is longer.
pub fn read_regular(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    let mut length = file.metadata()?.len();
    if length <= bytes_max {
        // The file may grow while it is read.
        length = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)? as u64;
    }
    if length > bytes_max {
        let what = format!("it has {length} bytes, which is over the limit of {bytes_max}");
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

fn read_file_within(path: &Path, bytes_max: u64, timeout: Duration) -> io::Result<String> {
    let bytes = if fs::metadata(path)?.is_file() {
        read_bytes(open_regular(path)?, bytes_max)?
    } else {
        read_pipe(path, bytes_max, timeout)?
    };
    if bytes.len() as u64 > bytes_max {
        let what = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

/// Reads at most one byte more than `bytes_max`.
fn read_bytes(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a pipe or a device, such as a terminal, on a thread of its own, which stays blocked after a timeout: without a
/// writer, opening a pipe never returns.
fn read_pipe(path: &Path, bytes_max: u64, timeout: Duration) -> io::Result<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_owned();
    let read = move || sender.send(File::open(&path).and_then(|pipe| read_bytes(pipe, bytes_max)));
    thread::Builder::new().name("rusm-read".to_owned()).spawn(read)?;
    receiver.recv_timeout(timeout).unwrap_or_else(|_| {
        let what = format!("it is a pipe or device that did not end within {} s", timeout.as_secs());
        Err(io::Error::new(ErrorKind::TimedOut, what))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_without_an_end_is_an_error() {
        let error = read_file("/dev/zero", 1000).unwrap_err();

        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::FileTooLarge, "it is longer than 1000 bytes".to_owned())
        );
        assert_eq!(read_file("/dev/null", 0).unwrap(), "");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_a_device_is_written_in_place() {
        let folder = std::env::temp_dir().join(format!("rusm-text-{}.whole", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("report.json");
        let taken = folder.join(format!(".taken.{}.part", std::process::id()));
        fs::create_dir(&taken).unwrap();
        fs::write(folder.join("taken"), "as it was").unwrap();

        write_file(&path, "long text").unwrap();
        write_file(&path, "short").unwrap();
        let refused = write_file(folder.join("taken"), "new");
        let left = fs::read_dir(&folder).unwrap().count();

        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
        assert!(refused.is_err() && left == 3, "{refused:?} {left}");
        assert_eq!(fs::read_to_string(folder.join("taken")).unwrap(), "as it was");
        assert!(write_file("/dev/null", "x").is_ok() && !Path::new("/dev/.null.part").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let path = std::env::temp_dir().join(format!("rusm-text-{}.regular", std::process::id()));
        fs::write(&path, "abc").unwrap();

        let (fits, longer) = (read_regular(&path, 3), read_regular(&path, 2).unwrap_err());
        fs::remove_file(&path).unwrap();

        assert_eq!(fits.unwrap(), b"abc");
        assert_eq!(longer.to_string(), "it has 3 bytes, which is over the limit of 2");
        assert_eq!(read_regular("/dev/zero", 2).unwrap_err().to_string(), "it is not a regular file");
        assert_eq!(open_regular("/").unwrap_err().kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_pipe_is_read_to_its_end_but_not_waited_for_without_end() {
        let path = std::env::temp_dir().join(format!("rusm-text-{}.pipe", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());

        let error = read_file_within(&path, 1000, Duration::ZERO).unwrap_err();
        let writer = path.clone();
        let writer = thread::spawn(move || fs::write(writer, "name = 1"));
        // The first reader is still blocked and may take the text; then the second one waits for a writer in vain.
        writer.join().unwrap().unwrap();
        fs::remove_file(&path).unwrap();

        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "it is a pipe or device that did not end within 0 s");
    }

    #[test]
    fn a_pipe_with_a_writer_is_a_file_like_any_other() {
        let path = std::env::temp_dir().join(format!("rusm-text-{}-written.pipe", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let writer = path.clone();
        let writer = thread::spawn(move || fs::write(writer, "name = 1"));

        let text = read_file(&path, 1000).unwrap();

        writer.join().unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(text, "name = 1");
    }
}
