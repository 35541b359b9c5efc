//! Finds the sockets of nodes and checks which nodes are running.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;

use crate::connection::Target;
use crate::exit::Error;

/// Time within which a socket must accept a probe connection.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// The folder that contains the sockets and tokens of this user's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    folder: PathBuf,
}

/// A target resolved to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } => Target::Tcp { host: host.clone(), port: *port }.fmt(f),
        }
    }
}

impl Discovery {
    /// Returns the folder used by nodes with the same environment: `$RUSM_SOCKET_DIR`, else `$XDG_RUNTIME_DIR/rusm` if
    /// that is an absolute path, else `/tmp/rusm-<uid>`.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let usual = || match variable("XDG_RUNTIME_DIR").filter(|dir| dir.is_absolute()) {
            Some(dir) => dir.join("rusm"),
            None => PathBuf::from(format!("/tmp/rusm-{}", rustix::process::getuid().as_raw())),
        };
        Self { folder: variable("RUSM_SOCKET_DIR").unwrap_or_else(usual) }
    }

    /// Uses the given folder.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the token file of a local node that listens on `port`. An IPv4 and an IPv6 node may use the same port.
    pub(crate) fn token_file(&self, host: &str, port: u16) -> PathBuf {
        let [first, second] = if host.contains(':') { ["tcp6", "tcp"] } else { ["tcp", "tcp6"] };
        let file = |family: &str| self.folder.join(format!("{family}-{port}.token"));
        if file(first).exists() || !file(second).exists() { file(first) } else { file(second) }
    }

    /// Resolves a target to an endpoint.
    pub(crate) async fn resolve(&self, target: &Target) -> Result<Endpoint, Error> {
        match target {
            Target::Unix(path) => Ok(Endpoint::Unix(path.clone())),
            Target::Tcp { host, port } => Ok(Endpoint::Tcp { host: host.clone(), port: *port }),
            Target::Named(name) => self.named(name).await,
            Target::Discover => self.only_one().await,
            Target::Ssh(target) => Err(Error::Connect(format!("{} needs a tunnel", target.host()))),
        }
    }

    /// Returns the names of the nodes that run here.
    pub(crate) async fn running(&self) -> Result<Vec<String>, Error> {
        let live = self.live(self.sockets()?).await.into_iter().map(|(name, _)| name);
        // A socket that leads to another node is chosen in the Cluster view.
        Ok(live.filter(|name| !name.contains('@')).collect())
    }

    async fn named(&self, name: &str) -> Result<Endpoint, Error> {
        let known = self.sockets()?;
        if let Some((_, path)) = known.iter().find(|(known, _)| known == name) {
            return Ok(Endpoint::Unix(path.clone()));
        }
        let live = self.live(known).await;
        let others = match names(&live) {
            names if names.is_empty() => "no node is running here".to_owned(),
            names => format!("running here: {names}"),
        };
        let folder = self.folder.display();
        Err(Error::Connect(format!("no node named {name:?} in {folder}; {others}")))
    }

    async fn only_one(&self) -> Result<Endpoint, Error> {
        let mut known = self.sockets()?;
        // Those lead to other nodes through a node that runs here.
        known.retain(|(name, _)| !name.contains('@'));
        // With a single socket no probe is needed: the connection attempt itself shows whether a node listens.
        let live = if known.len() == 1 { known } else { self.live(known).await };
        match &live[..] {
            [(_, path)] => Ok(Endpoint::Unix(path.clone())),
            [] => Err(Error::Connect(format!(
                "no node is running here (looked in {}): start one with `rusm node`, name a target, or try --demo",
                self.folder.display()
            ))),
            several => Err(Error::Connect(format!(
                "several nodes are running here: {}; name one, as in `rusm-top {}`",
                names(several),
                several[0].0
            ))),
        }
    }

    /// Returns names and sockets found in the folder, sorted by name.
    fn sockets(&self) -> Result<Vec<(String, PathBuf)>, Error> {
        let unreadable = |error: io::Error| Error::Connect(format!("cannot read {}: {error}", self.folder.display()));
        match fs::symlink_metadata(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
            Ok(meta) => self.check_private(&meta)?,
        }
        let mut found: Vec<_> = fs::read_dir(&self.folder)
            .map_err(unreadable)?
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((name.strip_suffix(".sock")?.to_owned(), entry.path()))
            })
            .collect();
        found.sort();
        Ok(found)
    }

    /// Checks that only this user can access the folder: in a writable one, the sockets could belong to other users.
    fn check_private(&self, meta: &fs::Metadata) -> Result<(), Error> {
        let folder = self.folder.display();
        let ours = rustix::process::getuid().as_raw();
        if !meta.is_dir() {
            return Err(Error::Connect(format!("{folder} is not a folder: remove it, or name a socket")));
        }
        if meta.uid() != ours {
            return Err(Error::Connect(format!(
                "{folder} belongs to user {}, not to {ours}: name a socket if you trust it",
                meta.uid()
            )));
        }
        if meta.mode() & 0o077 != 0 {
            let mode = meta.mode() & 0o777;
            return Err(Error::Connect(format!("{folder} is open to others (mode {mode:o}): chmod 700 it")));
        }
        Ok(())
    }

    /// Returns the sockets on which a node listens.
    async fn live(&self, sockets: Vec<(String, PathBuf)>) -> Vec<(String, PathBuf)> {
        let mut live = Vec::new();
        for (name, path) in sockets {
            let probe = tokio::time::timeout(PROBE_TIMEOUT, UnixStream::connect(&path)).await;
            if matches!(probe, Ok(Ok(_))) {
                live.push((name, path));
            }
        }
        live
    }
}

fn names(nodes: &[(String, PathBuf)]) -> String {
    let names: Vec<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
    names.join(", ")
}
