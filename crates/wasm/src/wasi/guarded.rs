//! WASI calls that need a capability: they replace those of `wasmtime-wasi`, check the capability, and forward the
//! call. The engine links them after WASI itself, so that they take its place in every guest.
//!
//! A refused socket or name lookup returns WASI's error `access-denied`. The calls for random bytes cannot return one:
//! without the capability a component traps, and a core module gets `acces`. Observers see every refusal.

use std::sync::Arc;

use wasmtime::component::{Accessor, Linker as Components, Resource};
use wasmtime::{Caller, Linker as Modules, StoreContextMut};
use wasmtime_wasi::p2::bindings::random::random::Host as Random;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::Host as Lookup;
use wasmtime_wasi::p2::bindings::sockets::network::{ErrorCode, IpAddressFamily, Network};
use wasmtime_wasi::p2::bindings::sockets::tcp::HostTcpSocket as Listener;
use wasmtime_wasi::p2::bindings::sockets::tcp_create_socket::Host as Tcp;
use wasmtime_wasi::p2::bindings::sockets::udp_create_socket::Host as Udp;
use wasmtime_wasi::p2::{SocketResult, TcpSocket, UdpSocket};
use wasmtime_wasi::p3::bindings::random::random::Host as Random3;
use wasmtime_wasi::p3::bindings::sockets::ip_name_lookup::{ErrorCode as LookupError, HostWithStore as Lookup3};
use wasmtime_wasi::p3::bindings::sockets::types as types3;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi::{I32Exit, WasiView};

use crate::engine::fiber::waiting;
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::host::RANDOM_BYTES_MAX;
use crate::module::load::P1;
use crate::raw::memory_at;
use crate::wasi::descriptors;
use crate::wasi::opening;
use crate::wasi::outcome::{Outcome, outcome};

type GuestCaller<'a> = StoreContextMut<'a, GuestState>;

/// Error numbers of WASI preview 1.
const ERRNO_SUCCESS: i32 = 0;
pub(super) const ERRNO_ACCES: i32 = 2;
pub(super) const ERRNO_FAULT: i32 = 21;
const ERRNO_IO: i32 = 29;
pub(super) const ERRNO_MFILE: i32 = 33;
pub(super) const ERRNO_NOMEM: i32 = 48;

