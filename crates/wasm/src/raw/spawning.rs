//! Spawning from core modules: one process, or a supervisor with children that were added before.

use wasmtime::{Caller, Linker};

use super::abi::{MODULE, status, timeout};
use super::table::{Output, function, or_return};
use crate::bindings::rusm::runtime::process::{Host as Process, SpawnOptions, Ties};
use crate::bindings::rusm::runtime::supervisor::{ChildSpec, Host as Supervisor, Restart, Strategy};
use crate::bindings::rusm::runtime::types::Error;
use crate::guest::spawn::ARGS_MAX;
use crate::guest::state::GuestState;
use crate::guest::state::children::memory_of;
use crate::host::CHILDREN_MAX;
use crate::raw::argument::text;

type GuestCaller<'a> = Caller<'a, GuestState>;
type MemoryRange = (i32, i32);

/// Memory ranges with the options of a process; an empty one leaves the default.
struct SpawnRanges {
    args: MemoryRange,
    profile: MemoryRange,
    name: MemoryRange,
    memory_max_bytes: i64,
}

impl SpawnRanges {
    fn options(&self, caller: &mut GuestCaller<'_>) -> Result<SpawnOptions, i32> {
        let args = text(caller, self.args.0, self.args.1)?;
        let non_empty = |text: String| (!text.is_empty()).then_some(text);
        let Ok(memory_max_bytes) = u64::try_from(self.memory_max_bytes) else {
            let error = Error::Invalid(format!(
                "memory_max_bytes of {} is negative: use 0 for the default",
                self.memory_max_bytes
            ));
            return Err(status(caller.data_mut(), error));
        };
        // Stop after one argument too many: that is enough to refuse them.
        let words = args.split('\0').take(ARGS_MAX + 1).map(str::to_owned);
        Ok(SpawnOptions {
            args: if args.is_empty() { Vec::new() } else { words.collect() },
            ties: Ties::empty(),
            name: non_empty(text(caller, self.name.0, self.name.1)?),
            profile: non_empty(text(caller, self.profile.0, self.profile.1)?),
            memory_max_bytes: (memory_max_bytes != 0).then_some(memory_max_bytes),
        })
    }
}

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "spawn_monitor", |caller: GuestCaller<'_>| {
        caller.data().last_result.spawned_monitor.cast_signed()
    })?;
    linker.func_wrap_async(
        MODULE,
        "spawn",
        |caller: GuestCaller<'_>,
         (p, n, args_p, args_n, profile_p, profile_n, ties): (i32, i32, i32, i32, i32, i32, i32)| {
            let (args, profile) = ((args_p, args_n), (profile_p, profile_n));
            Box::new(spawn(caller, (p, n), SpawnRanges { args, profile, name: (0, 0), memory_max_bytes: 0 }, ties))
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "spawn_as",
        |caller: GuestCaller<'_>,
         (p, n, args_p, args_n, profile_p, profile_n, ties, name_p, name_n, memory_max_bytes): (
            i32,
            i32,
            i32,
            i32,
            i32,
            i32,
            i32,
            i32,
            i32,
            i64,
        )| {
            let (args, profile, name) = ((args_p, args_n), (profile_p, profile_n), (name_p, name_n));
            Box::new(spawn(caller, (p, n), SpawnRanges { args, profile, name, memory_max_bytes }, ties))
        },
    )?;
    supervisors(linker)
}

async fn spawn(mut caller: GuestCaller<'_>, module: MemoryRange, ranges: SpawnRanges, ties: i32) -> i64 {
    let module = or_return!(text(&mut caller, module.0, module.1));
    let mut options = or_return!(ranges.options(&mut caller));
    for (bit, tie) in [(1, Ties::LINK), (2, Ties::MONITOR)] {
        if ties & bit != 0 {
            options.ties |= tie;
        }
    }
    let spawned = Process::spawn(caller.data_mut(), module, options).await;
    let state = caller.data_mut();
    let pid = spawned.map(|spawned| {
        state.last_result.spawned_monitor = spawned.monitor.unwrap_or(0);
        spawned.pid
    });
    pid.into_integer(state)
}

fn supervisors(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(
        MODULE,
        "supervisor_child",
        |mut caller: GuestCaller<'_>,
         id_p: i32,
         id_n: i32,
         p: i32,
         n: i32,
         args_p: i32,
         args_n: i32,
         profile_p: i32,
         profile_n: i32,
         name_p: i32,
         name_n: i32,
         memory_max_bytes: i64,
         restart: i32,
         shutdown_ms: i64|
         -> i32 {
            let (args, profile, name) = ((args_p, args_n), (profile_p, profile_n), (name_p, name_n));
            let bytes = [id_n, n, args_n, profile_n, name_n].map(|n| n as u32 as usize).iter().sum();
            let state = caller.data_mut();
            let held = has_room(state, bytes).and_then(|()| Ok(state.hold_small(memory_of(1, bytes) as usize)?));
            if let Err(error) = held {
                return status(state, error);
            }
            let id = or_return!(text(&mut caller, id_p, id_n));
            let module = or_return!(text(&mut caller, p, n));
            let options = or_return!(SpawnRanges { args, profile, name, memory_max_bytes }.options(&mut caller));
            let restart = match restart {
                0 => Ok(Restart::Permanent),
                1 => Ok(Restart::Transient),
                2 => Ok(Restart::Temporary),
                _ => Err(Error::Invalid(format!("restart {restart} is not 0, 1 or 2"))),
            };
            let child =
                restart.map(|restart| ChildSpec { id, module, options, restart, shutdown_ms: timeout(shutdown_ms) });
            let state = caller.data_mut();
            let kept = child.map(|child| {
                let pending_children = state.pending_children.get_or_insert_default();
                pending_children.children.push(child);
                pending_children.bytes += bytes;
            });
            kept.into_integer(state)
        },
    )?;
    function!(
        linker,
        async "supervisor_start"(number: count(number), intensity: count(intensity), ms: milliseconds(ms)) => |state| {
            let children = state.pending_children.take().unwrap_or_default().children;
            match strategy(number) {
                Ok(strategy) => Supervisor::start(state, strategy, intensity, ms.unwrap_or(0), children).await,
                Err(error) => Err(error),
            }
        }
    )?;
    Ok(())
}

fn strategy(number: u32) -> Result<Strategy, Error> {
    match number {
        0 => Ok(Strategy::OneForOne),
        1 => Ok(Strategy::OneForAll),
        2 => Ok(Strategy::RestForOne),
        _ => Err(Error::Invalid(format!("strategy {number} is not 0, 1 or 2"))),
    }
}

/// Checks that one more child, with texts of `bytes` bytes, may be added.
fn has_room(state: &GuestState, bytes: usize) -> Result<(), Error> {
    let (children, before) = state
        .pending_children
        .as_ref()
        .map_or((0, 0), |pending_children| (pending_children.children.len(), pending_children.bytes));
    let bytes_max = state.info.bounds.message_max_bytes as usize;
    if children < CHILDREN_MAX && before.saturating_add(bytes) <= bytes_max {
        return Ok(());
    }
    Err(Error::Limit(format!(
        "a supervisor starts with at most {CHILDREN_MAX} children, whose texts have at most {bytes_max} bytes in all"
    )))
}
