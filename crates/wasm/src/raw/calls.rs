//! Functions of the raw table, each implemented by the corresponding function of the WIT world.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use super::{MODULE, done, memory, pid, status, with_bytes, with_text};
use crate::bindings::rusm::runtime::crypto::{Hash, Host as Crypto};
use crate::bindings::rusm::runtime::log::{Host as Log, Level};
use crate::bindings::rusm::runtime::process::Host as Process;
use crate::bindings::rusm::runtime::types::{Error, ExitReason, Pid};
use crate::bindings::rusm::runtime::{clock, groups, names, random, timers};
use crate::guest::capability::Capability;
use crate::guest::state::GuestState;
use crate::guest::state::last_result::number;

type GuestCaller<'a> = Caller<'a, GuestState>;

/// Converts a timeout in milliseconds; a negative one means no limit.
pub(super) fn timeout(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok()
}

/// Unwraps the value, or returns the status.
macro_rules! or_return {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(status) => return status.into(),
        }
    };
}
pub(super) use or_return;

/// Adds all functions to a linker.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    identity(linker)?;
    super::spawning::link(linker)?;
    super::messaging::link(linker)?;
    messages(linker)?;
    items(linker)?;
    bonds(linker)?;
    ends(linker)?;
    names_and_groups(linker)?;
    time(linker)?;
    words(linker)?;
    digests(linker)?;
    super::streams::link(linker)?;
    arguments(linker)
}

fn identity(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "self", |mut caller: GuestCaller<'_>| number(Process::self_(caller.data_mut())))?;
    linker.func_wrap(MODULE, "parent", |mut caller: GuestCaller<'_>| {
        Process::parent(caller.data_mut()).map_or(0, number)
    })?;
    Ok(())
}

fn messages(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "try_send", |mut caller: GuestCaller<'_>, to: i64, tag: i64, p: i32, n: i32| -> i32 {
        let body = or_return!(with_bytes(&mut caller, (p, n)));
        let sent = Process::try_send(caller.data_mut(), pid(to), tag as u64, body);
        done(caller.data_mut(), sent)
    })?;
    linker.func_wrap_async(
        MODULE,
        "call",
        |mut caller: GuestCaller<'_>, (to, tag, p, n, ms): (i64, i64, i32, i32, i64)| {
            Box::new(async move {
                let body = or_return!(with_bytes(&mut caller, (p, n)));
                let ms = timeout(ms).unwrap_or(u64::MAX);
                let reply = Process::call(caller.data_mut(), pid(to), tag as u64, body, ms).await;
                let state = caller.data_mut();
                match reply {
                    Ok(body) => {
                        state.last_result.body = body.into();
                        super::OK
                    }
                    Err(error) => status(state, error),
                }
            })
        },
    )?;
    linker.func_wrap(MODULE, "reply", |mut caller: GuestCaller<'_>, to: i64, p: i32, n: i32| -> i32 {
        let body = or_return!(with_bytes(&mut caller, (p, n)));
        i32::from(Process::reply(caller.data_mut(), to as u64, body))
    })?;
    Ok(())
}

fn items(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "item_len", |caller: GuestCaller<'_>| caller.data().last_result.body.len() as i32)?;
    linker.func_wrap(MODULE, "item_tag", |caller: GuestCaller<'_>| caller.data().last_result.tag as i64)?;
    linker.func_wrap(MODULE, "item_pid", |caller: GuestCaller<'_>| caller.data().last_result.pid)?;
    linker.func_wrap(MODULE, "item_ref", |caller: GuestCaller<'_>| caller.data().last_result.reference as i64)?;
    linker.func_wrap(MODULE, "item_reply", |caller: GuestCaller<'_>| caller.data().last_result.reply as i64)?;
    linker.func_wrap(MODULE, "item_read", |mut caller: GuestCaller<'_>, p: i32, n: i32, from: i32| -> i32 {
        fill(&mut caller, (p, n), |state, bytes| {
            memory::copy(state.last_result.body.get(from as u32 as usize..).unwrap_or_default(), bytes)
        })
    })?;
    linker.func_wrap(MODULE, "error_len", |caller: GuestCaller<'_>| caller.data().last_result.error.len() as i32)?;
    linker.func_wrap(MODULE, "error_read", |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i32 {
        fill(&mut caller, (p, n), |state, bytes| memory::copy(state.last_result.error.as_bytes(), bytes))
    })?;
    Ok(())
}

/// Calls `fill` with a range of the guest's memory; a range outside of it is an error status.
#[inline]
fn fill(caller: &mut GuestCaller<'_>, range: (i32, i32), fill: impl FnOnce(&mut GuestState, &mut [u8]) -> i32) -> i32 {
    if let Some((state, bytes)) = memory::find(caller, range) {
        return fill(state, bytes);
    }
    let error = memory::refused(caller, range);
    status(caller.data_mut(), error)
}

fn bonds(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "link", |mut caller: GuestCaller<'_>, other: i64| {
        Process::link(caller.data_mut(), pid(other));
    })?;
    linker.func_wrap(MODULE, "unlink", |mut caller: GuestCaller<'_>, other: i64| {
        Process::unlink(caller.data_mut(), pid(other));
    })?;
    linker.func_wrap(MODULE, "monitor", |mut caller: GuestCaller<'_>, target: i64| {
        Process::monitor(caller.data_mut(), pid(target)) as i64
    })?;
    linker.func_wrap(MODULE, "demonitor", |mut caller: GuestCaller<'_>, reference: i64| {
        i32::from(Process::demonitor(caller.data_mut(), reference as u64))
    })?;
    linker.func_wrap(MODULE, "trap_exits", |mut caller: GuestCaller<'_>, on: i32| {
        i32::from(Process::trap_exits(caller.data_mut(), on != 0))
    })?;
    Ok(())
}

