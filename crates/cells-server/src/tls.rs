//! HTTPS, with rustls and the ring provider.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{ServeConfig, ServeError, TlsFiles};

/// Reads the certificate and key; refuses plain HTTP where other machines can listen in.
pub(crate) fn load(config: &ServeConfig) -> Result<Option<RustlsConfig>, ServeError> {
    match &config.tls {
        Some(files) => load_files(files).map(Some),
        None if config.insecure_http || is_loopback(config.listen.ip()) => Ok(None),
        None => Err(ServeError::Config(format!(
            "address {}: other machines reach it, and plain HTTP shows them the API key; give --tls-cert and --tls-key, or --insecure-http if something else encrypts",
            config.listen
        ))),
    }
}

fn load_files(files: &TlsFiles) -> Result<RustlsConfig, ServeError> {
    let unusable = |path: &Path, problem: String| ServeError::Config(format!("{}: {problem}", path.display()));
    let certificates = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&files.cert, format!("no PEM certificate can be read: {error}")))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| unusable(&files.key, format!("no PEM private key can be read: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| unusable(&files.cert, format!("certificate and key cannot be used: {error}")))?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(RustlsConfig::from_config(Arc::new(server)))
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
