//! The target of another node of a cluster, reached through the node that the user named.
//!
//! ```text
//!   attached to a          ──▶ b: the socket b@a of node a        ──▶ c: c@a
//!   attached to b@a        ──▶ a: the socket of a itself
//! ```

use crate::connection::{SshTarget, Target};

/// Returns the target of the node `wanted`, seen from a target whose node is `own`. `None` if it cannot be reached: only
/// sockets lead to other nodes.
pub(crate) fn sibling(target: &Target, own: &str, wanted: &str) -> Option<Target> {
    // The part after the last @ is the node that the sockets belong to.
    let through = |name: &str| {
        let entry = name.rsplit('@').next().unwrap_or(name);
        if entry == wanted { wanted.to_owned() } else { format!("{wanted}@{entry}") }
    };
    match target {
        Target::Discover => Some(Target::Named(through(own))),
        Target::Named(name) => Some(Target::Named(through(name))),
        Target::Unix(path) => {
            let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
            Some(Target::Unix(path.with_file_name(format!("{}.sock", through(name)))))
        }
        Target::Ssh(ssh) => {
            let node = Some(through(ssh.node.as_deref().unwrap_or(own)));
            Some(Target::Ssh(SshTarget { node, ..ssh.clone() }))
        }
        Target::Tcp { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_is_reached_through_the_one_that_was_named() {
        let of = |target: &str, wanted: &str| {
            let target = if target.is_empty() { Target::Discover } else { target.parse().unwrap() };
            sibling(&target, "a", wanted).map(|target| target.to_string())
        };

        assert_eq!(of("", "b").as_deref(), Some("b@a"));
        assert_eq!(of("a", "b").as_deref(), Some("b@a"));
        assert_eq!(of("b@a", "c").as_deref(), Some("c@a"));
        assert_eq!(of("b@a", "a").as_deref(), Some("a"));
        assert_eq!(of("unix:/run/rusm/a.sock", "b").as_deref(), Some("unix:/run/rusm/b@a.sock"));
        assert_eq!(of("unix:/run/rusm/b@a.sock", "a").as_deref(), Some("unix:/run/rusm/a.sock"));
        assert_eq!(of("ssh://kay@far:2222", "b").as_deref(), Some("ssh://kay@far:2222/b@a"));
        assert_eq!(of("ssh://far/b@a", "a").as_deref(), Some("ssh://far/a"));
        assert_eq!(of("127.0.0.1:4000", "b"), None);
    }
}
