//! A folder of static files.
//!
//! ```text
//!   path ──▶ decoded, checked ──▶ opened beneath the folder ──▶ 304 | 206 one range | 200
//! ```
//!
//! A file that is in memory is opened and read by the scheduler's own thread, any other by a thread that may wait.

mod open;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::stream;
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode, Uri};
use parking_lot::Mutex;
use rusm_runtime::{Context, embed};
use rustix::io::Errno;

use crate::body::Body;
use crate::handler::{Handler, ResponseFuture};
use crate::request::{IntoResponse, Request, Response, plain};
use open::{Folder, Found, Opened};

/// Files that clients are slow to take leave a half of the descriptors to connections and to the node.
const RESERVED_PARTS: u64 = 2;
/// Bytes of a file that are read at once.
const CHUNK_BYTES: u64 = 64 * 1024;
/// Minimum time between two log lines about files that cannot be read: any client may cause them.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Serves the files of a folder; a [`Handler`] for a route such as `GET /assets/*`.
///
/// It answers `GET` and `HEAD`, with an entity tag, the date of the last change, and single ranges of bytes. A folder is
/// answered by its `index.html`. Hidden files, such as `.git`, are not served.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Files, Router};
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let router = Router::new().route("GET /assets/*", Files::open(folder)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Files(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: Folder,
    /// Instant of the last log line about a file that cannot be read.
    last_logged: Mutex<Option<Instant>>,
}

impl Files {
    /// Opens a folder.
    ///
    /// # Errors
    /// The operating system's error if the folder cannot be opened.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = Folder::open(folder.as_ref())?;
        Ok(Self(Arc::new(Shared { folder, last_logged: Mutex::new(None) })))
    }

    async fn answer(self, request: Request) -> Response {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        let path = request.param("rest").unwrap_or_else(|| request.path().trim_start_matches('/'));
        let Some(path) = decoded(path) else { return not_found() };
        match self.find(path, &request.context).await {
            Ok(Found::File(opened)) => {
                let has_range = request.method() == Method::GET;
                let answer = opened.answer(request.headers(), has_range, Arc::clone(&request.context)).await;
                answer.unwrap_or_else(|error| self.refusal(&error))
            }
            Ok(Found::Folder) => redirect(request.uri()),
            Err(error) => self.refusal(&error),
        }
    }

    /// Opens the file of a path: at once if it is in memory, and otherwise on a thread that may wait.
    async fn find(&self, path: String, context: &Context) -> io::Result<Found> {
        if let Some(found) = self.0.folder.find_cached(&path) {
            return Ok(found);
        }
        let shared = Arc::clone(&self.0);
        context.spawn_blocking(move || shared.folder.find(&path)).await
    }

    /// Returns the response for a file that was not read.
    fn refusal(&self, error: &io::Error) -> Response {
        let status = status_of(error);
        if status == StatusCode::NOT_FOUND {
            tracing::debug!(%error, "a file was not served");
            return not_found();
        }
        let mut last = self.0.last_logged.lock();
        if last.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            *last = Some(Instant::now());
            drop(last);
            tracing::warn!(%error, status = status.as_u16(), "cannot read a file");
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let mut response = plain(status, "too busy to read a file");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        }
        plain(status, "the file cannot be read")
    }
}

/// Returns the status for a file that was not read: clients must not know it, the system has no room to open it
/// now, or its disk fails.
fn status_of(error: &io::Error) -> StatusCode {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => StatusCode::SERVICE_UNAVAILABLE,
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::ACCESS
            | Errno::NAMETOOLONG
            | Errno::INVAL
            // A socket, or a device without a driver.
            | Errno::NXIO
            | Errno::NODEV,
        ) => StatusCode::NOT_FOUND,
        None if error.kind() == io::ErrorKind::InvalidInput => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl Handler for Files {
    fn handle(&self, request: Request) -> ResponseFuture {
        Box::pin(self.clone().answer(request))
    }
}

fn not_found() -> Response {
    plain(StatusCode::NOT_FOUND, "not found")
}

