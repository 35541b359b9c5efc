//! The list of waits, requested only while its overlay is open.

use std::time::Duration;

use rusm_protocol::{ClientMessage, Waits, WaitsView};

use crate::model::selection::paged_list::PagedList;

/// State of the list of waits.
pub(crate) type WaitsPane = PagedList<WaitsView, Waits>;

/// Returns the message that requests the visible rows, or ends the subscription, if a change is needed.
pub(crate) fn requests(pane: &mut WaitsPane, visible: Option<u16>, now: Duration) -> Option<ClientMessage> {
    let Some(visible) = visible else {
        return pane.end().then_some(ClientMessage::Waits { view: None });
    };
    let window = pane.list.window(visible);
    let view = pane.request(now, |id| WaitsView { id, window, ..WaitsView::default() });
    view.map(|view| ClientMessage::Waits { view: Some(view) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_requested_once_while_it_is_shown_and_ended_afterwards() {
        let (mut pane, tick) = (WaitsPane::default(), Duration::from_millis(100));

        assert!(matches!(requests(&mut pane, Some(10), tick), Some(ClientMessage::Waits { view: Some(_) })));
        assert_eq!(requests(&mut pane, Some(10), 3 * tick), None);
        assert_eq!(requests(&mut pane, None, 4 * tick), Some(ClientMessage::Waits { view: None }));
        assert_eq!(requests(&mut pane, None, 5 * tick), None);
    }
}
