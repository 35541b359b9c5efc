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
}

/// Error returned when a text is not a valid target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} is not a valid target ({why}): expected a node name, a socket path, unix:PATH, HOST:PORT or \
     ws://HOST:PORT"
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
        if text.contains("://") {
            return Err(wrong("unknown scheme"));
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        if text.contains(':') {
            return tcp(text).ok_or_else(|| wrong("invalid host or port"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if text.is_empty() || !text.chars().all(plain) || text.starts_with('.') {
            return Err(wrong("invalid node name"));
        }
        Ok(Self::Named(text.to_owned()))
    }
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
    }

    #[test]
    fn a_wrong_target_is_named_with_what_would_be_right() {
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
