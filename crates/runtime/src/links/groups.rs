//! Process groups: several processes under one name, as in OTP's `pg`.
//!
//! ```text
//!   join, leave, the end of a member ──▶ group ──▶ members, in the order of joining
//!                                          └─────▶ Joined, Left ──▶ processes that monitor the group
//! ```
//!
//! One lock for all groups covers a change of membership and its notifications. A process that monitors a group
//! therefore receives every change after the list that it was given, once and in order. Sending to a mailbox takes no
//! lock, so a notification never waits for the receiver. The lock of the process that joins or leaves is taken first,
//! and the end of that process takes it too: no dead process stays a member.

use std::sync::Arc;

use thiserror::Error;

use crate::links::memberships::{Group, Memberships, Registry};
use crate::links::name::{NameError, check_name};
use crate::links::signal::MonitorRef;
use crate::mailbox::message::Message;
use crate::mailbox::send;
use crate::process::context::Context;
use crate::process::pid::Pid;
use crate::process::running::Search;
use crate::runtime::handle::Handle;
use crate::runtime::remote::limits::{MEMBERSHIPS_MAX, share_of};
use crate::runtime::shared::RuntimeShared;

/// Message to a process that monitors a group: a process has joined the group.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Joined, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let (reference, members) = ctx.monitor_group("readers").expect("a valid name");
///     assert!(members.is_empty());
///     let reader = ctx.spawn(|ctx| async move {
///         ctx.join("readers").expect("a valid name");
///         ctx.receive().await;
///     });
///     let joined = ctx.receive_of::<Joined>().await;
///     assert_eq!((joined.reference, joined.pid), (reference, reader));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Reference returned by [`monitor_group`](Context::monitor_group).
    pub reference: MonitorRef,
    /// Name of the group.
    pub group: Arc<str>,
    /// Pid of the process that joined.
    pub pid: Pid,
}

/// Message to a process that monitors a group: a member has left or ended. There is one message for each membership.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Left, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     ctx.monitor_group("readers").expect("a valid name");
///     let reader = ctx.spawn(|ctx| async move { ctx.join("readers").expect("a valid name") });
///     assert_eq!(ctx.receive_of::<Left>().await.pid, reader);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Reference returned by [`monitor_group`](Context::monitor_group).
    pub reference: MonitorRef,
    /// Name of the group.
    pub group: Arc<str>,
    /// Pid of the process that left.
    pub pid: Pid,
}

/// Error returned when a group cannot be joined, left or monitored.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, GroupError, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     ctx.join("workers")?;
///     ctx.leave("workers")?;
///     let error = ctx.leave("workers").unwrap_err();
///     assert_eq!(error, GroupError::NotMember { group: "workers".to_owned(), pid: ctx.pid() });
///     Ok::<(), GroupError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    /// The process is not a member: it has left as often as it has joined.
    #[error("{pid} is not a member of group {group:?}")]
    NotMember {
        /// Name of the group.
        group: String,
        /// Pid of the process.
        pid: Pid,
    },
    /// The process does not exist or has ended.
    #[error("no process {pid}")]
    NoProcess {
        /// Pid of the process.
        pid: Pid,
    },
    /// The node is part of a cluster, and its processes have too many memberships: the other nodes know each of them.
    #[error("processes of one node may have {limit} memberships in groups")]
    TooMany {
        /// Maximum number; guests have half of what a node may have.
        limit: usize,
    },
    /// The name is empty or too long.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Context {
    /// Makes this process a member of a group, which exists from its first member to its last.
    ///
    /// A process may join several times. It then counts as several members, and must leave as often.
    ///
    /// # Errors
    /// [`GroupError::Name`] for a name that is empty or too long, [`GroupError::TooMany`] in a cluster.
    pub fn join(&self, group: &str) -> Result<(), GroupError> {
        self.running().local.shared.join(self.pid(), group)
    }

    /// Undoes one [`join`](Self::join).
    ///
    /// # Errors
    /// [`GroupError::NotMember`] if this process is not a member.
    pub fn leave(&self, group: &str) -> Result<(), GroupError> {
        self.running().local.shared.leave(self.pid(), group)
    }

    /// Returns the members of a group, in the order in which they joined, as far as this node knows. A process that
    /// joined twice is listed twice. Processes of connected nodes are members like those of this node.
    pub fn members(&self, group: &str) -> Vec<Pid> {
        self.running().local.shared.groups.members(group)
    }

    /// Returns the members of a group, and notifies this process of every later change by [`Joined`] and [`Left`]
    /// messages, which are delivered even if the mailbox is full.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// # use rusm::{Config, Joined, Runtime};
    /// # let runtime = Runtime::start(Config::default())?;
    /// # let (tell, told) = std::sync::mpsc::channel();
    /// # runtime.spawn(move |ctx| async move {
    /// let (monitor, members) = ctx.monitor_group("waiters").expect("the name is short");
    /// assert!(members.is_empty());
    /// ctx.join("waiters").expect("the name is short");
    /// let joined = ctx.receive_of::<Joined>().await;
    /// assert_eq!((joined.reference, joined.pid), (monitor, ctx.pid()));
    /// # tell.send(())
    /// # })?;
    /// # told.recv()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GroupError::Name`] for a name that is empty or too long.
    pub fn monitor_group(&self, group: &str) -> Result<(MonitorRef, Vec<Pid>), GroupError> {
        self.running().local.shared.monitor_group(self.pid(), group)
    }

    /// Ends a monitor that [`monitor_group`](Self::monitor_group) began, and removes its messages from the mailbox.
    /// Returns false if the monitor had already ended.
    pub fn demonitor_group(&self, reference: MonitorRef) -> bool {
        let running = self.running();
        if !running.local.shared.demonitor_group(self.pid(), reference) {
            return false;
        }
        let mut is_event = |message: &Message| {
            message.downcast_ref::<Joined>().is_some_and(|joined| joined.reference == reference)
                || message.downcast_ref::<Left>().is_some_and(|left| left.reference == reference)
        };
        while running.take_match(Search::START, &mut is_event).is_some() {}
        true
    }
}

