//! Certificates of a cluster: an authority, and one certificate for each node.
//!
//! ```text
//!   DIR/ca.pem, ca.key        the authority; its key is needed only to add nodes
//!   DIR/NAME.pem, NAME.key    one node; copy them to its machine, together with ca.pem
//! ```
//!
//! The certificates of nodes have the name of the cluster as their common name: each node trusts every other. They name the
//! addresses of their node, because a connecting node refuses a certificate that does not.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rusm_text::read_regular;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use thiserror::Error;
use time::{Duration, OffsetDateTime};

use crate::identity::NodeName;
use crate::link::{Certificates, LinkError, check_key};

/// Name of each authority. Its certificates name their cluster.
const AUTHORITY: &str = "authority of rusm nodes";
/// Maximum length of a file of the authority, in bytes.
const PEM_BYTES_MAX: u64 = 64 << 10;

/// Maximum length of the name of a cluster, in bytes: that of a common name.
const CLUSTER_MAX: usize = 64;

/// A node that gets a certificate.
///
/// ```
/// # mod rusm { pub use rusm_cluster as cluster; }
/// use rusm::cluster::NodeName;
/// use rusm::cluster::certificates::{self, NodeAddresses};
///
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path();
/// let north = NodeAddresses { name: NodeName::new("north")?, addresses: vec!["10.0.0.7".to_owned()] };
/// let written = certificates::create(folder, "shop", &[north], 365)?;
/// assert_eq!(written.len(), 4, "key and certificate of the authority, and of the node");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddresses {
    /// Name of the node.
    pub name: NodeName,
    /// IP addresses and host names at which other nodes reach it.
    pub addresses: Vec<String>,
}

/// Name of the authority's files.
const AUTHORITY_FILES: &str = "ca";

/// Error returned when certificates cannot be created.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// A file exists that would be overwritten. Remove it if the node should get another certificate.
    #[error("{} exists: remove it if the node should get another certificate", .0.display())]
    Exists(PathBuf),
    /// A node cannot have this name: its files would be those of the authority.
    #[error("a node cannot be called {AUTHORITY_FILES:?}: ca.pem and ca.key are the files of the authority")]
    Name,
    /// Two nodes have the same name.
    #[error("two nodes are called {0}: each node has a name of its own")]
    Twice(NodeName),
    /// Other users can use the private key of the authority.
    #[error(transparent)]
    Key(LinkError),
    /// Only one of the two files of the authority exists.
    #[error("{} has only one of ca.pem and ca.key: nodes can be added only with both", .0.display())]
    HalfAuthority(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot access {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The authority's certificate has another key, or was not made by `rusm cluster init`.
    #[error("{} is not the certificate of ca.key", .0.display())]
    OtherAuthority(PathBuf),
    /// The name of the cluster is not valid.
    #[error("the name of a cluster must have 1 to {CLUSTER_MAX} bytes, without control characters")]
    Cluster,
    /// An address or a key is not valid.
    #[error("cannot create a certificate: {0}")]
    Invalid(#[from] rcgen::Error),
}

/// Returns the files of a node in a folder of certificates.
pub fn files(dir: &Path, cluster: &str, node: &NodeName) -> Certificates {
    Certificates {
        cluster: cluster.to_owned(),
        authority: dir.join("ca.pem"),
        certificate: dir.join(format!("{node}.pem")),
        key: dir.join(format!("{node}.key")),
    }
}

/// Creates certificates for nodes, valid for `days`. The authority in the folder is used, or created if it is missing.
/// Returns the files that were written.
///
/// # Errors
/// [`CertificateError`]; files that were written before stay.
pub fn create(dir: &Path, cluster: &str, nodes: &[NodeAddresses], days: u32) -> Result<Vec<PathBuf>, CertificateError> {
    if cluster.is_empty() || cluster.len() > CLUSTER_MAX || cluster.chars().any(char::is_control) {
        return Err(CertificateError::Cluster);
    }
    let (authority, authority_key) = (dir.join("ca.pem"), dir.join("ca.key"));
    if nodes.iter().any(|node| node.name.to_string() == AUTHORITY_FILES) {
        return Err(CertificateError::Name);
    }
    for (at, node) in nodes.iter().enumerate() {
        if nodes[..at].iter().any(|other| other.name == node.name) {
            return Err(CertificateError::Twice(node.name.clone()));
        }
        let files = files(dir, cluster, &node.name);
        if let Some(file) = [files.certificate, files.key].into_iter().find(|file| file.exists()) {
            return Err(CertificateError::Exists(file));
        }
    }
    let mut written = Vec::new();
    fs::create_dir_all(dir).map_err(|source| {
        let is_file = source.kind() == io::ErrorKind::AlreadyExists;
        let source = if is_file { io::ErrorKind::NotADirectory.into() } else { source };
        CertificateError::File { path: dir.to_owned(), source }
    })?;
    let params = authority_params(days)?;
    let key = match (authority.exists(), authority_key.exists()) {
        (true, true) => {
            check_key(&authority_key).map_err(CertificateError::Key)?;
            let key = KeyPair::from_pem(&read(&authority_key)?)?;
            check_authority(&authority, &key)?;
            key
        }
        (false, false) => {
            let key = KeyPair::generate()?;
            write(&authority_key, &key.serialize_pem(), 0o600, &mut written)?;
            write(&authority, &params.self_signed(&key)?.pem(), 0o644, &mut written)?;
            key
        }
        _ => return Err(CertificateError::HalfAuthority(dir.to_owned())),
    };
    let issuer = Issuer::new(params, key);
    for node in nodes {
        let key = KeyPair::generate()?;
        let certificate = node_params(cluster, node, days)?.signed_by(&key, &issuer)?;
        let files = files(dir, cluster, &node.name);
        write(&files.key, &key.serialize_pem(), 0o600, &mut written)?;
        write(&files.certificate, &certificate.pem(), 0o644, &mut written)?;
    }
    Ok(written)
}

/// Returns the contents of the authority's certificate; the name and the key are all that node certificates refer to.
fn authority_params(days: u32) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // Nodes accept an authority that has expired: rustls does not check its dates, but other programs do.
    valid_for(&mut params, days.saturating_mul(2));
    Ok(params)
}

fn node_params(cluster: &str, node: &NodeAddresses, days: u32) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(node.addresses.clone())?;
    params.distinguished_name.push(DnType::CommonName, cluster);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    valid_for(&mut params, days);
    Ok(params)
}

