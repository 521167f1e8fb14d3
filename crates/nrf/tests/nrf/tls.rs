//! TLS with certificates of both sides.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use adit_nrf::{ClientEnd, NrfClient};
use adit_transport::{TlsIdentity, TlsSettings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;

use super::{NrfOptions, StrictNrf, config, is_registered, started_with, strict, wait};

/// Certificates of `ca`: `nrf`, `upf` and `elsewhere`; of `other`: `foreign`.
struct Certificates(TempDir);

impl Certificates {
    /// Makes the certificates. `None`, with the reason printed, if openssl is not installed.
    fn make() -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("skipped: openssl is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for authority in ["ca", "other"] {
            openssl(dir.path(), &format!("-x509 -subj /CN={authority}"), authority);
        }
        for (name, authority, address) in [
            ("nrf", "ca", "127.0.0.1"),
            ("upf", "ca", "127.0.0.1"),
            ("elsewhere", "ca", "127.0.0.9"),
            ("foreign", "other", "127.0.0.1"),
        ] {
            let options = format!(
                "-x509 -CA {authority}.pem -CAkey {authority}.key -subj /CN={name} \
                 -addext subjectAltName=IP:{address} -addext basicConstraints=critical,CA:FALSE"
            );
            openssl(dir.path(), &options, name);
        }
        Some(Self(dir))
    }

    fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.path().join(file)).unwrap()
    }

    /// Starts an NRF with the certificate `own`, which demands a certificate of `ca`.
    fn nrf(&self, own: &str, versions: &[&'static rustls::SupportedProtocolVersion]) -> StrictNrf {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.read("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let chain =
            vec![CertificateDer::from_pem_slice(&self.read(&format!("{own}.pem"))).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&self.read(&format!("{own}.key"))).unwrap();
        let server = ServerConfig::builder_with_provider(provider);
        let server = server.with_protocol_versions(versions).unwrap();
        let server = server.with_client_cert_verifier(clients.build().unwrap());
        let mut server = server.with_single_cert(chain, key).unwrap();
        server.alpn_protocols = vec![b"h2".to_vec()];
        let tls = Some(Arc::new(server));
        StrictNrf::start(NrfOptions { heartbeat_s: 10, tls, ..NrfOptions::default() })
    }

    /// Starts a client that trusts `ca` and shows the certificate `own`.
    fn client(&self, own: Option<&str>, uri: String) -> NrfClient {
        let identity = own.map(|own| TlsIdentity {
            certificate: self.read(&format!("{own}.pem")),
            key: self.read(&format!("{own}.key")),
        });
        let tls = TlsSettings::new(&self.read("ca.pem"), identity, None).unwrap();
        started_with(config(&[uri]), Some(tls))
    }
}

fn openssl(dir: &Path, options: &str, name: &str) {
    let line = format!(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout {name}.key -out {name}.pem {options}"
    );
    let output = Command::new("openssl").current_dir(dir).args(line.split_whitespace()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn both_sides_show_their_certificates() {
    let Some(certificates) = Certificates::make() else { return };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let nrf = certificates.nrf("nrf", &[version]);
        let client = certificates.client(Some("upf"), nrf.uri());
        wait(&client, "registered", is_registered);
        client.end(ClientEnd::Deregister);
        assert!(nrf.profiles().is_empty());
        nrf.assert_content();
    }
}

#[test]
fn wrong_certificate_of_either_side_is_named() {
    let Some(certificates) = Certificates::make() else { return };
    for (nrf, upf, expected) in [
        ("foreign", Some("upf"), "signed by none of the configured authorities"),
        ("elsewhere", Some("upf"), "for another address or name"),
        ("nrf", None, "wants a certificate, or does not accept"),
        ("nrf", Some("foreign"), "wants a certificate, or does not accept"),
    ] {
        let nrf = certificates.nrf(nrf, &[&rustls::version::TLS12]);
        let client = certificates.client(upf, nrf.uri());
        let state = wait(&client, "refused", |state| state.servers[0].problem.is_some());
        let problem = state.servers[0].problem.clone().unwrap();
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.ends_with("check nrf.tls_ca, nrf.tls_certificate and nrf.tls_name"));
        client.end(ClientEnd::Deregister);
        assert!(nrf.seen().is_empty());
    }
}

#[test]
fn nrf_without_tls_is_not_trusted() {
    let Some(certificates) = Certificates::make() else { return };
    let plain = strict(10);
    let client = certificates.client(Some("upf"), plain.uri().replace("http:", "https:"));
    let state = wait(&client, "refused", |state| state.servers[0].problem.is_some());
    assert!(state.servers[0].problem.as_ref().unwrap().starts_with("TLS: "));
    client.end(ClientEnd::Deregister);
    assert!(plain.seen().is_empty());
}
