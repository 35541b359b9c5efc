//! Names of nodes, of their lives and of their processes, as the cluster knows them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// Maximum length of a node's name, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 64;

/// The name of a node: 1 to 64 characters of `a-z`, `0-9`, `-`, `_` and `.`. Unique in a cluster.
///
/// ```
/// # mod rusm { pub use rusm_cluster as cluster; }
/// use rusm::cluster::NodeName;
///
/// assert_eq!(NodeName::new("north-1")?.as_str(), "north-1");
/// assert!(NodeName::new("North 1").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// Creates a name.
    ///
    /// # Errors
    /// [`NodeNameError`] if the text is empty, too long, or has another character.
    pub fn new(text: &str) -> Result<Self, NodeNameError> {
        if text.is_empty() || text.len() > NODE_NAME_BYTES_MAX {
            return Err(NodeNameError::Length(text.len()));
        }
        let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        match text.chars().find(|c| !is_valid(*c)) {
            Some(c) => Err(NodeNameError::Character(c)),
            None => Ok(Self(text.into())),
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(text: &str) -> Result<Self, NodeNameError> {
        Self::new(text)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Error returned for a text that is not a valid name of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NodeNameError {
    /// The text is empty or too long.
    #[error("a node's name has 1 to {NODE_NAME_BYTES_MAX} characters, not {0}")]
    Length(usize),
    /// The text has a character that names do not have.
    #[error("a node's name has the characters a-z, 0-9, '-', '_' and '.', not {0:?}")]
    Character(char),
}

/// A random number that a node draws when it starts: it tells a node that restarted from one that was cut off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BootId(pub u128);

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The number of a session between two nodes, counted by each of them from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The first epoch of a node's life.
    pub const FIRST: Self = Self(1);

    /// Returns the epoch after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One life of a node: its name, and the boot id of this life.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Name of the node.
    pub name: NodeName,
    /// Boot id of this life.
    pub boot: BootId,
}

/// A process on one of the two nodes of a session: slot and generation of its pid. The node is implied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Address {
    /// The node itself: requests to spawn, names, groups.
    pub const NODE: Self = Self(0);

    /// Creates the address of a process from the parts of its pid.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self((slot as u64) << 32 | generation as u64)
    }

    /// Returns the slot in the process table of its node.
    pub const fn slot(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the generation of the slot.
    pub const fn generation(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.slot(), self.generation())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        assert_eq!(NodeName::new("a-1.b_2").unwrap().as_str(), "a-1.b_2");
        assert_eq!(NodeName::new(""), Err(NodeNameError::Length(0)));
        assert_eq!(NodeName::new(&"a".repeat(65)), Err(NodeNameError::Length(65)));
        assert_eq!(NodeName::new("a/b"), Err(NodeNameError::Character('/')));
        assert_eq!(NodeName::new("A"), Err(NodeNameError::Character('A')));
    }

    #[test]
    fn an_address_has_the_parts_of_a_pid() {
        let address = Address::new(7, 9);

        assert_eq!((address.slot(), address.generation(), address.to_string()), (7, 9, "7.9".to_owned()));
    }
}
