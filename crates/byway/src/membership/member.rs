//! Membership of a node in a network with a controller: settings, start, reports and departure.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use byway_api::{
    ErrorCode, JoinAnswer, JoinRequest, NetworkAnswer, NetworkMap, PairingAnswer, PairingRequest, Role,
    SelfUpdate, SignedMap,
};
use byway_wire::seal::{PublicKey, VerifyingKey};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use tokio::sync::watch;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use super::backoff::{RetryPolicy, retry_if_throttled};
use super::membership_files::{MembershipFiles, MembershipRecord, verify_map};
use super::poller::{self, ControllerContact};
use super::reporter::{self, Reporter};
use super::{Client, FirewallMark, MembershipError, NodeKey, WallClock, proof};
use crate::token::Token;

/// Settings of a node's membership: its role, properties and token.
#[derive(Clone, Debug)]
pub(crate) struct MembershipSettings {
    /// State directory, in which the membership and the map are stored.
    pub(crate) state: PathBuf,
    /// Token, which the node needs until it has joined.
    pub(crate) token: Option<Token>,
    /// Role of the node.
    pub(crate) role: Role,
    /// Name of the node.
    pub(crate) name: String,
    /// Addresses at which the node may be reached.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Number of the node's shards; 1 for an agent.
    pub(crate) shards: u16,
    /// Name of the preferred relay; `None` for the nearest one by measurement.
    pub(crate) relay: Option<String>,
    /// Firewall mark of packets to the controller, by which captures exclude them.
    pub(crate) mark: FirewallMark,
}

/// Membership of a node in a network. If it is dropped, the node stays a member, but receives no
/// more maps.
#[derive(Debug)]
pub(crate) struct Membership {
    record: MembershipRecord,
    mark: FirewallMark,
    verifying_key: VerifyingKey,
    files: MembershipFiles,
    maps: watch::Receiver<Arc<NetworkMap>>,
    contact: watch::Receiver<ControllerContact>,
    updates: watch::Sender<SelfUpdate>,
    _tasks: JoinSet<()>,
}

impl std::fmt::Debug for MembershipRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Record(of node {} of \"{}\")", self.number, self.network)
    }
}

impl Membership {
    /// Resumes the node's stored membership. Joins the network if there is none, or if token, name
    /// or number of shards have changed.
    ///
    /// A node that is a member starts even if the controller does not answer. A node that joins
    /// waits while the controller's rate limit refuses it.
    ///
    /// # Errors
    /// If the node is not a member and cannot become one.
    pub(crate) async fn start(
        settings: MembershipSettings,
        key: &NodeKey,
        clock: &WallClock,
    ) -> Result<Self, MembershipError> {
        Self::start_with(settings, key, clock, RetryPolicy::default()).await
    }

    /// Starts like [`Self::start`], with other intervals between attempts, for tests.
    pub(super) async fn start_with(
        settings: MembershipSettings,
        key: &NodeKey,
        clock: &WallClock,
        policy: RetryPolicy,
    ) -> Result<Self, MembershipError> {
        let (files, mark) = (MembershipFiles::new(&settings.state), settings.mark.clone());
        let record = load_or_join(&settings, &files, key, clock, policy).await?;
        let verifying_key = verifying_key(&record)?;
        let map = match files.map(&verifying_key)? {
            Some(map) => map,
            None => retry_if_throttled(policy, || first_map(&record, &mark, &verifying_key, &files)).await?,
        };
        let (maps_sender, maps) = watch::channel(Arc::new(map));
        let (contact_sender, contact) = watch::channel(ControllerContact::Unknown);
        let updates = watch::Sender::new(SelfUpdate {
            addresses: Some(settings.addresses),
            round_trips: None,
            relay: Some(settings.relay.unwrap_or_default()),
            usage: None,
            transit: None,
        });
        let mut tasks = JoinSet::new();
        let poller = poller::Poller {
            client: client(&record, &mark)?,
            verifying_key,
            files: files.clone(),
            maps: maps_sender,
            contact: contact_sender,
            failing: None,
        };
        tasks.spawn(poller.run(policy));
        tasks.spawn(Reporter::new(client(&record, &mark)?, updates.clone(), policy).run());
        Ok(Self { record, mark, verifying_key, files, maps, contact, updates, _tasks: tasks })
    }

    /// Returns the node's number in the network.
    pub(crate) const fn number(&self) -> u32 {
        self.record.number
    }

    /// Returns the name of the agent's tenant; `None` for a relay.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.record.tenant.as_deref()
    }

    /// Returns the network's name.
    pub(crate) fn network(&self) -> &str {
        &self.record.network
    }

    /// Returns the controller's public key, which verifies maps and grants.
    pub(crate) const fn verifying_key(&self) -> VerifyingKey {
        self.verifying_key
    }

    /// Returns a receiver of the node's current map and of newer ones.
    pub(crate) fn maps(&self) -> watch::Receiver<Arc<NetworkMap>> {
        self.maps.clone()
    }

    /// Returns a receiver of the state of the contact with the controller.
    pub(crate) fn contact(&self) -> watch::Receiver<ControllerContact> {
        self.contact.clone()
    }

    /// Queues an update of the node's record for the controller, which gets it as soon as it
    /// answers. Absent fields stay unchanged there.
    pub(crate) fn report(&self, update: SelfUpdate) {
        self.updates.send_modify(|updates| reporter::merge(updates, update));
    }

    /// Requests the controller to pair this agent with another one: `peer` is its name, or
    /// `tenant/name`. A new map follows.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn pair_with(&self, peer: &str) -> Result<PairingAnswer, MembershipError> {
        let request = PairingRequest { peer: peer.to_owned() };
        client(&self.record, &self.mark)?.post("/v1/pairings", &request).await
    }

    /// Leaves the network for good, and removes the stored membership.
    ///
    /// # Errors
    /// If the controller does not answer, refuses, or the files cannot be removed.
    pub(crate) async fn leave(self) -> Result<(), MembershipError> {
        client(&self.record, &self.mark)?.delete("/v1/self").await?;
        Ok(self.files.forget()?)
    }
}

