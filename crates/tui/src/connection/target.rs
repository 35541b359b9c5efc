//! The target to attach to, as written by the user.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// A target to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The only node that runs on this machine.
    Discover,
    /// The local node of that name.
    Named(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp {
        /// Name or IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A node on another machine, through `ssh`.
    Ssh(SshTarget),
}

/// A node on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshTarget {
    /// User there; `None` for the one of the ssh configuration.
    pub user: Option<String>,
    /// Name of the machine, or of an entry of the ssh configuration.
    pub host: String,
    /// Port of the ssh server; `None` for the one of the ssh configuration.
    pub port: Option<u16>,
    /// Name of the node; `None` for the only one there.
    pub node: Option<String>,
}

impl SshTarget {
    /// Returns `user@host`, as ssh takes it.
    pub fn host(&self) -> String {
        self.user.as_ref().map_or_else(|| self.host.clone(), |user| format!("{user}@{}", self.host))
    }
}

/// Error returned when a text is not a valid target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} is not a valid target ({why}): expected a node name, a socket path, unix:PATH, HOST:PORT, ws://HOST:PORT \
     or ssh://[USER@]HOST[:PORT][/NODE]"
)]
pub struct TargetError {
    text: String,
    why: &'static str,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = |why| TargetError { text: text.to_owned(), why };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(wrong("the path is empty")) } else { Ok(Self::Unix(path.into())) };
        }
        if let Some(rest) = text.strip_prefix("ws://") {
            return tcp(rest.strip_suffix('/').unwrap_or(rest)).ok_or_else(|| wrong("invalid host or port"));
        }
        if let Some(rest) = text.strip_prefix("ssh://") {
            return ssh(rest).map(Self::Ssh).ok_or_else(|| wrong("invalid user, host, port or node"));
        }
        if text.contains("://") {
            return Err(wrong("unknown scheme"));
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        if text.contains(':') {
            return tcp(text).ok_or_else(|| wrong("invalid host or port"));
        }
        if !is_node_name(text) {
            return Err(wrong("invalid node name"));
        }
        Ok(Self::Named(text.to_owned()))
    }
}

fn is_node_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    !text.is_empty() && text.chars().all(plain) && !text.starts_with('.')
}

/// Parses what follows `ssh://`. A part that ssh could take for an option is not valid.
fn ssh(text: &str) -> Option<SshTarget> {
    let (place, node) = text.split_once('/').map_or((text, ""), |(place, node)| (place, node));
    let (user, place) = place.split_once('@').map_or((None, place), |(user, place)| (Some(user), place));
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0)?)),
        None => (place, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.%".contains(c);
    let is_word = |text: &str| !text.is_empty() && text.chars().all(plain) && !text.starts_with('-');
    let is_valid = is_word(host) && user.is_none_or(is_word) && (node.is_empty() || is_node_name(node));
    is_valid.then(|| SshTarget {
        user: user.map(str::to_owned),
        host: host.to_owned(),
        port,
        node: (!node.is_empty()).then(|| node.to_owned()),
    })
}

fn tcp(text: &str) -> Option<Target> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
    let valid = !host.is_empty() && host.chars().all(plain);
    valid.then(|| Target::Tcp { host: host.to_owned(), port })
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discover => f.write_str("the local node"),
            Self::Named(name) => f.write_str(name),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "ws://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "ws://{host}:{port}"),
            Self::Ssh(target) => {
                write!(f, "ssh://{}", target.host())?;
                target.port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
                target.node.as_ref().map_or(Ok(()), |node| write!(f, "/{node}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_target_is_understood() {
        let parsed = |text: &str| text.parse::<Target>().map(|target| target.to_string());

        assert_eq!(parsed("kv").unwrap(), "kv");
        assert_eq!(parsed("unix:/run/kv.sock").unwrap(), "unix:/run/kv.sock");
        assert_eq!(parsed("./kv.sock").unwrap(), "unix:./kv.sock");
        assert_eq!(parsed("127.0.0.1:4000").unwrap(), "ws://127.0.0.1:4000");
        assert_eq!(parsed("ws://localhost:4000/").unwrap(), "ws://localhost:4000");
        assert_eq!(parsed("ws://[::1]:4000").unwrap(), "ws://[::1]:4000");
        for text in ["ssh://far", "ssh://kay@far:2222/kv", "ssh://far/kv"] {
            assert_eq!(parsed(text).unwrap(), text);
        }
        assert_eq!(parsed("ssh://far/").unwrap(), "ssh://far");
    }

    #[test]
    fn a_wrong_target_is_named_with_what_would_be_right() {
        for text in
            ["ssh://", "ssh://-oProxyCommand=x", "ssh://-x@far", "ssh://far:0", "ssh://far/../x", "ssh://far/a/b"]
        {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        for text in ["", "wss://host:1", "host:99999", "host:0", "a b", "unix:", "../", "..", "ho\u{1b}st:1"] {
            let parsed = text.parse::<Target>();
            if text == "../" {
                assert!(parsed.is_ok());
            } else {
                assert!(parsed.unwrap_err().to_string().contains("expected a node name"), "{text}");
            }
        }
    }
}
