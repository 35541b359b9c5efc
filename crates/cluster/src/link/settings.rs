//! Settings of the link over the network, and their checks: between machines only with certificates.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::getuid;

use super::contract::LinkError;
use crate::identity::NodeName;

/// Start of the file of a secret.
pub const SECRET_PREFIX: &str = "rusm:";
/// Maximum length of the file of a secret, in bytes.
const SECRET_BYTES_MAX: usize = 256;

/// Permissions that the file of a private key must not have. Its group may read it.
const KEY_FORBIDDEN_MODE: u32 = 0o027;

/// Settings of the link over the network.
///
/// ```
/// # mod rusm { pub use rusm_cluster as cluster; }
/// use rusm::cluster::{NetworkSettings, NodeName};
///
/// let settings = NetworkSettings::loopback(NodeName::new("north")?, 7001);
/// assert!(settings.check().is_ok());
///
/// // A node without certificates stays on its machine.
/// let open = NetworkSettings { listen: ([0, 0, 0, 0], 7001).into(), ..settings };
/// assert!(open.check().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Name of this node.
    pub name: NodeName,
    /// Address to listen at. Port 0 takes any free port. Without certificates, it must be a loopback address.
    pub listen: SocketAddr,
    /// Nodes to join, as `HOST:PORT`. A single reachable node is enough: the others are found through it.
    pub join: Vec<String>,
    /// Certificates, for all addresses that are not loopback addresses.
    pub certificates: Option<Certificates>,
    /// File with one line, [`SECRET_PREFIX`] and a secret, for nodes without certificates: only nodes with the same secret
    /// join each other. Without a secret, every program of this machine can join, also one of another user.
    pub secret: Option<PathBuf>,
    /// Time without a sign of life after which a node counts as lost. Default 2 s.
    pub lease: Duration,
    /// Time of day at which the node started, in milliseconds since 1970: of two nodes with one name that find each other
    /// later, the older one stays. Default 0.
    pub started_at_ms: u64,
}

/// The certificates of a node. All nodes of a cluster have certificates of one authority and with one common name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// Name of the cluster: the common name of all certificates.
    pub cluster: String,
    /// File with the certificate of the authority.
    pub authority: PathBuf,
    /// File with the certificate of this node, which names the addresses of the node.
    pub certificate: PathBuf,
    /// File with the private key of this node.
    pub key: PathBuf,
}

impl NetworkSettings {
    /// Creates the settings of a node on loopback, without certificates and without a secret.
    pub fn loopback(name: NodeName, port: u16) -> Self {
        Self {
            name,
            listen: SocketAddr::from(([127, 0, 0, 1], port)),
            join: Vec::new(),
            certificates: None,
            secret: None,
            lease: Duration::from_secs(2),
            started_at_ms: 0,
        }
    }

