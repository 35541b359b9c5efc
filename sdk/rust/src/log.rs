//! Lines for the node's log: `rusm::info!("{n} guests")`. Needs no capability. Lines beyond
//! a budget are counted and cut.

use std::fmt;

use crate::bindings::rusm::runtime::log;

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something may fail.
    Warn,
    /// Something happened.
    Info,
    /// Detail for debugging.
    Debug,
}

/// Writes one line.
pub fn line(level: Level, text: impl AsRef<str>) {
    let level = match level {
        Level::Error => log::Level::Error,
        Level::Warn => log::Level::Warn,
        Level::Info => log::Level::Info,
        Level::Debug => log::Level::Debug,
    };
    log::line(level, text.as_ref());
}

/// Writes one line; called by the macros.
#[doc(hidden)]
pub fn formatted(level: Level, text: fmt::Arguments<'_>) {
    match text.as_str() {
        Some(text) => line(level, text),
        None => line(level, text.to_string()),
    }
}

/// Logs that something failed.
#[macro_export]
macro_rules! error {
    ($($text:tt)+) => { $crate::log::formatted($crate::log::Level::Error, ::std::format_args!($($text)+)) };
}

/// Logs that something may fail.
#[macro_export]
macro_rules! warn {
    ($($text:tt)+) => { $crate::log::formatted($crate::log::Level::Warn, ::std::format_args!($($text)+)) };
}

/// Logs that something happened.
#[macro_export]
macro_rules! info {
    ($($text:tt)+) => { $crate::log::formatted($crate::log::Level::Info, ::std::format_args!($($text)+)) };
}

/// Logs detail for debugging.
#[macro_export]
macro_rules! debug {
    ($($text:tt)+) => { $crate::log::formatted($crate::log::Level::Debug, ::std::format_args!($($text)+)) };
}