fn ends(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "exit",
        |mut caller: GuestCaller<'_>, (target, reason, p, n): (i64, i32, i32, i32)| {
            Box::new(async move {
                let why = or_return!(with_text(&mut caller, (p, n)));
                let reason = match reason {
                    0 => ExitReason::Normal,
                    1 => ExitReason::Shutdown,
                    2 => ExitReason::ShutdownWith(why),
                    3 => ExitReason::Killed,
                    4 => ExitReason::Other(why),
                    _ => {
                        let error = Error::Invalid(format!("exit reason {reason} is not between 0 and 4"));
                        return status(caller.data_mut(), error);
                    }
                };
                let sent = Process::exit(caller.data_mut(), pid(target), reason).await;
                done(caller.data_mut(), sent)
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "sleep", |mut caller: GuestCaller<'_>, (ms,): (i64,)| {
        Box::new(async move { Process::sleep(caller.data_mut(), timeout(ms).unwrap_or(0)).await })
    })?;
    linker.func_wrap_async(MODULE, "yield", |mut caller: GuestCaller<'_>, (): ()| {
        Box::new(async move { Process::yield_(caller.data_mut()).await })
    })?;
    Ok(())
}

fn names_and_groups(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    type Act = fn(&mut GuestState, String) -> Result<(), Error>;
    let acts: [(&str, Act); 4] = [
        ("register", |state, name| names::Host::register(state, name)),
        ("unregister", |state, name| names::Host::unregister(state, name)),
        ("join", |state, name| groups::Host::join(state, name)),
        ("leave", |state, name| groups::Host::leave(state, name)),
    ];
    for (function, act) in acts {
        linker.func_wrap(MODULE, function, move |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i32 {
            let name = or_return!(with_text(&mut caller, (p, n)));
            let acted = act(caller.data_mut(), name);
            done(caller.data_mut(), acted)
        })?;
    }
    linker.func_wrap(MODULE, "whereis", |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i64 {
        let Ok(name) = with_text(&mut caller, (p, n)) else { return 0 };
        names::Host::whereis(caller.data_mut(), name).map_or(0, number)
    })?;
    linker.func_wrap(MODULE, "members", |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i32 {
        let group = or_return!(with_text(&mut caller, (p, n)));
        let state = caller.data_mut();
        if let Err(error) = state.require(Capability::Groups) {
            return status(state, error);
        }
        let members = groups::Host::members(state, group);
        hold_pids(state, &members)
    })?;
    linker.func_wrap(MODULE, "group_monitor", |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i64 {
        let group = or_return!(with_text(&mut caller, (p, n)));
        let state = caller.data_mut();
        match groups::Host::monitor(state, group) {
            Ok((monitor, members)) => {
                hold_pids(state, &members);
                monitor as i64
            }
            Err(error) => i64::from(status(state, error)),
        }
    })?;
    linker.func_wrap(MODULE, "group_demonitor", |mut caller: GuestCaller<'_>, monitor: i64| {
        i32::from(groups::Host::demonitor(caller.data_mut(), monitor as u64))
    })?;
    Ok(())
}

/// Stores pids as the item; returns their number.
fn hold_pids(state: &mut GuestState, pids: &[Pid]) -> i32 {
    state.last_result.set_bytes(pids.iter().flat_map(|pid| number(*pid).to_le_bytes()).collect(), 0);
    pids.len() as i32
}

