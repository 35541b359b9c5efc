//! Says that a connection has reached another node than before: what the user selected may mean something else there.

use rusm_protocol::Hello;

use crate::model::Model;
use crate::model::overlay::Overlay;

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
