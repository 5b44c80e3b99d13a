//! The controller's identity: its network's name, its keys and its certificate, all created on the
//! first start.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use byway_wire::seal::SigningKey;
use data_encoding::HEXLOWER;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::network::Digest;
use crate::membership::{proof, random};

/// Identity of the controller as its database contains it.
#[derive(Serialize, Deserialize)]
struct StoredIdentity {
    network: String,
    signing_seed: Digest,
    join_secret: Digest,
    admin_secret: Digest,
    /// Private key of the TLS certificate, in PKCS #8.
    tls_key: Vec<u8>,
    certificate: Vec<u8>,
}

impl Drop for StoredIdentity {
    fn drop(&mut self) {
        for secret in [&mut self.signing_seed, &mut self.join_secret, &mut self.admin_secret] {
            secret.0.zeroize();
        }
        self.tls_key.zeroize();
    }
}

/// Identity of the controller: its network's name, its keys, and its certificate.
pub(crate) struct Identity {
    record: StoredIdentity,
    pin: [u8; 32],
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity(of the network \"{}\")", self.record.network)
    }
}

impl Identity {
    /// Creates the identity of a new network.
    ///
    /// # Panics
    /// If the operating system has no random bytes.
    pub(crate) fn generate(network: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("keys of this curve can be made");
        // Clients ignore names and dates, because members know the public key.
        let certificate = CertificateParams::new(vec!["byway-controller".to_owned()])
            .and_then(|params| params.self_signed(&key))
            .expect("a certificate for a fixed name can be made");
        let record = StoredIdentity {
            network: network.to_owned(),
            signing_seed: Digest(random::bytes()),
            join_secret: Digest(random::bytes()),
            admin_secret: Digest(random::bytes()),
            tls_key: key.serialize_der(),
            certificate: certificate.der().to_vec(),
        };
        Self { record, pin: pin(&key) }
    }

    /// Parses the identity that the database contains.
    ///
    /// # Errors
    /// If the bytes are not a valid identity, with the reason.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let record: StoredIdentity = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let key = PrivatePkcs8KeyDer::from(record.tls_key.as_slice());
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256);
        let key = key.map_err(|error| error.to_string())?;
        Ok(Self { pin: pin(&key), record })
    }

    /// Serializes the identity for the database.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.record).expect("the record has only texts and numbers")
    }

    /// Returns the network's name.
    pub(crate) fn network(&self) -> &str {
        &self.record.network
    }

    /// Returns the controller's key, which signs maps and grants.
    pub(crate) fn signing_key(&self) -> SigningKey {
        SigningKey::from_seed(&self.record.signing_seed.0)
    }

    /// Returns the SHA-256 of the certificate's `SubjectPublicKeyInfo`, by which nodes authenticate
    /// the controller.
    pub(crate) const fn pin(&self) -> &[u8; 32] {
        &self.pin
    }

    /// Returns the bearer secret of administrators.
    pub(crate) const fn admin_secret(&self) -> &[u8; 32] {
        &self.record.admin_secret.0
    }

    /// True if this is the bearer secret of administrators. The comparison takes constant time.
    pub(crate) fn is_administrator(&self, bearer: &str) -> bool {
        let secret = HEXLOWER.encode(self.admin_secret());
        Digest::of(secret.as_bytes()).is_of(bearer.as_bytes())
    }

    /// Returns the controller's public key against which joining nodes prove that they have their
    /// own secret key.
    pub(crate) fn join_key(&self) -> [u8; 32] {
        proof::public_key(&self.record.join_secret.0)
    }

    /// True if `proof` shows that the sender of `text` has the secret key that belongs to `key`.
    pub(crate) fn proves(&self, key: &[u8; 32], text: &str, proof: &str) -> bool {
        proof::proves(&self.record.join_secret.0, key, text, proof)
    }

    /// Returns the TLS configuration of the controller's HTTPS server, for TLS 1.3 only.
    ///
    /// # Errors
    /// If key and certificate do not match, with the reason.
    pub(crate) fn tls(&self) -> Result<ServerConfig, rustls::Error> {
        let certificate = CertificateDer::from(self.record.certificate.clone());
        let key = PrivatePkcs8KeyDer::from(self.record.tls_key.clone());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn pin(key: &KeyPair) -> [u8; 32] {
    let hash = digest(&SHA256, &key.subject_public_key_info());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let made = Identity::generate("lab");
        let read = Identity::parse(&made.to_bytes()).expect("what was written");
        assert_eq!(made.pin(), read.pin());
        assert_eq!(made.signing_key().verifying_key(), read.signing_key().verifying_key());
        assert_eq!(made.join_key(), read.join_key());
        assert_eq!(read.network(), "lab");
        assert!(read.tls().is_ok());
        assert!(read.is_administrator(&HEXLOWER.encode(made.admin_secret())));
        assert!(!read.is_administrator(""));
    }

    #[test]
    fn what_is_no_identity_is_refused() {
        assert!(Identity::parse(b"{}").is_err());
        let mut other = Identity::generate("lab");
        other.record.tls_key.truncate(10);
        assert!(Identity::parse(&other.to_bytes()).is_err());
    }
}
