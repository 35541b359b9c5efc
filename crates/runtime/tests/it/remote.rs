//! Processes on two nodes: every guarantee between processes of one node, and what a lost node means.

mod asks;
mod bonds;
mod hostile;
mod lost;
mod messages;
mod undecodable;

use rusm_runtime::Pid;
use rusm_runtime::remote::{Decoder, Encoder, Exports, Portable};

use crate::network::Node;

/// A message of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) from: Pid,
    pub(crate) number: u64,
}

impl Portable for Numbered {
    fn encode(&self, to: &mut Encoder<'_>) {
        self.from.encode(to);
        self.number.encode(to);
    }

    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Self { from: Pid::decode(from)?, number: u64::decode(from)? })
    }
}

pub(crate) fn exports() -> Exports {
    Exports::default().message::<Numbered>("numbered").call::<u64, u64>("double")
}

/// Two connected nodes.
pub(crate) fn two() -> (Node, Node) {
    let (a, b) = (Node::start("a", 1, exports()), Node::start("b", 1, exports()));
    a.connect(&b);
    (a, b)
}
