//! The address of a process, never reused for another process.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The address of a process: a slot in the process table and its generation.
///
/// Prints as `<node.slot.generation>`. A pid may outlive its process: messages sent to it are then dropped. The
/// generation of a slot grows with every tenant, and a slot is retired when its generations are used up.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let pid = runtime.spawn(|_| async {})?;
/// let text = pid.to_string();
/// assert!(text.starts_with("<0.") && text.ends_with('>'));
/// assert_eq!(text.parse::<rusm::Pid>()?, pid);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid {
    // Two whole words: a pid travels in registers, and a message that begins with one is copied without a
    // store-forwarding stall.
    node: u64,
    /// Slot in the upper half, generation in the lower half.
    slot_and_generation: u64,
}

impl Pid {
    /// Creates the pid of a process of this node from its slot and its generation.
    pub const fn local(slot: u32, generation: u32) -> Self {
        Self::from_parts(0, slot, generation)
    }

    /// Creates a pid from its parts, which may come from an untrusted source.
    pub const fn from_parts(node: u32, slot: u32, generation: u32) -> Self {
        Self { node: node as u64, slot_and_generation: (slot as u64) << 32 | generation as u64 }
    }

    /// No process. The sender of everything that comes from outside of the runtime.
    pub const NONE: Self = Self { node: 0, slot_and_generation: 0 };

    /// Returns the node on which the process lives; 0 is this node.
    #[inline]
    pub const fn node(self) -> u32 {
        self.node as u32
    }

    /// Returns the slot in the node's process table.
    #[inline]
    pub const fn slot(self) -> u32 {
        (self.slot_and_generation >> 32) as u32
    }

    /// Returns the generation: the number of the slot's tenant, counted from 1.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.slot_and_generation as u32
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

/// Error returned when a text is not a valid pid.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::Pid;
///
/// assert_eq!("<0.17.1>".parse::<Pid>()?.to_string(), "<0.17.1>");
/// assert!("17".parse::<Pid>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
