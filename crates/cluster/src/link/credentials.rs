//! The certificates of a node, checked before they are used. Otherwise the transport would refuse them with the paths of
//! its sources, or the other nodes would refuse them without a word.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};

use super::contract::LinkError;
use super::settings::{Certificates, NetworkSettings};

/// Maximum size of each file.
const FILE_MAX_BYTES: u64 = 1 << 20;
/// Time before the end of a certificate from which a start warns.
const WARN_BEFORE: Duration = Duration::from_hours(30 * 24);

impl NetworkSettings {
    /// Checks the certificates: that the key is that of the certificate, and that the authority has signed it for this time.
    ///
    /// # Errors
    /// [`LinkError::Settings`] names the file.
    pub fn check_certificates(&self) -> Result<(), LinkError> {
        self.certificates.as_ref().map_or(Ok(()), |certificates| check(certificates, UnixTime::now()))
    }
}

/// Checks that the key is that of the certificate, and that the authority has signed it for this time.
fn check(files: &Certificates, now: UnixTime) -> Result<(), LinkError> {
    let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()) + WARN_BEFORE);
    verify(files, now).map_err(LinkError::Settings)?;
    if let Err(why) = verify(files, later) {
        tracing::warn!("within 30 days: {why}");
    }
    Ok(())
}

fn verify(files: &Certificates, now: UnixTime) -> Result<(), String> {
    let Certificates { authority, certificate, key, .. } = files;
    let authorities = certificates(authority)?;
    let chain = certificates(certificate)?;
    let no_key = || format!("{} contains no valid private key in PEM format", key.display());
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_invalid| no_key())?;
    let mut roots = RootCertStore::empty();
    for root in authorities {
        roots.add(root).map_err(|_invalid| invalid(authority))?;
    }
    let provider = Arc::new(ring::default_provider());
    provider.key_provider.load_private_key(secret.clone_key()).map_err(|_invalid| no_key())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|_invalid| invalid(authority))?;
    let server = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let server = server.map_err(|error| error.to_string())?.with_no_client_auth();
    server.with_single_cert(chain.clone(), secret).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            format!("the key in {} is not that of the certificate in {}", key.display(), certificate.display())
        }
        _ => invalid(certificate),
    })?;
    let Some((own, intermediates)) = chain.split_first() else { return Err(invalid(certificate)) };
    if !has_common_name(own, &files.cluster) {
        return Err(format!(
            "the certificate in {} is not of the cluster {:?}: name its cluster by cluster.name",
            certificate.display(),
            files.cluster
        ));
    }
    verifier.verify_client_cert(own, intermediates, now).map(drop).map_err(|error| refusal(&error, files))
}

/// Returns true if a certificate has this common name: other nodes accept no other one.
fn has_common_name(certificate: &[u8], name: &str) -> bool {
    /// The object identifier 2.5.4.3 in DER.
    const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
    /// Tags of the two usual kinds of text.
    const TEXTS: [u8; 2] = [0x0c, 0x13];
    let Ok(length) = u8::try_from(name.len()) else { return false };
    TEXTS.into_iter().any(|text| {
        let attribute = [&COMMON_NAME[..], &[text, length], name.as_bytes()].concat();
        certificate.windows(attribute.len()).any(|part| part == attribute)
    })
}

fn refusal(error: &Error, files: &Certificates) -> String {
    let (certificate, authority) = (files.certificate.display(), files.authority.display());
    match error {
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            format!(
                "the certificate in {certificate} or {authority} is no longer valid: `rusm cluster init` makes new ones"
            )
        }
        Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            format!("the certificate in {certificate} is not valid yet: is the clock of this machine right?")
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            format!("the certificate in {certificate} is not signed by the authority in {authority}")
        }
        error => format!("the certificate in {certificate} cannot be used: {error}"),
    }
}

fn invalid(path: &Path) -> String {
    format!("{} contains no valid certificate in PEM format", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or_else(|| invalid(path))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(FILE_MAX_BYTES).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(all(test, feature = "certificates"))]
mod tests {
    use super::*;
    use crate::certificates::{self, NodeAddresses};

    const DAY: u64 = 24 * 3600;

    #[test]
    fn what_other_nodes_would_refuse_is_said_in_one_line() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let node = |name: &str| NodeAddresses { name: name.parse().unwrap(), addresses: vec!["127.0.0.1".to_owned()] };
        certificates::create(dir.path(), "c", &[node("a"), node("b")], 100).unwrap();
        certificates::create(other.path(), "c", &[node("a")], 100).unwrap();
        let (a, b) = (
            certificates::files(dir.path(), "c", &node("a").name),
            certificates::files(dir.path(), "c", &node("b").name),
        );
        let foreign = certificates::files(other.path(), "c", &node("a").name);
        let now = UnixTime::now();
        let refused = |files: &Certificates, days: u64| {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs() + days * DAY));
            let why = check(files, at).unwrap_err().to_string();
            why.replace(&*dir.path().to_string_lossy(), "DIR").replace(&*other.path().to_string_lossy(), "OTHER")
        };

        assert_eq!(check(&a, now), Ok(()));
        assert_eq!(
            refused(&Certificates { key: b.key.clone(), ..a.clone() }, 0),
            "the key in DIR/b.key is not that of the certificate in DIR/a.pem"
        );
        assert_eq!(
            refused(&Certificates { authority: foreign.authority.clone(), ..a.clone() }, 0),
            "the certificate in DIR/a.pem is not signed by the authority in OTHER/ca.pem"
        );
        assert_eq!(
            refused(&Certificates { cluster: "d".to_owned(), ..a.clone() }, 0),
            "the certificate in DIR/a.pem is not of the cluster \"d\": name its cluster by cluster.name"
        );
        assert!(refused(&a, 101).starts_with("the certificate in DIR/a.pem or DIR/ca.pem is no longer valid: "));
        for (content, why) in [
            ("", "DIR/b.pem contains no valid certificate in PEM format"),
            (
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "DIR/b.pem contains no valid certificate in PEM format",
            ),
        ] {
            fs::write(&b.certificate, content).unwrap();
            assert_eq!(refused(&b, 0), why, "{content}");
            assert_eq!(refused(&Certificates { authority: b.certificate.clone(), ..a.clone() }, 0), why, "{content}");
        }
        assert_eq!(
            refused(&Certificates { key: a.certificate.clone(), ..a.clone() }, 0),
            "DIR/a.pem contains no valid private key in PEM format"
        );
        fs::write(&b.key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
        assert_eq!(
            refused(&Certificates { key: b.key.clone(), ..a.clone() }, 0),
            "DIR/b.key contains no valid private key in PEM format"
        );
    }
}
