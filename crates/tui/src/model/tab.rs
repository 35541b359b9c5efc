//! The views, one line each. A new view needs a line here, a file under `view/`, and the match arm that the compiler
//! requests.

use crate::model::selection::wrapped;

macro_rules! tabs {
    ($($(#[$doc:meta])* $name:ident $key:literal $id:literal $title:literal),+ $(,)?) => {
        /// A view of the observer.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Tab {
            $($(#[$doc])* $name),+
        }

        impl Tab {
            /// All views, in the order of the first row.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the word that `--tab` accepts.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }

            /// Returns the key that shows the view.
            pub const fn key(self) -> char {
                match self { $(Self::$name => $key),+ }
            }

            /// Returns the title in the header.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),+ }
            }
        }
    };
}

tabs! {
    /// Overview of the node.
    #[default]
    Node '1' "node" "Node",
    /// The scenarios.
    Bench '2' "bench" "Bench",
    /// The process table.
    Processes '3' "processes" "Processes",
    /// The supervisors and their children.
    Tree '4' "tree" "Tree",
    /// Recent events.
    Events '5' "events" "Events",
    /// WebAssembly guests.
    Wasm '6' "wasm" "Wasm",
    /// Tickers, rings and streams.
    Time '7' "time" "Time",
    /// The durable stores.
    Store '8' "store" "Store",
    /// The topics.
    Topics '9' "topics" "Topics",
    /// The CPU time of processes and of the runtime.
    Cpu '0' "cpu" "CPU",
    /// The schedulers.
    Sched 'S' "sched" "Schedulers",
    /// The HTTP servers.
    Serve 'V' "serve" "Serve",
    /// The other nodes.
    Cluster 'U' "cluster" "Cluster",
}

impl Tab {
    /// Returns the title in the header of a narrow screen.
    pub(crate) const fn short(self) -> &'static str {
        match self {
            Self::Processes => "Procs",
            Self::Sched => "Sched",
            other => other.title(),
        }
    }

    /// Returns the index of the view.
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|&tab| tab == self).unwrap_or(0)
    }

    /// Returns the view `steps` after this one among those that are shown, wrapping around.
    pub(crate) fn step(self, steps: isize, shown: &[Self]) -> Self {
        let at = shown.iter().position(|&tab| tab == self).unwrap_or(0);
        shown.get(wrapped(at, steps, shown.len())).copied().unwrap_or(self)
    }

    /// Returns the view with that id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tab| tab.id() == id)
    }
}
