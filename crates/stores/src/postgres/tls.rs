//! TLS as Tidegate wants it: verified wherever the server is not on this machine, and never given up silently.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use tidegate_core::{Code, Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The driver knows `disable`, `prefer` and `require`. Its default, `prefer`, would fall back to plain text: off this
/// machine that becomes `require`. A certificate is always verified.
pub(super) fn settle_mode(config: &mut Config) {
    if config.get_ssl_mode() == SslMode::Prefer {
        let near = config.get_hosts().iter().all(is_near);
        config.ssl_mode(if near { SslMode::Disable } else { SslMode::Require });
    }
}

fn is_near(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
    }
}

/// The connector. `root` is a PEM file of certificates to trust instead of the system's.
pub(super) fn connector(root: Option<&std::path::Path>) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::new(Code::Internal, "setting up TLS").with_source(e))?
        .with_root_certificates(roots(root)?)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn roots(file: Option<&std::path::Path>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        // Certificates that cannot be read are as good as not there: verification then says which one is missing.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(store);
    };
    let refuse = |why: String| {
        Error::new(
            Code::OptionsInvalid,
            format!("sslrootcert {}: {why}", file.display()),
        )
    };
    let text = std::fs::read(file).map_err(|e| refuse(e.to_string()))?;
    let certs = certificates(&text).map_err(&refuse)?;
    let (added, _) = store.add_parsable_certificates(certs);
    if added == 0 {
        return Err(refuse("holds no certificate".into()));
    }
    Ok(store)
}

fn certificates(text: &[u8]) -> Result<Vec<rustls::pki_types::CertificateDer<'static>>, String> {
    use rustls::pki_types::pem::PemObject as _;
    rustls::pki_types::CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())
}
