//! One client's view of tickers and streams.
//!
//! A rate is the growth of a total between two looks of this client.

use std::collections::HashMap;
use std::time::Instant;

use rusm_protocol::{ServerMessage, Time, TimeView};

use crate::encode::time as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz};
use rusm_runtime::observe;

/// Maximum number of tickers, and of rings, that are shown.
const SHOWN: usize = 100;

/// A client's view of tickers and streams.
pub(crate) struct TimeSource {
    view: TimeView,
    before: Before,
}

/// Totals at the last look: firings by ticker, and items by ring.
#[derive(Default)]
struct Before {
    at: Option<Instant>,
    fired: Totals,
    written: Totals,
}

/// Totals by id, which only increase; a higher id is younger.
#[derive(Default)]
struct Totals {
    of: HashMap<u64, u64>,
    /// Id of the youngest at that time, shown or not.
    newest: u64,
}

impl Totals {
    /// Returns the previous total: zero for a ticker or ring that is new, `None` for one that was not shown.
    fn before(&self, id: u64) -> Option<u64> {
        self.of.get(&id).copied().or_else(|| (id > self.newest).then_some(0))
    }
}

impl Before {
    /// Returns the growth of a total per second; 0 if it was not observed before.
    fn rate(&self, known: Option<u64>, total: u64, now: Instant) -> f64 {
        let (Some(at), Some(known)) = (self.at, known) else { return 0.0 };
        total.saturating_sub(known) as f64 / now.duration_since(at).as_secs_f64().max(1e-3)
    }
}

impl TimeSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: TimeView) -> Result<Self, HostError> {
        check_hz(view.hz)?;
        Ok(Self { view, before: Before::default() })
    }
}

impl ViewSource for TimeSource {
    type Data = Time;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Time {
        let runtime = &node.runtime;
        let driver = observe::ticker_driver(runtime);
        let tickers = observe::tickers(runtime, SHOWN);
        let mut rings = observe::streams(runtime, 0);
        let streams_total = rings.len() as u64;
        let newest_ring = rings.iter().map(|ring| ring.id).max().unwrap_or(0);
        // If there are too many, prefer the rings in which a reader blocks the writer.
        rings.sort_by_key(|ring| (ring.waits_for.is_none(), ring.id));
        rings.truncate(SHOWN);
        rings.sort_by_key(|ring| ring.id);
        let at = Instant::now();
        let before = &self.before;
        let time = Time {
            tickers: tickers
                .iter()
                .map(|ticker| {
                    let rate = before.rate(before.fired.before(ticker.id), ticker.account.fired, at);
                    encode::ticker(runtime, ticker, rate)
                })
                .collect(),
            streams: rings
                .iter()
                .map(|ring| {
                    let rate = before.rate(before.written.before(ring.id), ring.written_total, at);
                    encode::stream(runtime, ring, rate)
                })
                .collect(),
            realtime: driver.realtime.map(encode::realtime),
            tickers_total: driver.tickers,
            streams_total,
            ..Time::default()
        };
        self.before = Before {
            at: Some(at),
            fired: Totals {
                of: tickers.iter().map(|ticker| (ticker.id, ticker.account.fired)).collect(),
                newest: driver.created_total,
            },
            written: Totals {
                of: rings.iter().map(|ring| (ring.id, ring.written_total)).collect(),
                newest: newest_ring.max(self.before.written.newest),
            },
        };
        time
    }

    fn message(&self, found: Time, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Time(Time { id: self.view.id, seq, at_ms, cost_us, ..found })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_came_since_the_last_look_has_a_rate_and_what_was_not_looked_at_has_none() {
        let at = Instant::now();
        let fired = Totals { of: [(7, 100), (9, 50)].into(), newest: 10 };
        let before = Before { at: Some(at), fired, ..Before::default() };
        let rate = |id| before.rate(before.fired.before(id), 150, at + Duration::from_millis(500));
        let first = Before::default().rate(Some(0), 150, at);

        assert_eq!((rate(7), rate(9), rate(11), rate(10), first), (100.0, 200.0, 300.0, 0.0, 0.0));
    }
}
