//! The views of a client: what each shows, its order, its filter and its page.

pub(crate) mod causes;
pub(crate) mod cpu;
pub(crate) mod engines;
pub(crate) mod filter;
pub(crate) mod inspect;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod results;
pub(crate) mod schedulers;
pub(crate) mod stores;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod topics;
pub(crate) mod tree;
pub(crate) mod waits;
