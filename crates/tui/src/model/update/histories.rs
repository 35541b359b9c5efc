//! Adds live frames to the histories.

use rusm_protocol::Frame;

use crate::model::Model;
use crate::model::ends::Ends;
use crate::model::history::Series;
use crate::model::panes::sched::memory_kind::MemoryKind;

/// Maximum number of schedulers with a history.
const SCHEDULERS_MAX: usize = 256;

/// Adds a frame to the histories.
pub(super) fn remember(model: &mut Model, frame: &Frame) {
    let at_ms = frame.captured_at_ns / 1_000_000;
    note_frame(model, frame);
    let histories = &mut model.histories;
    let known_ms = histories.newest_ms.replace(at_ms);
    if known_ms == Some(at_ms) {
        // A frame that was held while the screen was frozen.
        return;
    }
    // Each run has a chart of its own: rates of two scenarios have neither unit nor scale in common.
    if histories.run_id.replace(frame.run_id).is_some_and(|known| known != frame.run_id) {
        histories.ops = Series::default();
    }
    if frame.running {
        extend(&mut histories.ops, frame, at_ms, known_ms);
    }
    histories.cpu.push(at_ms, frame.observer.cpu_pct / 100.0);
    histories.msgs.push(at_ms, frame.observer.messages_per_sec);
    let memory = &frame.observer.memory;
    histories.rss.push(at_ms, memory.rss_bytes as f64);
    histories.memory.resize_with(MemoryKind::ALL.len(), Series::default);
    for (series, kind) in histories.memory.iter_mut().zip(MemoryKind::ALL) {
        series.push(at_ms, kind.bytes(memory) as f64);
    }
    let loads = &frame.observer.scheduler_load;
    histories.schedulers.resize_with(loads.len().min(SCHEDULERS_MAX), Series::default);
    for (series, &load) in histories.schedulers.iter_mut().zip(loads) {
        series.push(at_ms, f64::from(load));
    }
}

/// Adds the ticks since the previous frame, from the window that every frame contains. A client that receives only half
/// of the frames still gets every tick, and one that connects late also gets past ticks.
fn extend(ops: &mut Series, frame: &Frame, at_ms: u64, known_ms: Option<u64>) {
    let points = &frame.throughput.points;
    let hz = [frame.cost.actual_hz, frame.cost.target_hz].into_iter().find(|hz| hz.is_finite() && *hz >= 1.0);
    let step_ms = 1000.0 / hz.unwrap_or(20.0);
    let new = match known_ms {
        Some(known_ms) => (at_ms.saturating_sub(known_ms) as f64 / step_ms).round() as usize,
        None => points.len(),
    };
    // Older points are of the time before the run.
    let of_run = ((frame.run_ms as f64 / step_ms).ceil() as usize).saturating_add(1);
    let new = new.min(points.len()).min(of_run);
    if new == 0 {
        return ops.push(at_ms, frame.ops_per_sec);
    }
    for (back, &value) in points[points.len() - new..].iter().rev().enumerate().rev() {
        if let Some(at_ms) = at_ms.checked_sub((back as f64 * step_ms) as u64) {
            ops.push(at_ms, value);
        }
    }
}

/// Records the instant of a live frame.
fn note_frame(model: &mut Model, frame: &Frame) {
    let at_ms = frame.captured_at_ns / 1_000_000;
    model.past.live_ms = at_ms;
    model.past.mark(at_ms, Ends::of(&frame.observer).crashed);
}
