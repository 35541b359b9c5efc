//! Result of a call of WASI: a value, an error for the guest, or a trap.

use wasmtime_wasi::TrappableError;

/// Results of a function of a component that returns a value or an error code.
pub(crate) type Outcome<T, E> = wasmtime::Result<(Result<T, E>,)>;

/// Converts the result of a call: a value, an error for the guest, or a trap.
pub(crate) fn outcome<T, E: std::error::Error + Send + Sync + 'static>(
    result: Result<T, TrappableError<E>>,
) -> Outcome<T, E> {
    match result {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => Ok((Err(error.downcast()?),)),
    }
}