/// Joins the network like [`Membership::start`], or resumes the stored membership, for a node that
/// needs no maps. Returns a client that authenticates as this member.
///
/// # Errors
/// If the node is not a member and cannot become one.
pub(crate) async fn member_client(
    settings: &MembershipSettings,
    key: &NodeKey,
    clock: &WallClock,
) -> Result<Client, MembershipError> {
    let files = MembershipFiles::new(&settings.state);
    let record = load_or_join(settings, &files, key, clock, RetryPolicy::default()).await?;
    client(&record, &settings.mark)
}

/// Returns the stored membership of this key and role, if it fits the settings. Otherwise joins the
/// network, and stores the new membership.
async fn load_or_join(
    settings: &MembershipSettings,
    files: &MembershipFiles,
    key: &NodeKey,
    clock: &WallClock,
    policy: RetryPolicy,
) -> Result<MembershipRecord, MembershipError> {
    let own = |record: &MembershipRecord| {
        record.key == key.public_key().to_string() && record.role == settings.role
    };
    let known = files.membership()?.filter(own);
    let Some(token) = &settings.token else {
        return known.ok_or(MembershipError::NoToken(settings.role));
    };
    let is_current = |record: &&MembershipRecord| {
        record.name == settings.name
            && record.shards == settings.shards
            && record.token == fingerprint(token)
            && record.pin == HEXLOWER.encode(token.pin())
    };
    if let Some(known) = known.as_ref().filter(is_current) {
        return Ok(known.clone());
    }
    let joined = match &known {
        Some(_) => join(settings, token, key, clock).await,
        None => retry_if_throttled(policy, || join(settings, token, key, clock)).await,
    };
    match (joined, known) {
        (Ok(record), _) => {
            files.save_membership(&record)?;
            Ok(record)
        }
        (Err(error), Some(known)) if error.is_transient() => {
            tracing::warn!("{error}; continuing with the stored membership");
            Ok(known)
        }
        (Err(error), _) => Err(error),
    }
}

async fn join(
    settings: &MembershipSettings,
    token: &Token,
    key: &NodeKey,
    clock: &WallClock,
) -> Result<MembershipRecord, MembershipError> {
    let mut client = Client::new(token.addresses().to_vec(), *token.pin()).with_mark(settings.mark.clone());
    let network: NetworkAnswer = client.get("/v1/network").await?;
    let mut request = JoinRequest {
        token: token.secret_text().to_string(),
        role: settings.role,
        name: settings.name.clone(),
        key: key.public_key().to_string(),
        proof: String::new(),
        addresses: settings.addresses.clone(),
        shards: settings.shards,
        unix_seconds: clock.unix_seconds(),
    };
    request.proof = prove(&request, key, &network)?;
    let joined: JoinAnswer = client.post("/v1/join", &request).await?;
    Ok(MembershipRecord {
        number: joined.number,
        role: settings.role,
        name: settings.name.clone(),
        shards: settings.shards,
        tenant: joined.tenant,
        network: joined.network,
        key: request.key,
        bearer: joined.bearer,
        verifying_key: joined.verifying_key,
        controllers: token.addresses().to_vec(),
        pin: HEXLOWER.encode(token.pin()),
        token: fingerprint(token),
    })
}

fn prove(request: &JoinRequest, key: &NodeKey, network: &NetworkAnswer) -> Result<String, MembershipError> {
    let join_key: Option<PublicKey> = network.join_key.parse().ok();
    let proof = join_key.and_then(|join_key| proof::proof(key.bytes(), join_key.bytes(), &request.proved()));
    proof.ok_or_else(|| MembershipError::Refused {
        code: ErrorCode::Unknown,
        message: "the controller sent an invalid join key: set it up anew, with an empty `state`".to_owned(),
    })
}

async fn first_map(
    record: &MembershipRecord,
    mark: &FirewallMark,
    verifying_key: &VerifyingKey,
    files: &MembershipFiles,
) -> Result<NetworkMap, MembershipError> {
    let signed: SignedMap = client(record, mark)?.get("/v1/map").await?;
    let map = verify_map(&signed, verifying_key)?;
    files.save_map(&signed)?;
    Ok(map)
}

/// Returns the SHA-256 of a token's secret, by which the node recognises the token.
fn fingerprint(token: &Token) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.secret_text().as_bytes());
    HEXLOWER.encode(hash.as_ref())
}

fn verifying_key(record: &MembershipRecord) -> Result<VerifyingKey, MembershipError> {
    record.verifying_key.parse().map_err(|error| MembershipError::BadMap(format!("{error}")))
}

/// Creates a client that authenticates to the controller as this member.
fn client(record: &MembershipRecord, mark: &FirewallMark) -> Result<Client, MembershipError> {
    let pin = HEXLOWER_PERMISSIVE.decode(record.pin.as_bytes()).ok().and_then(|pin| pin.try_into().ok());
    let pin =
        pin.ok_or_else(|| MembershipError::BadMap("stored membership without certificate pin".to_owned()))?;
    let bearer = Zeroizing::new(record.bearer.clone());
    Ok(Client::new(record.controllers.clone(), pin).with_bearer(bearer).with_mark(mark.clone()))
}