fn redirect(target: &Uri) -> Response {
    let query = target.query().map_or_else(String::new, |query| format!("?{query}"));
    // Two slashes at the start would name another host.
    let location = HeaderValue::from_str(&format!("/{}/{query}", target.path().trim_matches('/')));
    let mut response = StatusCode::MOVED_PERMANENTLY.into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Decodes a path; `None` if no file has it: it is not UTF-8, a part of it starts with a dot, or it is another spelling of
/// a path, with an empty part or an escaped slash, which the route of that path would not see.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                Some((digit()? * 16 + digit()?) as u8).filter(|byte| *byte != b'/')?
            }
            byte => byte,
        });
    }
    let path = String::from_utf8(bytes).ok()?;
    let (folders, name) = path.rsplit_once('/').map_or((None, &*path), |(folders, name)| (Some(folders), name));
    let is_folder = |part: &str| !part.is_empty() && !part.starts_with('.');
    let is_served = !path.contains('\0')
        && !name.starts_with('.')
        && folders.is_none_or(|folders| folders.split('/').all(is_folder));
    is_served.then_some(path)
}

/// Returns true if one of the tags in the lines of a header fits; `None` without the header.
fn any(asked: &HeaderMap, header: &HeaderName, fits: impl Fn(&str) -> bool) -> Option<bool> {
    asked.contains_key(header).then(|| asked.get_all(header).iter().any(|tags| lists(tags, &fits)))
}

/// Returns true if one of the tags fits. A quoted tag may contain commas.
fn lists(tags: &HeaderValue, fits: impl Fn(&str) -> bool) -> bool {
    let mut is_quoted = false;
    let is_between = |character| {
        is_quoted ^= character == '"';
        character == ',' && !is_quoted
    };
    tags.to_str().is_ok_and(|tags| tags.split(is_between).any(|tag| fits(tag.trim())))
}

