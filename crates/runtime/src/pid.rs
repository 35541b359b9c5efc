//! A process's address, never reused for another process.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The address of a process: a place in the process table and the count of its tenants.
///
/// Prints as `<node.slot.generation>`. A pid outlives its process harmlessly: whatever is sent to it afterwards goes
/// nowhere, because a slot's generation grows with every tenant and a slot whose generation is used up is retired.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid {
    // Two whole words: it travels in registers, and a message that begins with one is copied without a stall.
    node: u64,
    /// The slot above the generation.
    place: u64,
}

impl Pid {
    pub(crate) const fn local(slot: u32, generation: u32) -> Self {
        Self::from_parts(0, slot, generation)
    }

    /// A pid from its parts, as somebody says them who may be wrong.
    pub(crate) const fn from_parts(node: u32, slot: u32, generation: u32) -> Self {
        Self { node: node as u64, place: (slot as u64) << 32 | generation as u64 }
    }

    /// No process: what comes from outside of the runtime has this sender.
    pub const NONE: Self = Self { node: 0, place: 0 };

    /// The node that the process lives on; 0 is this one.
    #[inline]
    pub const fn node(self) -> u32 {
        self.node as u32
    }

    /// The place in the node's process table.
    #[inline]
    pub const fn slot(self) -> u32 {
        (self.place >> 32) as u32
    }

    /// Which tenant of that place, counted from 1.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.place as u32
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{}.{}.{}>", self.node(), self.slot(), self.generation())
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a pid reads <node.slot.generation>, such as <0.17.1>")]
pub struct ParsePidError;

impl FromStr for Pid {
    type Err = ParsePidError;

    fn from_str(text: &str) -> Result<Self, ParsePidError> {
        let inner = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
        let mut parts = inner.split('.').map(|part| part.parse::<u32>().ok());
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(node)), Some(Some(slot)), Some(Some(generation)), None) => {
                Ok(Self::from_parts(node, slot, generation))
            }
            _ => Err(ParsePidError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_pid_reads_back_as_itself() {
        let pid = Pid::local(17, 3);

        assert_eq!(pid.to_string(), "<0.17.3>");
        assert_eq!(pid.to_string().parse(), Ok(pid));
        assert_eq!("0.17.3".parse(), Ok(pid));
        for wrong in ["", "<>", "<0.17>", "<0.17.3.4>", "<0.-1.3>", "<0.17.99999999999>"] {
            assert_eq!(wrong.parse::<Pid>(), Err(ParsePidError), "{wrong}");
        }
    }
}