fn valid_for(params: &mut CertificateParams, days: u32) {
    let now = OffsetDateTime::now_utc();
    // Clocks of nodes may differ. Dates before 1970, where a machine without a clock begins, cannot be read.
    params.not_before = (now - Duration::days(1)).max(OffsetDateTime::UNIX_EPOCH);
    params.not_after = now.checked_add(Duration::days(i64::from(days))).unwrap_or(params.not_after);
}

/// Checks that a certificate has this key and the name of an authority: otherwise no node would accept those that it signs.
fn check_authority(path: &Path, key: &KeyPair) -> Result<(), CertificateError> {
    let certificate = CertificateDer::from_pem_slice(read(path)?.as_bytes());
    let has = |part: &[u8]| {
        certificate.as_ref().is_ok_and(|certificate| certificate.windows(part.len()).any(|window| window == part))
    };
    if has(key.public_key_raw()) && has(AUTHORITY.as_bytes()) {
        return Ok(());
    }
    Err(CertificateError::OtherAuthority(path.to_owned()))
}

/// Reads a file of the authority: a regular file of a limited length.
fn read(path: &Path) -> Result<String, CertificateError> {
    let text = read_regular(path, PEM_BYTES_MAX)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)));
    text.map_err(|source| CertificateError::File { path: path.to_owned(), source })
}

fn write(path: &Path, text: &str, mode: u32, written: &mut Vec<PathBuf>) -> Result<(), CertificateError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    // Half a file would be in the way of the next attempt.
    file.and_then(|mut file| file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path))))
        .map_err(|source| CertificateError::File { path: path.to_owned(), source })?;
    written.push(path.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn node(name: &str) -> NodeAddresses {
        NodeAddresses {
            name: NodeName::new(name).unwrap(),
            addresses: vec!["127.0.0.1".to_owned(), "a.example".to_owned()],
        }
    }

    #[test]
    fn no_node_has_the_name_of_the_authority_or_of_another_one() {
        let dir = std::env::temp_dir().join(format!("rusm-certificates-ca-{}", std::process::id()));

        let refused = create(&dir, "c1", &[node("a"), node("ca")], 365).unwrap_err().to_string();
        let twice = create(&dir, "c1", &[node("a"), node("b"), node("a")], 365).unwrap_err().to_string();

        assert!(refused.starts_with("a node cannot be called \"ca\""), "{refused}");
        assert_eq!(twice, "two nodes are called a: each node has a name of its own");
        assert!(!dir.exists(), "nothing was written");
    }

    #[test]
    fn an_authority_is_created_once_and_signs_later_nodes() {
        let dir = std::env::temp_dir().join(format!("rusm-certificates-{}", std::process::id()));

        let first = create(&dir, "c1", &[node("a"), node("b")], 365).unwrap();
        let authority = fs::read(dir.join("ca.pem")).unwrap();
        let second = create(&dir, "c1", &[node("c")], 365).unwrap();
        let again = create(&dir, "c1", &[node("c")], 365).unwrap_err().to_string();
        let after = fs::read(dir.join("ca.pem")).unwrap();
        let mode = fs::metadata(dir.join("a.key")).unwrap().permissions().mode();
        let key = fs::read(dir.join("ca.key")).unwrap();
        fs::write(dir.join("ca.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
        fs::set_permissions(dir.join("ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
        let open = create(&dir, "c1", &[node("d")], 365).unwrap_err().to_string();
        fs::set_permissions(dir.join("ca.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let of_another_key = create(&dir, "c1", &[node("d")], 365).unwrap_err().to_string();
        fs::write(dir.join("ca.key"), key).unwrap();
        fs::remove_file(dir.join("ca.pem")).unwrap();
        fs::create_dir(dir.join("ca.pem")).unwrap();
        let no_name = ["", "a\nb", &"c".repeat(65)].map(|cluster| create(&dir, cluster, &[node("d")], 365).is_err());
        let no_file = create(&dir, "c1", &[node("d")], 365).unwrap_err().to_string();
        fs::remove_file(dir.join("ca.key")).unwrap();
        let half = create(&dir, "c1", &[node("d")], 365);
        fs::remove_dir_all(&dir).unwrap();

        let names = |files: &[PathBuf]| -> Vec<String> {
            files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(&first), ["ca.key", "ca.pem", "a.key", "a.pem", "b.key", "b.pem"]);
        assert_eq!((names(&second), authority == after), (vec!["c.key".to_owned(), "c.pem".to_owned()], true));
        assert!(again.ends_with("c.pem exists: remove it if the node should get another certificate"), "{again}");
        assert!(of_another_key.ends_with("ca.pem is not the certificate of ca.key"), "{of_another_key}");
        assert!(open.ends_with("ca.key is open to other users: take their permissions away with chmod 600"), "{open}");
        assert!(no_file.ends_with("it is not a regular file"), "{no_file}");
        assert_eq!((mode & 0o777, no_name), (0o600, [true; 3]));
        assert!(matches!(half, Err(CertificateError::HalfAuthority(_))), "{half:?}");
    }
}