    /// Checks that no address is open to other machines without certificates, and that the private key is closed to other
    /// users.
    ///
    /// # Errors
    /// [`LinkError::Settings`] names the address or the file.
    pub fn check(&self) -> Result<(), LinkError> {
        if let Some(certificates) = &self.certificates {
            let files = [&certificates.authority, &certificates.certificate, &certificates.key];
            if let Some(file) = files.into_iter().find(|file| !file.is_file()) {
                let why = if file.exists() { "is not a regular file" } else { "does not exist" };
                return Err(LinkError::Settings(format!("the certificate file {} {why}", file.display())));
            }
            return check_key(&certificates.key);
        }
        let listen = self.listen.to_string();
        let is_loopback = |address: &str| match address.parse::<SocketAddr>() {
            Ok(address) => address.ip().is_loopback(),
            Err(_) => address.rsplit_once(':').is_some_and(|(host, _)| host == "localhost"),
        };
        match [&listen].into_iter().chain(&self.join).find(|address| !is_loopback(address)) {
            Some(address) => Err(LinkError::Settings(format!(
                "{address} is not a loopback address: a node without certificates stays on this machine; `rusm cluster init` makes certificates"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the transport: `quic` with certificates, `tcp` without.
    pub const fn protocol(&self) -> &'static str {
        if self.certificates.is_some() { "quic" } else { "tcp" }
    }

    /// Returns the configuration of zenoh, in JSON5. Every setting that matters is explicit, since defaults of zenoh
    /// have changed between versions.
    ///
    /// # Errors
    /// [`LinkError::Settings`] if the settings are not valid.
    pub fn to_json5(&self) -> Result<String, LinkError> {
        self.check()?;
        let protocol = self.protocol();
        let join = self.join.iter().flat_map(|address| addresses_of(address));
        let join: Vec<String> = join.map(|address| quoted(&format!("{protocol}/{address}"))).collect();
        let (tls, access) = self.certificates.as_ref().map(tls).unwrap_or_default();
        let auth = self.secret.as_deref().map(auth).transpose()?.unwrap_or_default();
        let lease_ms = self.lease.as_millis();
        // A node that takes nothing delays what is sent to the others by this time at most, so it must be below the lease.
        let wait_before_close_us = self.lease.as_micros() / 2;
        Ok(format!(
            r#"{{
  mode: "peer",
  listen: {{ endpoints: [{listen}] }},
  connect: {{ endpoints: [{join}], timeout_ms: -1, exit_on_failure: false }},
  scouting: {{
    multicast: {{ enabled: false }},
    gossip: {{
      enabled: true, multihop: false,
      autoconnect_strategy: {{ peer: {{ to_router: "always", to_peer: "greater-zid" }} }},
    }},
  }},
  timestamping: {{ enabled: false }},
  adminspace: {{ enabled: false }},
  transport: {{
    unicast: {{
      open_timeout: 5000, accept_timeout: 5000, accept_pending: 1024, max_sessions: 256, max_links: 1,
      lowlatency: false, qos: {{ enabled: true }}, compression: {{ enabled: false }},
    }},
    link: {{
      protocols: ["{protocol}"],
      tx: {{
        lease: {lease_ms}, keep_alive: 4,
        queue: {{ congestion_control: {{ block: {{ wait_before_close: {wait_before_close_us} }} }} }},
      }},
      rx: {{ max_message_size: 16777216 }},{tls}
    }},
    shared_memory: {{ enabled: false }},{auth}
  }},{access}
}}"#,
            listen = quoted(&format!("{protocol}/{}", self.listen)),
            join = join.join(", "),
        ))
    }
}

/// Refuses a private key that other users can read or write: with it they could do what its owner may. Root can in any case.
pub(crate) fn check_key(key: &Path) -> Result<(), LinkError> {
    let Ok(found) = fs::metadata(key) else { return Ok(()) };
    let refused = |why: &str| Err(LinkError::Settings(format!("the private key {} {why}", key.display())));
    if found.mode() & KEY_FORBIDDEN_MODE != 0 {
        return refused("is open to other users: take their permissions away with chmod 600");
    }
    if found.uid() != getuid().as_raw() && found.uid() != 0 {
        return refused("belongs to another user: make it this user's with chown");
    }
    Ok(())
}

/// Returns the settings that let only nodes with the secret of a file join.
fn auth(file: &Path) -> Result<String, LinkError> {
    let refused = |why: &str| LinkError::Settings(format!("the file of the secret {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refused(&error.to_string()))?;
    let secret = text.trim_end().strip_prefix(SECRET_PREFIX).filter(|_| text.len() <= SECRET_BYTES_MAX);
    let secret = secret.filter(|secret| !secret.is_empty() && !secret.contains(char::is_whitespace));
    let secret = secret.ok_or_else(|| refused("it must be one line with rusm: and the secret"))?;
    Ok(format!(
        r"
    auth: {{ usrpwd: {{ user: {user}, password: {password}, dictionary_file: {file} }} }},",
        user = quoted(SECRET_PREFIX.trim_end_matches(':')),
        password = quoted(secret),
        file = quoted(&file.to_string_lossy()),
    ))
}

/// Returns the settings of certificates, and of what a node with a certificate may do.
fn tls(certificates: &Certificates) -> (String, String) {
    let file = |path: &PathBuf| quoted(&path.to_string_lossy());
    let (certificate, key) = (file(&certificates.certificate), file(&certificates.key));
    let tls = format!(
        r"
      tls: {{
        root_ca_certificate: {authority}, enable_mtls: true,
        listen_private_key: {key}, listen_certificate: {certificate},
        connect_private_key: {key}, connect_certificate: {certificate},
        verify_name_on_connect: true, close_link_on_expiration: true,
      }},",
        authority = file(&certificates.authority),
    );
    let access = format!(
        r#"
  access_control: {{
    enabled: true, default_permission: "deny",
    rules: [{{
      id: "cluster", permission: "allow", flows: ["egress", "ingress"], key_exprs: ["rusm/v1/**"],
      messages: ["put", "delete", "declare_subscriber", "query", "reply", "declare_queryable",
        "liveliness_token", "liveliness_query", "declare_liveliness_subscriber"],
    }}],
    subjects: [{{ id: "nodes", cert_common_names: [{}] }}],
    policies: [{{ rules: ["cluster"], subjects: ["nodes"] }}],
  }},"#,
        quoted(&certificates.cluster)
    );
    (tls, access)
}

/// Returns a node to join, and each address of a host name that has several: all nodes behind one name are joined. The
/// name stays, since it may have no address yet.
fn addresses_of(node: &str) -> Vec<String> {
    let mut all = vec![node.to_owned()];
    if node.parse::<SocketAddr>().is_err() {
        let found: BTreeSet<SocketAddr> = node.to_socket_addrs().into_iter().flatten().collect();
        if found.len() > 1 {
            all.extend(found.iter().map(ToString::to_string));
        }
    }
    all
}

/// Returns a text as a string of JSON5.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn settings() -> NetworkSettings {
        NetworkSettings::loopback(NodeName::new("a").unwrap(), 7_447)
    }

    #[test]
    fn without_certificates_a_node_stays_on_its_machine() {
        let open = NetworkSettings { listen: "0.0.0.0:7447".parse().unwrap(), ..settings() };
        let far = NetworkSettings { join: vec!["localhost:1".to_owned(), "10.0.0.4:7447".to_owned()], ..settings() };
        let named = NetworkSettings { join: vec!["north.example.org:7447".to_owned()], ..settings() };

        assert_eq!(settings().check(), Ok(()));
        for (settings, address) in [(open, "0.0.0.0:7447"), (far, "10.0.0.4:7447"), (named, "north.example.org:7447")] {
            let text = settings.to_json5().unwrap_err().to_string();
            assert!(
                text.starts_with(&format!("{address} is not a loopback address")) && !text.contains('\n'),
                "{text}"
            );
        }
    }

    #[test]
    fn a_missing_certificate_is_named() {
        let file = |name: &str| PathBuf::from("/nowhere").join(name);
        let cluster = "rusm".to_owned();
        let certificates =
            Certificates { cluster, authority: file("ca.pem"), certificate: file("a.pem"), key: file("a.key") };
        let settings = NetworkSettings { certificates: Some(certificates), ..settings() };

        let text = settings.check().unwrap_err().to_string();
        assert_eq!(text, "the certificate file /nowhere/ca.pem does not exist");
    }

    #[test]
    fn a_private_key_that_is_open_to_other_users_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.pem");
        std::fs::write(&file, "").unwrap();
        let (authority, certificate, key) = (file.clone(), file.clone(), file.clone());
        let certificates = Certificates { cluster: "rusm".to_owned(), authority, certificate, key };
        let settings = NetworkSettings { certificates: Some(certificates), ..settings() };
        let checked = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            settings.check().map_err(|error| error.to_string())
        };

        assert_eq!([0o600, 0o400, 0o640].map(checked), [const { Ok(()) }; 3]);
        // Only root can give a file away.
        if getuid().is_root() {
            std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
            assert!(checked(0o600).unwrap_err().ends_with("belongs to another user: make it this user's with chown"));
            std::os::unix::fs::chown(&file, Some(0), None).unwrap();
        }
        for open in [0o644, 0o606, 0o660, 0o604] {
            let text = checked(open).unwrap_err();
            assert_eq!(
                text,
                format!(
                    "the private key {} is open to other users: take their permissions away with chmod 600",
                    file.display()
                )
            );
        }
    }

