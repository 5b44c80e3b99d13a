//! Being a member.

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

use super::backoff::{Pace, in_turn};
use super::reporter::{self, Reporter};
use super::tasks::{self, Contact};
use super::verified::{Files, Record, verified};
use super::{Client, Mark, MembershipError, NodeKey, WallClock, proof};
use crate::token::Token;

/// What a node is, and how it gets in.
#[derive(Clone, Debug)]
pub(crate) struct MembershipSettings {
    /// The folder for membership and map.
    pub(crate) state: PathBuf,
    /// The token; needed until the node has joined.
    pub(crate) token: Option<Token>,
    /// What the node is.
    pub(crate) role: Role,
    /// Its name.
    pub(crate) name: String,
    /// Where it may be reached.
    pub(crate) addresses: Vec<SocketAddr>,
    /// How many shards it has; 1 for an agent.
    pub(crate) shards: u16,
    /// The name of the relay near it; none: the nearest, as measured.
    pub(crate) relay: Option<String>,
    /// What its packets to the controller are marked with, so that it does not capture them.
    pub(crate) mark: Mark,
}

/// A node's membership of a network. When it is dropped, the node stays a member, but hears no news.
#[derive(Debug)]
pub(crate) struct Membership {
    record: Record,
    mark: Mark,
    verifying_key: VerifyingKey,
    files: Files,
    maps: watch::Receiver<Arc<NetworkMap>>,
    contact: watch::Receiver<Contact>,
    news: watch::Sender<SelfUpdate>,
    _tasks: JoinSet<()>,
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Record(of node {} of \"{}\")", self.number, self.network)
    }
}

impl Membership {
    /// Takes up the membership that the node has, or joins: the first time, with another token, name or number of shards.
    ///
    /// A node that is a member starts whether or not the controller answers. One that joins waits while the controller has too
    /// many requests.
    ///
    /// # Errors
    /// If the node is no member and does not become one.
    pub(crate) async fn start(
        settings: MembershipSettings,
        key: &NodeKey,
        clock: &WallClock,
    ) -> Result<Self, MembershipError> {
        Self::start_with(settings, key, clock, Pace::default()).await
    }

    /// The same, at another pace.
    pub(super) async fn start_with(
        settings: MembershipSettings,
        key: &NodeKey,
        clock: &WallClock,
        pace: Pace,
    ) -> Result<Self, MembershipError> {
        let (files, mark) = (Files::new(&settings.state), settings.mark.clone());
        let record = member(&settings, &files, key, clock, pace).await?;
        let verifying_key = verifying_key(&record)?;
        let map = match files.map(&verifying_key)? {
            Some(map) => map,
            None => in_turn(pace, || first_map(&record, &mark, &verifying_key, &files)).await?,
        };
        let (maps_sender, maps) = watch::channel(Arc::new(map));
        let (contact_sender, contact) = watch::channel(Contact::Unknown);
        let news = watch::Sender::new(SelfUpdate {
            addresses: Some(settings.addresses),
            round_trips: None,
            relay: Some(settings.relay.unwrap_or_default()),
        });
        let mut tasks = JoinSet::new();
        let poller = tasks::Poller {
            client: client(&record, &mark)?,
            verifying_key,
            files: files.clone(),
            maps: maps_sender,
            contact: contact_sender,
            failing: None,
        };
        tasks.spawn(poller.run(pace));
        tasks.spawn(Reporter::new(client(&record, &mark)?, news.clone(), pace).run());
        Ok(Self { record, mark, verifying_key, files, maps, contact, news, _tasks: tasks })
    }

    /// The node's number.
    pub(crate) const fn number(&self) -> u32 {
        self.record.number
    }

    /// Its tenant, if it is an agent.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.record.tenant.as_deref()
    }

    /// The network's name.
    pub(crate) fn network(&self) -> &str {
        &self.record.network
    }

    /// The key that the controller's grants are verified with.
    pub(crate) const fn verifying_key(&self) -> VerifyingKey {
        self.verifying_key
    }

    /// The map, and each that follows it.
    pub(crate) fn maps(&self) -> watch::Receiver<Arc<NetworkMap>> {
        self.maps.clone()
    }

    /// Whether the controller answers.
    pub(crate) fn contact(&self) -> watch::Receiver<Contact> {
        self.contact.clone()
    }

    /// Tells the controller something new of the node, as soon as it can be told. What is absent stays as it was.
    pub(crate) fn report(&self, update: SelfUpdate) {
        self.news.send_modify(|news| reporter::merge(news, update));
    }

    /// Has this agent paired with another one: by its name, or `tenant/name`. The map follows.
    ///
    /// # Errors
    /// If the controller does not answer, or refuses.
    pub(crate) async fn pair_with(&self, peer: &str) -> Result<PairingAnswer, MembershipError> {
        let request = PairingRequest { peer: peer.to_owned() };
        client(&self.record, &self.mark)?.post("/v1/pairings", &request).await
    }

    /// Leaves the network for good, and forgets it.
    ///
    /// # Errors
    /// If the controller does not answer, refuses, or the files cannot be removed.
    pub(crate) async fn leave(self) -> Result<(), MembershipError> {
        client(&self.record, &self.mark)?.delete("/v1/self").await?;
        Ok(self.files.forget()?)
    }
}

/// The membership that the node has, or one that it gets now.
async fn member(
    settings: &MembershipSettings,
    files: &Files,
    key: &NodeKey,
    clock: &WallClock,
    pace: Pace,
) -> Result<Record, MembershipError> {
    let own = |record: &Record| record.key == key.public_key().to_string() && record.role == settings.role;
    let known = files.membership()?.filter(own);
    let Some(token) = &settings.token else {
        return known.ok_or(MembershipError::NoToken(settings.role));
    };
    let is_current = |record: &&Record| {
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
        None => in_turn(pace, || join(settings, token, key, clock)).await,
    };
    match (joined, known) {
        (Ok(record), _) => {
            files.keep_membership(&record)?;
            Ok(record)
        }
        (Err(error), Some(known)) if error.may_pass() => {
            tracing::warn!("{error}; the node goes on as the member that it is");
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
) -> Result<Record, MembershipError> {
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
    Ok(Record {
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
        message: "its key to join with is none: set the controller up anew, with an empty `state`".to_owned(),
    })
}

async fn first_map(
    record: &Record,
    mark: &Mark,
    verifying_key: &VerifyingKey,
    files: &Files,
) -> Result<NetworkMap, MembershipError> {
    let signed: SignedMap = client(record, mark)?.get("/v1/map").await?;
    let map = verified(&signed, verifying_key)?;
    files.keep_map(&signed)?;
    Ok(map)
}

/// What tells one token from another, and is no secret.
fn fingerprint(token: &Token) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.secret_text().as_bytes());
    HEXLOWER.encode(hash.as_ref())
}

fn verifying_key(record: &Record) -> Result<VerifyingKey, MembershipError> {
    record.verifying_key.parse().map_err(|error| MembershipError::BadMap(format!("{error}")))
}

/// A client that asks as this member.
fn client(record: &Record, mark: &Mark) -> Result<Client, MembershipError> {
    let pin = HEXLOWER_PERMISSIVE.decode(record.pin.as_bytes()).ok().and_then(|pin| pin.try_into().ok());
    let pin = pin.ok_or_else(|| MembershipError::BadMap("the membership has no pin".to_owned()))?;
    let bearer = Zeroizing::new(record.bearer.clone());
    Ok(Client::new(record.controllers.clone(), pin).with_bearer(bearer).with_mark(mark.clone()))
}
