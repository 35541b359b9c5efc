//! Servers, their routes and their live requests, requested only while they are shown.
//!
//! ```text
//!   focus: requests ◀──▶ routes      each list has a cursor that follows what is selected, and an order of its own
//! ```
//!
//! The node pages, sorts and filters; the chart of the rate is computed here, from counters that only go up.

pub(crate) mod filter;
pub(crate) mod totals;

use std::collections::VecDeque;
use std::time::Duration;

use rusm_protocol::{ClientMessage, LimitInfo, RequestInfo, RequestSort, RouteInfo, RouteSort, Serve, ServeView};
use rusm_text::quoted;

use crate::model::message::REQUEST_PACE;
use crate::model::panes::serve::filter::RequestFilterField;
use crate::model::selection::ListCursor;

/// Number of points of the chart of the rate.
const POINTS: usize = 240;

/// List that has the keyboard focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServeFocus {
    /// The live requests.
    #[default]
    Requests,
    /// The routes.
    Routes,
}

/// State of the Serve view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServePane {
    sent: Option<ServeView>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<Serve>,
    pub(crate) focus: ServeFocus,
    pub(crate) sort: RouteSort,
    pub(crate) request_sort: RequestSort,
    pub(crate) filter: RequestFilterField,
    pub(crate) routes: ListCursor,
    pub(crate) requests: ListCursor,
    /// Uptime in milliseconds and responses per second, oldest first.
    pub(crate) rates: VecDeque<(u64, f64)>,
    /// Uptime and number of responses of the newest answer.
    counted: Option<(u64, u64)>,
}

impl ServePane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Forgets all answers, because they are from another node.
    pub(crate) fn forget(&mut self) {
        self.forget_answers();
        (self.routes, self.requests) = (ListCursor::default(), ListCursor::default());
    }

    /// Forgets the answers, and keeps what the user selected.
    pub(crate) fn forget_answers(&mut self) {
        (self.newest, self.counted) = (None, None);
        self.rates.clear();
    }

    /// Returns the message that requests the visible numbers of routes and requests, or ends the subscription, if a
    /// change is needed.
    pub(crate) fn requests(&mut self, visible: Option<(u16, u16)>, now: Duration) -> Option<ClientMessage> {
        let Some((routes, requests)) = visible else {
            self.counted = None;
            self.rates.clear();
            return self.sent.take().map(|_| ClientMessage::Serve { view: None });
        };
        let query = ServeView {
            id: self.ids,
            sort: self.sort,
            window: self.routes.window(routes),
            request_sort: self.request_sort,
            filter: self.filter.in_force().to_owned(),
            requests: self.requests.window(requests),
            ..ServeView::default()
        };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = ServeView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Serve { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request. The cursors follow what is selected.
    pub(crate) fn take(&mut self, serve: Serve, visible: (u16, u16)) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != serve.id) {
            return false;
        }
        self.count(&serve);
        self.show(serve, visible);
        true
    }

    /// Shows recorded servers, which are not an answer.
    pub(crate) fn show(&mut self, serve: Serve, visible: (u16, u16)) {
        let route = serve.routes.iter().position(|route| Some(route_key(route)) == self.routes.selected);
        if let Some(at) = route {
            self.routes.at = serve.offset + at as u64;
        }
        let request = serve.requests.iter().position(|request| Some(&request.pid) == self.requests.selected.as_ref());
        if let Some(at) = request {
            self.requests.at = serve.requests_offset + at as u64;
        }
        self.newest = Some(serve);
        self.clamp(visible);
    }

    /// Adds the rate since the last answer to the chart.
    fn count(&mut self, serve: &Serve) {
        let responses = serve.servers.iter().flat_map(|server| server.responses_total).sum();
        let before = self.counted.replace((serve.at_ms, responses));
        let Some((at_ms, count)) = before.filter(|(at_ms, count)| *at_ms < serve.at_ms && *count <= responses) else {
            return;
        };
        if self.rates.len() == POINTS {
            self.rates.pop_front();
        }
        let seconds = (serve.at_ms - at_ms) as f64 / 1e3;
        self.rates.push_back((serve.at_ms, (responses - count) as f64 / seconds));
    }

    /// Keeps both cursors inside their lists and their visible rows.
    pub(crate) fn clamp(&mut self, (routes, requests): (u16, u16)) {
        let Some(newest) = &self.newest else { return };
        self.routes.clamp(newest.total, routes);
        self.requests.clamp(newest.matched, requests);
    }

    /// Moves the cursor of the focused list.
    pub(crate) fn move_by(&mut self, lines: i64, visible: (u16, u16)) {
        let at = match self.focus {
            ServeFocus::Requests => self.requests.at,
            ServeFocus::Routes => self.routes.at,
        };
        self.go_to(at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor of the focused list to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: (u16, u16)) {
        match self.focus {
            ServeFocus::Requests => self.requests.at = position,
            ServeFocus::Routes => self.routes.at = position,
        }
        self.clamp(visible);
        match self.focus {
            ServeFocus::Requests => self.requests.selected = self.request().map(|request| request.pid.clone()),
            ServeFocus::Routes => self.routes.selected = self.route().map(route_key),
        }
    }

    /// Sorts the focused list by its next order.
    pub(crate) fn sort_next(&mut self) {
        match self.focus {
            ServeFocus::Requests => {
                self.request_sort = next(&RequestSort::ALL, self.request_sort);
                self.requests = ListCursor::default();
            }
            ServeFocus::Routes => {
                self.sort = next(&RouteSort::ALL, self.sort);
                self.routes = ListCursor::default();
            }
        }
    }

    /// Shows only the requests of the route under the cursor. Returns false without a route.
    pub(crate) fn show_requests_of_route(&mut self) -> bool {
        let Some(route) = self.route().map(|route| format!("route={}", quoted(&route.route))) else { return false };
        self.filter.set(route);
        self.requests = ListCursor::default();
        self.focus = ServeFocus::Requests;
        true
    }

    /// Returns the route at an index, if the node has sent it.
    pub(crate) fn route_at(&self, position: u64) -> Option<&RouteInfo> {
        let newest = self.newest.as_ref()?;
        newest.routes.get(usize::try_from(position.checked_sub(newest.offset)?).ok()?)
    }

    /// Returns the request at an index, if the node has sent it.
    pub(crate) fn request_at(&self, position: u64) -> Option<&RequestInfo> {
        let newest = self.newest.as_ref()?;
        newest.requests.get(usize::try_from(position.checked_sub(newest.requests_offset)?).ok()?)
    }

    /// Returns the route under the cursor.
    pub(crate) fn route(&self) -> Option<&RouteInfo> {
        self.route_at(self.routes.at)
    }

    /// Returns the request under the cursor.
    pub(crate) fn request(&self) -> Option<&RequestInfo> {
        self.request_at(self.requests.at)
    }

    /// Returns the limits that clients have hit, the most frequent first.
    pub(crate) fn limits_hit(&self) -> Vec<&LimitInfo> {
        let all = self.newest.iter().flat_map(|newest| &newest.limits);
        let mut hit: Vec<_> = all.filter(|limit| limit.hits_total > 0).collect();
        hit.sort_by_key(|limit| std::cmp::Reverse(limit.hits_total));
        hit
    }
}

fn next<T: Copy + PartialEq>(all: &[T], current: T) -> T {
    let at = all.iter().position(|known| *known == current).unwrap_or(0);
    all[(at + 1) % all.len()]
}

fn route_key(route: &RouteInfo) -> String {
    format!("{} {}", route.server, route.route)
}

#[cfg(test)]
mod tests;
