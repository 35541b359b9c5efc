//! Access to the memory of a core module, by ranges that may be invalid.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Extern, Memory};

use crate::bindings::rusm::runtime::types::Error;
use crate::guest::state::GuestState;

/// Returns the memory that the module exports; cached after the first call.
#[inline]
fn memory(caller: &mut Caller<'_, GuestState>) -> Option<Memory> {
    if let Some(memory) = caller.data().memory { Some(memory) } else { first(caller) }
}

#[cold]
fn first(caller: &mut Caller<'_, GuestState>) -> Option<Memory> {
    let memory = caller.get_export("memory").and_then(Extern::into_memory)?;
    caller.data_mut().memory = Some(memory);
    Some(memory)
}

/// Returns the bytes of a range, with the guest's state; `None` outside of the memory. Each message passes here twice,
/// so the error text is left to [`refused`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "returning the result through memory costs more than the function itself")]
pub(crate) fn find<'a>(
    caller: &'a mut Caller<'_, GuestState>,
    (p, n): (i32, i32),
) -> Option<(&'a mut GuestState, &'a mut [u8])> {
    let (memory, state) = memory(caller)?.data_and_store_mut(caller);
    let bytes = memory.get_mut(p as u32 as usize..)?.get_mut(..n as u32 as usize)?;
    Some((state, bytes))
}

/// Returns the error for a range that [`find`] did not find.
#[cold]
pub(super) fn refused(caller: &mut Caller<'_, GuestState>, (p, n): (i32, i32)) -> Error {
    let Some(memory) = memory(caller) else {
        return Error::Invalid("the module exports no memory called `memory`".to_owned());
    };
    let len = memory.data_size(&*caller);
    Error::Invalid(format!("{} bytes at {} lie outside of the memory of {len} bytes", n as u32, p as u32))
}

/// Writes to a range of the memory that is as long as `bytes`.
pub(crate) fn write(caller: &mut Caller<'_, GuestState>, range: (i32, i32), bytes: &[u8]) -> Result<(), Error> {
    match find(caller, range) {
        Some((_, out)) => out.copy_from_slice(bytes),
        None => return Err(refused(caller, range)),
    }
    Ok(())
}

/// Copies as much of `from` as fits; returns the number of bytes.
pub(super) fn copy(from: &[u8], to: &mut [u8]) -> i32 {
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
    n as i32
}
