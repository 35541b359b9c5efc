//! The form of the raw table: one entry per function, with the ranges and integers of its arguments on the left, and
//! the host function that implements it on the right. Components call the same host functions.
//!
//! ```text
//!   function!(linker, "register"(name: text(p, n)) => |state| names::Host::register(state, name))?;
//!             import ───┘          │     │    └ integers of the core module
//!                     argument ────┘     └ how to read it: a function of `argument`
//! ```
//!
//! An argument that cannot be read, such as a range outside of the memory, is an error status.

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use super::abi::{OK, status};
use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::guest::state::GuestState;
use crate::guest::state::last_result::number;

/// Links one function; `async` if it may wait.
macro_rules! function {
    ($linker:expr, $name:literal($($argument:ident: $kind:ident($($raw:ident),+)),*) => |$state:ident| $call:expr) => {
        $linker.func_wrap(
            $crate::raw::abi::MODULE,
            $name,
            |mut caller: wasmtime::Caller<'_, $crate::guest::state::GuestState>,
             $($($raw: $crate::raw::table::integer!($kind $raw)),+),*| {
                $(let $argument = $crate::raw::table::or_return!($crate::raw::argument::$kind(&mut caller, $($raw),+));)*
                let $state = caller.data_mut();
                let result = $call;
                $crate::raw::table::Output::into_integer(result, caller.data_mut())
            },
        )
    };
    ($linker:expr, async $name:literal($($argument:ident: $kind:ident($($raw:ident),+)),*) => |$state:ident| $call:expr) => {
        $linker.func_wrap_async(
            $crate::raw::abi::MODULE,
            $name,
            |mut caller: wasmtime::Caller<'_, $crate::guest::state::GuestState>,
             ($($($raw),+,)*): ($($($crate::raw::table::integer!($kind $raw)),+,)*)| {
                Box::new(async move {
                    $(let $argument = $crate::raw::table::or_return!($crate::raw::argument::$kind(&mut caller, $($raw),+));)*
                    let $state = caller.data_mut();
                    let result = $call;
                    $crate::raw::table::Output::into_integer(result, caller.data_mut())
                })
            },
        )
    };
}

/// Type of the integers that an argument of a kind consists of.
macro_rules! integer {
    (pid $raw:ident) => {
        i64
    };
    (number $raw:ident) => {
        i64
    };
    (milliseconds $raw:ident) => {
        i64
    };
    ($range_or_i32:ident $raw:ident) => {
        i32
    };
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

pub(crate) use {function, integer, or_return};

/// A result of a host function, as the integer that a core module gets.
pub(crate) trait Output {
    /// `i32`, or `i64` where the result has 64 bits.
    type Integer;

    /// Converts the result; stores what does not fit into an integer for the guest to read.
    fn into_integer(self, state: &mut GuestState) -> Self::Integer;
}

/// Bytes that become the item.
pub(crate) struct Item(pub(crate) Vec<u8>);

/// Pids that become the item; their number is the result. Processes of other nodes are left out.
pub(crate) struct Pids(pub(crate) Vec<Pid>);

/// An error of a host function.
pub(crate) trait Failure {
    /// Stores the text of the error; returns its status.
    fn into_status(self, state: &mut GuestState) -> i32;
}

impl Failure for Error {
    fn into_status(self, state: &mut GuestState) -> i32 {
        status(state, self)
    }
}

impl<T: Output<Integer: From<i32>>, E: Failure> Output for Result<T, E> {
    type Integer = T::Integer;

    fn into_integer(self, state: &mut GuestState) -> T::Integer {
        match self {
            Ok(value) => value.into_integer(state),
            Err(error) => error.into_status(state).into(),
        }
    }
}

impl Output for () {
    type Integer = i32;

    fn into_integer(self, _: &mut GuestState) -> i32 {
        OK
    }
}

impl Output for bool {
    type Integer = i32;

    fn into_integer(self, _: &mut GuestState) -> i32 {
        i32::from(self)
    }
}

impl Output for i32 {
    type Integer = Self;

    fn into_integer(self, _: &mut GuestState) -> Self {
        self
    }
}

impl Output for u64 {
    type Integer = i64;

    fn into_integer(self, _: &mut GuestState) -> i64 {
        self as i64
    }
}

impl Output for Pid {
    type Integer = i64;

    fn into_integer(self, _: &mut GuestState) -> i64 {
        number(self)
    }
}

/// No process is 0.
impl Output for Option<Pid> {
    type Integer = i64;

    fn into_integer(self, _: &mut GuestState) -> i64 {
        self.map_or(0, number)
    }
}

impl Output for Item {
    type Integer = i32;

    fn into_integer(self, state: &mut GuestState) -> i32 {
        match state.set_item(self.0, 0) {
            Ok(()) => OK,
            Err(full) => status(state, full.into()),
        }
    }
}

/// 1 with the bytes as the item, or 0.
impl Output for Option<Item> {
    type Integer = i32;

    fn into_integer(self, state: &mut GuestState) -> i32 {
        self.map_or(0, |item| match item.into_integer(state) {
            OK => 1,
            refused => refused,
        })
    }
}

impl Output for Pids {
    type Integer = i32;

    fn into_integer(self, state: &mut GuestState) -> i32 {
        let here = self.0.iter().filter(|pid| pid.node == 0);
        let bytes: Vec<u8> = here.flat_map(|pid| number(*pid).to_le_bytes()).collect();
        let count = bytes.len() / size_of::<i64>();
        match state.set_item(bytes, 0) {
            Ok(()) => count as i32,
            Err(full) => status(state, full.into()),
        }
    }
}