impl Opened {
    /// Answers a request with these headers. A range counts only for GET (RFC 9110, 14.2).
    async fn answer(self, asked: &HeaderMap, has_range: bool, context: Arc<Context>) -> io::Result<Response> {
        let mut response = Response::default();
        self.describe(response.headers_mut());
        if self.is_other_version(asked) {
            return Ok(plain(StatusCode::PRECONDITION_FAILED, "the file has changed"));
        }
        if self.is_unchanged(asked) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response.headers_mut().remove(CONTENT_TYPE);
            return Ok(response);
        }
        let (start, end) = match if has_range { self.range(asked) } else { Ok(None) } {
            Ok(None) => (0, self.bytes),
            Ok(Some((start, end))) => {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                set(response.headers_mut(), CONTENT_RANGE, &format!("bytes {start}-{}/{}", end - 1, self.bytes));
                (start, end)
            }
            Err(()) => {
                *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
                set(response.headers_mut(), CONTENT_RANGE, &format!("bytes */{}", self.bytes));
                return Ok(response);
            }
        };
        response.headers_mut().insert(CONTENT_LENGTH, (end - start).into());
        *response.body_mut() = if end - start <= CHUNK_BYTES {
            match self.read_cached(start, end) {
                Some(bytes) => bytes.into(),
                None => context.spawn_blocking(move || self.read(start, end)).await?.into(),
            }
        } else {
            // Its descriptor stays open until the client has taken it.
            if !embed::descriptors::has_room(RESERVED_PARTS) {
                return Err(Errno::MFILE.into());
            }
            self.stream(start, end, context)
        };
        Ok(response)
    }

    fn describe(&self, headers: &mut HeaderMap) {
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        set(headers, ETAG, &self.etag);
        if let Some(modified) = self.modified {
            set(headers, LAST_MODIFIED, &httpdate::fmt_http_date(modified));
        }
    }

    /// Returns true if the client wants another version than this one. The tag decides; the date only without one.
    fn is_other_version(&self, asked: &HeaderMap) -> bool {
        match any(asked, &IF_MATCH, |tag| tag == "*" || tag == self.etag) {
            Some(is_this) => !is_this,
            None => self.is_older_than(asked, &IF_UNMODIFIED_SINCE).is_some_and(|is_older| !is_older),
        }
    }

    /// Returns true if the client has this version already. The tag decides; the date only without one.
    fn is_unchanged(&self, asked: &HeaderMap) -> bool {
        match any(asked, &IF_NONE_MATCH, |tag| tag == "*" || tag.trim_start_matches("W/") == self.etag) {
            Some(is_this) => is_this,
            None => self.is_older_than(asked, &IF_MODIFIED_SINCE) == Some(true),
        }
    }

    /// Returns true if the file was last changed at the date of a header or before; `None` without a date.
    fn is_older_than(&self, asked: &HeaderMap, header: &HeaderName) -> Option<bool> {
        let since = httpdate::parse_http_date(asked.get(header)?.to_str().ok()?).ok()?;
        // A date of HTTP has whole seconds.
        let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|age| age.as_secs());
        Some(seconds(self.modified?) <= seconds(since))
    }

    /// Returns the range of bytes that is asked for; `Err` if it is beyond the end of the file. Several ranges, and ranges of
    /// another version, are answered with the whole file.
    fn range(&self, asked: &HeaderMap) -> Result<Option<(u64, u64)>, ()> {
        let is_of_this = asked.get(IF_RANGE).is_none_or(|tag| tag.as_bytes() == self.etag.as_bytes());
        let range = asked.get(RANGE).filter(|_| is_of_this).and_then(|range| range.to_str().ok());
        let Some((first, last)) = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) else {
            return Ok(None);
        };
        // The parser would accept a plus sign.
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
        let (start, end) = match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => (first, self.bytes.min(last.saturating_add(1))),
            (Some(first), None) if last.is_empty() => (first, self.bytes),
            (None, Some(count)) if first.is_empty() => (self.bytes.saturating_sub(count), self.bytes),
            _ => return Ok(None),
        };
        if start < end { Ok(Some((start, end))) } else { Err(()) }
    }

    fn stream(self, start: u64, end: u64, context: Arc<Context>) -> Body {
        let file = Arc::new(self);
        Body::stream(stream::try_unfold((start, context), move |(at, context)| {
            let file = Arc::clone(&file);
            async move {
                if at >= end {
                    return Ok::<_, io::Error>(None);
                }
                let until = end.min(at + CHUNK_BYTES);
                let bytes = context.spawn_blocking(move || file.read(at, until)).await?;
                Ok(Some((bytes, (until, context))))
            }
        }))
        .of_chunks(CHUNK_BYTES as usize)
    }
}

fn set(headers: &mut HeaderMap, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_does_not_exist_for_clients_is_not_found() {
        let status = |errno: Errno| status_of(&errno.into()).as_u16();

        let missing = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV, Errno::ACCESS, Errno::NAMETOOLONG];
        assert_eq!(missing.map(status), [404; 6]);
        assert_eq!([Errno::INVAL, Errno::NXIO].map(status), [404; 2]);
        assert_eq!([Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(status), [503; 3]);
        assert_eq!([Errno::IO, Errno::STALE].map(status), [500; 2]);
        // The file has become shorter while it was read.
        assert_eq!(status_of(&io::ErrorKind::UnexpectedEof.into()), 500);
    }

    #[test]
    fn a_path_with_a_hidden_or_a_broken_part_is_no_file() {
        for path in ["..", "a/../b", "%2e%2e/x", ".git/config", "a/.hidden", "%", "%f", "%zz", "a%00", "%ff"] {
            assert_eq!(decoded(path), None, "{path}");
        }
        for path in ["/a", "a//b", "//", "a%2fb", "%2Fa"] {
            assert_eq!(decoded(path), None, "{path} is another spelling");
        }
        assert_eq!(decoded("a%20b/c.txt").as_deref(), Some("a b/c.txt"));
        assert_eq!((decoded("").as_deref(), decoded("a/").as_deref()), (Some(""), Some("a/")));
    }
}