fn time(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    type Set = fn(&mut GuestState, i64, u64, u64, Vec<u8>) -> Result<u64, Error>;
    let sets: [(&str, Set); 2] = [
        ("send_after", |state, to, ms, tag, body| timers::Host::send_after(state, pid(to), ms, tag, body)),
        ("send_every", |state, to, ms, tag, body| timers::Host::send_every(state, pid(to), ms, tag, body)),
    ];
    for (function, set) in sets {
        linker.func_wrap(
            MODULE,
            function,
            move |mut caller: GuestCaller<'_>, to: i64, ms: i64, tag: i64, p: i32, n: i32| -> i64 {
                let body = or_return!(with_bytes(&mut caller, (p, n)));
                let timer = set(caller.data_mut(), to, timeout(ms).unwrap_or(0), tag as u64, body);
                timer.map_or_else(|error| i64::from(status(caller.data_mut(), error)), |timer| timer as i64)
            },
        )?;
    }
    linker.func_wrap(MODULE, "cancel", |mut caller: GuestCaller<'_>, timer: i64| -> i64 {
        timers::Host::cancel(caller.data_mut(), timer as u64).map_or(-1, |left| left as i64)
    })?;
    linker.func_wrap(MODULE, "now_ns", |mut caller: GuestCaller<'_>| clock::Host::now_ns(caller.data_mut()) as i64)?;
    linker
        .func_wrap(MODULE, "unix_ms", |mut caller: GuestCaller<'_>| clock::Host::unix_ms(caller.data_mut()) as i64)?;
    Ok(())
}

fn words(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "log", |mut caller: GuestCaller<'_>, level: i32, p: i32, n: i32| {
        let Ok(bytes) = with_bytes(&mut caller, (p, n)) else { return };
        let level = match level {
            0 => Level::Error,
            1 => Level::Warn,
            2 => Level::Info,
            _ => Level::Debug,
        };
        Log::line(caller.data_mut(), level, String::from_utf8_lossy(&bytes).into_owned());
    })?;
    linker.func_wrap(MODULE, "label", |mut caller: GuestCaller<'_>, p: i32, n: i32| {
        if let Ok(text) = with_text(&mut caller, (p, n)) {
            Process::label(caller.data_mut(), text);
        }
    })?;
    Ok(())
}

fn hash(number: i32) -> Result<Hash, Error> {
    match number {
        0 => Ok(Hash::Sha256),
        1 => Ok(Hash::Sha384),
        2 => Ok(Hash::Sha512),
        _ => Err(Error::Invalid(format!("hash {number} is not 0, 1 or 2"))),
    }
}

/// Writes a digest; returns its length or a status.
fn digested(caller: &mut GuestCaller<'_>, digest: Result<Vec<u8>, Error>, out: i32) -> i32 {
    match digest {
        Ok(digest) => fill(caller, (out, digest.len() as i32), |_, bytes| memory::copy(&digest, bytes)),
        Err(error) => status(caller.data_mut(), error),
    }
}

fn digests(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "random", |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i32 {
        match random::Host::bytes(caller.data_mut(), n as u32) {
            Ok(random) => fill(&mut caller, (p, n), |_, bytes| memory::copy(&random, bytes)).min(super::OK),
            Err(error) => status(caller.data_mut(), error),
        }
    })?;
    linker.func_wrap(MODULE, "digest", |mut caller: GuestCaller<'_>, kind: i32, p: i32, n: i32, out: i32| -> i32 {
        let data = or_return!(with_bytes(&mut caller, (p, n)));
        let digest = hash(kind).and_then(|hash| Crypto::digest(caller.data_mut(), hash, data));
        digested(&mut caller, digest, out)
    })?;
    linker.func_wrap(
        MODULE,
        "hmac",
        |mut caller: GuestCaller<'_>, kind: i32, key_p: i32, key_n: i32, p: i32, n: i32, out: i32| -> i32 {
            let key = or_return!(with_bytes(&mut caller, (key_p, key_n)));
            let data = or_return!(with_bytes(&mut caller, (p, n)));
            let digest = hash(kind).and_then(|hash| Crypto::hmac(caller.data_mut(), hash, key, data));
            digested(&mut caller, digest, out)
        },
    )?;
    Ok(())
}

fn arguments(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    fn argument(state: &GuestState, i: i32) -> &[u8] {
        state.args.get(i as u32 as usize).map_or(&[], |argument| argument.as_bytes())
    }
    linker.func_wrap(MODULE, "arg_count", |caller: GuestCaller<'_>| caller.data().args.len() as i32)?;
    linker.func_wrap(MODULE, "arg_len", |caller: GuestCaller<'_>, i: i32| argument(caller.data(), i).len() as i32)?;
    linker.func_wrap(MODULE, "arg_read", |mut caller: GuestCaller<'_>, i: i32, p: i32, n: i32| -> i32 {
        fill(&mut caller, (p, n), |state, bytes| memory::copy(argument(state, i), bytes))
    })?;
    Ok(())
}
