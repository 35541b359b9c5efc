//! Streams in the raw table: bytes are copied directly between the ring and the guest's memory.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use super::abi::{MODULE, status};
use super::memory;
use super::table::{Output, function};
use crate::guest::state::GuestState;

type GuestCaller<'a> = Caller<'a, GuestState>;

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    function!(linker, async "stream_open"(to: pid(to), capacity: count(capacity)) => |state| {
        state.open_stream(to, capacity).await
    })?;
    function!(linker, "stream_accept"() => |state| state.accept_stream().unwrap_or(0))?;
    linker.func_wrap_async(
        MODULE,
        "stream_write",
        |mut caller: GuestCaller<'_>, (stream, p, n): (i64, i32, i32)| {
            Box::new(async move {
                if let Some((state, bytes)) = memory::find(&mut caller, (p, n)) {
                    let written = state.write_stream(stream as u64, bytes).await;
                    return written.into_integer(state);
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
    function!(linker, "stream_close"(stream: number(stream)) => |state| state.close_stream(stream))?;
    Ok(())
}
