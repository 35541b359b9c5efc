//! Recent orders of the process table: clients with the same view share one pass over all processes.

use std::collections::VecDeque;
use std::time::Instant;

use rusm_protocol::{SortKey, ViewWindow};

use super::ranking::Order;
use crate::budget::order_shared_for;
use crate::view::filter::Filter;

/// Number of orders that are kept; each has a few thousand rows of 8 bytes.
const ORDERS_MAX: usize = 8;

/// Describes which order a client wants.
#[derive(Debug, PartialEq)]
pub(crate) struct OrderKey {
    pub(crate) sort: SortKey,
    pub(crate) filter: Filter,
    pub(crate) era: u64,
}

/// The newest orders of all clients.
#[derive(Debug, Default)]
pub(crate) struct SharedOrders(VecDeque<(OrderKey, Order)>);

impl SharedOrders {
    /// Returns a recent order with the rows of the window, if it was computed after `known`.
    pub(crate) fn find(
        &self,
        key: &OrderKey,
        window: ViewWindow,
        known: Option<Instant>,
        now: Instant,
    ) -> Option<Order> {
        let is_fit = |(of, order): &&(OrderKey, Order)| {
            of == key
                && known.is_none_or(|known| order.ranked > known)
                && now.saturating_duration_since(order.ranked) < order_shared_for(order.cost)
                && order.window(window).is_some()
        };
        let (_, order) = self.0.iter().rev().find(is_fit)?;
        let mut order = order.clone();
        order.offset = window.offset;
        Some(order)
    }

    /// Keeps an order, in place of the older ones with the same key.
    pub(crate) fn keep(&mut self, key: OrderKey, order: Order) {
        self.0.retain(|(of, _)| *of != key);
        self.0.truncate(ORDERS_MAX - 1);
        self.0.push_front((key, order));
    }

    /// Frees all orders.
    pub(crate) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusm_protocol::Column;

    use super::*;

    fn key(column: Column, filter: &str, era: u64) -> OrderKey {
        OrderKey { sort: SortKey { key: column, desc: true }, filter: Filter::parse(filter).unwrap(), era }
    }

    fn window(offset: u64) -> ViewWindow {
        ViewWindow { offset, len: 10 }
    }

    #[test]
    fn an_order_is_shared_by_clients_with_the_same_view_while_it_is_recent() {
        let made = Instant::now();
        let cost = Duration::from_millis(1);
        let now = made + Duration::from_millis(100);
        let mut orders = SharedOrders::default();
        orders.keep(key(Column::Reds, "", 1), Order::of_rows(1_000, 100, 2_000, made, cost));
        let find = |of: OrderKey, offset, known, now| orders.find(&of, window(offset), known, now);
        let same = || key(Column::Reds, "", 1);

        assert_eq!(find(same(), 150, None, now).map(|order| order.offset), Some(150));
        assert!(find(same(), 50, None, now).is_none(), "its rows begin later");
        assert!(find(key(Column::Pid, "", 1), 150, None, now).is_none(), "another column");
        assert!(find(key(Column::Reds, "mem>1", 1), 150, None, now).is_none(), "another filter");
        assert!(find(key(Column::Reds, "", 2), 150, None, now).is_none(), "a run has begun since");
        assert!(find(same(), 150, Some(made), now).is_none(), "the client's own order");
        assert!(find(same(), 150, made.checked_sub(cost), now).is_some(), "the client's order is older");
        assert!(find(same(), 150, None, made + Duration::from_secs(1)).is_none(), "too old");
    }

    #[test]
    fn few_orders_are_kept_and_one_for_each_key() {
        let made = Instant::now();
        let order = || Order::of_rows(10, 0, 10, made, Duration::from_millis(1));
        let mut orders = SharedOrders::default();
        for era in (0..20).flat_map(|era| [era, era]) {
            orders.keep(key(Column::Reds, "", era), order());
        }

        assert_eq!(orders.0.len(), ORDERS_MAX);
        assert!(orders.find(&key(Column::Reds, "", 19), window(0), None, made).is_some());
        assert!(orders.find(&key(Column::Reds, "", 3), window(0), None, made).is_none());
        orders.clear();
        assert_eq!(orders.0.len(), 0);
    }
}
