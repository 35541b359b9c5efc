//! Kinds of recorded messages.

use super::ring::Kind;

pub(super) const TICK: Kind = 0;
pub(super) const ROWS: Kind = 1;
pub(super) const TREE: Kind = 2;
pub(super) const ENGINES: Kind = 3;
pub(super) const TIME: Kind = 4;
pub(super) const STORES: Kind = 5;
pub(super) const TOPICS: Kind = 6;
pub(super) const EVENTS: Kind = 7;
pub(super) const CAUSES: Kind = 8;
pub(super) const CPU: Kind = 9;
pub(super) const SCHEDULERS: Kind = 10;
pub(super) const SERVE: Kind = 11;
pub(super) const WAITS: Kind = 12;
pub(super) const RESULTS: Kind = 13;
