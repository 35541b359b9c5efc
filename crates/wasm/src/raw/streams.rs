//! Streams in the raw table: bytes are copied directly between the ring and the guest's memory.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use super::{MODULE, done, memory, pid, status};
use crate::guest::state::GuestState;

type GuestCaller<'a> = Caller<'a, GuestState>;

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "stream_open", |mut caller: GuestCaller<'_>, (to, capacity): (i64, i32)| {
        Box::new(async move {
            let opened = caller.data_mut().open_stream(pid(to), capacity as u32).await;
            opened.map_or_else(|error| i64::from(status(caller.data_mut(), error)), |stream| stream as i64)
        })
    })?;
    linker.func_wrap(MODULE, "stream_accept", |mut caller: GuestCaller<'_>| {
        caller.data_mut().accept_stream().map_or(0, |stream| stream as i64)
    })?;
    linker.func_wrap_async(
        MODULE,
        "stream_write",
        |mut caller: GuestCaller<'_>, (stream, p, n): (i64, i32, i32)| {
            Box::new(async move {
                if let Some((state, bytes)) = memory::find(&mut caller, (p, n)) {
                    let written = state.write_stream(stream as u64, bytes).await;
                    return done(state, written);
                }
                let error = memory::refused(&mut caller, (p, n));
                status(caller.data_mut(), error)
            })
        },
    )?;
    linker.func_wrap_async(MODULE, "stream_read", |mut caller: GuestCaller<'_>, (stream, p, n): (i64, i32, i32)| {
        Box::new(async move {
            if let Some((state, bytes)) = memory::find(&mut caller, (p, n)) {
                let read = state.read_stream(stream as u64, bytes).await;
                return read.map_or_else(|error| status(state, error), |count| count as i32);
            }
            let error = memory::refused(&mut caller, (p, n));
            status(caller.data_mut(), error)
        })
    })?;
    linker.func_wrap(MODULE, "stream_close", |mut caller: GuestCaller<'_>, stream: i64| {
        i32::from(caller.data_mut().close_stream(stream as u64))
    })?;
    Ok(())
}