impl Handle {
    /// Makes a process a member of a group; see [`Context::join`].
    ///
    /// # Errors
    /// [`GroupError::NoProcess`] if the process has ended, [`GroupError::Name`] for a name that is empty or too long,
    /// [`GroupError::TooMany`] in a cluster.
    pub fn join(&self, pid: Pid, group: &str) -> Result<(), GroupError> {
        self.shared.join(pid, group)
    }

    /// Undoes one [`join`](Self::join).
    ///
    /// # Errors
    /// [`GroupError::NotMember`] if the process is not a member, [`GroupError::NoProcess`] if it has ended.
    pub fn leave(&self, pid: Pid, group: &str) -> Result<(), GroupError> {
        self.shared.leave(pid, group)
    }

    /// Returns the members of a group; see [`Context::members`].
    pub fn members(&self, group: &str) -> Vec<Pid> {
        self.shared.groups.members(group)
    }

    /// Returns the names of the groups that have members, in sorted order.
    pub fn groups(&self) -> Vec<Arc<str>> {
        self.shared.groups.names()
    }
}

impl RuntimeShared {
    fn join(&self, pid: Pid, group: &str) -> Result<(), GroupError> {
        check_name("group", group)?;
        let mut locked = self.lock_process(pid).ok_or(GroupError::NoProcess { pid })?;
        let mut registry = self.groups.lock();
        let limit = share_of(locked.slot().header(), MEMBERSHIPS_MAX);
        if registry.local >= limit && self.peers.attached.get().is_some() {
            return Err(GroupError::TooMany { limit });
        }
        registry.local += 1;
        registry.last_position += 1;
        let position = registry.last_position;
        let (name, group) = registry.group(group);
        group.members.insert(position, pid);
        self.notify_monitors(group, |reference| Joined { reference, group: Arc::clone(&name), pid });
        self.announce_membership(pid, &name, true);
        locked.side_table().memberships().positions.insert((name, position));
        Ok(())
    }

    fn leave(&self, pid: Pid, group: &str) -> Result<(), GroupError> {
        let mut locked = self.lock_process(pid).ok_or(GroupError::NoProcess { pid })?;
        let positions = &mut locked.side_table().memberships().positions;
        let name: Arc<str> = group.into();
        let newest = positions.range((Arc::clone(&name), 0)..=(name, u64::MAX)).next_back().cloned();
        let Some((name, position)) = newest.and_then(|newest| positions.take(&newest)) else {
            return Err(GroupError::NotMember { group: group.to_owned(), pid });
        };
        self.remove_member(&mut self.groups.lock(), pid, &name, position);
        Ok(())
    }

    fn remove_member(&self, registry: &mut Registry, pid: Pid, name: &Arc<str>, position: u64) {
        registry.local -= usize::from(pid.node() == 0);
        registry.change(name, |group| {
            group.members.remove(&position);
            self.notify_monitors(group, |reference| Left { reference, group: Arc::clone(name), pid });
            self.announce_membership(pid, name, false);
        });
    }

