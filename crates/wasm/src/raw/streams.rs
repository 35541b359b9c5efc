//! Streams in the raw table: bytes are copied directly between the ring and the guest's memory.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use super::{MODULE, done, memory, pid, status};
use crate::state::State;

type Guest<'a> = Caller<'a, State>;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap_async(MODULE, "stream_open", |mut guest: Guest<'_>, (to, capacity): (i64, i32)| {
        Box::new(async move {
            let opened = guest.data_mut().open_stream(pid(to), capacity as u32).await;
            opened.map_or_else(|error| i64::from(status(guest.data_mut(), error)), |stream| stream as i64)
        })
    })?;
    linker.func_wrap(MODULE, "stream_accept", |mut guest: Guest<'_>| {
        guest.data_mut().accept_stream().map_or(0, |stream| stream as i64)
    })?;
    linker.func_wrap_async(MODULE, "stream_write", |mut guest: Guest<'_>, (stream, p, n): (i64, i32, i32)| {
        Box::new(async move {
            if let Some((state, bytes)) = memory::find(&mut guest, (p, n)) {
                let written = state.write_stream(stream as u64, bytes).await;
                return done(state, written);
            }
            let error = memory::refused(&mut guest, (p, n));
            status(guest.data_mut(), error)
        })
    })?;
    linker.func_wrap_async(MODULE, "stream_read", |mut guest: Guest<'_>, (stream, p, n): (i64, i32, i32)| {
        Box::new(async move {
            if let Some((state, bytes)) = memory::find(&mut guest, (p, n)) {
                let read = state.read_stream(stream as u64, bytes).await;
                return read.map_or_else(|error| status(state, error), |count| count as i32);
            }
            let error = memory::refused(&mut guest, (p, n));
            status(guest.data_mut(), error)
        })
    })?;
    linker.func_wrap(MODULE, "stream_close", |mut guest: Guest<'_>, stream: i64| {
        i32::from(guest.data_mut().close_stream(stream as u64))
    })?;
    Ok(())
}
