//! Who a node is in its network: by its own file, or by its controller.

use std::net::SocketAddr;
use std::path::PathBuf;

use byway_api::{NetworkMap, Role};
use byway_units::RelayId;

use crate::exit::{Cause, Failure};
use crate::membership::{Mark, Membership, MembershipSettings, NodeKey, WallClock};
use crate::names::Resolved;
use crate::settings::{Belonging, StaticNetwork};

/// A node that wants to be of a network.
pub(crate) struct Applicant {
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) state: PathBuf,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shards: u8,
    /// The relay near it, by name.
    pub(crate) relay: Option<String>,
    /// What marks its packets to the controller.
    pub(crate) mark: Mark,
}

/// What makes a node part of its network.
pub(crate) enum Bond {
    /// A file that all nodes have.
    File(StaticNetwork),
    /// A controller.
    Member(Box<Membership>),
}

/// Who a node is, whoever says so.
pub(crate) struct Standing {
    pub(crate) number: u32,
    pub(crate) map: NetworkMap,
    pub(crate) bond: Bond,
}

impl Standing {
    /// Finds the node in its file, joins its network, or goes on as the member that it is.
    ///
    /// # Errors
    /// If it is of no network, and does not get into one.
    pub(crate) async fn of(
        applicant: Applicant,
        belonging: &Belonging,
        names: &Resolved,
        key: &NodeKey,
    ) -> Result<Self, Failure> {
        let token = match belonging {
            Belonging::Static(network) => {
                return in_file(applicant.role, &applicant.name, (network, names), key);
            }
            Belonging::Managed(token) => token.clone(),
        };
        let Applicant { role, name, state, addresses, shards, relay, mark } = applicant;
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
        Ok(Self { number: member.number(), map, bond: Bond::Member(Box::new(member)) })
    }

    /// Its membership, if its network has a controller.
    pub(crate) fn member(&self) -> Option<&Membership> {
        match &self.bond {
            Bond::Member(member) => Some(member),
            Bond::File(_) => None,
        }
    }

    /// The network, and whose it is, for people; nothing for one without a controller, which has no name.
    pub(crate) fn network(&self) -> String {
        let Some(member) = self.member() else {
            return String::new();
        };
        let network = member.network();
        member.tenant().map_or_else(|| network.to_owned(), |tenant| format!("{network} (tenant {tenant})"))
    }

    /// Leaves the network for good.
    ///
    /// # Errors
    /// If there is no controller, or it does not answer or refuses.
    pub(crate) async fn leave(self) -> Result<(), Failure> {
        let Bond::Member(member) = self.bond else {
            let message = "this node has no controller: take it out of [network] in the files of the others";
            return Err(Failure::new(Cause::Settings, message));
        };
        let network = member.network().to_owned();
        member.leave().await?;
        println!("left {network}");
        Ok(())
    }
}

fn in_file(
    role: Role,
    name: &str,
    (network, names): (&StaticNetwork, &Resolved),
    key: &NodeKey,
) -> Result<Standing, Failure> {
    let found = match role {
        Role::Agent => network
            .agent(name)
            .map(|(number, key)| (number.number(), key.to_string(), network.map_for_agent(number, names))),
        Role::Relay => network.relay(name).map(|relay| {
            let number = RelayId::new(relay.number);
            (relay.number, relay.key.clone(), network.map_for_relay(number, names))
        }),
    };
    let Some((number, expected, map)) = found else {
        let message = format!("[network] has no {role} {name:?}: name this {role} as it is called there");
        return Err(Failure::new(Cause::Settings, message));
    };
    check_key(key, &expected, name)?;
    Ok(Standing { number, map, bond: Bond::File(network.clone()) })
}

/// That the key is the one that a static network names.
fn check_key(key: &NodeKey, named: &str, name: &str) -> Result<(), Failure> {
    let own = key.public_key().to_string();
    if own == named {
        return Ok(());
    }
    let message = format!(
        "the key file has the secret of {own}, but [network] names {named} for {name:?}: write the first one there in the files of \
         all nodes, or set key_file to the other one's"
    );
    Err(Failure::new(Cause::Settings, message))
}
