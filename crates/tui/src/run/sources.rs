//! Sources that follow a screen: a recording, another node of the cluster, more nodes, or what was shown before.
//!
//! ```text
//!   first source ──▶ recording ──▶ another recording      q: back by one
//!        └─────────▶ node b ──▶ node c                    q: back to the first source
//!        └─────────▶ nodes a, b and c                     q: back to the first source
//! ```

use std::path::PathBuf;

use crate::cli::options::{Options, Source};
use crate::connection::Target;
use crate::connection::sibling::sibling;
use crate::model::Model;
use crate::model::tab::Tab;

/// A source to show next.
#[derive(Debug)]
pub(super) enum Next {
    /// A recording.
    Recording(PathBuf),
    /// Another node of the cluster.
    Node(Target),
    /// The present node, and others beside it.
    Beside(Vec<Target>),
}

/// The source on the screen, and those to which the user returns.
pub(super) struct Sources {
    pub(super) now: Options,
    earlier: Vec<Options>,
}

impl Sources {
    pub(super) const fn new(now: Options) -> Self {
        Self { now, earlier: Vec::new() }
    }

    /// Changes to the next source, or back to an earlier one. Returns false without one.
    pub(super) fn advance(&mut self, next: Option<Next>) -> bool {
        match next {
            Some(Next::Recording(path)) => {
                let source = Source::Replay { path, speed: 1.0 };
                let now = self.now.clone();
                let recording =
                    Options { source, beside: Vec::new(), owns_node: false, run: None, filter: String::new(), ..now };
                self.earlier.push(std::mem::replace(&mut self.now, recording));
            }
            Some(Next::Node(target)) => self.attach(Source::Node(target)),
            Some(Next::Beside(beside)) => {
                let all = Options { beside, run: None, tab: Tab::default(), ..self.now.clone() };
                self.earlier.push(std::mem::replace(&mut self.now, all));
            }
            None => match self.earlier.pop() {
                Some(before) => self.now = Options { run: None, ..before },
                None => return false,
            },
        }
        true
    }

    fn attach(&mut self, source: Source) {
        if self.earlier.last().is_some_and(|first| first.source == source) {
            self.advance(None);
            return;
        }
        let tab = Tab::Cluster;
        let other = Options { source, beside: Vec::new(), owns_node: false, run: None, tab, ..self.now.clone() };
        let before = std::mem::replace(&mut self.now, other);
        if self.earlier.is_empty() {
            self.earlier.push(before);
        }
    }
}

/// Returns the target of another node of the cluster.
pub(super) fn other_node(options: &Options, model: &Model, node: &str) -> Option<Target> {
    let Source::Node(target) = &options.source else { return None };
    let own = model.hello.as_ref().map_or("", |hello| hello.node.name.as_str());
    sibling(target, own, node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sources: &Sources) -> String {
        match &sources.now.source {
            Source::Node(target) => target.to_string(),
            other => format!("{other:?}"),
        }
    }

    fn node(name: &str) -> Next {
        Next::Node(Target::Named(name.to_owned()))
    }

    #[test]
    fn from_any_node_of_the_cluster_the_way_back_leads_to_the_first_one() {
        let mut sources = Sources::new(Options { source: Source::Node("a".parse().unwrap()), ..Options::default() });

        assert!(sources.advance(Some(node("b@a"))) && sources.advance(Some(node("c@a"))));
        assert_eq!(at(&sources), "c@a");
        assert!(sources.advance(None));
        assert_eq!(at(&sources), "a");
        assert!(sources.advance(Some(node("b@a"))) && sources.advance(Some(node("a"))));
        assert_eq!(at(&sources), "a");
        assert!(!sources.advance(None));
    }
}
