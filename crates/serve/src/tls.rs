//! Encryption: certificates, the choice of HTTP's version, and a reload that connections do not notice.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rusm_text::escaped;
use rustix::fs::{CWD, Mode, OFlags, openat};
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
    let read = |path: &PathBuf| read_file(path).map_err(|source| TlsError::Read { path: path.clone(), source });
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

/// Reads a regular file of bounded size. Anything else, such as a pipe without a writer, could make the read wait or
/// never end.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // O_NONBLOCK keeps a pipe from blocking, and does not affect files.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let unfit = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !metadata.is_file() {
        return Err(unfit("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let read = if metadata.len() > FILE_MAX_BYTES {
        metadata.len()
    } else {
        // The file may grow while it is read.
        file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)? as u64
    };
    if read > FILE_MAX_BYTES {
        return Err(unfit(format!("it has {read} bytes, which is over the limit of {FILE_MAX_BYTES}")));
    }
    Ok(bytes)
}
