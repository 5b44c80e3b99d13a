//! What a node keeps of its membership, and maps that the controller really signed.

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

/// What a node has to know to be a member, beside its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The node's number.
    pub(super) number: u32,
    /// Its role.
    pub(super) role: Role,
    /// Its name, as it joined.
    pub(super) name: String,
    /// Its shards, as it joined.
    pub(super) shards: u16,
    /// The tenant of an agent.
    pub(super) tenant: Option<String>,
    /// The network's name.
    pub(super) network: String,
    /// Its public key.
    pub(super) key: String,
    /// What it shows to the controller.
    pub(super) bearer: String,
    /// The controller's public key.
    pub(super) verifying_key: String,
    /// Where the controller is.
    pub(super) controllers: Vec<String>,
    /// The SHA-256 of its certificate's key.
    pub(super) pin: String,
    /// The SHA-256 of the token that it joined with: another token means to join again.
    pub(super) token: String,
}

/// The files of a membership.
#[derive(Clone, Debug)]
pub(super) struct Files {
    state: PathBuf,
}

impl Files {
    /// Those in a node's state directory.
    pub(super) fn new(state: &Path) -> Self {
        Self { state: state.to_owned() }
    }

    /// The membership, if there is one.
    pub(super) fn membership(&self) -> Result<Option<Record>, FileError> {
        read(&self.state.join(MEMBERSHIP))
    }

    /// Keeps the membership.
    pub(super) fn keep_membership(&self, record: &Record) -> Result<(), FileError> {
        files::make_folder(&self.state)?;
        files::replace(&self.state.join(MEMBERSHIP), &json(record))
    }

    /// The map that was kept last, if there is one and this controller signed it.
    pub(super) fn map(&self, key: &VerifyingKey) -> Result<Option<NetworkMap>, FileError> {
        let signed: Option<SignedMap> = read(&self.state.join(MAP))?;
        Ok(signed.and_then(|signed| verified(&signed, key).ok()))
    }

    /// Keeps a map.
    pub(super) fn keep_map(&self, signed: &SignedMap) -> Result<(), FileError> {
        files::replace(&self.state.join(MAP), &json(signed))
    }

    /// Forgets both.
    pub(super) fn forget(&self) -> Result<(), FileError> {
        files::remove(&self.state.join(MEMBERSHIP))?;
        files::remove(&self.state.join(MAP))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let parse = |text: String| {
        serde_json::from_str(&text).map_err(|error| FileError::new("reading", path, error.into()))
    };
    files::read(path)?.map(parse).transpose()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is kept has only texts and numbers")
}

/// The map, if the controller with this key signed it.
pub(super) fn verified(signed: &SignedMap, key: &VerifyingKey) -> Result<NetworkMap, MembershipError> {
    let bad = |problem: &dyn ToString| MembershipError::BadMap(problem.to_string());
    let signature = BASE64.decode(signed.signature.as_bytes()).map_err(|error| bad(&error))?;
    let signature: [u8; SIGNATURE_BYTES] =
        signature.try_into().map_err(|_| bad(&"the signature has a wrong length"))?;
    key.verify(Statement::Map, signed.map.as_bytes(), &signature).map_err(|error| bad(&error))?;
    serde_json::from_str(&signed.map).map_err(|error| bad(&error))
}
