//! Steps between the present and the past.

use rusm_protocol::{ClientMessage, PastView};

use super::{past, receive};
use crate::model::Model;
use crate::model::message::Effect;

/// Moves the cursor by seconds. A step past the newest frame returns to the present.
pub(super) fn step(model: &mut Model, seconds: i64, effects: &mut Vec<Effect>) {
    let Some(from_ms) = model.past.cursor_ms.or_else(|| past::frame_ms(model)) else {
        return model.show_notice("nothing to go back from: the node has sent no frame yet", true);
    };
    let to_ms = from_ms.saturating_add_signed(seconds * 1000);
    if to_ms >= model.past.live_ms {
        if model.paused {
            receive::leave(model, effects);
        }
        if model.replay && seconds > 0 {
            // A recording has a future: the request without an id continues the replay there.
            effects.push(Effect::Send(ClientMessage::Past(PastView { id: 0, at_ms: to_ms })));
        }
        return;
    }
    past::go(model, to_ms);
}

/// Freezes the screen or returns to the present.
pub(super) fn pause(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.paused { receive::leave(model, effects) } else { past::freeze(model) }
}
