//! Files of a node's membership: the membership itself, and the latest map with a valid signature.

use std::path::{Path, PathBuf};

use byway_api::{NetworkMap, Role, SignedMap};
use byway_wire::SIGNATURE_BYTES;
use byway_wire::seal::{Statement, VerifyingKey};
use data_encoding::BASE64;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::MembershipError;
use super::files::{self, FileError};

const MEMBERSHIP: &str = "membership.json";
const MAP: &str = "map.json";

/// Stored membership of a node. The node's secret key is in a file of its own.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MembershipRecord {
    /// Number of the node.
    pub(super) number: u32,
    /// Role of the node.
    pub(super) role: Role,
    /// Name of the node when it joined.
    pub(super) name: String,
    /// Number of the node's shards when it joined.
    pub(super) shards: u16,
    /// Name of an agent's tenant; `None` for a relay.
    pub(super) tenant: Option<String>,
    /// Name of the network.
    pub(super) network: String,
    /// Public key of the node.
    pub(super) key: String,
    /// Bearer secret by which the node authenticates to the controller.
    pub(super) bearer: String,
    /// Public key of the controller, which verifies maps and grants.
    pub(super) verifying_key: String,
    /// Addresses at which the node reaches the controller.
    pub(super) controllers: Vec<String>,
    /// SHA-256 of the public key in the controller's certificate.
    pub(super) pin: String,
    /// SHA-256 of the token with which the node joined. A node whose settings have another token
    /// joins again.
    pub(super) token: String,
}

/// Files of a node's membership in its state directory.
#[derive(Clone, Debug)]
pub(super) struct MembershipFiles {
    state: PathBuf,
}

impl MembershipFiles {
    /// Returns the files in a node's state directory.
    pub(super) fn new(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// Returns the stored membership; `None` if the node has none.
    pub(super) fn membership(&self) -> Result<Option<MembershipRecord>, FileError> {
        read(&self.state.join(MEMBERSHIP))
    }

    /// Stores the membership, and creates the state directory if necessary.
    pub(super) fn save_membership(&self, record: &MembershipRecord) -> Result<(), FileError> {
        files::make_folder(&self.state)?;
        files::replace(&self.state.join(MEMBERSHIP), &json(record))
    }

    /// Returns the stored map; `None` if there is none, or the controller with this key has not
    /// signed it.
    pub(super) fn map(&self, key: &VerifyingKey) -> Result<Option<NetworkMap>, FileError> {
        let signed: Option<SignedMap> = read(&self.state.join(MAP))?;
        Ok(signed.and_then(|signed| verify_map(&signed, key).ok()))
    }

    /// Stores a signed map, in place of the former one.
    pub(super) fn save_map(&self, signed: &SignedMap) -> Result<(), FileError> {
        files::replace(&self.state.join(MAP), &json(signed))
    }

    /// Removes the stored membership and map, after the node has left the network.
    pub(super) fn forget(&self) -> Result<(), FileError> {
        files::remove(&self.state.join(MEMBERSHIP))?;
        files::remove(&self.state.join(MAP))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let parse = |text: String| {
        serde_json::from_str(&text).map_err(|error| FileError::new("read", path, error.into()))
    };
    files::read(path)?.map(parse).transpose()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("stored records have only texts and numbers")
}

/// Returns the map in a signed text, if the controller with this key signed it.
pub(super) fn verify_map(signed: &SignedMap, key: &VerifyingKey) -> Result<NetworkMap, MembershipError> {
    let bad = |problem: &dyn ToString| MembershipError::BadMap(problem.to_string());
    let signature = BASE64.decode(signed.signature.as_bytes()).map_err(|error| bad(&error))?;
    let signature: [u8; SIGNATURE_BYTES] =
        signature.try_into().map_err(|_| bad(&"signature has a wrong length"))?;
    key.verify(Statement::Map, signed.map.as_bytes(), &signature).map_err(|error| bad(&error))?;
    serde_json::from_str(&signed.map).map_err(|error| bad(&error))
}
