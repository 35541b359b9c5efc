//! Says that a connection has reached another node than before: what the user selected may mean something else there.

use rusm_protocol::Hello;

use crate::model::message::Effect;
use crate::model::overlay::Overlay;
use crate::model::{Link, Model};

/// Announces a node that is not the one on the screen. A new node of the same name is the successor of a node that has
/// ended; any other must be confirmed before keys reach it.
pub(super) fn announce(model: &mut Model, hello: &Hello) {
    let Some(before) = model.hello.as_ref().map(|known| known.node.clone()) else { return };
    let node = &hello.node;
    if node.name == before.name {
        if model.status.as_ref().is_none_or(|status| !status.is_error) {
            let text = format!("{} has restarted: pid {}, before pid {}", node.name, node.os_pid, before.os_pid);
            model.show_notice(text, true);
        }
        return;
    }
    model.table.set_filter(String::new());
    model.table.follow = false;
    let describe = |name: &str, os_pid: u32| format!("{name}, pid {os_pid}");
    model.overlay = Some(Overlay::OtherNode {
        node: describe(&node.name, node.os_pid),
        before: describe(&before.name, before.os_pid),
    });
}

/// Removes messages that must not be sent: all while no node is connected, and commands before the greeting. Until then
/// the node may differ from the one on the screen, and the same pid may be another process.
pub(super) fn withhold(model: &mut Model, effects: &mut Vec<Effect>) {
    let (is_live, is_known) = (model.link == Link::Live, model.greeted);
    let mut withheld = Vec::new();
    effects.retain(|effect| {
        let Effect::Send(message) = effect else { return true };
        // Only these must reach the node that the user saw: they change something, or read a result by its number.
        let command = message.command_id();
        let leaves = is_live && (is_known || command.is_none());
        if !leaves {
            withheld.extend(command);
        }
        leaves
    });
    for id in withheld {
        model.bench.requested.take_if(|requested| requested.id == id);
        if let Some(about) = model.take_command(id) {
            model.show_notice(format!("not connected, so not sent: {about}"), true);
        }
    }
}
