//! Schedulers and memory of the simulated node.

use rusm_protocol::{IdleInfo, MemoryUses, SchedulerInfo, SchedulerSnapshot, Schedulers, SchedulersView};

/// Answers a request for schedulers, from their figures in the frame.
pub(crate) fn schedulers(view: &SchedulersView, seq: u64, now_ms: u64, frame: &[SchedulerSnapshot]) -> Schedulers {
    let info = |(at, one): (usize, &SchedulerSnapshot)| {
        let is_asleep = at == 3 && (now_ms / 4_000).is_multiple_of(2);
        let awake = f64::from(one.utilisation);
        SchedulerInfo {
            number: at as u32,
            awake,
            cpu: Some(awake * 0.99),
            core_wait: Some(awake * 0.01),
            ready: if is_asleep { 0 } else { one.run_queue },
            pinned: u64::from(at == 0) * 2,
            oldest_us: (one.run_queue > 0 && !is_asleep).then_some(90 + one.run_queue * 41),
            running: (!is_asleep).then(|| format!("<0.{}.1>", 44 + 7 * at)),
            name: (!is_asleep && at % 2 == 0).then(|| ["kv_index", "", "session"][at % 3].to_owned()),
            slice_us: (!is_asleep).then_some(40 + 50 * at as u64),
            asleep_us: is_asleep.then_some(now_ms % 4_000 * 1000),
            polls_per_sec: one.polls_per_sec,
            messages_per_sec: one.polls_per_sec / 9.0,
            steals_per_sec: one.steals_per_sec,
            stolen_per_sec: one.steals_per_sec * 0.97,
            parks_per_sec: one.parks_per_sec,
            wakes_per_sec: one.wakes_per_sec,
            preemptions_per_sec: if at == 1 { 812.0 } else { 0.0 },
            ..SchedulerInfo::default()
        }
    };
    let all: Vec<_> = frame.iter().enumerate().map(info).collect();
    let busy = all.iter().max_by_key(|one| one.ready).cloned().unwrap_or_default();
    let idle = all.iter().find(|one| one.asleep_us.is_some_and(|us| us > 1_000_000)).map(|sleeper| IdleInfo {
        idle: sleeper.number,
        busy: busy.number,
        ready: busy.ready,
        pinned: busy.pinned,
        stolen_per_sec: 0.0,
    });
    let (offset, len) = (view.window.offset as usize, view.window.len as usize);
    Schedulers {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 24.0,
        total: all.len() as u64,
        offset: view.window.offset.min(all.len() as u64),
        injected: now_ms / 250 % 9,
        schedulers: all.into_iter().skip(offset).take(len).collect(),
        idle: idle.filter(|idle| idle.ready > 1),
    }
}

/// Returns the memory of the node beside its processes.
pub(crate) fn memory(now_ms: u64) -> MemoryUses {
    let mib = |tenths: u64| (tenths << 20) / 10;
    let wave = |period: u64, most: u64| now_ms % period * most / period;
    MemoryUses {
        free_slot_bytes: mib(31),
        side_table_bytes: mib(16),
        free_node_bytes: mib(20),
        topic_bytes: mib(64 + wave(40_000, 30)),
        ring_bytes: mib(12),
        timer_bytes: mib(2),
        store_bytes: mib(210 + wave(90_000, 60)),
        linear_bytes: mib(380 + wave(30_000, 90)),
        linear_size_bytes: mib(1_280),
        guest_stack_bytes: mib(21),
        engine_bytes: mib(3),
        code_bytes: mib(47),
        observer_bytes: mib(4),
        recorder_bytes: mib(9),
        log_bytes: mib(1),
        thread_stack_bytes: mib(9),
        program_bytes: mib(84),
        other_bytes: mib(17),
        allocator_bytes: mib(38),
        resident_bytes: 0,
        age_ms: now_ms % 1_000,
        cost_us: 310,
    }
}
