//! Reads text files of bounded size: a file named by a user may be a device that never ends.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Reads a file of at most `bytes_max` bytes.
///
/// # Errors
/// The operating system's error; [`ErrorKind::InvalidData`] if the file is not UTF-8; [`ErrorKind::FileTooLarge`] if it
/// is longer.
pub fn read_file(path: impl AsRef<Path>, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let what = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error.utf8_error()))
}

#[cfg(test)]
mod tests {
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
}
