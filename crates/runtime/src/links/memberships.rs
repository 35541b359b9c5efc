//! The data of process groups: groups with their members and monitors, and the memberships of a process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::links::name_map::NameMap;
use crate::links::signal::MonitorRef;
use crate::process::pid::Pid;

/// Memberships and group monitors of a process.
#[derive(Default)]
pub(crate) struct Memberships {
    /// Groups that the process has joined, with its position in each.
    pub(super) positions: BTreeSet<(Arc<str>, u64)>,
    pub(super) monitors: BTreeMap<MonitorRef, Arc<str>>,
}

impl Memberships {
    /// Returns the number of memberships plus the number of group monitors.
    pub(crate) fn len(&self) -> usize {
        self.positions.len() + self.monitors.len()
    }

    /// Returns the groups that the process has joined, each once, by name.
    pub(crate) fn groups(&self) -> Vec<Arc<str>> {
        let mut groups: Vec<Arc<str>> = self.positions.iter().map(|(group, _)| Arc::clone(group)).collect();
        groups.dedup();
        groups
    }
}

/// All groups of a runtime.
#[derive(Default)]
pub(crate) struct Groups(Mutex<Registry>);

#[derive(Default)]
pub(super) struct Registry {
    pub(super) groups: NameMap<Group>,
    pub(super) last_position: u64,
    /// Number of memberships of processes of this node.
    pub(super) local: usize,
}

#[derive(Default)]
pub(super) struct Group {
    pub(super) members: BTreeMap<u64, Pid>,
    pub(super) monitors: BTreeMap<MonitorRef, Pid>,
}

impl Groups {
    pub(super) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock()
    }

    pub(super) fn members(&self, group: &str) -> Vec<Pid> {
        self.lock().groups.get(group).map(|group| group.members.values().copied().collect()).unwrap_or_default()
    }

    /// Returns the processes that monitor a group.
    pub(super) fn monitors(&self, group: &str) -> Vec<Pid> {
        self.lock().groups.get(group).map(|group| group.monitors.values().copied().collect()).unwrap_or_default()
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        let registry = self.lock();
        let joined = registry.groups.iter().filter(|(_, group)| !group.members.is_empty());
        let mut names: Vec<Arc<str>> = joined.map(|(name, _)| Arc::clone(name)).collect();
        names.sort();
        names
    }
}

impl Registry {
    /// Returns the group with this name, and creates it if it does not exist.
    pub(super) fn group(&mut self, name: &str) -> (Arc<str>, &mut Group) {
        let name = self.groups.get_key_value(name).map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        let group = self.groups.part_mut(&name).entry(Arc::clone(&name)).or_default();
        (name, group)
    }

    /// Changes a group if it exists, and removes it if it has neither members nor monitors left.
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut Group)) {
        let groups = self.groups.part_mut(name);
        let Some(group) = groups.get_mut(name) else { return };
        change(group);
        if group.members.is_empty() && group.monitors.is_empty() {
            groups.remove(name);
        }
    }
}
