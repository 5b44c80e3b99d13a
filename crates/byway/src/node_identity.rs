//! Identity of a node in its network: number, map and membership, from its own file or from its
//! controller.

use std::net::SocketAddr;
use std::path::PathBuf;

use byway_api::{NetworkMap, Role};
use byway_units::RelayId;

use crate::exit::{Cause, Failure};
use crate::membership::{FirewallMark, Membership, MembershipSettings, NodeKey, WallClock};
use crate::name_resolution::ResolvedNames;
use crate::settings::{NetworkSource, StaticNetwork};

/// Properties of a node that its network has to know.
pub(crate) struct NodeConfig {
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) state: PathBuf,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shards: u8,
    /// Name of the preferred relay; `None` for the nearest one.
    pub(crate) relay: Option<String>,
    /// Firewall mark of packets to the controller, by which captures exclude them.
    pub(crate) mark: FirewallMark,
}

/// Source of a node's identity: a file or a controller.
pub(crate) enum IdentitySource {
    /// A static network, in a configuration file that all nodes share.
    File(StaticNetwork),
    /// A membership in the network of a controller.
    Member(Box<Membership>),
}

/// Identity of a node in its network: its number, its first map, and the source of both.
pub(crate) struct NodeIdentity {
    pub(crate) number: u32,
    pub(crate) map: NetworkMap,
    pub(crate) source: IdentitySource,
}

impl NodeIdentity {
    /// Determines a node's identity: finds the node in a static network, joins the controller's
    /// network, or resumes the membership.
    ///
    /// # Errors
    /// If the node belongs to no network and cannot join one.
    pub(crate) async fn of(
        config: NodeConfig,
        network_source: &NetworkSource,
        names: &ResolvedNames,
        key: &NodeKey,
    ) -> Result<Self, Failure> {
        let token = match network_source {
            NetworkSource::Static(network) => {
                return static_identity(config.role, &config.name, (network, names), key);
            }
            NetworkSource::Managed(token) => token.clone(),
        };
        let NodeConfig { role, name, state, addresses, shards, relay, mark } = config;
        let settings = MembershipSettings {
            state,
            token,
            role,
            name,
            addresses,
            shards: u16::from(shards),
            relay,
            mark,
        };
        let member = Membership::start(settings, key, &WallClock::system()).await?;
        let map = member.maps().borrow().as_ref().clone();
        Ok(Self { number: member.number(), map, source: IdentitySource::Member(Box::new(member)) })
    }

    /// Returns the node's membership; `None` in a static network.
    pub(crate) fn member(&self) -> Option<&Membership> {
        match &self.source {
            IdentitySource::Member(member) => Some(member),
            IdentitySource::File(_) => None,
        }
    }

    /// Returns the network's name and the tenant's, for people. The text is empty for a static
    /// network, which has no name.
    pub(crate) fn network(&self) -> String {
        let Some(member) = self.member() else {
            return String::new();
        };
        let network = member.network();
        member.tenant().map_or_else(|| network.to_owned(), |tenant| format!("{network} (tenant {tenant})"))
    }

    /// Leaves the network for good, and prints that.
    ///
    /// # Errors
    /// If the network has no controller, or the controller does not answer or refuses.
    pub(crate) async fn leave(self) -> Result<(), Failure> {
        let IdentitySource::Member(member) = self.source else {
            let message = "this node has no controller to leave: remove it from [network] in the \
                           files of the other nodes";
            return Err(Failure::new(Cause::Settings, message));
        };
        let network = member.network().to_owned();
        member.leave().await?;
        println!("left {network}");
        Ok(())
    }
}

fn static_identity(
    role: Role,
    name: &str,
    (network, names): (&StaticNetwork, &ResolvedNames),
    key: &NodeKey,
) -> Result<NodeIdentity, Failure> {
    let found = match role {
        Role::Agent => network
            .agent(name)
            .map(|(number, key)| (number.number(), key.to_string(), network.map_for_agent(number, names))),
        Role::Relay => network.relay(name).map(|relay| {
            let number = RelayId::new(relay.number);
            (relay.number, relay.key.clone(), network.map_for_relay(number, names))
        }),
        // Static networks have none.
        Role::Link | Role::Application => None,
    };
    let Some((number, expected, map)) = found else {
        let message =
            format!("{role} {name:?} not found in [network]: set `name` to this {role}'s name there");
        return Err(Failure::new(Cause::Settings, message));
    };
    check_key(key, &expected, name)?;
    Ok(NodeIdentity { number, map, source: IdentitySource::File(network.clone()) })
}

/// Checks that the node's key is the one that the static network has for the node `name`.
fn check_key(key: &NodeKey, expected: &str, name: &str) -> Result<(), Failure> {
    let own = key.public_key().to_string();
    if own == expected {
        return Ok(());
    }
    let message = format!(
        "the key file belongs to the key {own}, but [network] has {expected} for {name:?}: set the \
         former in the files of all nodes, or point key_file to the latter's file"
    );
    Err(Failure::new(Cause::Settings, message))
}