    #[test]
    fn a_secret_is_one_line_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let with = || NetworkSettings { secret: Some(file.clone()), ..settings() }.to_json5();

        assert!(with().unwrap_err().to_string().starts_with(&format!("the file of the secret {}: ", file.display())));
        for wrong in ["", "rusm:", "other:0a", "rusm:0a\nrusm:0b", &format!("rusm:{}", "a".repeat(300))] {
            std::fs::write(&file, wrong).unwrap();
            assert!(
                with().unwrap_err().to_string().ends_with("it must be one line with rusm: and the secret"),
                "{wrong}"
            );
        }
        std::fs::write(&file, "rusm:0a\n").unwrap();
        assert!(with().unwrap().contains(r#"user: "rusm", password: "0a""#));
        assert!(!settings().to_json5().unwrap().contains("usrpwd"));
    }

    #[test]
    fn a_name_is_joined_by_all_of_its_addresses() {
        assert_eq!(addresses_of("10.0.0.4:7447"), ["10.0.0.4:7447"]);
        assert_eq!(addresses_of("no-such-host.invalid:7447"), ["no-such-host.invalid:7447"]);
        let of_this_machine = addresses_of("localhost:7447");
        assert_eq!(of_this_machine[0], "localhost:7447");
        assert!(of_this_machine[1..].iter().all(|address| address.parse::<SocketAddr>().unwrap().ip().is_loopback()));
    }

    #[test]
    fn texts_of_settings_do_not_leave_their_quotes() {
        assert_eq!(quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\"");
        let (_, access) = tls(&Certificates {
            cluster: "x\"], evil: [\"".to_owned(),
            authority: PathBuf::new(),
            certificate: PathBuf::new(),
            key: PathBuf::new(),
        });
        assert!(access.contains(r#"["x\"], evil: [\""]"#), "{access}");
    }
}
