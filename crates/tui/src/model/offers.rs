//! The permissions of this observer on this node: the keys of everything else are hidden, and explained when pressed.

use rusm_protocol::Role;

use crate::model::Model;
use crate::model::input::keys::Action;
use crate::model::tab::Tab;

impl Action {
    /// Returns true if the action changes something on the node. It needs the control role.
    pub const fn changes_node(self) -> bool {
        matches!(
            self,
            Self::Run
                | Self::Stop
                | Self::PauseRun
                | Self::Profile
                | Self::Parameters
                | Self::Against
                | Self::Kill
                | Self::KillAll
                | Self::RestartChild
                | Self::LogLevel
        )
    }

    /// Returns true if the action is about scenarios, which an application's node does not have.
    const fn needs_scenarios(self) -> bool {
        matches!(
            self,
            Self::Run
                | Self::Stop
                | Self::PauseRun
                | Self::Profile
                | Self::Parameters
                | Self::Against
                | Self::About
                | Self::Show(Tab::Bench)
        )
    }
}

impl Model {
    /// Returns the reason why an action is not possible here; `None` if it is.
    pub(crate) fn refusal(&self, action: Action) -> Option<&'static str> {
        if action.needs_scenarios() && !self.has_scenarios() {
            return Some("no scenarios on this node");
        }
        if action == Action::Show(Tab::Cluster) && self.hello.is_some() && !self.has_feature("cluster") {
            return Some("this node has joined no cluster: start it with rusm node --cluster");
        }
        if matches!(action, Action::NextNode | Action::OneNode) && !self.beside {
            return Some("only this node is on the screen: the Cluster view shows all");
        }
        if !action.changes_node() {
            return None;
        }
        match self.role() {
            _ if self.read_only => Some("this observer is read-only: start it without --read-only to change the node"),
            Some(Role::Observe) if self.has_feature("read_only") => {
                Some("this node is read-only: observers cannot change it")
            }
            Some(Role::Observe) => Some("this connection may only observe: attach with the control token"),
            Some(_) if action == Action::LogLevel && !self.has_feature("log_filter") => {
                Some("the log of this node has a fixed filter")
            }
            _ => None,
        }
    }

    /// Returns true if the action is possible here, so that the footer and the help show its key.
    pub(crate) fn offers(&self, action: Action) -> bool {
        self.refusal(action).is_none()
    }

    pub(crate) fn has_feature(&self, name: &str) -> bool {
        self.hello.as_ref().is_some_and(|hello| hello.node.features.iter().any(|it| it == name))
    }

    /// Returns true if the node has scenarios, or has not said yet what it has.
    pub(crate) fn has_scenarios(&self) -> bool {
        self.hello.as_ref().is_none_or(|hello| !hello.scenarios.is_empty())
    }

    /// Returns the views that this node has something for.
    pub(crate) fn tabs(&self) -> Vec<Tab> {
        Tab::ALL.iter().copied().filter(|tab| self.offers(Action::Show(*tab))).collect()
    }
}
