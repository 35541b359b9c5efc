//! WASI for guests that import it: arguments, clocks, random numbers, and standard output that goes to the log line by
//! line.
//!
//! The profile grants folders and variables of the environment. Sockets need the capability `network`, random bytes the
//! capability `random`.

pub(crate) mod descriptors;
mod guarded;
#[cfg(feature = "store")]
pub(crate) mod keyvalue;
pub(crate) mod name_lookups;
#[cfg(feature = "store")]
pub(crate) mod open_bucket;
mod opening;
pub(crate) mod outcome;
mod resources;
pub(crate) mod values;

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWrite;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};
use wasmtime_wasi::sockets::SocketAddrUse;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder, WasiCtxView, WasiView};

use super::bindings::rusm::runtime::log::Level;
use super::guest::capability::Capability;
use super::guest::guest_info::GuestInfo;
use super::guest::state::GuestState;
use super::guest::state::resources::ResourceMemory;
#[cfg(feature = "http")]
use super::guest::state::wasi::OutputLines;
use super::guest::state::wasi::{Preview2, Wasi};
use super::host::{RANDOM_BYTES_MAX, write_line};
use super::module::Code;
use name_lookups::GuestLookups;
use resources::RESOURCES_MAX;
use rusm_runtime::Pid;

pub(super) use guarded::{link_components, link_concurrent, link_modules};

/// Number of bytes that a guest may write before others run: a write is not interrupted, and each byte may be a line.
const WRITE_BYTES: usize = 16 * 1024;
/// Length of the longest line, in bytes. A longer one becomes several.
const LINE_BYTES: usize = 8 * 1024;

impl Wasi {
    pub(crate) fn new(state: &GuestState) -> Self {
        let module = &state.info.module;
        let lines = [Level::Info, Level::Warn].map(|level| {
            LogStream(Arc::new(Mutex::new(LineBuffer {
                pid: state.ctx.pid(),
                info: Arc::clone(&state.info),
                level,
                lines: Lines::default(),
                unyielded: 0,
            })))
        });
        let mut builder = WasiCtxBuilder::new();
        builder.arg(&*module.name).args(&state.args).stdout(lines[0].clone()).stderr(lines[1].clone());
        builder.max_random_size(RANDOM_BYTES_MAX.into());
        for (name, value) in state.info.grant.environment() {
            builder.env(name, value);
        }
        for folder in state.info.grant.folders() {
            let permissions = if folder.is_writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            if let Err(error) = builder.preopened_dir(&folder.path, &folder.guest_path, permissions) {
                // It was there when the node started. The guest does not find it.
                let text = format!("cannot open a folder of a guest, {}: {error}", folder.path.display());
                write_line(&state.info, state.ctx.pid(), Level::Warn, &text);
            }
        }
        if state.info.grant.has(Capability::Network) {
            // All addresses, but a listener of WASI 0.3 accepts no connection that would take the node's last descriptors.
            builder.socket_addr_check(|_, used| {
                Box::pin(ready(!matches!(used, SocketAddrUse::TcpAccept) || descriptors::has_room()))
            });
            builder.allow_tcp(true).allow_udp(true).allow_ip_name_lookup(true);
        } else {
            builder.allow_tcp(false).allow_udp(false);
        }
        match module.code {
            Code::Raw { .. } | Code::Wasip1(_) => Self::Preview1(builder.build_p1()),
            _ => {
                let mut table = ResourceTable::new();
                table.set_max_capacity(RESOURCES_MAX);
                Self::Preview2(Preview2 {
                    ctx: builder.build(),
                    table,
                    memory: ResourceMemory::default(),
                    lookups: GuestLookups::default(),
                    #[cfg(feature = "http")]
                    http: super::guest::state::http::HttpState::new(
                        Arc::clone(&state.info.node.lookups),
                        state.info.node.shared_memory.clone(),
                    ),
                    #[cfg(feature = "http")]
                    lines: lines.map(|stream| stream.0 as Arc<dyn OutputLines>),
                })
            }
        }
    }
}

impl GuestState {
    /// Returns the WASI state of a core module; created with the process if the module imports any of WASI.
    pub(crate) fn wasi_p1(&mut self) -> &mut WasiP1Ctx {
        match self.wasi.as_deref_mut() {
            Some(Wasi::Preview1(wasi)) => wasi,
            _ => unreachable!("a module that imports WASI gets it at its start"),
        }
    }
}

impl GuestState {
    fn lookups(&self) -> &GuestLookups {
        match self.wasi.as_deref() {
            Some(Wasi::Preview2(Preview2 { lookups, .. })) => lookups,
            _ => unreachable!("a component that imports WASI gets it at its start"),
        }
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.count_call();
        match self.wasi.as_deref_mut() {
            Some(Wasi::Preview2(Preview2 { ctx, table, .. })) => WasiCtxView { ctx, table },
            _ => unreachable!("a component that imports WASI gets it at its start"),
        }
    }
}

