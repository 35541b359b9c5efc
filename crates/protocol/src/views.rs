//! Requests of observers page by page: each file has the request of a view and its answer.

pub(crate) mod cluster;
pub(crate) mod cpu;
pub(crate) mod engines;
pub(crate) mod events;
pub(crate) mod past;
pub(crate) mod results;
pub(crate) mod schedulers;
pub(crate) mod serve;
pub(crate) mod stores;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod topics;
pub(crate) mod tree;
