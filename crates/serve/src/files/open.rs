//! A folder of files, and the files that are opened beneath it.
//!
//! A system call on a file may wait for its disk, so it needs a thread that may wait. The kernel can also be asked for
//! what is in memory only: then the thread of the caller reads the file itself, and never waits.
//!
//! Invariant: no file outside the folder is ever opened. The kernel resolves each path beneath the folder, so neither
//! `..` nor a symbolic link nor a mount of `/proc` leads out of it. A pipe or a device is not opened either: that would
//! have an effect on the program at its other end.

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

/// The file that answers for its folder.
const INDEX: &str = "index.html";

/// File systems of this machine, by their numbers in statfs(2): ext4, XFS, Btrfs, F2FS, tmpfs and overlayfs. To open a file
/// of another one may mean to ask a server for it, although its name is in memory.
const LOCAL: [u32; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x794C_7630];

/// Content types by the ending of a file's name; others are `application/octet-stream`.
const CONTENT_TYPES: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// A folder of files to serve.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    is_local: bool,
}

/// Target of a path.
pub(super) enum Found {
    File(Opened),
    /// A folder, by a path without a slash at its end.
    Folder,
}

/// An opened file with the properties that its response names.
pub(super) struct Opened {
    pub(super) bytes: u64,
    pub(super) modified: Option<SystemTime>,
    pub(super) etag: String,
    pub(super) content_type: &'static str,
    file: File,
}

impl Folder {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, folder, flags, Mode::empty())?;
        let is_local = fstatfs(&fd).is_ok_and(|system| LOCAL.contains(&(system.f_type as u32)));
        Ok(Self { fd, is_local })
    }

    /// Opens the file of a path. It may wait for the disk.
    pub(super) fn find(&self, path: &str) -> io::Result<Found> {
        self.find_with(path, ResolveFlags::empty())
    }

    /// Opens the file of a path without waiting. `None` if the file does not exist, or would have to be waited for.
    pub(super) fn find_cached(&self, path: &str) -> Option<Found> {
        if !self.is_local {
            return None;
        }
        self.find_with(path, ResolveFlags::CACHED | ResolveFlags::NO_XDEV).ok()
    }

    fn find_with(&self, path: &str, resolve: ResolveFlags) -> io::Result<Found> {
        let is_folder = path.is_empty() || path.ends_with('/');
        let index = is_folder.then(|| format!("{path}{INDEX}"));
        let name = index.as_deref().unwrap_or(path);
        let resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let open = |flags| openat2(&self.fd, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        let kind = FileType::from_raw_mode(fstat(open(OFlags::PATH)?)?.st_mode);
        if kind.is_dir() && !is_folder {
            return Ok(Found::Folder);
        }
        // O_NONBLOCK keeps a pipe that has replaced the file from blocking, and does not affect files.
        let file = kind.is_file().then(|| open(OFlags::RDONLY | OFlags::NONBLOCK)).transpose()?.map(File::from);
        let metadata = file.as_ref().map(File::metadata).transpose()?;
        let (Some(file), Some(metadata)) = (file, metadata.filter(Metadata::is_file)) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        };
        let modified = metadata.modified().ok().filter(has_http_date);
        // Before 1970, the number is negative.
        let modified_nanos = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
        let known = CONTENT_TYPES.binary_search_by_key(&ending.as_str(), |(known, _)| known);
        Ok(Found::File(Opened {
            bytes: metadata.len(),
            etag: format!("\"{modified_nanos:x}-{:x}\"", metadata.len()),
            content_type: known.map_or("application/octet-stream", |index| CONTENT_TYPES[index].1),
            modified,
            file,
        }))
    }
}

impl Opened {
    /// Reads a part of the file. It is an error if the file has become shorter: its length was declared.
    pub(super) fn read(&self, start: u64, end: u64) -> io::Result<Bytes> {
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }

    /// Reads a part of the file without waiting; `None` if not all of it is in memory.
    pub(super) fn read_cached(&self, start: u64, end: u64) -> Option<Bytes> {
        let mut bytes = vec![0; (end - start) as usize];
        let count = preadv2(&self.file, &mut [IoSliceMut::new(&mut bytes)], start, ReadWriteFlags::NOWAIT);
        (count == Ok(bytes.len())).then(|| bytes.into())
    }
}

/// Returns true for times that a date of HTTP can have: from 1970 up to the year 9999.
fn has_http_date(time: &SystemTime) -> bool {
    const YEAR_10000_SECS: u64 = 253_402_300_800;
    time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|age| age.as_secs() < YEAR_10000_SECS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;
    use std::time::Duration;

    use rustix::fs::mknodat;

    use super::*;

    #[test]
    fn a_file_from_before_1970_or_after_9999_has_no_date() {
        let (epoch, second) = (SystemTime::UNIX_EPOCH, Duration::from_secs(1));

        assert!(has_http_date(&epoch) && !has_http_date(&(epoch - second)));
        let last = epoch + Duration::from_secs(253_402_300_799);
        assert!(has_http_date(&last) && !has_http_date(&(last + second)));
        assert!(httpdate::fmt_http_date(last).contains("9999"));
    }

    #[test]
    fn a_pipe_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let to_write =
            std::fs::OpenOptions::new().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).clone();
        let files = Folder::open(folder.path()).unwrap();

        let outcome = std::thread::scope(|scope| {
            let finder =
                scope.spawn(|| (0..10_000).all(|_| files.find("pipe").is_err() && files.find_cached("pipe").is_none()));
            // A writer can open a pipe if a reader has.
            let mut is_opened = false;
            while !finder.is_finished() {
                is_opened |= to_write.open(&pipe).is_ok();
            }
            (finder.join().unwrap(), is_opened)
        });

        assert_eq!(outcome, (true, false));
    }

    #[test]
    fn the_content_types_are_sorted() {
        assert!(CONTENT_TYPES.is_sorted_by_key(|(ending, _)| ending));
    }

    #[test]
    fn what_is_in_memory_is_read_without_waiting_and_a_link_does_not_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "one two").unwrap();
        std::os::unix::fs::symlink("/proc/self/status", folder.path().join("out.txt")).unwrap();
        let files = Folder::open(folder.path()).unwrap();

        let found = files.find_cached("a.txt");

        // Other file systems, and kernels before 5.12, cannot do this.
        assert!(found.is_some() || !files.is_local || !has_cached_lookups(folder.path()));
        if let Some(Found::File(opened)) = found {
            assert_eq!(opened.bytes, 7);
            assert!(opened.read_cached(4, 7).is_none_or(|bytes| bytes == "two"));
            // The file is shorter than that.
            assert_eq!(opened.read_cached(4, 9), None);
        }
        assert!(files.find_cached("out.txt").is_none() && files.find("out.txt").is_err());
        assert!(files.find_cached("none.txt").is_none());
    }

    fn has_cached_lookups(folder: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::CACHED).is_ok()
    }
}
