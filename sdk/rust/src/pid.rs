//! Address of a process, and its conversions to text, bytes and the host's type.

use std::fmt;
use std::str::FromStr;

use crate::bindings::rusm::runtime::types;

/// Address of a process, printed as `<node.slot.generation>`. It is never reused for another process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid {
    /// Node on which the process lives; 0 is this node.
    pub node: u32,
    /// Slot in that node's process table.
    pub slot: u32,
    /// Number of the process among those that have used the slot, counted from 1.
    pub generation: u32,
}

impl Pid {
    /// Encodes the pid in twelve bytes: node, slot, generation, each little-endian. All SDKs use this format.
    pub fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.node.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// Decodes the pid in the first twelve bytes; returns `None` if there are fewer.
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

/// Error returned if a text is not a valid pid.
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
