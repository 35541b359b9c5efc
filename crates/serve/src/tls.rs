//! Encryption: certificates, the choice of HTTP's version, and a reload that connections do not notice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rusm_text::{escaped, read_regular};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Maximum size of a file with certificates or a key.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Reason why certificates were not loaded.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", escaped(path.display()))]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file contains no certificate or no key.
    #[error("{} contains no {what} in PEM format: {why}", escaped(path.display()))]
    Pem {
        /// The file.
        path: PathBuf,
        /// Expected content.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// The certificate and the key are not accepted.
    #[error("the certificate in {} cannot be used: {source}", escaped(path.display()))]
    Refused {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

/// Files of a certificate.
///
/// ```
/// use rusm_serve::{ServeConfig, TlsFiles};
///
/// let files = TlsFiles { certificate: "cert.pem".into(), key: "key.pem".into() };
/// let config = ServeConfig { tls: Some(files), ..ServeConfig::listen(([127, 0, 0, 1], 8443)) };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain in PEM format, the server's own first.
    pub certificate: PathBuf,
    /// Private key in PEM format.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Reads the files, and checks that they belong together.
    ///
    /// # Errors
    /// [`TlsError`] for what a server would refuse.
    pub fn check(&self) -> Result<(), TlsError> {
        load(self).map(drop)
    }
}

/// Certificates in use, which can be replaced.
#[derive(Debug)]
pub(crate) struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    pub(crate) fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let config = RwLock::new(load(&files)?);
        Ok(Self { files, config })
    }

    /// Reads the files again. On an error, the certificates in use stay.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        *self.config.write() = load(&self.files)?;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config.read()))
    }
}

fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |path: &Path, what: &'static str, why: String| TlsError::Pem { path: path.to_owned(), what, why };
    let read = |path: &PathBuf| {
        read_regular(path, FILE_MAX_BYTES).map_err(|source| TlsError::Read { path: path.clone(), source })
    };
    let chain = CertificateDer::pem_slice_iter(&read(&files.certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| pem(&files.certificate, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(pem(&files.certificate, "certificate", "no section found".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|error| pem(&files.key, "private key", error.to_string()))?;
    let refused = |source| TlsError::Refused { path: files.certificate.clone(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(refused)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
