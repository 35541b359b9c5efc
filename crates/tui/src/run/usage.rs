//! Resources that the observer itself uses: CPU, bytes from the nodes, bytes to the terminal.

use std::time::Duration;

use tokio::time::Instant;

use crate::model::message::OwnCost;

/// Measures the resource usage of this observer, once per second.
pub(super) struct UsageMeter {
    read_at: Instant,
    cpu: Duration,
    received_bytes: u64,
    drawn_bytes: u64,
}

impl UsageMeter {
    pub(super) fn new() -> Self {
        Self { read_at: Instant::now(), cpu: thread_cpu(), received_bytes: 0, drawn_bytes: 0 }
    }

    /// Returns the usage since the last call that returned any; `None` within a second of it.
    pub(super) fn read(&mut self, received_bytes: u64, drawn_bytes: u64) -> Option<OwnCost> {
        let elapsed = self.read_at.elapsed();
        if elapsed < Duration::from_secs(1) {
            return None;
        }
        let cpu = thread_cpu();
        let per_sec = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
        let own = OwnCost {
            cpu_pct: cpu.saturating_sub(self.cpu).as_secs_f64() / elapsed.as_secs_f64() * 100.0,
            received_bytes_per_sec: per_sec(received_bytes, self.received_bytes),
            drawn_bytes_per_sec: per_sec(drawn_bytes, self.drawn_bytes),
        };
        *self = Self { read_at: Instant::now(), cpu, received_bytes, drawn_bytes };
        Some(own)
    }
}

/// Returns the CPU time of this thread, which runs the socket, the model and the drawing.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}
