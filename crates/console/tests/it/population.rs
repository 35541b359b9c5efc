//! Idle processes with many different counters, and the expected order when all of them are sorted.

use std::cmp::{Ordering, Reverse};
use std::time::{Duration, Instant};

use rusm_runtime::observe::{self, ProcessState};
use rusm_runtime::{Pid, Runtime};

/// Columns by which a table can be sorted, with values that do not change while processes are idle.
pub(crate) const KEYS: [&str; 10] =
    ["pid", "name", "state", "reds", "memory_bytes", "mailbox_len", "messages", "age_ms", "parent", "kind"];

type Wanted = fn(&Row) -> bool;

/// Filters as a client writes them, with equivalent predicates.
pub(crate) const FILTERS: [(&str, Wanted); 18] = [
    ("", |_| true),
    ("mailq>1", |row| row.mailbox_len > 1),
    ("mailq=0 and reds<4", |row| row.mailbox_len == 0 && row.reds < 4),
    ("reds>=5", |row| row.reds >= 5),
    ("state=waiting", |row| row.state == ProcessState::Waiting),
    ("state!=waiting", |row| row.state != ProcessState::Waiting),
    ("name=kv*", |row| row.name.as_deref().is_some_and(|name| name.starts_with("kv"))),
    ("name!=kv_*1", |row| !row.name.as_deref().is_some_and(|name| name.starts_with("kv_") && name.ends_with('1'))),
    ("WRITER", |row| row.name.as_deref().is_some_and(|name| name.to_lowercase().contains("writer"))),
    ("msgs=2 and mem>1k", |row| row.messages == 2 && row.memory_bytes > 1_000),
    ("pid=5", |row| row.pid.slot() == 5),
    ("name=nobody", |_| false),
    ("mailq>1 or state!=waiting", |row| row.mailbox_len > 1 || row.state != ProcessState::Waiting),
    ("!(mailq=0 and reds<4) and reds<9", |row| !(row.mailbox_len == 0 && row.reds < 4) && row.reds < 9),
    ("name~Writer or <0.5>", |row| {
        row.pid.slot() == 5 || row.name.as_deref().is_some_and(|name| name.to_lowercase().contains("writer"))
    }),
    ("links=0 and mem>=1KB and mem<1GiB", |row| row.memory_bytes >= 1_000),
    ("reds/s<=0 and mailq>1", |row| row.mailbox_len > 1),
    ("reds/s>1k or busy%>90", |_| false),
];

/// Observable values of an idle process.
#[derive(Debug)]
pub(crate) struct Row {
    pid: Pid,
    name: Option<String>,
    state: ProcessState,
    reds: u64,
    memory_bytes: u64,
    mailbox_len: u64,
    messages: u64,
    spawned_ms: u64,
    parent: u32,
}

/// A set of idle processes and their observable values.
#[derive(Debug)]
pub(crate) struct Population(Vec<Row>);

impl Population {
    /// Starts processes and waits until all of them are idle.
    pub(crate) fn settle(runtime: &Runtime, processes: usize) -> Self {
        // A few parents, so that some processes have one and ages differ.
        let families = 4;
        for family in 0..families {
            let members = processes / families - 1 + usize::from(family < processes % families);
            runtime
                .spawn(move |ctx| async move {
                    for number in 0..members {
                        ctx.spawn(move |ctx| async move { keep_still(&ctx, family * members + number).await });
                    }
                    drop(ctx.receive_match(|_| false).await);
                })
                .unwrap();
        }
        let deadline = Instant::now() + Duration::from_mins(1);
        while runtime.process_count() < processes as u64 {
            assert!(Instant::now() < deadline, "{} of {processes} processes started", runtime.process_count());
            std::thread::yield_now();
        }
        let mut pids = Vec::new();
        each(runtime, |seen| pids.push(seen.pid()));
        for (number, pid) in pids.iter().enumerate() {
            for _ in 0..number * 7 % 4 {
                runtime.try_send(*pid, number as u64).unwrap();
            }
        }
        let mut before = Self::look(runtime);
        loop {
            std::thread::park_timeout(Duration::from_millis(20));
            let now = Self::look(runtime);
            if format!("{now:?}") == format!("{before:?}")
                && now.0.iter().all(|row| ![ProcessState::Runnable, ProcessState::Running].contains(&row.state))
            {
                assert_eq!(now.0.len(), processes);
                return now;
            }
            assert!(Instant::now() < deadline, "the processes did not become idle");
            before = now;
        }
    }

