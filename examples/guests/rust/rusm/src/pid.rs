//! The address of a process, as text, as bytes, and as the host has it.

use std::fmt;
use std::str::FromStr;

use crate::bindings::rusm::runtime::types;

/// The address of a process; prints as `<node.slot.generation>`. Never reused for another process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid {
    /// The node that the process lives on; 0 is this one.
    pub node: u32,
    /// The place in that node's process table.
    pub slot: u32,
    /// Which tenant of that place, counted from 1.
    pub generation: u32,
}

impl Pid {
    /// Twelve bytes for a message: node, slot, generation, each little-endian. The SDKs of all languages agree on it.
    pub fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.node.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// The pid that a message begins with, unless it is too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        Some(Self { node: word(0)?, slot: word(4)?, generation: word(8)? })
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}.{}.{}>", self.node, self.slot, self.generation)
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsePidError;

impl fmt::Display for ParsePidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pid reads <node.slot.generation>, such as <0.17.1>")
    }
}

impl std::error::Error for ParsePidError {}

impl FromStr for Pid {
    type Err = ParsePidError;

    fn from_str(text: &str) -> Result<Self, ParsePidError> {
        let inner = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
        let mut parts = inner.split('.').map(|part| part.parse::<u32>().ok());
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(node)), Some(Some(slot)), Some(Some(generation)), None) => Ok(Self { node, slot, generation }),
            _ => Err(ParsePidError),
        }
    }
}

impl From<types::Pid> for Pid {
    fn from(pid: types::Pid) -> Self {
        Self { node: pid.node, slot: pid.slot, generation: pid.generation }
    }
}

impl From<Pid> for types::Pid {
    fn from(pid: Pid) -> Self {
        Self { node: pid.node, slot: pid.slot, generation: pid.generation }
    }
}
