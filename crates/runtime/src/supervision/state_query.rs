//! Reading the state of an actor, a server or a state machine as text, like `sys:get_state`.

use std::fmt;

use crate::defaults::CALL_TIMEOUT;
use crate::mailbox::call::{CallError, Sealed};
use crate::mailbox::request::ReplyTo;
use crate::process::context::Context;
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;

/// Maximum length of a state as text, in bytes; longer ones are truncated.
const STATE_BYTES_MAX: usize = 64 * 1024;

/// Message that asks for the state.
pub(crate) struct GetState(ReplyTo<String>);

impl GetState {
    /// Answers with a state, truncated to the maximum length.
    pub(super) fn answer(self, ctx: &Context, mut state: String) {
        state.truncate(state.floor_char_boundary(STATE_BYTES_MAX));
        self.0.send(ctx, state);
    }
}

impl Context {
    /// Returns the state of an [actor](crate::actor), a [server](crate::server) or a
    /// [state machine](crate::state_machine) as text. It answers after the messages that are already in its mailbox.
    ///
    /// The attribute `actor` shows states that implement `Debug`. Otherwise the state is what `debug_state` returns.
    ///
    /// # Errors
    /// [`CallError`] if the process has ended, and [`CallError::Dropped`] from one that receives typed messages or
    /// supervises others, without a state to show. A process of another kind gets a message of a private type from its own
    /// `receive`: if it keeps it, the call times out after [5 s](crate::defaults::CALL_TIMEOUT).
    pub async fn state_of(&self, pid: Pid) -> Result<String, CallError> {
        self.call_with(pid, CALL_TIMEOUT, GetState).await
    }
}

impl Handle {
    /// Returns the state of an actor, a server or a state machine as text; see [`Context::state_of`].
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::state_of`].
    pub async fn state_of(&self, pid: Pid) -> Result<String, CallError> {
        self.call_with(pid, CALL_TIMEOUT, GetState).await
    }
}

/// Returns the text of a state that does not show itself.
pub(super) fn opaque<T>() -> String {
    format!("{} {{ .. }}", std::any::type_name::<T>())
}

/// A reference that is shown with `Debug` if its type has it. The attribute `actor` uses it.
#[doc(hidden)]
pub struct Shown<'a, T>(pub &'a T);

impl<T> fmt::Debug for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

/// Implemented for types with `Debug`. It is found first, because it needs one reference less.
#[doc(hidden)]
pub trait ShowDebug {
    fn show(&self) -> String;
}

impl<T: fmt::Debug> ShowDebug for Shown<'_, T> {
    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Implemented for all types.
#[doc(hidden)]
pub trait ShowName {
    fn show(&self) -> String;
}

impl<T> ShowName for &Shown<'_, T> {
    fn show(&self) -> String {
        opaque::<T>()
    }
}