    fn monitor_group(&self, pid: Pid, group: &str) -> Result<(MonitorRef, Vec<Pid>), GroupError> {
        check_name("group", group)?;
        let reference = self.next_reference();
        let mut locked = self.lock_process(pid).ok_or(GroupError::NoProcess { pid })?;
        let mut registry = self.groups.lock();
        let (name, group) = registry.group(group);
        group.monitors.insert(reference, pid);
        locked.side_table().memberships().monitors.insert(reference, name);
        Ok((reference, group.members.values().copied().collect()))
    }

    fn demonitor_group(&self, pid: Pid, reference: MonitorRef) -> bool {
        let Some(mut locked) = self.lock_process(pid) else { return false };
        let Some(name) = locked.side_table().memberships().monitors.remove(&reference) else { return false };
        self.groups.lock().change(&name, |group| {
            group.monitors.remove(&reference);
        });
        true
    }

    /// Removes a process that has ended from all of its groups, and notifies the processes that monitor them.
    pub(crate) fn leave_all(&self, pid: Pid, memberships: &Memberships) {
        if memberships.positions.is_empty() && memberships.monitors.is_empty() {
            return;
        }
        let mut registry = self.groups.lock();
        for (reference, name) in &memberships.monitors {
            registry.change(name, |group| {
                group.monitors.remove(reference);
            });
        }
        for (name, position) in &memberships.positions {
            self.remove_member(&mut registry, pid, name, *position);
        }
    }

    /// Calls `act` with the memberships of this node's processes, in the order of joining. None changes meanwhile.
    pub(crate) fn with_local_memberships(&self, act: impl FnOnce(Vec<(Arc<str>, Pid)>)) {
        let registry = self.groups.lock();
        let mut local: Vec<(u64, Arc<str>, Pid)> = Vec::new();
        for (name, group) in registry.groups.iter() {
            let own = group.members.iter().filter(|(_, pid)| pid.node() == 0);
            local.extend(own.map(|(position, pid)| (*position, Arc::clone(name), *pid)));
        }
        local.sort_by_key(|(position, ..)| *position);
        act(local.into_iter().map(|(_, name, pid)| (name, pid)).collect());
    }

    /// Makes a process of another node a member of a group. Returns `None` for a name that is not valid.
    pub(crate) fn join_of_remote(&self, pid: Pid, group: &str) -> Option<()> {
        check_name("group", group).ok()?;
        let mut registry = self.groups.lock();
        registry.last_position += 1;
        let position = registry.last_position;
        let (name, group) = registry.group(group);
        group.members.insert(position, pid);
        self.notify_monitors(group, |reference| Joined { reference, group: Arc::clone(&name), pid });
        Some(())
    }

    /// Undoes the newest membership of a process of another node. Returns false if it is not a member.
    pub(crate) fn leave_of_remote(&self, pid: Pid, group: &str) -> bool {
        let mut registry = self.groups.lock();
        let Some((name, members)) = registry.groups.get_key_value(group) else { return false };
        let newest = members.members.iter().rev().find(|(_, member)| **member == pid).map(|(position, _)| *position);
        let name = Arc::clone(name);
        if let Some(position) = newest {
            self.remove_member(&mut registry, pid, &name, position);
        }
        newest.is_some()
    }

    /// Removes the processes of a lost node from all groups.
    pub(crate) fn leave_all_of_node(&self, node: u32) {
        let mut registry = self.groups.lock();
        let mut lost: Vec<(Arc<str>, u64, Pid)> = Vec::new();
        for (name, group) in registry.groups.iter() {
            let theirs = group.members.iter().filter(|(_, pid)| pid.node() == node);
            lost.extend(theirs.map(|(position, pid)| (Arc::clone(name), *position, *pid)));
        }
        for (name, position, pid) in lost {
            self.remove_member(&mut registry, pid, &name, position);
        }
    }

    /// Returns the processes that receive the events of a group.
    pub(crate) fn group_monitors(&self, group: &str) -> Vec<Pid> {
        self.groups.monitors(group)
    }

    /// Sends an event to every process that monitors a group.
    fn notify_monitors<T: Send + 'static>(&self, group: &Group, event: impl Fn(MonitorRef) -> T) {
        for (reference, pid) in &group.monitors {
            if let Some(slot) = self.table.slot(*pid).filter(|_| self.is_alive(*pid)) {
                send::force_send(slot, send::envelope(self, self.local(), *pid, event(*reference)), || ());
            }
        }
    }
}