    fn look(runtime: &Runtime) -> Self {
        let mut rows = Vec::new();
        each(runtime, |seen| {
            let (name, label) = observe::names(&seen);
            rows.push(Row {
                pid: seen.pid(),
                name: name.or(label).map(|name| name.to_string()),
                state: seen.state(),
                reds: seen.reductions(),
                memory_bytes: seen.memory_bytes(),
                mailbox_len: seen.mailbox_len(),
                messages: seen.messages(),
                spawned_ms: seen.spawned_ms(),
                parent: seen.parent_slot(),
            });
        });
        Self(rows)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the expected result: all processes that match a filter, sorted by a column.
    pub(crate) fn sorted(&self, key: &str, desc: bool, wanted: Wanted) -> Vec<Pid> {
        let mut rows: Vec<&Row> = self.0.iter().filter(|row| wanted(row)).collect();
        rows.sort_by(|a, b| {
            let smallest_first = a.compare(b, key);
            let directed = if desc { smallest_first.reverse() } else { smallest_first };
            // Processes without a name come last in both directions, and equal ones keep the order of their slots.
            let nameless = if key == "name" { a.name.is_none().cmp(&b.name.is_none()) } else { Ordering::Equal };
            nameless.then(directed).then(a.pid.slot().cmp(&b.pid.slot()))
        });
        rows.iter().map(|row| row.pid).collect()
    }
}

impl Row {
    fn compare(&self, other: &Self, key: &str) -> Ordering {
        let lower = |row: &Self| row.name.as_ref().map(|name| (name.to_ascii_lowercase(), name.clone()));
        match key {
            "pid" => self.pid.slot().cmp(&other.pid.slot()),
            "name" => lower(self).cmp(&lower(other)),
            "state" => Reverse(self.state).cmp(&Reverse(other.state)),
            "reds" => self.reds.cmp(&other.reds),
            "memory_bytes" => self.memory_bytes.cmp(&other.memory_bytes),
            "mailbox_len" => self.mailbox_len.cmp(&other.mailbox_len),
            "messages" => self.messages.cmp(&other.messages),
            "age_ms" => other.spawned_ms.cmp(&self.spawned_ms),
            "parent" => self.parent.cmp(&other.parent),
            "kind" => Ordering::Equal,
            unknown => panic!("no such key: {unknown}"),
        }
    }
}

fn each(runtime: &Runtime, mut look: impl FnMut(observe::ProcessRef<'_>)) {
    for part in 0..observe::table_parts(runtime) {
        observe::for_each_process(runtime, part, &mut look);
    }
}

/// Does some of everything, depending on `number`, and then stays idle.
async fn keep_still(ctx: &rusm_runtime::Context, number: usize) {
    match number % 11 {
        3 => ctx.set_label(format!("kv_{number}")),
        5 => ctx.set_label(format!("Kv-Writer {}", number % 17)),
        7 => ctx.set_label("worker-with-a-long-name-".to_owned() + &number.to_string()),
        _ => {}
    }
    for _ in 0..number % 6 {
        ctx.yield_now().await;
    }
    let ballast = number.is_multiple_of(5).then_some([number as u8; 3000]);
    if number.is_multiple_of(13) {
        ctx.sleep(Duration::from_hours(1)).await;
    }
    // Receives none, one or two of the messages and leaves the rest in the mailbox.
    for _ in 0..number % 3 {
        drop(ctx.receive().await);
    }
    drop(ctx.receive_match(|_| false).await);
    std::hint::black_box(&ballast);
}