/// Replaces the guarded functions of components.
pub(crate) fn link_components(linker: &mut Components<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.instance("wasi:sockets/tcp-create-socket@0.2.12")?.func_wrap(
        "create-tcp-socket",
        |mut caller: GuestCaller<'_>, (family,): (IpAddressFamily,)| -> Outcome<Resource<TcpSocket>, ErrorCode> {
            let state = caller.data_mut();
            if state.require(Capability::Network).is_err() {
                return Ok((Err(ErrorCode::AccessDenied),));
            }
            if !descriptors::has_room() {
                return Ok((Err(ErrorCode::NewSocketLimit),));
            }
            outcome(Tcp::create_tcp_socket(&mut state.sockets(), family))
        },
    )?;
    linker.instance("wasi:sockets/udp-create-socket@0.2.12")?.func_wrap_async(
        "create-udp-socket",
        |mut caller: GuestCaller<'_>, (family,): (IpAddressFamily,)| {
            Box::new(async move {
                let state = caller.data_mut();
                if state.require(Capability::Network).is_err() {
                    return Ok((Err(ErrorCode::AccessDenied),));
                }
                if !descriptors::has_room() {
                    return Ok((Err(ErrorCode::NewSocketLimit),));
                }
                let created: SocketResult<Resource<UdpSocket>> =
                    waiting(Udp::create_udp_socket(&mut state.sockets(), family)).await;
                outcome(created)
            })
        },
    )?;
    linker.instance("wasi:sockets/tcp@0.2.12")?.func_wrap(
        "[method]tcp-socket.accept",
        |mut caller: GuestCaller<'_>, (listener,): (Resource<TcpSocket>,)| {
            if !descriptors::has_room() {
                return Ok((Err(ErrorCode::NewSocketLimit),));
            }
            outcome(Listener::accept(&mut caller.data_mut().sockets(), listener))
        },
    )?;
    linker.instance("wasi:sockets/ip-name-lookup@0.2.12")?.func_wrap(
        "resolve-addresses",
        |mut caller: GuestCaller<'_>, (network, name): (Resource<Network>, String)| {
            let state = caller.data_mut();
            if state.require(Capability::Network).is_err() {
                return Ok((Err(ErrorCode::AccessDenied),));
            }
            let lookups = Arc::clone(&state.info.node.lookups);
            let Some(mut leave) = lookups.leave(state.lookups()) else {
                return Ok((Err(ErrorCode::TemporaryResolverFailure),));
            };
            leave.begin(|| outcome(Lookup::resolve_addresses(&mut state.sockets(), network, name)))
        },
    )?;
    let mut random = linker.instance("wasi:random/random@0.2.12")?;
    random.func_wrap("get-random-bytes", |mut caller: GuestCaller<'_>, (count,): (u64,)| {
        Ok((Random::get_random_bytes(random_of(&mut caller)?.ctx().ctx.random(), count)?,))
    })?;
    random.func_wrap("get-random-u64", |mut caller: GuestCaller<'_>, (): ()| {
        Ok((Random::get_random_u64(random_of(&mut caller)?.ctx().ctx.random())?,))
    })?;
    opening::link_components(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Replaces the guarded functions of components of WASI 0.3. Without the capability, WASI itself creates no socket, and
/// finds no name.
pub(crate) fn link_concurrent(linker: &mut Components<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut sockets = linker.instance("wasi:sockets/types@0.3.0")?;
    sockets.func_wrap(
        "[static]tcp-socket.create",
        |mut caller: GuestCaller<'_>, (family,): (types3::IpAddressFamily,)| {
            if !descriptors::has_room() {
                return Ok((Err(types3::ErrorCode::OutOfMemory),));
            }
            outcome(types3::HostTcpSocket::create(&mut caller.data_mut().sockets(), family))
        },
    )?;
    sockets.func_wrap_async(
        "[static]udp-socket.create",
        |mut caller: GuestCaller<'_>, (family,): (types3::IpAddressFamily,)| {
            Box::new(async move {
                if !descriptors::has_room() {
                    return Ok((Err(types3::ErrorCode::OutOfMemory),));
                }
                outcome(waiting(types3::HostUdpSocket::create(&mut caller.data_mut().sockets(), family)).await)
            })
        },
    )?;
    linker.instance("wasi:sockets/ip-name-lookup@0.3.0")?.func_wrap_concurrent(
        "resolve-addresses",
        |caller: &Accessor<GuestState>, (name,): (String,)| {
            let lookups = caller.with(|mut access| Arc::clone(&access.get().info.node.lookups));
            Box::pin(async move {
                let Some(leave) = caller.with(|mut access| lookups.leave(access.get().lookups())) else {
                    return Ok((Err(LookupError::TemporaryResolverFailure),));
                };
                let sockets = caller.with_getter::<WasiSockets>(GuestState::sockets);
                Ok((leave.run(Lookup3::resolve_addresses(&sockets, name)).await?,))
            })
        },
    )?;
    let mut random = linker.instance("wasi:random/random@0.3.0")?;
    random.func_wrap("get-random-bytes", |mut caller: GuestCaller<'_>, (count,): (u64,)| {
        Ok((Random3::get_random_bytes(random_of(&mut caller)?.ctx().ctx.random(), count)?,))
    })?;
    random.func_wrap("get-random-u64", |mut caller: GuestCaller<'_>, (): ()| {
        Ok((Random3::get_random_u64(random_of(&mut caller)?.ctx().ctx.random())?,))
    })?;
    opening::link_concurrent(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Replaces the guarded functions of core modules.
pub(crate) fn link_modules(linker: &mut Modules<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.func_wrap_async(P1, "random_get", |caller: Caller<'_, GuestState>, place: (i32, i32)| {
        Box::new(waiting(fill_with_random(caller, place)))
    })?;
    // The function of wasmtime traps for codes above 125, which commands use.
    linker.func_wrap(P1, "proc_exit", |code: i32| -> wasmtime::Result<()> { Err(I32Exit(code).into()) })?;
    opening::link_modules(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Fills the range piece by piece, and yields in between.
async fn fill_with_random(mut caller: Caller<'_, GuestState>, (p, n): (i32, i32)) -> i32 {
    let state = caller.data_mut();
    state.record_call(HostCall::Random);
    if state.require(Capability::Random).is_err() {
        return ERRNO_ACCES;
    }
    let (mut at, mut left) = (0, n as u32 as usize);
    loop {
        let Some((state, bytes)) = memory_at(&mut caller, (p, n)) else { return ERRNO_FAULT };
        let piece = left.min(RANDOM_BYTES_MAX as usize);
        if getrandom::fill(&mut bytes[at..at + piece]).is_err() {
            return ERRNO_IO;
        }
        (at, left) = (at + piece, left - piece);
        if left == 0 {
            return ERRNO_SUCCESS;
        }
        state.ctx.yield_now().await;
    }
}

fn random_of<'a>(caller: &'a mut GuestCaller<'_>) -> wasmtime::Result<&'a mut GuestState> {
    let state = caller.data_mut();
    state.record_call(HostCall::Random);
    match state.require(Capability::Random) {
        Ok(()) => Ok(state),
        Err(_) => Err(wasmtime::format_err!("denied: {}", Capability::Random.word())),
    }
}