/// Standard output or error of a guest, written to the log line by line.
#[derive(Clone)]
struct LogStream(Arc<Mutex<LineBuffer>>);

struct LineBuffer {
    pid: Pid,
    info: Arc<GuestInfo>,
    level: Level,
    lines: Lines,
    /// Number of bytes written since others ran.
    unyielded: usize,
}

impl LineBuffer {
    fn write(&mut self, bytes: &[u8]) {
        self.unyielded += bytes.len();
        self.lines.write(bytes, |line| write_line(&self.info, self.pid, self.level, line));
    }

    /// Writes the begun line.
    fn flush(&mut self) {
        self.lines.flush(|line| write_line(&self.info, self.pid, self.level, line));
    }
}

impl Drop for LineBuffer {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Splits output into lines of at most [`LINE_BYTES`].
#[derive(Default)]
struct Lines {
    /// Beginning of the next line.
    begun: Vec<u8>,
}

impl Lines {
    /// Calls `line` with each line that ends, or is as long as a line may be.
    fn write(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        for mut piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            while !piece.is_empty() {
                if self.begun.len() >= LINE_BYTES && piece != b"\n" {
                    self.split(&mut line);
                }
                // One byte more for the end of the line.
                let room = LINE_BYTES.saturating_sub(self.begun.len()).max(1);
                let (now, rest) = piece.split_at(piece.len().min(room));
                self.begun.extend_from_slice(now);
                piece = rest;
            }
            if self.begun.ends_with(b"\n") {
                self.flush(&mut line);
            }
        }
    }

    /// Ends a line that goes on. A character that is only partly there begins the next line.
    fn split(&mut self, line: impl FnMut(&str)) {
        let last = self.begun.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
        let is_part = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
        let rest = self.begun.split_off(self.begun.len() - if is_part { last.len() } else { 0 });
        self.flush(line);
        self.begun = rest;
    }

    fn flush(&mut self, mut line: impl FnMut(&str)) {
        if !self.begun.is_empty() {
            line(&String::from_utf8_lossy(&self.begun));
            self.begun.clear();
        }
    }
}

impl LogStream {
    /// Returns true, once, if others must run before the next write.
    fn must_yield(&self) -> bool {
        let mut lines = self.0.lock();
        let must_yield = lines.unyielded >= WRITE_BYTES;
        if must_yield {
            lines.unyielded = 0;
        }
        must_yield
    }

    fn put(&self, bytes: &[u8]) {
        self.0.lock().write(bytes);
    }
}

#[cfg(feature = "http")]
impl OutputLines for Mutex<LineBuffer> {
    fn flush_line(&self) {
        self.lock().flush();
    }

    fn belong_to(&self, pid: Pid, info: &Arc<GuestInfo>) {
        let mut lines = self.lock();
        (lines.pid, lines.info) = (pid, Arc::clone(info));
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

impl Pollable for LogStream {
    fn ready<'a, 'b>(&'a mut self) -> Pin<Box<dyn Future<Output = ()> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        if self.must_yield() { Box::pin(tokio::task::yield_now()) } else { Box::pin(std::future::ready(())) }
    }
}

impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.put(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES)
    }
}

impl AsyncWrite for LogStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        if self.must_yield() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES)];
        self.put(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(writes: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for bytes in writes {
            lines.write(bytes, |line| seen.push(line.to_owned()));
        }
        lines.flush(|line| seen.push(line.to_owned()));
        seen
    }

    #[test]
    fn a_long_line_becomes_several_and_nothing_of_it_is_lost() {
        let text = format!("INFO: {}", "0123456789".repeat(2_000));
        let wide = "€".repeat(LINE_BYTES);
        for writes in [vec![text.as_bytes()], text.as_bytes().chunks(4_096).collect(), vec![wide.as_bytes()]] {
            let seen = lines(&writes);
            assert_eq!(seen.concat().as_bytes(), writes.concat());
            assert!(seen.iter().all(|line| line.len() <= LINE_BYTES), "{:?}", seen.iter().map(String::len));
        }
    }

    #[test]
    fn a_line_of_the_greatest_length_has_no_empty_one_after_it() {
        let text = "x".repeat(LINE_BYTES);
        assert_eq!(lines(&[format!("{text}\ny\n").as_bytes()]), [format!("{text}\n"), "y\n".to_owned()]);
        assert_eq!(lines(&[text.as_bytes(), b"\n"]), [format!("{text}\n")]);
        assert_eq!(lines(&[b"\n", b"\xff\n"]), ["\n", "\u{fffd}\n"]);
    }
}
