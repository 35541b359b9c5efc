//! The views, one line each: adding one is a line here, a file under `view/`, and the arm that the compiler then asks for.

use crate::model::around;

macro_rules! tabs {
    ($($(#[$doc:meta])* $name:ident $digit:literal $id:literal $title:literal),+ $(,)?) => {
        /// A view of the node.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Tab {
            $($(#[$doc])* $name),+
        }

        impl Tab {
            /// All views, in the order of their number keys.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word that `--tab` takes.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id),+ }
            }

            /// The key that shows it.
            pub const fn digit(self) -> char {
                match self { $(Self::$name => $digit),+ }
            }

            /// The word in the header.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title),+ }
            }
        }
    };
}

tabs! {
    /// The node at a glance.
    #[default]
    Node '1' "node" "Node",
    /// The scenarios.
    Bench '2' "bench" "Bench",
    /// The process table.
    Processes '3' "processes" "Processes",
    /// The supervisors and their children.
    Tree '4' "tree" "Tree",
    /// What happened lately.
    Events '5' "events" "Events",
    /// The guests of WebAssembly.
    Wasm '6' "wasm" "Wasm",
    /// Tickers, rings and streams.
    Time '7' "time" "Time",
    /// The durable stores.
    Store '8' "store" "Store",
    /// The topics.
    Topics '9' "topics" "Topics",
}

impl Tab {
    /// The word in the header of a narrow screen.
    pub(crate) const fn short(self) -> &'static str {
        match self {
            Self::Processes => "Procs",
            other => other.title(),
        }
    }

    /// The view's place, from 0.
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|&tab| tab == self).unwrap_or(0)
    }

    /// The view `steps` further, around the end.
    pub(crate) fn step(self, steps: isize) -> Self {
        Self::ALL[around(self.index(), steps, Self::ALL.len())]
    }

    /// The view of that id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|tab| tab.id() == id)
    }
}
