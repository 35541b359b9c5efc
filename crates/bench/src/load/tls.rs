//! Encrypted connections of load tests: the authority that signs the server's certificate, and the handshake.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Maximum size of a file of certificates.
const AUTHORITY_MAX_BYTES: u64 = 1 << 20;

/// The client's part of the encryption.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    server: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.server).finish()
    }
}

impl Tls {
    /// Trusts the certificates of a PEM file, or without one the public authorities, for a server of this name.
    /// The handshake offers this protocol.
    pub(super) fn new(authority: Option<&Path>, host: &str, protocol: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match authority {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let shown = path.display();
                let text = rusm_text::read_file(path, AUTHORITY_MAX_BYTES);
                let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
                for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
                    let certificate = certificate.map_err(|error| format!("{shown}: {error}"))?;
                    roots.add(certificate).map_err(|error| format!("{shown}: {error}"))?;
                }
                if roots.is_empty() {
                    return Err(format!("{shown} has no certificate in PEM format"));
                }
            }
        }
        let server = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host:?}: {error}"))?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server })
    }

    /// Shakes hands on an open connection.
    pub(super) async fn connect(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let connected = self.connector.connect(self.server.clone(), stream).await;
        connected.map_err(|error| format!("TLS handshake failed: {error}"))
    }
}
