//! Functions of the raw table. Each calls the function of the WIT world with the same name.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use super::abi::{MODULE, OK, pid, status, timeout};
use super::table::{Output, Pids, function, or_return};
use super::{argument, memory};
use crate::bindings::rusm::runtime::crypto::{Hash, Host as Crypto};
use crate::bindings::rusm::runtime::log::{Host as Log, Level};
use crate::bindings::rusm::runtime::process::Host as Process;
use crate::bindings::rusm::runtime::types::{Error, ExitReason};
use crate::bindings::rusm::runtime::{clock, groups, names, random, timers};
use crate::guest::capability::Capability;
use crate::guest::state::GuestState;
use crate::host::LOG_TEXT_MAX_BYTES;

type GuestCaller<'a> = Caller<'a, GuestState>;

/// Adds all functions to a linker.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    super::messaging::link(linker)?;
    super::spawning::link(linker)?;
    super::streams::link(linker)?;
    processes(linker)?;
    names_and_groups(linker)?;
    time(linker)?;
    digests(linker)?;
    items(linker)?;
    arguments(linker)
}

fn processes(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    function!(linker, "self"() => |state| Process::self_(state))?;
    function!(linker, "parent"() => |state| Process::parent(state))?;
    function!(linker, "try_send"(to: pid(to), tag: number(tag), body: bytes(p, n)) => |state| {
        Process::try_send(state, to, tag, body)
    })?;
    function!(linker, async "call"(to: pid(to), tag: number(tag), body: bytes(p, n), ms: milliseconds(ms)) => |state| {
        let reply = Process::call(state, to, tag, body, ms.unwrap_or(u64::MAX)).await;
        reply.and_then(|reply| Ok(state.set_body(reply)?))
    })?;
    function!(linker, "reply"(to: number(to), body: bytes(p, n)) => |state| Process::reply(state, to, body))?;
    linker.func_wrap(MODULE, "link", |mut caller: GuestCaller<'_>, other: i64| {
        Process::link(caller.data_mut(), pid(other));
    })?;
    linker.func_wrap(MODULE, "unlink", |mut caller: GuestCaller<'_>, other: i64| {
        Process::unlink(caller.data_mut(), pid(other));
    })?;
    function!(linker, "monitor"(target: pid(target)) => |state| Process::monitor(state, target))?;
    function!(linker, "demonitor"(monitor: number(monitor)) => |state| Process::demonitor(state, monitor))?;
    function!(linker, "trap_exits"(on: flag(on)) => |state| Process::trap_exits(state, on))?;
    function!(linker, async "exit"(target: pid(target), reason: count(reason), words: text(p, n)) => |state| {
        match exit_reason(reason, words) {
            Ok(reason) => Process::exit(state, target, reason).await,
            Err(error) => Err(error),
        }
    })?;
    linker.func_wrap_async(MODULE, "sleep", |mut caller: GuestCaller<'_>, (ms,): (i64,)| {
        Box::new(async move { Process::sleep(caller.data_mut(), timeout(ms).unwrap_or(0)).await })
    })?;
    linker.func_wrap_async(MODULE, "yield", |mut caller: GuestCaller<'_>, (): ()| {
        Box::new(async move { Process::yield_(caller.data_mut()).await })
    })?;
    linker.func_wrap(MODULE, "log", |mut caller: GuestCaller<'_>, level: i32, p: i32, n: i32| {
        // The rest of a longer text could not appear in the line.
        let n = (n as u32).min(LOG_TEXT_MAX_BYTES as u32) as i32;
        let Ok(bytes) = argument::bytes(&mut caller, p, n) else { return };
        let level = match level {
            0 => Level::Error,
            1 => Level::Warn,
            2 => Level::Info,
            _ => Level::Debug,
        };
        Log::line(caller.data_mut(), level, String::from_utf8_lossy(&bytes).into_owned());
    })?;
    linker.func_wrap(MODULE, "label", |mut caller: GuestCaller<'_>, p: i32, n: i32| {
        if let Ok(text) = argument::text(&mut caller, p, n) {
            Process::label(caller.data_mut(), text);
        }
    })?;
    Ok(())
}

