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
    /// The key belongs to another certificate.
    #[error("the key in {} is not that of the certificate in {}", escaped(key.display()), escaped(certificate.display()))]
    OtherKey {
        /// The file of the key.
        key: PathBuf,
        /// The file of the certificate.
        certificate: PathBuf,
    },
    /// The certificate and the key are not accepted.
    #[error("the certificate in {} cannot be used: {}", escaped(path.display()), reason(source))]
    Refused {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

/// Returns why a certificate is not accepted. The library speaks of the certificate of a peer.
fn reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding) => {
            "it is not an X.509 certificate".to_owned()
        }
        error => error.to_string(),
    }
}

/// Files of a certificate.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{ServeConfig, TlsFiles};
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
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::OtherKey { key: files.key.clone(), certificate: files.certificate.clone() }
            }
            error => refused(error),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let files = TlsFiles { certificate: dir.path().join("a.pem"), key: dir.path().join("a.key") };
        let (own, other) = (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
        let certificate = rcgen::CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&own).unwrap().pem();
        let error = |certificate: &str, key: &str| {
            fs::write(&files.certificate, certificate).unwrap();
            fs::write(&files.key, key).unwrap();
            let result =
                files.check().map_err(|error| error.to_string().replace(&*dir.path().to_string_lossy(), "DIR"));
            result.err().unwrap_or_default()
        };
        let (own, other) = (own.serialize_pem(), other.serialize_pem());

        assert_eq!(error(&certificate, &own), "");
        assert_eq!(error(&certificate, &other), "the key in DIR/a.key is not that of the certificate in DIR/a.pem");
        assert_eq!(error("junk", &own), "DIR/a.pem contains no certificate in PEM format: no section found");
        assert_eq!(
            error("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &own),
            "the certificate in DIR/a.pem cannot be used: it is not an X.509 certificate"
        );
        assert!(error(&certificate, "").starts_with("DIR/a.key contains no private key in PEM format"));
    }
}
