//! A collector behind TLS.

use std::io::BufReader;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rusm_otlp::{Exporter, OtlpConfig};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::collector::{DEADLINE, OK, config, serve_one};

#[test]
fn a_collector_with_a_certificate_of_its_own_is_trusted_if_the_file_is_named() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let server = Arc::new(builder.with_single_cert(vec![cert.der().clone()], key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, arrived) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let stream = StreamOwned::new(ServerConnection::new(Arc::clone(&server)).unwrap(), stream);
            let mut stream = BufReader::new(stream);
            let respond = |request: &crate::collector::Received| {
                tell.send(request.path.clone()).unwrap();
                OK
            };
            while serve_one(&mut stream, respond).is_some() {}
        }
    });

    let config = OtlpConfig { traces: false, metrics: false, ..config(&format!("https://localhost:{port}")) };
    let exporter = Exporter::start(&OtlpConfig { certificate: Some(file.clone()), ..config.clone() }).unwrap();
    tracing::subscriber::with_default(registry().with(exporter.layer()), || tracing::info!("secret"));
    assert_eq!(arrived.recv_timeout(DEADLINE).unwrap(), "/v1/logs");
    assert!(exporter.stop(DEADLINE));

    // Without the file, the certificate is not trusted, and nothing is sent.
    let exporter = Exporter::start(&config).unwrap();
    tracing::subscriber::with_default(registry().with(exporter.layer()), || tracing::info!("secret"));
    assert!(!exporter.stop(DEADLINE));
    assert!(arrived.try_recv().is_err());

    std::fs::write(&file, "no certificate").unwrap();
    let error = OtlpConfig { certificate: Some(file), ..config }.check().unwrap_err().to_string();
    assert!(error.ends_with("lacks a certificate in PEM format"), "{error}");
}