fn exit_reason(number: u32, words: String) -> Result<ExitReason, Error> {
    match number {
        0 => Ok(ExitReason::Normal),
        1 => Ok(ExitReason::Shutdown),
        2 => Ok(ExitReason::ShutdownWith(words)),
        3 => Ok(ExitReason::Killed),
        4 => Ok(ExitReason::Other(words)),
        _ => Err(Error::Invalid(format!("exit reason {} is not between 0 and 4", number.cast_signed()))),
    }
}

fn names_and_groups(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    function!(linker, "register"(name: text(p, n)) => |state| names::Host::register(state, name))?;
    function!(linker, "unregister"(name: text(p, n)) => |state| names::Host::unregister(state, name))?;
    linker.func_wrap(MODULE, "whereis", |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i64 {
        let name = argument::text(&mut caller, p, n).ok();
        let found = name.and_then(|name| names::Host::whereis(caller.data_mut(), name));
        found.into_integer(caller.data_mut())
    })?;
    function!(linker, "join"(group: text(p, n)) => |state| groups::Host::join(state, group))?;
    function!(linker, "leave"(group: text(p, n)) => |state| groups::Host::leave(state, group))?;
    function!(linker, "members"(group: text(p, n)) => |state| {
        state.require(Capability::Groups).map(|()| Pids(groups::Host::members(state, group)))
    })?;
    function!(linker, "group_monitor"(group: text(p, n)) => |state| {
        groups::Host::monitor(state, group).map(|(monitor, members)| {
            Pids(members).into_integer(state);
            monitor
        })
    })?;
    function!(linker, "group_demonitor"(monitor: number(monitor)) => |state| groups::Host::demonitor(state, monitor))?;
    Ok(())
}

fn time(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    function!(
        linker,
        "send_after"(to: pid(to), ms: milliseconds(ms), tag: number(tag), body: bytes(p, n)) => |state| {
            timers::Host::send_after(state, to, ms.unwrap_or(0), tag, body)
        }
    )?;
    function!(
        linker,
        "send_every"(to: pid(to), ms: milliseconds(ms), tag: number(tag), body: bytes(p, n)) => |state| {
            timers::Host::send_every(state, to, ms.unwrap_or(0), tag, body)
        }
    )?;
    linker.func_wrap(MODULE, "cancel", |mut caller: GuestCaller<'_>, timer: i64| -> i64 {
        timers::Host::cancel(caller.data_mut(), timer as u64).map_or(-1, |left| left as i64)
    })?;
    function!(linker, "now_ns"() => |state| clock::Host::now_ns(state))?;
    function!(linker, "unix_ms"() => |state| clock::Host::unix_ms(state))?;
    Ok(())
}

fn digests(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap(MODULE, "random", |mut caller: GuestCaller<'_>, p: i32, n: i32| -> i32 {
        match random::Host::bytes(caller.data_mut(), n as u32) {
            Ok(random) => fill(&mut caller, (p, n), |_, bytes| memory::copy(&random, bytes)).min(OK),
            Err(error) => status(caller.data_mut(), error),
        }
    })?;
    linker.func_wrap(MODULE, "digest", |mut caller: GuestCaller<'_>, kind: i32, p: i32, n: i32, out: i32| -> i32 {
        let data = or_return!(argument::bytes(&mut caller, p, n));
        let digest = hash(kind).and_then(|hash| Crypto::digest(caller.data_mut(), hash, data));
        digested(&mut caller, digest, out)
    })?;
    linker.func_wrap(
        MODULE,
        "hmac",
        |mut caller: GuestCaller<'_>, kind: i32, key_p: i32, key_n: i32, p: i32, n: i32, out: i32| -> i32 {
            let key = or_return!(argument::bytes(&mut caller, key_p, key_n));
            let data = or_return!(argument::bytes(&mut caller, p, n));
            let digest = hash(kind).and_then(|hash| Crypto::hmac(caller.data_mut(), hash, key, data));
            digested(&mut caller, digest, out)
        },
    )?;
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
